"""Caches: answered from memory, newest of a key, windows by age, bounds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from query.dataflow.flow import Probe, ProbeKind
from query.operators.cache.held import Held
from query.plan import Setting
from tests.query.dataflow.harness import Harness, operator, sink
from tests.query.operators.feeding import fed, normal, play, rows, started, texts


def cached(kind: str = "MemCache", **settings_: Setting) -> Harness:
    return started([fed(), operator("c", f"cache/{kind}", "s", **settings_), sink("c")])


def ask(harness: Harness, tag: int, keys: Any = None) -> list[Any]:
    """What a set or set-predicate probe gets."""
    before = len(harness["out"].batches)
    kind = ProbeKind.SET if keys is None else ProbeKind.SET_PREDICATE
    harness.context.guard(lambda: harness["c"].probe(Probe(kind, tag, keys)))
    harness.clock.run()
    assert tag in harness["out"].ends
    return normal(row for batch in harness["out"].batches[before:] for row in batch.to_rows())


def test_the_first_set_fills_it_and_later_ones_are_answered_from_memory() -> None:
    harness = play(cached(), [("s", rows(a=[1, 2], b=["x", "y"])), ("s", rows(a=[2], b=["z"])), ("s", None)])
    assert len(harness["s"].probes) == 1
    assert ask(harness, 90) == [(1, "x"), (2, "y"), (2, "z")]
    assert ask(harness, 91, rows(a=[2, 7])) == [(2, "y"), (2, "z")]
    assert ask(harness, 92, rows(b=["x"], a=[1])) == [(1, "x")]
    assert len(harness["s"].probes) == 1
    harness.flow.close()
    assert harness.context.budget.memory_bytes == 0


def test_before_it_is_full_predicates_are_passed_down() -> None:
    harness = cached()
    harness["c"].probe(Probe(ProbeKind.SET_PREDICATE, 90, rows(a=[1])))
    assert harness["s"].probes[-1].tag == 90


def test_filled_by_a_stream_it_holds_what_arrives_and_streams_it_on() -> None:
    harness = cached(fill="stream")
    assert harness["s"].probes[0].kind is ProbeKind.STREAM
    assert harness["out"].ends == [1]
    harness["c"].probe(Probe(ProbeKind.STREAM, 50))
    play(harness, [("s", rows(a=[1])), ("s", rows(a=[2]))])
    assert len(harness["s"].probes) == 1
    assert normal(row for batch in harness["out"].batches for row in batch.to_rows()) == [(1,), (2,)]
    assert ask(harness, 90) == [(1,), (2,)]


def test_rows_older_than_the_age_are_gone() -> None:
    harness = cached(fill="stream", age="10")
    play(harness, [("s", rows(a=[1]))])
    harness.clock.run(6.0)
    play(harness, [("s", rows(a=[2]))])
    assert ask(harness, 90) == [(1,), (2,)]
    harness.clock.run(6.0)
    assert ask(harness, 91) == [(2,)]
    assert ask(harness, 92, rows(a=[1])) == []


def test_newer_rows_replace_older_ones_of_the_same_key() -> None:
    harness = cached("MemUpdateCache", fill="stream", keys=texts("k"), age="10")
    play(
        harness, [("s", rows(k=["a", "b", "a", None], v=[1, 2, 3, 4])), ("s", rows(k=["b", None], v=[5, 6]))]
    )
    assert ask(harness, 90) == [("a", 3), ("b", 5), (None, 6)]
    harness.clock.run(8.0)
    play(harness, [("s", rows(k=["a"], v=[7]))])
    harness.clock.run(8.0)
    assert ask(harness, 91) == [("a", 7)]


def test_a_full_cache_gives_up_or_lets_its_oldest_go() -> None:
    batches: Any = [("s", rows(a=list(range(n, n + 1_000)))) for n in range(0, 20_000, 1_000)]
    probed = play(cached(bytes="50000"), [*batches, ("s", None)])
    assert probed.context.budget.memory_bytes < 50_000
    assert any("nothing is cached" in reason for _, reason in probed.complaints)
    probed["c"].probe(Probe(ProbeKind.SET, 90))
    assert probed["s"].probes[-1].tag == 90
    streamed = play(cached(fill="stream", bytes="100000"), batches)
    assert streamed.context.budget.memory_bytes <= 100_000
    kept = ask(streamed, 90)
    assert (19_999,) in kept
    assert len(kept) + streamed["c"].counters.dropped_rows == 20_000


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.booleans()), max_size=40))
@settings(deadline=None, max_examples=60)
def test_held_rows_against_a_dictionary(steps: list[tuple[int, int, bool]]) -> None:
    import query.operators.cache.held as module

    held, wanted, time_s = Held(5, ("k",)), {}, 0.0
    rebuild, module.REBUILD_ROWS_MIN = module.REBUILD_ROWS_MIN, 2
    try:
        for number, (key, age, expires) in enumerate(steps):
            time_s += 1.0
            held.add(rows(k=[key, key], n=[-number, number]), time_s)
            wanted[key] = (time_s, number)
            if expires:
                held.expire(time_s - age)
                wanted = {k: v for k, v in wanted.items() if v[0] >= time_s - age}
            got = normal(row for batch in held.batches() for row in batch.to_rows())
            assert got == sorted(((k, n) for k, (_, n) in wanted.items()), key=repr)
            found = normal(row for batch in held.matching(rows(k=[key])) for row in batch.to_rows())
            assert found == [(k, n) for k, (_, n) in wanted.items() if k == key]
            assert held.rows == len(wanted)
    finally:
        module.REBUILD_ROWS_MIN = rebuild
