"""The same rows, cut and combined in different ways: every way must give the same groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from query.aggregate import Grouping, find, make
from query.plan import Constant, Expression, Field


def constant(value: Any) -> Constant:
    return Constant(str(value), "double" if isinstance(value, float) else "long")


def grouping(keys: list[str], function: str, columns: list[str], constants: tuple[Any, ...] = ()) -> Grouping:
    arguments: tuple[Expression, ...] = (
        *(Field(name) for name in columns),
        *(constant(c) for c in constants),
    )
    kind = find(function, len(arguments))
    assert kind is not None
    return Grouping(keys, [("result", make(kind, arguments)[0])])


def add(group: Grouping, table: pa.Table, columns: list[str]) -> None:
    keys = [table.column(key).combine_chunks() for key in group.keys]
    group.add(keys, [[table.column(name).combine_chunks() for name in columns]], table.num_rows)


def add_states(group: Grouping, states: pa.Table) -> None:
    columns = [states.column(n).combine_chunks() for n in range(states.num_columns)]
    group.add_states(columns[: len(group.keys)], columns[len(group.keys) :])


def parts(data: st.DataObject, table: pa.Table) -> list[pa.Table]:
    cuts = sorted(data.draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    return [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]


def all_ways(
    pieces: list[pa.Table],
    keys: list[str],
    function: str,
    columns: list[str],
    constants: tuple[Any, ...] = (),
) -> Iterator[dict[Any, Any]]:
    """Added row by row; combined one by one; combined all at once; combined as a tree, last part first."""

    def new() -> Grouping:
        return grouping(keys, function, columns, constants)

    def partial(piece: pa.Table) -> pa.Table:
        group = new()
        add(group, piece, columns)
        return group.states()

    whole, one_by_one, at_once = new(), new(), new()
    states = [partial(piece) for piece in pieces]
    for piece, state in zip(pieces, states, strict=True):
        add(whole, piece, columns)
        add_states(one_by_one, state)
    add_states(at_once, pa.concat_tables(states, promote_options="permissive").combine_chunks())
    while len(states) > 1:
        pair = new()
        add_states(pair, states.pop())
        add_states(pair, states.pop())
        states.append(pair.states())
    tree = new()
    add_states(tree, states[0])
    for group in (whole, one_by_one, at_once, tree):
        yield by_key(group.results(), keys)


def by_key(table: pa.Table, keys: list[str]) -> dict[Any, Any]:
    return {tuple(row[key] for key in keys): row["result"] for row in table.to_pylist()}


def oracle(table: pa.Table, keys: list[str], expression: str) -> dict[Any, Any]:
    connection = duckdb.connect()
    connection.register("t", table)
    listed = ", ".join([*keys, f"{expression} as result"])
    group_by = f"group by {', '.join(keys)}" if keys else ""
    rows = connection.execute(f"select {listed} from t {group_by}").fetchall()
    return {row[:-1]: row[-1] for row in rows}
