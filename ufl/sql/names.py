"""Names in a query: which column of which table a name means, tables being known or not.

A table whose columns the catalog knows is checked here, before anything runs, without regard to the case of letters. Of
an unknown table any name may be a column; nodes that lack it will count the rows they drop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from query.batch.types import STRING
from query.operators.scan.origin import ORIGINS
from query.plan import Expression, Field
from query.plan_hints import did_you_mean, quoted
from ufl.sql.errors import Refused
from ufl.sql.relations import Column, Project, Relation, Repeated, Scan
from ufl.sql.steps import Steps


class Namer:
    """Gives columns of a query names that no other has; each is a step of planning."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._taken: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        self._steps.spend()
        number = self._taken[wish] = self._taken.get(wish, 0) + 1
        return wish if number == 1 else self.fresh(f"{wish}#{number}")


class Computed(NamedTuple):
    """A column that a table function adds to a table."""

    expression: Expression
    kind: pa.DataType | None


class Spelled:
    """Names by their spelling: exactly as written first, then without regard to the case of letters."""

    __slots__ = ("_alike", "_exact", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._exact: dict[str, list[int]] = {}
        self._alike: dict[str, list[int]] = {}
        for at, name in enumerate(self._names):
            self._exact.setdefault(name, []).append(at)
            self._alike.setdefault(name.lower(), []).append(at)

    def places(self, name: str) -> list[int]:
        """Where names stand that this one may mean."""
        return self._exact.get(name) or self._alike.get(name.lower()) or []

    def alike(self, name: str) -> list[int]:
        """Where names stand that this one may mean, whatever the case of their letters."""
        return self._alike.get(name.lower()) or []

    def one(self, name: str) -> str | None:
        """The first of them, as it is spelled."""
        places = self.places(name)
        return self._names[places[0]] if places else None


@dataclass(slots=True)
class Source:
    """One thing in FROM, under its alias."""

    alias: str
    relation: Relation
    namer: Namer
    #: Columns of a table by name, with their types; None when no catalog knows them. Only for tables.
    known: Mapping[str, pa.DataType | None] | None = None
    #: How many columns a table has beside the known ones, of which nobody told.
    left_out: int = 0
    #: Columns that a join with USING shows once; unqualified stars leave them out.
    hidden: set[str] = field(default_factory=set)
    #: Columns beside those of the table: the windows of TUMBLE and HOP.
    computed: Mapping[str, Computed] = field(default_factory=dict)
    #: What has been found before, by the name that was asked for: large tables are asked for many columns.
    _spelled: Spelled | None = None
    _fetched_as: dict[str, Column] = field(default_factory=dict)

    @property
    def is_table(self) -> bool:
        """Whether columns are fetched from a table as they are asked for."""
        return isinstance(self.relation, Project) and isinstance(self.relation.source, Scan | Repeated)

    @property
    def is_unknown(self) -> bool:
        """Whether any name may be a column."""
        return self.relation.open or (self.is_table and self.known is None)

    def find(self, name: str, node: exp.Expr | None = None) -> Column | None:
        """The column of that name; None when there is none."""
        if self.relation.open:
            if isinstance(self.relation, Scan) and name.lower() in ORIGINS:
                hint = "name the columns in place of the star"
                raise Refused(f"{name.lower()} beside * needs a table whose columns are known", node, hint)
            return Column(name, name)
        if not self.is_table:
            return self._only(name, node)
        added = _match(name, self.computed)
        if added is not None:
            return self._fetched(added, self.computed[added].kind, self.computed[added].expression)
        match = self._known_as(name)
        if self.known is not None and match is not None:
            return self._fetched(match, self.known[match])
        found = self._origin(name)
        return found or (self._fetched(name, None) if self.may_have(name) else None)

    def may_have(self, name: str) -> bool:
        """Whether this may be a column of which nobody told."""
        return self.is_unknown or (self.left_out > 0 and self._known_as(name) is None)

    def _known_as(self, name: str) -> str | None:
        if self.known is None:
            return None
        if self._spelled is None:
            self._spelled = Spelled(self.known)
        return self._spelled.one(name)

    def _origin(self, name: str) -> Column | None:
        """Where a row was read, which every table has as a column that no star stands for."""
        name = name.lower()
        if name not in ORIGINS:
            return None
        table = self.relation
        assert isinstance(table, Project)
        scan = table.source.source if isinstance(table.source, Repeated) else table.source
        assert isinstance(scan, Scan)
        if name not in scan.origin:
            scan.origin.append(name)
        return self._fetched(name, STRING)

    def labels(self) -> list[str]:
        """The names of all columns, where they are known."""
        if self.is_table:
            return [*(self.known or ()), *self.computed]
        return [column.label for column in self.relation.columns]

    def _fetched(self, name: str, kind: pa.DataType | None, expression: Expression | None = None) -> Column:
        column = self._fetched_as.get(name)
        if column is None:
            table = self.relation
            assert isinstance(table, Project)
            column = self._fetched_as[name] = Column(self.namer.fresh(f"{self.alias}.{name}"), name, kind)
            table.shape.append(column)
            table.outputs[column.name] = Field(name) if expression is None else expression
        return column

    def _only(self, name: str, node: exp.Expr | None) -> Column | None:
        """The column of a subquery, whose columns are all there."""
        columns = self.relation.columns
        if self._spelled is None:
            self._spelled = Spelled(column.label for column in columns)
        places = self._spelled.places(name)
        if len(places) > 1:
            raise Refused(f"there are {len(places)} columns {quoted(name)} here", node, "give them aliases")
        return columns[places[0]] if places else None


class Scope:
    """What names mean at one place in a query."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.sources: list[Source] = []
        #: Columns of joins with USING: one name for both sides.
        self.merged: dict[str, tuple[Expression, pa.DataType | None]] = {}

    def add(self, source: Source, node: exp.Expr | None) -> None:
        if any(source.alias.lower() == each.alias.lower() for each in self.sources):
            raise Refused(f"there are two tables {quoted(source.alias)} here", node, "give one an alias")
        self.sources.append(source)

    def resolve(self, column: exp.Column) -> Expression | None:
        """What a name means here; None when it means nothing here, and may mean something outside."""
        name, table = column.name, column.table
        if column.args.get("db") or column.args.get("catalog"):
            raise Refused("a column is named by its table and itself", column)
        if table:
            source = self.source(table)
            if source is None:
                return None
            found = source.find(name, column)
            if found is None:
                raise missing(name, source.labels(), f"in {source.alias}", column)
            return Field(found.name)
        merged = _match(name, self.merged)
        if merged is not None:
            return self.merged[merged][0]
        return self._anywhere(name, column)

    def source(self, alias: str) -> Source | None:
        exact = [each for each in self.sources if each.alias == alias]
        alike = [each for each in self.sources if each.alias.lower() == alias.lower()]
        return next(iter(exact or alike), None)

    def _anywhere(self, name: str, column: exp.Column) -> Expression | None:
        unknown = [each for each in self.sources if each.may_have(name)]
        known = [each for each in self.sources if not each.may_have(name)]
        found = [(each, hit) for each in known if (hit := each.find(name, column)) is not None]
        if len(found) > 1 or (found and unknown) or len(unknown) > 1:
            tables = [each.alias for each, _ in found] + [each.alias for each in unknown]
            message = f"column {quoted(name)} may be of {' or of '.join(tables)}"
            raise Refused(message, column, f"write {tables[0]}.{name}")
        if found:
            return Field(found[0][1].name)
        if unknown:
            hit = unknown[0].find(name, column)
            return None if hit is None else Field(hit.name)
        return None

    def all_labels(self) -> list[str]:
        return [label for each in self.sources for label in each.labels()]

    def columns(self) -> list[Column]:
        """Every column that has been asked for so far, for types."""
        return [column for each in self.sources for column in each.relation.columns]


def missing(name: str, known: Iterable[str], where: str, node: exp.Expr | None) -> Refused:
    """There is no such column."""
    names = list(known)
    listed = "there is " + ", ".join(names[:20]) if names else ""
    return Refused(f"no column {quoted(name)} {where}".rstrip(), node, did_you_mean(name, names, listed))


def _match(name: str, known: Mapping[str, object]) -> str | None:
    if name in known:
        return name
    return next((each for each in known if each.lower() == name.lower()), None)
