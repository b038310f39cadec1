"""A Prefix Hash Tree over the DHT's verbs: insert, delete, exact, range, first and last (PIER 3.3.3).

Every node that inserts keeps its own entries alive through its publisher and looks after the labels above them: once a
period it reads their states, renews those of internal labels, puts lost ones again, and moves its entries where a label
was split or merged meanwhile. So what a failure took is back after a period, and an index nobody feeds any more goes.

A leaf of more than `leaf_max` entries is split by whoever adds to it, down to where its keys begin to differ. Two
leaves side by side that are nearly empty are merged by whoever deletes from one. Nobody locks anything (`entry.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from overlay.dht.messages import Code
from overlay.dht.operations import Got, PutObject
from overlay.dht.publisher import Publisher
from overlay.dht.verbs import Dht
from overlay.pht.entry import (
    Entry,
    Found,
    entry_name,
    get_label,
    put_entry,
    put_internal,
    put_merging,
    read,
)
from overlay.pht.find import Finder, Known
from overlay.pht.label import BITS, ROOT, Label, common, label_at
from overlay.pht.walk import Answer, Range, Walk
from overlay.ring import Arc, routing_id
from runtime.api import Runtime, Timer

#: Of a lifetime, how much passes between two looks after labels and entries.
PERIOD_SHARE = 0.4
#: Leaves side by side are merged when they have so much of `leaf_max` together.
MERGE_SHARE = 0.25
#: Entries that are placed at a time; more wait their turn.
PLACED_MAX = 8_192
#: Rounds of splitting one insertion may need; a round goes down at least one level.
ROUNDS_MAX = 4 * BITS


@dataclass(frozen=True, slots=True)
class PhtConfig:
    """How an index is kept."""

    #: Entries of a leaf. More means fewer, longer messages, and coarser division of work among nodes.
    leaf_max: int = 128
    #: How long entries outlive whoever keeps them. Short notices failures sooner and costs more renewals.
    lifetime_s: float = 300.0
    #: Replicas of labels' states, which many readers pass through; entries have none and are put again when lost.
    copies: int = 2


@dataclass(slots=True)
class PhtStatistics:
    inserted: int = 0
    moved: int = 0
    splits: int = 0
    merges: int = 0
    #: States of labels that were missing and put again.
    repaired: int = 0
    failed: int = 0


class Pht:
    """One node's hold on one index."""

    def __init__(
        self,
        runtime: Runtime,
        dht: Dht,
        publisher: Publisher,
        namespace: str,
        config: PhtConfig | None = None,
    ) -> None:
        self.config = config or PhtConfig()
        self.statistics = PhtStatistics()
        self._runtime = runtime
        self._dht = dht
        self._publisher = publisher
        self._namespace = namespace
        self._known = Known()
        #: Own entries by id, and the label each lies under.
        self._entries: dict[str, tuple[Entry, Label]] = {}
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Own entries."""
        return len(self._entries)

    # -- reading

    def range(self, wanted: Range, done: Callable[[Answer], None]) -> None:
        """Entries of all nodes in a range of keys, in order."""
        Walk(self._dht, self._namespace, wanted, done).start()

    def exact(self, key: bytes, done: Callable[[Answer], None]) -> None:
        self.range(Range(key, key), done)

    # -- writing

    def insert(self, entries: Sequence[Entry], done: Callable[[int], None]) -> None:
        """Puts entries and keeps them alive; `done` tells how many could not be stored now, and are tried again."""
        self._arm()
        _Insertion(self, list(entries), done).start()

    def let_go(self, ids: Iterable[str]) -> None:
        """Leaves own entries to whoever looks after them now; without anybody they end by themselves."""
        gone = [self._entries.pop(each) for each in ids if each in self._entries]
        names = [entry_name(self._namespace, label, entry) for entry, label in gone]
        self._publisher.forget(names)

    def delete(self, ids: Iterable[str], done: Callable[[], None]) -> None:
        """Takes own entries out; leaves that become nearly empty are merged."""
        gone = [self._entries.pop(each) for each in ids if each in self._entries]
        self._publisher.withdraw([entry_name(self._namespace, label, entry) for entry, label in gone])
        parents = list(dict.fromkeys(label.parent for _, label in gone if label.length))
        if parents:
            self._merge(parents, done)
        else:
            self._runtime.call_later(0.0, lambda _: done(), None)

    def close(self) -> None:
        """Lets go of the index: own entries end, what others have stays."""
        if self._timer is not None:
            self._timer.cancel()
        self._publisher.withdraw(
            [entry_name(self._namespace, label, entry) for entry, label in self._entries.values()]
        )
        self._entries.clear()

    # -- for insertions

    def find(self, places: Sequence[int], done: Callable[[dict[int, Found]], None]) -> None:
        Finder(self._dht, self._namespace, self._known, places, done).start()

    def split(self, label: Label, target: Label, done: Callable[[list[Code]], None]) -> None:
        """Makes a label internal, and all down to the target."""
        self.statistics.splits += 1
        way = [label_at(target.first(), length) for length in range(label.length, target.length + 1)]
        for each in way:
            self._known.learn(Found(each, internal=True))
        self._dht.put_many([self._internal(each, target) for each in way], done)

    def place(self, label: Label, entries: Sequence[Entry], done: Callable[[list[Code]], None]) -> None:
        """Puts entries under a label; those that lay elsewhere are gone from there then."""
        moved = []
        for entry in entries:
            before = self._entries.get(entry.id)
            if before is not None and before[1] != label:
                moved.append(entry_name(self._namespace, before[1], before[0]))
            self._entries[entry.id] = (entry, label)
        self.statistics.moved += len(moved)
        self.statistics.inserted += len(entries) - len(moved)

        def stored(codes: list[Code]) -> None:
            self._publisher.withdraw(moved)
            done(codes)

        config = self.config
        puts = [put_entry(self._namespace, label, entry, config.lifetime_s, 0) for entry in entries]
        self._publisher.publish(puts, stored, period_s=config.lifetime_s * PERIOD_SHARE)

    def _internal(self, label: Label, target: Label) -> PutObject:
        config = self.config
        return put_internal(
            self._namespace, label, target if label.holds(target) else label, config.lifetime_s, config.copies
        )

    # -- looking after labels

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._runtime.call_later(self.config.lifetime_s * PERIOD_SHARE, self._look, None)

    def _look(self, _: None) -> None:
        self._timer = None
        if self._entries:
            self._arm()
            self.look_after(lambda: None)

    def look_after(self, done: Callable[[], None]) -> None:
        """Renews, repairs and follows the labels above own entries; done once a period by itself."""
        leaves = {label for _, label in self._entries.values()}
        labels = sorted({each for leaf in leaves for each in (*leaf.ancestors(), leaf)})

        def got(answers: list[Got]) -> None:
            found = {label: read(label, answer) for label, answer in zip(labels, answers, strict=True)}
            self._keep_states(found, leaves, lambda codes: None)
            self._follow(found, done)

        self._dht.get_many([get_label(self._namespace, label, state_only=True) for label in labels], got)

    def repair(self, arcs: Sequence[Arc], done: Callable[[bool], None]) -> None:
        """Puts states of labels above own entries again that were lost in some arcs; `done` tells whether all of them
        are there. Entries are the publisher's."""
        leaves = {label for _, label in self._entries.values()}
        above = sorted({each for leaf in leaves for each in leaf.ancestors()})
        places = {label: routing_id(self._namespace, label.text) for label in above}
        labels = [label for label in above if any(arc.contains(places[label]) for arc in arcs)]

        def got(answers: list[Got]) -> None:
            found = {label: read(label, answer) for label, answer in zip(labels, answers, strict=True)}
            known = all(each.known for each in found.values())
            self._keep_states(
                found, leaves, lambda codes: done(known and all(code is Code.OK for code in codes))
            )

        self._dht.get_many([get_label(self._namespace, label, state_only=True) for label in labels], got)

    def _keep_states(
        self, found: dict[Label, Found], leaves: set[Label], done: Callable[[list[Code]], None]
    ) -> None:
        puts: list[PutObject] = []
        above = {each for leaf in leaves for each in leaf.ancestors()}
        for label, each in found.items():
            if label not in above or not each.known or each.merging:
                continue
            if not each.internal:
                self.statistics.repaired += 1
            if each.state_s < self.config.lifetime_s / 2:
                puts.append(self._internal(label, each.target if each.internal else label))
        self._dht.put_many(puts, done)

    def _follow(self, found: dict[Label, Found], done: Callable[[], None]) -> None:
        """Entries whose leaf was split or merged go to where they belong now."""
        displaced: list[Entry] = []
        for entry, label in self._entries.values():
            own = found.get(label)
            merged = any(found[each].merging for each in label.ancestors() if each in found)
            if merged or (own is not None and own.internal):
                displaced.append(entry)
        for each in found.values():
            if each.known and (each.internal or each.merging):
                self._known.learn(each)
        if displaced:
            self.insert(displaced, lambda failed: done())
        else:
            done()

    # -- merging

    def _merge(self, parents: Sequence[Label], done: Callable[[], None]) -> None:
        """Looks at both children of labels something was deleted under."""
        labels = [each for parent in parents for each in (parent, parent.child(0), parent.child(1))]

        def got(answers: list[Got]) -> None:
            found = [read(label, answer) for label, answer in zip(labels, answers, strict=True)]
            triples = [found[at : at + 3] for at in range(0, len(found), 3)]
            puts = [
                self._merging(parent.label) for parent, *children in triples if self._few(parent, children)
            ]
            self.statistics.merges += len(puts)
            if puts:
                self._dht.put_many(puts, lambda codes: self.look_after(done))
            else:
                done()

        self._dht.get_many([get_label(self._namespace, label) for label in labels], got)

    def _few(self, parent: Found, children: Sequence[Found]) -> bool:
        if not parent.internal or any(child.opened or not child.known for child in children):
            return False
        ids = {entry.id for each in (parent, *children) for entry in each.entries}
        return len(ids) <= self.config.leaf_max * MERGE_SHARE

    def _merging(self, label: Label) -> PutObject:
        """Long enough that everybody with entries below has looked; without state it is then a leaf."""
        return put_merging(self._namespace, label, self.config.lifetime_s, self.config.copies)


