"""Reading a range of keys: from the labels above it down to its leaves, a level of the trie in each round.

Where a label was split several levels at once, all labels on that way and beside it are read in one round. With a limit
labels are read in the order of keys, a few at a time, and reading ends when what is left unread cannot matter: so the
first or last keys of an index cost a few rounds.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlay.dht.operations import Got
from overlay.dht.verbs import Dht
from overlay.pht.entry import Entry, Found, get_label, read
from overlay.pht.label import BITS, Label, common, label_at, place_of

#: Labels read in one round when a limit makes their order matter, and when it does not.
ORDERED_LABELS, LABELS_MAX = 16, 4_096


@dataclass(frozen=True, slots=True)
class Range:
    """Keys from low to high, both included; None is no bound."""

    low: bytes | None = None
    high: bytes | None = None
    #: So many entries, lowest keys first, or highest with `descending`.
    limit: int | None = None
    descending: bool = False

    def has(self, key: bytes) -> bool:
        return (self.low is None or key >= self.low) and (self.high is None or key <= self.high)

    @property
    def places(self) -> tuple[int, int]:
        low = 0 if self.low is None else place_of(self.low)
        return low, (1 << BITS) - 1 if self.high is None else place_of(self.high)


@dataclass(frozen=True, slots=True)
class Answer:
    """Entries in the order of their keys. `unread`: labels whose owners did not answer, so entries may be missing."""

    entries: tuple[Entry, ...]
    unread: int = 0
    rounds: int = 0
    #: Labels whose owners did not have everything, or were not sure of it.
    unsure: int = 0

    @property
    def is_whole(self) -> bool:
        return self.unread == self.unsure == 0


class Walk:
    """One range being read."""

    def __init__(self, dht: Dht, namespace: str, wanted: Range, done: Callable[[Answer], None]) -> None:
        self._dht = dht
        self._namespace = namespace
        self._wanted = wanted
        self._done = done
        self._low, self._high = wanted.places
        self._seen: set[Label] = set()
        #: Labels to be read, by the order in which their keys are wanted.
        self._waiting: list[tuple[int, Label]] = []
        self._entries: dict[str, Entry] = {}
        self._unread = self._rounds = self._unsure = 0

    def start(self) -> None:
        top = common((self._low, self._high))
        # What the range begins under may itself lie in a leaf further up.
        self._read([*top.ancestors(), top])

    def _round(self) -> None:
        if self._is_over():
            self._finish()
            return
        count = LABELS_MAX if self._wanted.limit is None else ORDERED_LABELS
        now, self._waiting = self._waiting[:count], self._waiting[count:]
        self._read([label for _, label in now])

    def _read(self, labels: Sequence[Label]) -> None:
        self._rounds += 1
        self._seen.update(labels)

        def got(answers: list[Got]) -> None:
            for label, answer in zip(labels, answers, strict=True):
                self._take(read(label, answer))
            self._round()

        self._dht.get_many([get_label(self._namespace, label) for label in labels], got)

    def _take(self, found: Found) -> None:
        self._unread += not found.known
        self._unsure += not found.all
        for entry in found.entries:
            if self._wanted.has(entry.key):
                self._entries[entry.id] = entry
        if found.opened:
            for label in below(found):
                self._add(label)

    def _add(self, label: Label) -> None:
        if label in self._seen or label.last() < self._low or label.first() > self._high:
            return
        self._seen.add(label)
        insort(self._waiting, (-label.last() if self._wanted.descending else label.first(), label))

    def _is_over(self) -> bool:
        if not self._waiting:
            return True
        limit = self._wanted.limit
        if limit is None or len(self._entries) < limit:
            return False
        # The limit-th key so far must come before everything unread.
        worst = self._in_order()[limit - 1].place
        bound = self._waiting[0][0]
        return -worst < bound if self._wanted.descending else worst < bound

    def _in_order(self) -> list[Entry]:
        return sorted(
            self._entries.values(), key=lambda each: (each.key, each.id), reverse=self._wanted.descending
        )

    def _finish(self) -> None:
        entries = self._in_order()
        if self._wanted.limit is not None:
            entries = entries[: self._wanted.limit]
        self._done(Answer(tuple(entries), self._unread, self._rounds, self._unsure))


def below(found: Found) -> list[Label]:
    """The labels under one that was split: those on the way to where it was split to, and those beside that way."""
    label, target = found.label, found.target
    if target.length <= label.length:
        return [label.child(0), label.child(1)] if label.length < BITS else []
    way = [label_at(target.first(), length) for length in range(label.length + 1, target.length + 1)]
    return [each for step in way for each in (step, step.sibling)]
