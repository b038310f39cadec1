"""From the syntax tree to algebra: queries within queries, FROM, WITH, and operations on whole queries.

One SELECT is a `Block` (`blocks.py`); here is what surrounds it. A common table expression is read again at each
place that names it, so that columns have names of their own there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from query.plan import Expression, Field
from query.plan_hints import quoted
from query.wire.limits import COLUMNS_MAX
from ufl.sql import windows
from ufl.sql.blocks import Block, Pull
from ufl.sql.clauses import is_constant, limit_of, order_of
from ufl.sql.dialect import Continuous
from ufl.sql.errors import Refused, unsupported
from ufl.sql.kinds import cast_to, kind_of, united
from ufl.sql.names import Namer, Scope, Source
from ufl.sql.relations import (
    INNER,
    RIGHT,
    Column,
    Distinct,
    Filter,
    Found,
    Join,
    Ordered,
    OrderKey,
    Project,
    Recursive,
    Relation,
    Scan,
    SetOperation,
    Values,
    walk,
)
from ufl.sql.scalars import translate
from ufl.sql.sources import is_join_in_parentheses
from ufl.sql.steps import Steps
from ufl.sql.tables import TableInfo

#: Queries within queries, common table expressions included; each is planned by itself.
NESTING_MAX = 32
#: Relations of one query; inlined common table expressions may multiply.
BLOCKS_MAX = 512
#: Rows of a VALUES list.
VALUES_ROWS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Cte:
    """A name for a query; `found` is set for a recursive one while its step is read."""

    node: exp.Expr
    labels: tuple[str, ...]
    env: Env
    recursive: bool = False
    found: Found | None = None


@dataclass(frozen=True, slots=True)
class Env:
    """Names of queries that may be used at one place, and how deep that place is."""

    ctes: Mapping[str, Cte] = field(default_factory=dict)
    depth: int = 0

    def deeper(self, node: exp.Expr) -> Env:
        if self.depth >= NESTING_MAX:
            raise Refused(f"queries nest deeper than {NESTING_MAX} (NESTING_MAX)", node)
        return replace(self, depth=self.depth + 1)


class Binder:
    """Reads one query. `tables` is what the catalog knows; None when it was not asked."""

    def __init__(self, tables: Mapping[str, TableInfo] | None, steps: Steps | None = None) -> None:
        self.steps = steps or Steps()
        self.namer = Namer(self.steps)
        #: Tables that the catalog was asked for and does not know.
        self.unknown: dict[str, None] = {}
        self._asked = tables is not None
        self._tables = tables or {}
        self._blocks = 0
        #: Recursions whose own rows have been used in their step already.
        self._placed: list[Found] = []

    def root(self, node: exp.Expr) -> Relation:
        """The whole query, its columns under the names that people see."""
        relation = self.query(node, Env(), None, None)
        if relation.open:
            return relation
        columns = relation.columns
        if len(columns) > COLUMNS_MAX:
            raise Refused(f"the result has more than {COLUMNS_MAX} columns (COLUMNS_MAX)", node)
        outputs: dict[str, Expression] = {}
        numbers: dict[str, int] = {}
        for column in columns:
            label = column.label
            while label in outputs:
                numbers[column.label] = numbers.get(column.label, 0) + 1
                label = f"{column.label}_{numbers[column.label]}"
            outputs[label] = Field(column.name)
        kinds = [column.kind for column in columns]
        shape = [Column(label, label, kind) for label, kind in zip(outputs, kinds, strict=True)]
        return Project(shape, relation, outputs)

    def query(self, node: exp.Expr, env: Env, outer: Scope | None, pull: Pull | None) -> Relation:
        """Any query. `outer` is the scope around a subquery, `pull` takes conditions on it out of the subquery."""
        self._blocks += 1
        if self._blocks > BLOCKS_MAX:
            raise Refused(f"more than {BLOCKS_MAX} queries within the query (BLOCKS_MAX)", node)
        env = self._with(node, env.deeper(node))
        if isinstance(node, exp.Select):
            return Block(self, node, env, outer, pull).relation_of()
        if isinstance(node, exp.Subquery):
            if is_join_in_parentheses(node):
                inner = self.query(
                    exp.select("*").from_(exp.Subquery(this=node.this.copy())), env, outer, pull
                )
            else:
                inner = self.query(node.this, env, outer, pull)
            return self._modified(node, inner)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, env)
        if isinstance(node, exp.Values):
            return self._modified(node, self._values(node))
        if isinstance(node, exp.Table):
            return self.query(exp.select("*").from_(node.copy()), env, outer, pull)
        if isinstance(node, Continuous):
            raise unsupported("EVERY inside a query", node, "it stands at the end of the whole query")
        if not isinstance(node, exp.DML | exp.DDL | exp.Command | exp.Query):
            raise Refused("this is no query", node, "a query begins with SELECT")
        raise unsupported(f"{node.key.upper()}", node, "pier answers SELECT queries")

    # -- WITH

    def _with(self, node: exp.Expr, env: Env) -> Env:
        given = node.args.get("with_")
        if given is None:
            return env
        names: set[str] = set()
        for cte in given.expressions:
            if cte.alias.lower() in names:
                raise Refused(f"there are two queries {quoted(cte.alias)} in this WITH", cte)
            names.add(cte.alias.lower())
            labels = tuple(column.name for column in cte.args["alias"].columns)
            recursive = bool(given.args.get("recursive")) and _names(cte.this, cte.alias)
            env = replace(env, ctes={**env.ctes, cte.alias.lower(): Cte(cte.this, labels, env, recursive)})
        return env

    def _cte(self, cte: Cte, name: str, node: exp.Expr) -> Relation:
        if cte.found is not None:
            if any(each is cte.found for each in self._placed):
                raise unsupported(f"naming {name} twice in its own recursive part", node)
            self._placed.append(cte.found)
            return cte.found
        if cte.recursive:
            return self._recursive(cte, name)
        return self.relabelled(self.query(cte.node, cte.env, None, None), cte.labels, cte.node)

    def _recursive(self, cte: Cte, name: str) -> Relation:
        union = cte.node
        if not isinstance(union, exp.Union):
            raise unsupported("a recursive query that is not a UNION", union)
        if any(union.args.get(clause) for clause in ("order", "limit", "offset", "with_")):
            raise unsupported("ORDER BY, LIMIT or WITH on a recursive UNION", union)
        base = self.relabelled(self.query(union.this, cte.env, None, None), cte.labels, union)
        if base.open:
            raise Refused(f"the columns of {name} must be named", union.this, "in place of SELECT *")
        # The first part says the types, as in DuckDB: rows found later must fit them, or an answer had two schemas.
        shape, inner = (
            [Column(self.namer.fresh(f"{name}.{each.label}"), each.label, each.kind) for each in base.columns]
            for _ in range(2)
        )
        found = Found(inner)
        inside = replace(
            cte.env, ctes={**cte.env.ctes, name.lower(): replace(cte, found=found, recursive=False)}
        )
        step = self.query(union.expression, inside, None, None)
        _require_linear(step, found, name, union.expression)
        _require_types(base, step, name, union.this)
        sources = [self._aligned(each, shape, union) for each in (base, step)]
        return Recursive(shape, sources[0], sources[1], found, bool(union.args.get("distinct")))

    # -- FROM

    def source(self, node: exp.Expr, env: Env, star: bool) -> Source:
        """One thing in FROM. `star`: all columns are wanted, and nothing else is in FROM."""
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Values):
            given = node.this.copy()
            given.set("alias", node.args.get("alias"))
            return self.source(given, env, star)
        if isinstance(node, exp.Table):
            return self._table(node, env, star)
        if isinstance(node, exp.Subquery | exp.Values):
            alias = node.args.get("alias")
            relation = self.query(node, env, None, None)
            labels = [column.name for column in alias.columns] if alias is not None else []
            relation = self.relabelled(relation, labels, node)
            return Source(node.alias or self.namer.fresh("subquery"), relation, self.namer)
        if isinstance(node, exp.Paren):
            return self.source(node.this, env, star)
        raise unsupported(f"{node.key.upper()} in FROM", node)

    def _table(self, node: exp.Table, env: Env, star: bool) -> Source:
        if isinstance(node.this, exp.Anonymous):
            name = node.this.name.upper()
            if node.args.get("alias") is not None and node.args["alias"].columns:
                raise unsupported(f"renaming the columns of {name}", node)
            if name in ("TUMBLE", "HOP"):
                return self._windowed(node, env)
            raise unsupported(f"the table function {name}", node)
        alias = node.alias or node.name
        cte = env.ctes.get(node.name.lower())
        columns = node.args["alias"].columns if node.args.get("alias") is not None else []
        labels = [column.name for column in columns]
        if cte is not None:
            relation = self.relabelled(self._cte(cte, node.name, node), labels, node)
            return Source(alias, relation, self.namer)
        if labels:
            raise unsupported("renaming the columns of a table in FROM", node)
        return self._stored(node.name, alias, star)

    def _windowed(self, node: exp.Table, env: Env) -> Source:
        window = windows.window_of(node.this)
        if window.table.lower() in env.ctes:
            raise unsupported(f"{node.this.name.upper()} over a name of WITH", node)
        source = self._stored(window.table, node.alias or window.table, star=False)
        assert isinstance(source.relation, Project)
        scan = source.relation.source
        assert isinstance(scan, Scan)
        source.relation.source = windows.windowed(scan, window)
        source.computed = windows.columns(window, source.known, node)
        # A continuous query must know when a window is over, whether or not it is asked for.
        end = source.find(windows.END, node)
        assert end is not None
        scan.window_end, scan.window_s = end.name, window.size_s
        return source

    def _stored(self, name: str, alias: str, star: bool) -> Source:
        match = name if name in self._tables else None
        match = match or next((each for each in self._tables if each.lower() == name.lower()), None)
        info = None if match is None else self._tables[match]
        if info is None and self._asked:
            self.unknown[name] = None
        known = None if info is None or not info.columns else info.columns
        scan = Scan(match or name, *(() if info is None else (info.kinds, info.keys, info)))
        if star and known is None:
            return Source(alias, scan, self.namer)
        left_out = 0 if info is None else info.columns_left_out
        return Source(alias, Project([], scan, {}), self.namer, known, left_out)

    def relabelled(self, relation: Relation, labels: Sequence[str], node: exp.Expr) -> Relation:
        """The relation with the column names of `AS t(a, b)`; fewer names than columns rename the first."""
        if not labels:
            return relation
        if relation.open or len(labels) > len(relation.columns):
            raise Refused(f"{len(labels)} names for {len(relation.columns)} columns", node)
        named = [*labels, *(column.label for column in relation.columns[len(labels) :])]
        shape = [replace(column, label=label) for column, label in zip(relation.columns, named, strict=True)]
        return Project(shape, relation, {column.name: Field(column.name) for column in shape})

    # -- whole queries

    def _values(self, node: exp.Values) -> Relation:
        rows = []
        if len(node.expressions) > VALUES_ROWS_MAX:
            raise Refused(f"VALUES has more than {VALUES_ROWS_MAX} rows (VALUES_ROWS_MAX)", node)
        for each in node.expressions:
            cells = each.expressions if isinstance(each, exp.Tuple) else [each]
            rows.append([translate(cell, NoColumns(self.steps)) for cell in cells])
        width = len(rows[0])
        if any(len(row) != width for row in rows):
            raise Refused("the rows of VALUES differ in length", node)
        shape = []
        for at in range(width):
            kind = united([kind_of(row[at], (), node) for row in rows])
            shape.append(Column(self.namer.fresh(f"col{at}"), f"col{at}", kind))
        return Values(shape, rows)

    def _set_operation(self, node: exp.SetOperation, env: Env) -> Relation:
        left, right = (self.query(each, env, None, None) for each in (node.this, node.expression))
        if left.open or right.open:
            which = node.this if left.open else node.expression
            raise Refused("the columns must be named here, in place of SELECT *", which)
        if len(left.columns) != len(right.columns):
            counts = f"{len(left.columns)} and {len(right.columns)}"
            raise Refused(f"both sides need the same number of columns, not {counts}", node)
        kind = node.key.lower()
        shape = []
        for one, other in zip(left.columns, right.columns, strict=True):
            merged = united([one.kind, other.kind])
            if merged is None and None not in (one.kind, other.kind):
                raise Refused(f"column {quoted(one.label)} has types that do not go together", node)
            shape.append(Column(self.namer.fresh(one.label), one.label, merged))
        sources = [self._aligned(each, shape, node) for each in (left, right)]
        relation: Relation = SetOperation(shape, kind, not node.args.get("distinct"), sources)
        if kind == "union" and node.args.get("distinct"):
            relation = Distinct(SetOperation(shape, kind, True, sources))
        return self._modified(node, relation)

    def _aligned(self, relation: Relation, shape: Sequence[Column], node: exp.Expr) -> Relation:
        """The relation with the names and types of a set operation's columns."""
        if len(relation.columns) != len(shape):
            counts = f"{len(shape)} and {len(relation.columns)}"
            raise Refused(f"both sides need the same number of columns, not {counts}", node)
        outputs: dict[str, Expression] = {}
        for column, want in zip(relation.columns, shape, strict=True):
            expression: Expression = Field(column.name)
            if want.kind is not None:
                expression = cast_to(expression, column.kind, want.kind)
            outputs[want.name] = expression
        return Project(list(shape), relation, outputs)

    def _modified(self, node: exp.Expr, relation: Relation) -> Relation:
        """ORDER BY and LIMIT behind a set operation or a query in parentheses: over its columns alone."""
        limit, offset = limit_of(node)
        order = order_of(node, len(relation.columns))
        keys = [self._output_key(each, relation) for each in order]
        if not keys and limit is None and not offset:
            return relation
        return Ordered(relation, keys, limit, offset)

    def _output_key(self, node: exp.Expr, relation: Relation) -> OrderKey:
        key = node.this
        if is_constant(key):
            column = relation.columns[position(key, len(relation.columns))]
        elif isinstance(key, exp.Column) and not key.table:
            found = Source("", relation, self.namer).find(key.name, key)
            if found is None:
                raise Refused(f"no column {quoted(key.name)} in the result", key)
            column = found
        else:
            raise unsupported("ordering the result of a set operation by an expression", key)
        return OrderKey(Field(column.name), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


class NoColumns:
    """The place of an expression that may not refer to anything."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def column(self, node: exp.Column) -> Expression:
        raise Refused(f"no column {quoted(node.name)} here", node)

    def aggregate(self, node: exp.Expr) -> Expression:
        raise Refused("there is nothing to aggregate here", node)

    def subquery(self, node: exp.Expr) -> Expression:
        raise unsupported("a subquery here", node)


def position(node: exp.Expr, count: int) -> int:
    """A column by its number, from 1, as an index."""
    number = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
    if not number.isdigit() or len(number) > 9 or not 1 <= int(number) <= count:
        raise Refused(f"there is no column {node.sql(dialect='pier')}: the query has {count}", node)
    return int(number) - 1


def _names(node: exp.Expr, name: str) -> bool:
    """Whether a query names a table of that name."""
    return any(table.name.lower() == name.lower() for table in node.find_all(exp.Table))


def _require_linear(step: Relation, found: Found, name: str, node: exp.Expr) -> None:
    """The rows found before may be filtered, projected and joined, each on its own; so the order in which nodes
    find them does not matter."""
    relation = step
    while relation is not found:
        below = [each for each in _ways(relation) if any(part is found for part in walk(each))]
        if len(below) != 1:
            raise unsupported(f"using {name} this way in its own recursive part", node)
        relation = below[0]


def _require_types(base: Relation, step: Relation, name: str, node: exp.Expr) -> None:
    """A column that is only NULL at first has no type that other values could be given."""
    for one, other in zip(base.columns, step.columns, strict=False):
        if one.kind is not None and pa.types.is_null(one.kind) and other.kind != one.kind:
            hint = "say which, as CAST(NULL AS bigint)"
            raise Refused(f"column {quoted(one.label)} of {name} begins as NULL, of no type", node, hint)


def _ways(relation: Relation) -> Sequence[Relation]:
    """Where rows found before may come from, below a relation."""
    if isinstance(relation, Project | Filter):
        return (relation.source,)
    if isinstance(relation, Join):
        if relation.kind == INNER:
            return (relation.left, relation.right)
        return (relation.right,) if relation.kind == RIGHT else (relation.left,)
    return ()
