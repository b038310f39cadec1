"""What this node has published and keeps alive, load by load: for its clients, and over its own restarts.

A load is known by its table and an id: what Spark calls it, or a number drawn for a `publish`. Its objects may also be
part of other loads of this node, when their content is the same: then they go with the last of these. Loads are
written down where the node has a data directory (`LoadJournal`); when it starts they are put again, hidden, and shown
together, so a table that faded while the node was away comes back whole. A load goes when it is taken back, when its
table is unpublished, or when the token that published it may do so no longer.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import msgspec

from overlay.dht.operations import PutObject
from overlay.dht.publisher import Publisher, Withdrawn
from overlay.loads import LoadWords
from overlay.objects.name import Name
from pier_node.engine.loading import LoadHooks, Loading, LoadProgress, LoadWriter, OnLoaded
from pier_node.service import Failure, PublicationResult
from query.engine.facts import DICTIONARY
from runtime.api import Runtime

_log = logging.getLogger("pier.loads")

#: Loads that one node keeps alive.
PUBLISHED_LOADS_MAX = 65_536
#: Loads that are brought back at the same time.
RESTORED_TOGETHER = 8
#: How often a node that was started looks whether it is on the ring, to bring back what it had published.
RING_LOOK_S = 0.2


class LoadFacts(msgspec.Struct, frozen=True):
    """A load as it is written down."""

    table: str
    id: str
    #: The token that published it; empty where no tokens are asked for.
    owner: str = ""

    @property
    def mark(self) -> str:
        """Its name where owners keep its objects, and that of its file."""
        return hashlib.blake2b(f"{self.table}\0{self.id}".encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Restored:
    """A load that was written down before this node was started."""

    facts: LoadFacts
    puts: Sequence[PutObject]


class LoadJournal(Protocol):
    """Where loads are written down; see `pier_node.load_files`."""

    def begin(self, facts: LoadFacts) -> LoadWriter: ...

    def end(self, facts: LoadFacts) -> None:
        """It was taken back."""
        ...

    def end_keys(self, facts: LoadFacts, keys: Sequence[str]) -> None:
        """Some keys of it were taken back."""
        ...

    def loads(self) -> Sequence[str]:
        """The marks of what is written down."""
        ...

    def read(self, mark: str) -> Restored | None:
        """One of them; None when it cannot be read. May take long: it is called beside the loop."""
        ...


#: Whether a token may publish into a table.
MayPublish: TypeAlias = Callable[[str, str], bool]


@dataclass(slots=True)
class _Kept:
    facts: LoadFacts
    names: list[Name]


@dataclass(frozen=True, slots=True)
class LoadStatistics:
    loads: int
    under_way: int
    restored: int
    unreadable: int
    revoked: int


class PublishedLoads:
    """All loads of this node."""

    def __init__(
        self, runtime: Runtime, publisher: Publisher, words: LoadWords, journal: LoadJournal | None
    ) -> None:
        self._runtime = runtime
        self._publisher = publisher
        self._words = words
        self._journal = journal
        self._rng = runtime.rng("published")
        self._kept: dict[str, _Kept] = {}
        self._under_way: dict[str, tuple[LoadFacts, Loading]] = {}
        #: Of how many loads each object is part.
        self._uses: dict[Name, int] = {}
        self._may: MayPublish | None = None
        self._restored = self._unreadable = self._revoked = 0
        words.on_forget(self._forget)

    def statistics(self) -> LoadStatistics:
        return LoadStatistics(
            len(self._kept), len(self._under_way), self._restored, self._unreadable, self._revoked
        )

    # --- in ----------------------------------------------------------------------------------------------------

    def draw(self) -> str:
        """An id for a load that nobody has named."""
        return f"publish.{self._rng.getrandbits(96):024x}"

    def begin(
        self,
        facts: LoadFacts,
        failed: Callable[[Failure], None] = lambda failure: None,
        told: Callable[[LoadProgress], None] | None = None,
    ) -> Load | Failure:
        """A new load, or one that is repeated and will take the place of what it was. `failed` hears of what happens
        before the load is ended."""
        if facts.mark in self._under_way:
            return Failure("refused", f"load {facts.id} is being published already")
        if len(self._kept) + len(self._under_way) >= PUBLISHED_LOADS_MAX:
            return Failure("limit", f"this node keeps {PUBLISHED_LOADS_MAX} loads (PUBLISHED_LOADS_MAX)")
        try:
            writer = None if self._journal is None else self._journal.begin(facts)
        except OSError as error:
            return Failure("unavailable", f"this node cannot write a load down: {error}")
        return self._open(facts, writer, failed, told)

    def _open(
        self,
        facts: LoadFacts,
        writer: LoadWriter | None,
        failed: Callable[[Failure], None] = lambda failure: None,
        told: Callable[[LoadProgress], None] | None = None,
        stubborn: bool = False,
    ) -> Load:
        def release(names: list[Name]) -> None:
            self._under_way.pop(facts.mark, None)
            self._release(names)

        hooks = LoadHooks(self._use, release, failed, told)
        loading = Loading(
            self._runtime,
            self._publisher,
            self._words,
            facts.table,
            facts.mark,
            writer,
            hooks,
            stubborn=stubborn,
        )
        self._under_way[facts.mark] = (facts, loading)
        return Load(self, facts, loading)

    def _use(self, names: Sequence[Name]) -> None:
        for name in names:
            self._uses[name] = self._uses.get(name, 0) + 1

    def shown(self, facts: LoadFacts, loading: Loading) -> None:
        """A load is there; what one of the same name had published and this one has not is taken back."""
        self._under_way.pop(facts.mark, None)
        before = self._kept.pop(facts.mark, None)
        self._kept[facts.mark] = _Kept(facts, loading.names)
        if before is not None:
            self._release(before.names)
        if self._may is not None and not self._may(facts.owner, facts.table):
            self.revoke(self._may)

    # --- out ---------------------------------------------------------------------------------------------------

    def withdraw(self, table: str, load: str, done: Callable[[Withdrawn], None]) -> None:
        """Takes one load back."""
        kept = self._kept.pop(LoadFacts(table, load).mark, None)
        self._withdraw([] if kept is None else [kept], done)

    def clear(self, table: str, but: str, done: Callable[[Withdrawn], None]) -> None:
        """Takes back all loads of a table but one."""
        spared = LoadFacts(table, but).mark
        marks = [mark for mark, kept in self._kept.items() if kept.facts.table == table and mark != spared]
        self._withdraw([self._kept.pop(mark) for mark in marks], done)

    def revoke(self, may: MayPublish) -> None:
        """Tokens have changed: loads of those that may not publish any more are taken back, those under way too."""
        self._may = may
        for facts, loading in list(self._under_way.values()):
            if not may(facts.owner, facts.table):
                loading.give_up()
        gone = [mark for mark, kept in self._kept.items() if not may(kept.facts.owner, kept.facts.table)]
        self._revoked += len(gone)
        loads = [self._kept.pop(mark) for mark in gone]
        for each in loads:
            details = {"table": each.facts.table, "token": each.facts.owner, "objects": len(each.names)}
            _log.info("rows of a revoked token are taken back", extra={"details": details})
        self._withdraw(loads, lambda withdrawn: None)

    def _withdraw(self, loads: list[_Kept], done: Callable[[Withdrawn], None]) -> None:
        for kept in loads:
            if self._journal is not None:
                self._journal.end(kept.facts)
        names = [name for kept in loads for name in kept.names]
        # Entries of the dictionary go, too, and do not count: they are not the client's.
        self._release([name for name in names if name.namespace == DICTIONARY])
        self._release([name for name in names if name.namespace != DICTIONARY], done)

    def _release(self, names: list[Name], done: Callable[[Withdrawn], None] | None = None) -> None:
        """Takes back what is part of no other load."""
        gone = []
        for name in names:
            left = self._uses.pop(name, 1) - 1
            if left:
                self._uses[name] = left
            else:
                gone.append(name)
        self._publisher.withdraw(gone, done)

    def _forget(self, table: str, keys: Sequence[str]) -> int:
        """A table is unpublished, or some keys of it: nothing of it is renewed any more."""
        wanted = set(keys)
        for facts, loading in list(self._under_way.values()):
            if facts.table == table and not keys:
                loading.give_up()
        forgotten: list[Name] = []
        for mark, kept in list(self._kept.items()):
            if kept.facts.table != table:
                continue
            if not keys:
                del self._kept[mark]
                forgotten += kept.names
                if self._journal is not None:
                    self._journal.end(kept.facts)
                continue
            gone = [name for name in kept.names if name.namespace == table and name.key in wanted]
            if gone:
                kept.names = [
                    name for name in kept.names if name.key not in wanted or name.namespace != table
                ]
                forgotten += gone
                if self._journal is not None:
                    self._journal.end_keys(kept.facts, keys)
        # Its entries in the dictionary may be those of other loads, and lie elsewhere.
        self._release([name for name in forgotten if name.namespace != table])
        rows = [name for name in forgotten if name.namespace == table]
        for name in rows:
            self._uses.pop(name, None)
        return self._publisher.forget(rows)

    # --- over restarts -----------------------------------------------------------------------------------------

    def restore(self, may: MayPublish, on_ring: Callable[[], bool]) -> None:
        """Brings back what was written down, a few loads at a time, once the node is on the ring; those whose token is
        gone are let go."""
        self._may = may
        if self._journal is None:
            return
        marks = deque(self._journal.loads())

        def look(_: None) -> None:
            if not on_ring():
                self._runtime.call_later(RING_LOOK_S, look, None)
                return
            for _together in range(min(RESTORED_TOGETHER, len(marks))):
                self._restore_next(marks)

        if marks:
            look(None)

    def _restore_next(self, marks: deque[str]) -> None:
        if not marks:
            return
        mark, journal = marks.popleft(), self._journal
        assert journal is not None

        def read(found: Restored | Exception | None) -> None:
            if found is None or isinstance(found, Exception) or found.facts.mark != mark:
                self._unreadable += 1
                details = {"load": mark, "reason": str(found or "damaged")}
                _log.warning("a load that was written down cannot be read", extra={"details": details})
                self._restore_next(marks)
            elif self._may is not None and not self._may(found.facts.owner, found.facts.table):
                self._revoked += 1
                journal.end(found.facts)
                self._restore_next(marks)
            elif mark in self._kept or mark in self._under_way:
                self._restore_next(marks)
            else:
                self._bring_back(found, marks)

        self._runtime.compute(lambda: journal.read(mark), read)

    def _bring_back(self, found: Restored, marks: deque[str]) -> None:
        load = self._open(found.facts, None, stubborn=True)

        def loaded(result: PublicationResult | Failure) -> None:
            if isinstance(result, Failure):
                details = {"table": found.facts.table, "reason": result.message}
                _log.warning("a load could not be brought back", extra={"details": details})
                self._restore_next(marks)
                return
            self._restored += 1
            told = {"table": found.facts.table, "objects": len(found.puts)}
            _log.info("a load is kept alive again", extra={"details": told})
            self._restore_next(marks)

        rows = [put for put in found.puts if put.name.namespace == found.facts.table]
        rest = [put for put in found.puts if put.name.namespace != found.facts.table]
        load.add([(put, 0) for put in rows], lambda: None)
        load.end(rest, loaded)


class Load:
    """One load as whoever feeds it sees it."""

    def __init__(self, loads: PublishedLoads, facts: LoadFacts, loading: Loading) -> None:
        self._loads = loads
        self._facts = facts
        self._loading = loading

    def add(self, objects: Sequence[tuple[PutObject, int]], taken: Callable[[], None]) -> None:
        """Objects with the number of their rows; `taken` when their owners have them."""
        self._loading.add(objects, taken)

    def end(self, last: Sequence[PutObject], done: OnLoaded) -> None:
        def ended(result: PublicationResult | Failure) -> None:
            if isinstance(result, PublicationResult):
                self._loads.shown(self._facts, self._loading)
            done(result)

        self._loading.end(last, ended)

    def give_up(self) -> None:
        self._loading.give_up()
