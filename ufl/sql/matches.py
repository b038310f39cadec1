"""Whether the rows of a relation can be asked for by key: a published table under the key that a join compares
(PIER 4.3.1, Fetch Matches).

The partitioning key of a row is the text of its key columns, so both sides must be of types whose equal values have
equal texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from query.plan import Expression, Field
from ufl.sql.aiming import same_texts
from ufl.sql.kinds import kind_of
from ufl.sql.relations import Filter, Project, Relation, Scan


@dataclass(frozen=True, slots=True)
class Inner:
    """A table that is fetched from, and for each column of its partitioning key, in order, what it must equal."""

    scan: Scan
    #: Outer and inner expression.
    keys: tuple[tuple[Expression, Expression], ...]


def inner_table(
    relation: Relation, keys: Sequence[Expression], other: Relation, other_keys: Sequence[Expression]
) -> Inner | None:
    """The table behind `relation` if the keys of a join are its partitioning key; None if they are not."""
    table = relation.source if isinstance(relation, Filter) else relation
    if not isinstance(table, Project) or not isinstance(table.source, Scan) or table.keep:
        return None
    scan = table.source
    # Rows that are fetched come from wherever they lie, and do not say where that was.
    if scan.places != ("published",) or scan.origin or len(scan.keys) != len(keys) or not keys:
        return None
    kinds = {column.name: column.kind for column in table.shape}
    found: dict[str, tuple[Expression, Expression]] = {}
    for inner, outer in zip(keys, other_keys, strict=True):
        stored = table.outputs.get(inner.name) if isinstance(inner, Field) else None
        if not isinstance(inner, Field) or not isinstance(stored, Field):
            return None
        here, there = kinds.get(inner.name), kind_of(outer, other.columns)
        if here is None or there is None or not same_texts(there, here):
            return None
        found[stored.name] = (outer, inner)
    if set(found) != set(scan.keys):
        return None
    return Inner(scan, tuple(found[name] for name in scan.keys))
