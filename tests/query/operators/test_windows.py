"""Windows of time by themselves: which rows wait, which are late, what is revised."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from query.batch import Batch, from_pydict
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.marks import Mark
from query.plan import Field, Function, Table
from tests.query.dataflow.harness import Harness, operator, sink, source

#: What the harness's clock says at its beginning.
BEGAN_US = 1_700_000_000_000_000


def ends(*seconds: float | None) -> Batch:
    """Rows whose windows end so long after the beginning."""
    times = [None if each is None else BEGAN_US + int(each * 1e6) for each in seconds]
    return Batch("t", pa.record_batch({"end": pa.array(times, pa.timestamp("us"))}))


def waiting(lateness: str = "5") -> Harness:
    windows = operator("w", "cache/Windows", "s", end=Field("end"), lateness=lateness)
    return Harness([source(), windows, sink("w")], {"s": []}).run()


def probed(harness: Harness) -> int:
    """How many rows a set probe gets now."""
    before = len(harness["out"].rows())
    harness["w"].probe(Probe(ProbeKind.SET, harness.context.next_tag()))
    harness.clock.run()
    return len(harness["out"].rows()) - before


def test_rows_wait_for_the_end_of_their_window_and_are_given_once() -> None:
    harness = waiting()
    harness["w"].receive(ends(10.0, 20.0, 20.0), 2, 0)
    assert probed(harness) == 0
    harness.clock.run(10.0)
    assert (probed(harness), probed(harness)) == (1, 0)
    harness.clock.run(10.0)
    assert probed(harness) == 2
    assert harness.context.budget.memory_bytes == 0


def test_late_rows_are_given_later_rows_are_counted() -> None:
    harness = waiting()
    harness.clock.run(30.0)
    harness["w"].receive(ends(26.0, 24.0, 3.0, None), 2, 0)
    assert probed(harness) == 1
    assert harness["w"].counters.drops == {"late by more than 5 s": 2, "no time, so in no window": 1}


def states(**counts: int) -> Batch:
    return from_pydict("epochs", {"k": list(counts), "n$count": list(counts.values())})


class Grouped:
    """The results of epochs whose states are given by hand."""

    def __init__(self) -> None:
        group = operator(
            "g",
            "groupby/Windows",
            "s",
            keys=Table({"k": Field("k")}),
            aggregates=Table({"n": Function("count", ())}),
            groups="3",
        )
        self.harness = Harness([source(), group, sink("g")], {"s": []}).run()

    def epoch(self, epoch: int, batch: Batch, revision: int = 0) -> list[tuple[int, list[Any]]]:
        """What comes out, by revision."""
        harness, out = self.harness, self.harness["out"]
        tag, before = harness.context.next_tag(), len(out.batches)
        harness.context.marks[tag] = Mark(epoch, revision, 4)
        harness["g"].receive(batch, tag, 0)
        harness["g"].receive_end(tag, 0)
        harness.clock.run()
        assert not harness.errors
        marks = [mark.revision for number, mark in harness.context.marks.items() if number >= tag]
        found = [[tuple(row.values()) for row in each.to_rows()] for each in out.batches[before:]]
        return list(zip(marks[-len(found) :] if found else [], found, strict=True))


def test_groups_that_were_given_before_come_again_whole_as_a_revision() -> None:
    grouped = Grouped()
    assert grouped.epoch(0, states(a=2, b=1)) == [(0, [("a", 2), ("b", 1)])]
    assert grouped.epoch(1, states(a=1, c=5)) == [(0, [("c", 5)]), (1, [("a", 3)])]
    assert grouped.epoch(2, states(d=1)) == [(0, [("d", 1)])]
    assert grouped.epoch(3, states(b=7)) == [(0, [("b", 7)])], "the oldest group was forgotten"


def test_an_epoch_that_is_revised_replaces_what_it_had_said() -> None:
    grouped = Grouped()
    grouped.epoch(0, states(a=2, b=1))
    assert grouped.epoch(0, states(a=3, b=1, c=1), revision=1) == [(1, [("c", 1), ("a", 3)])]
    assert grouped.epoch(1, states(a=1)) == [(1, [("a", 4)])]
