"""A query as algebra: what the binder makes of the syntax tree, what lowering turns into opgraphs.

Every column inside a query has a name of its own (`fw.src`, `n#2`), unique in the whole query, so that joining,
moving a condition and pulling a subquery apart never confuse two columns. Labels are what people see.

A relation is *open* when its columns are not known before it runs: a table that no catalog describes, read
with `SELECT *`. Its columns keep the names they have in the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from query.plan import Expression, Function
from ufl.sql.tables import TableInfo

INNER, LEFT, RIGHT, FULL, SEMI, ANTI = "inner", "left", "right", "full", "semi", "anti"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation; `kind` is its type where that is known before running."""

    name: str
    label: str
    kind: pa.DataType | None = None


class Relation:
    """Rows with columns."""

    __slots__ = ()

    @property
    def columns(self) -> list[Column]:
        raise AssertionError("every kind of relation says its columns")

    @property
    def open(self) -> bool:
        return False

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


class _Passing(Relation):
    """A relation with the columns of its source."""

    __slots__ = ()
    source: Relation

    @property
    def columns(self) -> list[Column]:
        return self.source.columns

    @property
    def open(self) -> bool:
        return self.source.open


class _Shaped(Relation):
    """A relation with columns of its own."""

    __slots__ = ()
    shape: list[Column]

    @property
    def columns(self) -> list[Column]:
        return self.shape


@dataclass(slots=True)
class Scan(Relation):
    """A table as it lies on the nodes, in their own sources or published into the DHT. Always open."""

    table: str
    #: Where to look: source, published, or both; as the catalog says it.
    places: tuple[str, ...] = ("source", "published")
    #: Columns by which published rows are placed, when known.
    keys: tuple[str, ...] = ()
    #: All that the dictionary knows.
    info: TableInfo | None = None
    #: For TUMBLE and HOP: the column that says when a row's window ends, and the window's length.
    window_end: str = ""
    window_s: float = 0.0
    #: Columns that the nodes which read its rows add: where that was.
    origin: list[str] = field(default_factory=list)

    @property
    def columns(self) -> list[Column]:
        return []

    @property
    def open(self) -> bool:
        return True


@dataclass(slots=True)
class Repeated(_Passing):
    """Every row of a table so many times, the copies numbered from 0 in one more column. Open, as the table is."""

    source: Scan
    times: int
    number: str


@dataclass(slots=True)
class Ready(_Shaped):
    """What has been lowered already, for those above it; `fragment` is lowering's."""

    shape: list[Column]
    fragment: object
    known: bool = True

    @property
    def open(self) -> bool:
        return not self.known


@dataclass(slots=True)
class Values(_Shaped):
    """Rows that the query spells out."""

    shape: list[Column]
    rows: list[list[Expression]]


@dataclass(slots=True)
class Project(_Shaped):
    """Columns computed from those of the source. With `keep`, the source's own stay in front (open relations)."""

    shape: list[Column]
    source: Relation
    outputs: dict[str, Expression]
    keep: bool = False

    @property
    def open(self) -> bool:
        return self.keep


