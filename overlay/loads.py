"""Words about loads that go to every node: show what was put for one, or let go of what a namespace holds.

    show(namespace, load)       `turn`, then `show` (see `overlay.dht.hidden`); how many objects came into sight
    drop(namespace, keys)       `forget`, then `drop`: first nobody renews these objects any more, then nobody has them

Each word is one spread over the ring; the second is only said when the first has been heard by every node, or by all
that can be reached. Both may be said again: what is shown stays shown, what is gone stays gone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

from overlay.dht.messages import Text
from overlay.dht.verbs import Dht
from overlay.spread.account import Account
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread

TOPIC = "loads"
#: Keys that one word may name.
KEYS_MAX = 4_096

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class Word(enum.IntEnum):
    TURN = 0
    SHOW = 1
    FORGET = 2
    DROP = 3


class _Call(msgspec.Struct, frozen=True, array_like=True):
    word: Word
    namespace: Text
    load: Text = ""
    #: None of them: the whole namespace.
    keys: Annotated[tuple[Text, ...], msgspec.Meta(max_length=KEYS_MAX)] = ()


@dataclass(frozen=True, slots=True)
class Heard:
    """How many objects the nodes said it was about, and whether all nodes were told."""

    objects: int
    nodes: int
    everybody: bool


OnHeard: TypeAlias = Callable[[Heard], None]
#: Asked to stop renewing objects of a namespace, all or those of some keys; says how many there were.
Forget: TypeAlias = Callable[[str, Sequence[str]], int]

_calls = msgspec.msgpack.Decoder(_Call)
_counts = msgspec.msgpack.Decoder(Count)


class LoadWords:
    """One node's part in what the ring is told about loads."""

    __slots__ = ("_dht", "_forget", "_spread", "unreadable")

    def __init__(self, dht: Dht, spread: Spread) -> None:
        self._dht = dht
        self._spread = spread
        self._forget: list[Forget] = []
        self.unreadable = 0
        spread.on_arrival(TOPIC, self._heard)

    def on_forget(self, handler: Forget) -> None:
        """Whoever keeps objects alive on this node is asked through this to let them go."""
        self._forget.append(handler)

    def show(self, namespace: str, load: str, done: OnHeard) -> None:
        """Makes the objects of a load visible at every node."""

        def turned(told: Heard) -> None:
            self._say(_Call(Word.SHOW, namespace, load), done)

        self._say(_Call(Word.TURN, namespace, load), turned)

    def drop(self, namespace: str, keys: Sequence[str], done: OnHeard) -> None:
        """Ends a namespace, or some keys of it, wherever it is kept alive and wherever it lies."""

        def forgotten(first: Heard) -> None:
            def dropped(told: Heard) -> None:
                done(Heard(told.objects, told.nodes, first.everybody and told.everybody))

            self._say(_Call(Word.DROP, namespace, keys=tuple(keys)), dropped)

        self._say(_Call(Word.FORGET, namespace, keys=tuple(keys)), forgotten)

    def _say(self, call: _Call, done: OnHeard) -> None:
        def answered(reply: bytes | None, account: Account) -> None:
            done(Heard(_count(reply), account.answered, account.complete))

        self._spread.start(TOPIC, msgspec.msgpack.encode(call), answered, combine=_sum)

    def _heard(self, branch: Branch) -> None:
        branch.combine = _sum
        try:
            call = _calls.decode(branch.payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.unreadable += 1
            branch.fail()
            return
        branch.reply(msgspec.msgpack.encode(self._do(call)))

    def _do(self, call: _Call) -> int:
        if call.word is Word.TURN:
            return self._dht.turn_load(call.namespace, call.load)
        if call.word is Word.SHOW:
            return self._dht.show_load(call.namespace, call.load)
        if call.word is Word.FORGET:
            return sum(forget(call.namespace, call.keys) for forget in self._forget)
        return self._dht.drop(call.namespace, call.keys)


def _count(data: bytes | None) -> int:
    """What peers say; nothing when it cannot be read."""
    try:
        return _counts.decode(data) if data else 0
    except msgspec.MsgspecError:
        return 0


def _sum(left: bytes, right: bytes) -> bytes:
    return msgspec.msgpack.encode(_count(left) + _count(right))
