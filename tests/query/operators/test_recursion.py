"""Recursive queries: a cycle through a queue runs to its fixpoint and ends, for any links and any batches."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from query.plan import Field
from tests.query.dataflow.harness import operator, sink
from tests.query.operators.feeding import answer, cuts, fed, fields, oracle, split, table

CLOSURE = [
    fed(),
    operator("edges", "tee", "s"),
    operator("pairs", "union", "edges", "again"),
    operator("new", "dupelim", "pairs"),
    operator("found", "tee", "new"),
    operator("step", "join", "found", "edges", leftkeys=fields("b"), rightkeys=fields("a")),
    operator("hop", "projection/Generate", "step", columns=table(a=Field("left.a"), b=Field("right.b"))),
    operator("again", "queue", "hop"),
    sink("found"),
]
REACHABLE = """WITH RECURSIVE r AS (
    SELECT a, b FROM s UNION SELECT r.a, s.b FROM r JOIN s ON r.b = s.a) SELECT DISTINCT a, b FROM r"""

nodes = st.one_of(st.none(), st.integers(0, 5))


@given(st.lists(st.tuples(nodes, nodes), max_size=12), cuts)
@settings(deadline=None, max_examples=60)
def test_everything_that_can_be_reached_is_found_once(links: list[tuple[int, int]], at: list[int]) -> None:
    columns = {name: pa.array([link[place] for link in links], pa.int64()) for place, name in enumerate("ab")}
    data = pa.table(columns)
    events = [("s", batch) for batch in split(data, at)]
    assert answer(CLOSURE, [*events, ("s", None)]) == oracle(REACHABLE, s=data)
