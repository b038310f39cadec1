"""Indexes come into being: one of a name, and used only when every row that there was is in it.

    claim       under the name of the index, which is one for the whole ring: who came first has it, the other is told
    define      in the data dictionary, beside the table, as one that is being built: nobody reads it yet
    build       every node is asked to index the rows that it owns, and answers when that is done
    whole       when all of them have answered, the definition says so; from then on queries may use it

A node that could not answer makes the building begin again, here a few times and then, now and then, at the node that
owns the table's entry in the dictionary: an index whose maker died is finished by others.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial

import msgspec

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, GotObject, PutObject, RenewObject
from overlay.dht.verbs import Dht
from overlay.objects.name import Name, Prefix
from overlay.spread.account import Account
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.engine.facts import DICTIONARY, IndexFacts, TableFacts, dictionary_key, write
from runtime.api import Runtime

TOPIC = "indexes"
TOPIC_BUILD = "index-build"
#: Where names of indexes are claimed.
CLAIMS = "pier.indexes"
#: How suffixes of definitions begin in the dictionary.
INDEX_SUFFIX = "index."
#: How long the definition of an index outlives those who feed it, and its claim to the name.
DEFINITION_LIFETIME_S = 600.0
COPIES = 2
#: An index that could not be built everywhere is built again, so often and after this long each time.
BUILD_ATTEMPTS_MAX = 8
BUILD_AGAIN_S = 15.0
_CLAIMED, _DEFINED = b"claimed", b"defined"


class Made(enum.Enum):
    """How a definition ended."""

    DONE = "done"
    #: It stands in the dictionary and will be used when it is whole; not all nodes have built it yet.
    BUILDING = "building"
    #: Another index has the name.
    TAKEN = "taken"
    #: It could not be written down.
    NOT_STORED = "not stored"


#: Indexes what this node owns of a table; tells whether all of it is in.
Build = Callable[[str, IndexFacts, Callable[[bool], None]], None]


class _Task(msgspec.Struct, frozen=True, array_like=True):
    table: str
    index: IndexFacts


_decode = msgspec.msgpack.Decoder(_Task).decode


def definition(table: str, index: IndexFacts | None, name: str) -> PutObject:
    """The entry that makes an index known; without facts the one that takes it back."""
    facts = TableFacts(table, "published", nodes=0, indexes=() if index is None else (index,))
    return PutObject(
        Name(DICTIONARY, dictionary_key(table), INDEX_SUFFIX + name.lower()),
        write([facts]),
        DEFINITION_LIFETIME_S,
        copies=COPIES,
    )


def claim(index: IndexFacts, value: bytes = _DEFINED) -> PutObject:
    name = Name(CLAIMS, index.name.lower(), index.mark)
    return PutObject(name, value, DEFINITION_LIFETIME_S, copies=COPIES)


class Defining:
    """Makes and drops indexes, and has this node do its part of those that others make."""

    def __init__(self, runtime: Runtime, dht: Dht, spread: Spread, build: Build) -> None:
        self._runtime = runtime
        self._dht = dht
        self._spread = spread
        self._build = build
        self._rng = runtime.rng("query/indexes")
        #: Marks of indexes that this node is having built.
        self._building: dict[str, int] = {}
        spread.on_arrival(TOPIC_BUILD, self._asked)

    def create(self, table: str, index: IndexFacts, done: Callable[[Made], None]) -> None:
        index = msgspec.structs.replace(index, mark=self._rng.randbytes(6).hex(), whole=False)

        def claimed(code: Code) -> None:
            if code is not Code.OK:
                done(Made.NOT_STORED)
                return
            self._dht.get(GetObject(CLAIMS, index.name.lower()), judged)

        def judged(got: Got) -> None:
            if got.code is not Code.OK or _first(got.objects, index.mark) != index.mark:
                self._dht.renew(RenewObject(claim(index).name, 0.0))
                done(Made.TAKEN if got.code is Code.OK else Made.NOT_STORED)
                return
            self._dht.put_many([definition(table, index, index.name), claim(index)], defined)

        def defined(codes: list[Code]) -> None:
            if codes != [Code.OK, Code.OK]:
                done(Made.NOT_STORED)
                return
            self.build(table, index, lambda whole: done(Made.DONE if whole else Made.BUILDING))

        self._dht.put(claim(index, _CLAIMED), claimed)

    def drop(self, table: str, name: str, done: Callable[[Made], None]) -> None:
        def dropped(code: Code) -> None:
            if code is not Code.OK:
                done(Made.NOT_STORED)
                return
            self._tell(table)
            self._dht.get(GetObject(CLAIMS, name.lower()), freed)

        def freed(got: Got) -> None:
            ends = [RenewObject(each.name, 0.0) for each in got.objects]
            self._dht.renew_many(ends, lambda codes: done(Made.DONE))

        self._dht.put(definition(table, None, name), dropped)

    # -- building

    def build(self, table: str, index: IndexFacts, done: Callable[[bool], None]) -> None:
        """Has all nodes index what they own; `done` tells how the first attempt ended."""
        if index.mark in self._building:
            self._runtime.call_later(0.0, done, False)
            return
        self._building[index.mark] = 0
        self._attempt(table, index, done)

    def finish(self, table: str, index: IndexFacts) -> None:
        """An index is found that is not whole: the node that owns its definition sees to it."""
        owned: list[GotObject] = []
        wanted = definition(table, index, index.name).name

        def ended() -> None:
            if any(each.name == wanted for each in owned):
                self.build(table, index, lambda whole: None)

        self._dht.local_scan(Prefix(DICTIONARY, dictionary_key(table)), owned.extend, ended)

    def _attempt(self, table: str, index: IndexFacts, done: Callable[[bool], None]) -> None:
        self._building[index.mark] += 1

        def asked(reply: bytes | None, account: Account) -> None:
            if account.complete:
                self._dht.put(
                    definition(table, msgspec.structs.replace(index, whole=True), index.name), whole
                )
            else:
                again()

        def whole(code: Code) -> None:
            if code is not Code.OK:
                again()
                return
            del self._building[index.mark]
            self._tell(table)
            done(True)

        def again() -> None:
            first = self._building[index.mark] == 1
            if self._building[index.mark] < BUILD_ATTEMPTS_MAX:
                self._runtime.call_later(BUILD_AGAIN_S, partial(self._again, table), index)
            else:
                del self._building[index.mark]
            if first:
                done(False)

        self._spread.start(TOPIC_BUILD, msgspec.msgpack.encode(_Task(table, index)), asked)

    def _again(self, table: str, index: IndexFacts) -> None:
        if index.mark in self._building:
            self._attempt(table, index, lambda whole: None)

    def _asked(self, branch: Branch) -> None:
        try:
            task = _decode(branch.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            branch.fail()
            return
        self._build(task.table, task.index, lambda built: branch.reply() if built else branch.fail())

    def _tell(self, table: str) -> None:
        """Every node asks the dictionary anew for the indexes of a table."""
        self._spread.start(TOPIC, dictionary_key(table).encode(), lambda reply, account: None)


def _first(claims: tuple[GotObject, ...], mine: str) -> str:
    """Whose the name is: of an index that stands, or of the claim that came first to the owner of the name, which
    everybody who asks after it sees."""
    others = [each for each in claims if each.name.suffix != mine and each.value == _DEFINED]
    if others:
        return others[0].name.suffix
    return min(claims, key=lambda each: (-each.age_s, each.name.suffix)).name.suffix if claims else ""
