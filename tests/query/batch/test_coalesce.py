import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from query.batch import Batch, CoalesceLimits, Coalescer, concat, from_rows

SCHEMAS = [pa.schema([("a", pa.int64())]), pa.schema([("a", pa.int64()), ("b", pa.string())])]


def make(table: str, which: int, start: int, count: int) -> Batch:
    return from_rows(table, [(i, "x" * 10)[: which + 1] for i in range(start, start + count)], SCHEMAS[which])


@given(
    pushes=st.lists(
        st.tuples(st.sampled_from("tu"), st.integers(0, 1), st.integers(0, 12), st.floats(0, 0.1)),
        max_size=40,
    ),
    rows=st.integers(1, 30),
    size=st.integers(1, 400),
    groups=st.integers(1, 4),
)
def test_rows_leave_in_order_once_and_bounds_hold(pushes, rows, size, groups) -> None:  # type: ignore[no-untyped-def]
    limits = CoalesceLimits(rows=rows, bytes=size, age_s=0.05, groups=groups, bytes_held=600)
    machine = Coalescer(limits)
    now, count, sent, got = 0.0, 0, {}, {}
    for table, which, length, wait_s in pushes:
        now += wait_s
        out = machine.expire(now)
        assert (due := machine.deadline()) is None or due > now
        batch = make(table, which, count, length)
        count += length
        sent.setdefault((table, which), []).extend(r["a"] for r in batch.to_rows())
        out += machine.push(batch, now)
        assert machine.bytes_held <= 600
        for ready in out:
            got.setdefault((ready.table, len(ready.schema) - 1), []).extend(r["a"] for r in ready.to_rows())
    for ready in machine.flush():
        assert ready.num_rows < rows
        got.setdefault((ready.table, len(ready.schema) - 1), []).extend(r["a"] for r in ready.to_rows())
    assert {k: v for k, v in sent.items() if v} == got
    assert machine.rows_held == machine.bytes_held == 0 and machine.deadline() is None


def test_reaching_the_rows_limit_releases_one_merged_batch() -> None:
    machine = Coalescer(CoalesceLimits(rows=4, bytes=1 << 20))
    first, second = make("t", 0, 0, 2), make("t", 0, 2, 2)
    assert machine.push(first, 1.0) == []
    assert machine.deadline() == 1.05
    assert machine.push(second, 1.01) == [concat([first, second])]
    assert machine.deadline() is None


def test_a_large_batch_passes_without_a_copy() -> None:
    machine = Coalescer(CoalesceLimits(rows=4))
    large = make("t", 0, 0, 9)
    [out] = machine.push(large, 0.0)
    assert out is large


def test_a_late_row_of_a_busy_group_starts_a_new_wait() -> None:
    machine = Coalescer(CoalesceLimits(rows=2, age_s=1.0))
    machine.push(make("t", 0, 0, 1), 0.0)
    assert len(machine.push(make("t", 0, 1, 1), 0.5)) == 1
    machine.push(make("t", 0, 2, 1), 0.9)
    assert machine.deadline() == 1.9
    assert machine.expire(1.89) == [] and len(machine.expire(1.9)) == 1