@dataclass(slots=True)
class Filter(_Passing):
    source: Relation
    condition: Expression
    #: Whether the parts of the condition are tested in an order that is found while they run.
    eddy: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate of a group: function, arguments, and whether equal arguments count once."""

    function: str
    args: tuple[Expression, ...]
    distinct: bool = False


@dataclass(slots=True)
class Aggregate(_Shaped):
    """One row per value of the keys; without keys one row."""

    shape: list[Column]
    source: Relation
    keys: dict[str, Expression]
    calls: dict[str, Call]


@dataclass(slots=True)
class Distinct(_Passing):
    source: Relation


@dataclass(frozen=True, slots=True)
class OrderKey:
    expression: Expression
    descending: bool
    nulls_first: bool

    @property
    def text(self) -> str:
        return f"{'desc' if self.descending else 'asc'} nulls {'first' if self.nulls_first else 'last'}"


@dataclass(slots=True)
class Ordered(_Passing):
    """Rows in order, the first of them, or both."""

    source: Relation
    keys: list[OrderKey]
    limit: int | None = None
    offset: int = 0


@dataclass(slots=True)
class Join(Relation):
    """Pairs of rows with equal keys for which the condition holds."""

    left: Relation
    right: Relation
    kind: str = INNER
    #: Expressions over the left and over the right side that must be equal.
    keys: list[tuple[Expression, Expression]] = field(default_factory=list)
    condition: Expression | None = None
    #: The strategy that the author wants; empty leaves it to the planner.
    hint: str = ""

    @property
    def columns(self) -> list[Column]:
        """Tables are asked for more columns while a query is read, so this is worked out when it is wanted."""
        return self.left.columns if self.kind in (SEMI, ANTI) else [*self.left.columns, *self.right.columns]

    @property
    def open(self) -> bool:
        return self.left.open or (self.right.open and self.kind not in (SEMI, ANTI))


@dataclass(slots=True)
class Single(_Passing):
    """At most one row for each value of the keys; more are an error. Without keys exactly one, of NULLs if need be."""

    source: Relation
    keys: list[str] = field(default_factory=list)


@dataclass(slots=True)
class SetOperation(_Shaped):
    """`union`, `intersect` or `except` of relations with the same column names, as bags when `bag`."""

    shape: list[Column]
    kind: str
    bag: bool
    sources: list[Relation]


@dataclass(slots=True)
class Found(_Shaped):
    """Inside the step of a recursion: the rows found before."""

    shape: list[Column]


@dataclass(slots=True)
class Recursive(_Shaped):
    """The rows of `base`, and those that `step` makes of rows found before, until there are no new ones."""

    shape: list[Column]
    base: Relation
    step: Relation
    #: The place in `step` where rows found before come in.
    found: Found
    #: Whether equal rows are one row: UNION, not UNION ALL.
    distinct: bool = True


def sources_of(relation: Relation) -> Sequence[Relation]:
    """What a relation is made of."""
    if isinstance(relation, Project | Filter | Aggregate | Distinct | Ordered | Single | Repeated):
        return (relation.source,)
    if isinstance(relation, Join):
        return (relation.left, relation.right)
    if isinstance(relation, SetOperation):
        return relation.sources
    if isinstance(relation, Recursive):
        return (relation.base, relation.step)
    return ()


def is_chain(relation: Relation) -> bool:
    """Whether a query is about one table, without joins and operations on whole queries."""
    while not isinstance(relation, Scan):
        below = sources_of(relation)
        if len(below) != 1 or isinstance(relation, Single):
            return False
        relation = below[0]
    return True


def can_be_read_again(relation: Relation) -> bool:
    """Whether a relation is a table with conditions and columns, which every node can scan twice."""
    while isinstance(relation, Filter | Project):
        relation = relation.source
    return isinstance(relation, Scan)


def walk(relation: Relation) -> Iterator[Relation]:
    """The relation and everything below it."""
    frontier = [relation]
    while frontier:
        each = frontier.pop()
        yield each
        frontier.extend(sources_of(each))


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    """All of the conditions as one; None for none."""
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Function("and", tuple(conditions))


def conjuncts(condition: Expression) -> list[Expression]:
    """The conditions that must all hold."""
    if isinstance(condition, Function) and condition.name == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]


def factored(condition: Expression) -> list[Expression]:
    """A condition as conditions that must all hold, with what all branches of an OR have in common in front of it:
    `(a AND b) OR (a AND c)` is a, and b OR c. So an equality that was written into each branch is a join key."""
    return [part for each in conjuncts(condition) for part in _common_first(each)]


def _common_first(condition: Expression) -> list[Expression]:
    if not isinstance(condition, Function) or condition.name != "or":
        return [condition]
    branches = [dict.fromkeys(conjuncts(arg)) for arg in condition.args]
    common = {part: None for part in branches[0] if all(part in branch for branch in branches[1:])}
    rests = [conjunction([part for part in branch if part not in common]) for branch in branches]
    if not common or None in rests:
        # A branch that asks for nothing else makes the others needless.
        return [*common] or [condition]
    return [*common, Function("or", tuple(rest for rest in rests if rest is not None))]


def replaced(expression: Expression, by: dict[Expression, Expression]) -> Expression:
    """The expression with parts replaced, the largest first."""
    if expression in by:
        return by[expression]
    if isinstance(expression, Function):
        return Function(expression.name, tuple(replaced(arg, by) for arg in expression.args))
    return expression