class _Insertion:
    """Entries on their way to their leaves: found, split where they are too many, put."""

    def __init__(self, pht: Pht, entries: list[Entry], done: Callable[[int], None]) -> None:
        self._pht = pht
        self._left = entries
        self._done = done
        self._failed = 0
        self._rounds = 0
        self._waiting = 0

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        now, self._left = self._left[:PLACED_MAX], self._left[PLACED_MAX:]
        if not now:
            self._done(self._failed)
            return
        self._rounds += 1
        assert self._rounds <= ROUNDS_MAX + len(self._left), "splitting without end"
        by_place: dict[int, list[Entry]] = {}
        for entry in now:
            by_place.setdefault(entry.place, []).append(entry)
        self._pht.find(list(by_place), lambda leaves: self._found(by_place, leaves))

    def _found(self, by_place: dict[int, list[Entry]], leaves: dict[int, Found]) -> None:
        groups: dict[Label, tuple[Found, list[Entry]]] = {}
        for place, leaf in leaves.items():
            groups.setdefault(leaf.label, (leaf, []))[1].extend(by_place[place])
        # One more than there are, so that nothing ends before all have begun.
        self._waiting = 1
        for label, (leaf, entries) in groups.items():
            self._waiting += 1
            target = self._too_many(leaf, entries)
            if target is None:
                self._pht.place(label, entries, self._stored)
            else:
                self._left += entries
                self._pht.split(label, target, lambda codes: self._one_less())
        self._one_less()

    def _too_many(self, leaf: Found, entries: list[Entry]) -> Label | None:
        """Down to which label a leaf must be split to take more entries; None when it has room, or cannot be."""
        ids = {entry.id for entry in (*leaf.entries, *entries)}
        if len(ids) <= self._pht.config.leaf_max or leaf.merging:
            return None
        target = common(entry.place for entry in (*leaf.entries, *entries))
        if target.length >= BITS or not leaf.label.holds(target):
            return None
        return target

    def _stored(self, codes: list[Code]) -> None:
        self._failed += sum(code is not Code.OK for code in codes)
        self._pht.statistics.failed += sum(code is not Code.OK for code in codes)
        self._one_less()

    def _one_less(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._next()


__all__ = ["ROOT", "Answer", "Entry", "Pht", "PhtConfig", "Range"]
