"""One SELECT: FROM, WHERE, GROUP BY, HAVING, the select list, DISTINCT, ORDER BY and LIMIT, in that order.

A block carries the relation made so far; each clause makes it into the next one. Expressions are translated at a
moment in that life: before grouping their columns are those of FROM, after it they must be group keys or aggregates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from query.operators.scan.origin import ORIGINS
from query.plan import Expression, Field, fields_of
from query.plan_hints import quoted
from ufl.sql import sources, subqueries
from ufl.sql.clauses import is_constant, is_star, limit_of, order_of
from ufl.sql.eddies import mark_filters
from ufl.sql.errors import Refused, unsupported
from ufl.sql.grouping import Groups
from ufl.sql.hints import join_hints
from ufl.sql.kinds import condition_of, kind_of, kinds_of
from ufl.sql.names import Scope, missing
from ufl.sql.pushdown import filtered
from ufl.sql.relations import (
    Column,
    Distinct,
    Ordered,
    OrderKey,
    Project,
    Relation,
    Values,
)
from ufl.sql.scalars import aggregates_in, splits, translate

if TYPE_CHECKING:
    from ufl.sql.binder import Binder, Env


@dataclass(slots=True)
class Pull:
    """What a subquery says about the query around it, taken out so that a join can say it (decorrelation)."""

    #: Whether the select list matters: EXISTS only asks for rows.
    exists: bool = False
    #: Equalities: an expression of the query around, and one of the subquery.
    equal: list[tuple[Expression, Expression]] = field(default_factory=list)
    #: Other conditions, over columns of both.
    others: list[Expression] = field(default_factory=list)
    #: Names in the subquery's result of its sides of the equalities.
    names: list[str] = field(default_factory=list)
    #: Whether the subquery is an aggregate without GROUP BY, which has a row also where there is nothing,
    aggregate: bool = False
    #: and its value then.
    default: Expression | None = None

    @property
    def correlated(self) -> bool:
        return bool(self.equal or self.others)


@dataclass(slots=True)
class Item:
    """One column of the select list."""

    label: str
    node: exp.Expr
    expression: Expression | None = None
    name: str = ""


class _Listed:
    """The select list, as ORDER BY may speak of it."""

    def __init__(self, items: list[tuple[Item, Expression]]) -> None:
        self.count = len(items)
        #: By expression, the first column that is it.
        self.places: dict[Expression, int] = {}
        self._aliases: dict[str, int] = {}
        self._labels: dict[str, list[int]] = {}
        for at, (item, expression) in enumerate(items):
            self.places.setdefault(expression, at)
            self._labels.setdefault(item.label.lower(), []).append(at)
            if isinstance(item.node, exp.Alias):
                self._aliases[item.label.lower()] = at

    def named(self, name: str) -> int | None:
        """Which column a name means: an alias before a column, of several the last, as DuckDB has it. A column that
        is selected from two tables is left to be told as ambiguous."""
        alike = self._labels.get(name.lower(), [])
        return self._aliases.get(name.lower(), alike[0] if len(alike) == 1 else None)


class Block:
    """One SELECT while it is read."""

    def __init__(
        self, binder: Binder, node: exp.Select, env: Env, outer: Scope | None, pull: Pull | None
    ) -> None:
        self.binder = binder
        self.steps = binder.steps
        self.node = node
        self.env = env
        self.scope = Scope(outer)
        self.hints = join_hints(node)
        self.pull = pull
        self.relation: Relation = Values([], [[]])
        self.groups: Groups | None = None
        self._outer_names: dict[str, None] = {}
        self._may_pull = False
        self._aliases: dict[str, exp.Alias] | None = None

    def relation_of(self) -> Relation:
        """The whole SELECT."""
        sources.read_from(self)
        where = self.node.args.get("where")
        if where is not None:
            self._where(where.this)
        if self.hints.eddy:
            mark_filters(self.relation)
        items = self._items()
        if self._is_grouped(items):
            self.groups = Groups(self, items)
            having = self.node.args.get("having")
            if having is not None:
                conditions = [self.final(part) for part in splits(having.this)]
                parts = zip(conditions, splits(having.this), strict=True)
                conditions = [condition_of(each, self.relation.columns, part) for each, part in parts]
                self.relation = filtered(self.relation, conditions)
        elif self.node.args.get("having") is not None:
            raise Refused("HAVING needs GROUP BY or an aggregate", self.node.args["having"])
        return self._output(items)

    # -- the place of an expression (scalars.Place)

    def translate(self, node: exp.Expr) -> Expression:
        return translate(node, self)

    def final(self, node: exp.Expr) -> Expression:
        """An expression above the grouping, if there is one."""
        return self.settled(translate(node, self), node)

    def settled(self, expression: Expression, node: exp.Expr) -> Expression:
        """An expression in terms of the relation as it stands: grouped or not."""
        return expression if self.groups is None else self.groups.rewritten(expression, node)

    def column(self, node: exp.Column) -> Expression:
        if self.groups is not None and any(source.is_unknown for source in self.scope.sources):
            # Above the groups a name is rather the select list's than a column nobody has heard of.
            found = self._alias(node)
            if found is not None:
                return found
        return self.row_column(node)

    def row_column(self, node: exp.Column) -> Expression:
        """A column of the rows before they are grouped."""
        found = self.scope.resolve(node)
        if found is not None:
            return found
        found = self._alias(node)
        if found is not None:
            return found
        outer = self.scope.outer
        around = None if outer is None else outer.resolve(node)
        if around is not None:
            if not self._may_pull:
                message = f"column {quoted(node.name)} of the query around this subquery"
                hint = "conditions of the subquery's own WHERE may name it"
                raise Refused(f"{message} cannot be used here", node, hint)
            assert outer is not None
            if any(s.relation.open for s in outer.sources) and any(
                s.relation.open for s in self.scope.sources
            ):
                raise Refused("the columns must be named here, in place of SELECT *", node)
            self._outer_names.update(dict.fromkeys(fields_of(around)))
            return around
        if node.name.lower() in ORIGINS and not self.scope.sources:
            raise Refused("there is no table here whose rows a node reads", node, "FROM a table")
        if node.table:
            tables = ", ".join(source.alias for source in self.scope.sources)
            raise Refused(f"there is no table {quoted(node.table)} here", node, f"there is {tables}")
        raise missing(node.name, self.scope.all_labels(), "here", node)

    def aggregate(self, node: exp.Expr) -> Expression:
        if self.groups is None:
            raise Refused("an aggregate cannot stand here", node, "use HAVING for conditions on groups")
        return self.groups.aggregate(node)

    def subquery(self, node: exp.Expr) -> Expression:
        return subqueries.value(self, node)

    def _alias(self, node: exp.Column) -> Expression | None:
        """A name of the select list, which DuckDB also allows in WHERE, GROUP BY and HAVING."""
        if node.table:
            return None
        if self._aliases is None:
            aliased = [item for item in self.node.expressions if isinstance(item, exp.Alias)]
            self._aliases = {item.alias.lower(): item for item in reversed(aliased)}
        item = self._aliases.get(node.name.lower())
        if item is None or any(part is node for part in item.walk()):
            return None
        return self.translate(item.this)

    # -- WHERE

    def _where(self, node: exp.Expr) -> None:
        plain: list[tuple[Expression, exp.Expr]] = []
        tests: list[subqueries.Test] = []
        for part in splits(node):
            test = subqueries.test_of(part)
            if test is not None:
                tests.append(test)
                continue
            if aggregates_in(part):
                raise Refused(
                    "an aggregate cannot stand in WHERE", part, "use HAVING for conditions on groups"
                )
            self._may_pull = self.pull is not None
            expression = self.translate(part)
            self._may_pull = False
            columns = [*self.relation.columns, *self._outer_columns()]
            plain.append((condition_of(expression, columns, part), part))
        self.relation = filtered(self.relation, [e for e, part in plain if not self._pulled(e, part)])
        for test in tests:
            subqueries.keep(self, test)

    def keep(self, node: exp.Expr) -> None:
        """Keeps the rows of the relation for which a condition with a subquery holds."""
        test = subqueries.test_of(node)
        if test is not None:
            subqueries.keep(self, test)
        else:
            expression = self.translate(node)
            self.relation = filtered(self.relation, [condition_of(expression, self.relation.columns, node)])

    def _outer_columns(self) -> list[Column]:
        return [] if self.scope.outer is None else self.scope.outer.columns()

    def _pulled(self, condition: Expression, node: exp.Expr) -> bool:
        """Takes a condition on the query around out of this one."""
        outer = [name for name in fields_of(condition) if name in self._outer_names]
        if not outer:
            return False
        assert self.pull is not None
        sides = subqueries.equality(condition, self._outer_names)
        if sides is not None:
            self.pull.equal.append(sides)
        else:
            self.pull.others.append(condition)
        return True

    # -- the select list

    def _items(self) -> list[Item]:
        if self.ignores_items() and not self._is_grouped([]) and not self.node.args.get("distinct"):
            return []
        items: list[Item] = []
        for node in self.node.expressions:
            if is_star(node):
                items.extend(sources.star_items(self, node))
            else:
                items.append(Item(label_of(node), node))
        return items

    def ignores_items(self) -> bool:
        """Whether only the number of rows matters: under EXISTS."""
        return self.pull is not None and self.pull.exists

    def _is_grouped(self, items: list[Item]) -> bool:
        if self.node.args.get("group") is not None:
            return True
        nodes = [*self.node.expressions, self.node.args.get("having"), self.node.args.get("order")]
        return any(aggregates_in(node) for node in nodes if node is not None)

    def _output(self, items: list[Item]) -> Relation:
        if any(item.label == "*" and item.expression is None for item in items):
            return self._open_output(items)
        namer = self.binder.namer
        shape: list[Column] = []
        outputs: dict[str, Expression] = {}
        before: list[tuple[Item, Expression]] = []
        for item in items:
            if item.expression is not None:
                expression = self.settled(item.expression, item.node)
            else:
                expression = self.final(item.node)
            before.append((item, expression))
        listed = _Listed(before)
        keys = [self._order_expression(each, listed) for each in self._order(len(items))]
        kinds = kinds_of(self.relation.columns)
        for item, expression in before:
            item.name = namer.fresh(item.label)
            kind = kind_of(expression, kinds, item.node)
            shape.append(Column(item.name, item.label, kind))
            outputs[item.name] = expression
        visible = list(shape)
        order = [self._order_key(node, key, items, outputs, shape, kinds) for node, key in keys]
        self._pull_columns(outputs, shape)
        return self._arranged(Project(shape, self.relation, outputs), visible, order)

    def _arranged(self, project: Project, visible: list[Column], order: list[OrderKey]) -> Relation:
        """DISTINCT, ORDER BY and LIMIT over the select list; columns only to order by are left out at the end."""
        relation: Relation = project
        names = self.pull.names if self.pull is not None else []
        pulled = [column for column in project.shape if column.name in names]
        if self.node.args.get("distinct") is not None:
            if len(project.shape) > len(visible) + len(pulled):
                message = "ORDER BY must name columns of the select list when there is DISTINCT"
                raise Refused(message, self.node.args["order"])
            relation = Distinct(relation)
        limit, offset = limit_of(self.node)
        if (limit is not None or offset) and self._pulls() and not self._is_plain_exists(limit, offset):
            raise unsupported("LIMIT or OFFSET in a subquery that depends on the query around", self.node)
        if (order or limit is not None or offset) and not self._pulls():
            relation = Ordered(relation, order, limit, offset)
        if len(project.shape) > len(visible) + len(pulled):
            shape = [*visible, *pulled]
            relation = Project(shape, relation, {column.name: Field(column.name) for column in shape})
        return relation

    def _pulls(self) -> bool:
        return self.pull is not None and self.pull.correlated

    def _is_plain_exists(self, limit: int | None, offset: int) -> bool:
        return self.pull is not None and self.pull.exists and not offset and bool(limit)

    def _pull_columns(self, outputs: dict[str, Expression], shape: list[Column]) -> None:
        """Columns that the join with the query around will need."""
        pull = self.pull
        if pull is None or not pull.correlated:
            return
        needed = [name for c in pull.others for name in fields_of(c) if name not in self._outer_names]
        if self.groups is not None and (pull.others or self.node.args.get("having") is not None):
            what = "HAVING" if not pull.others else "a condition other than ="
            raise unsupported(f"{what} on the query around in a subquery with aggregates", self.node)
        for number, (_, inner) in enumerate(pull.equal):
            name = self.binder.namer.fresh("key")
            expression = inner if self.groups is None else Field(self.groups.pulled[number])
            outputs[name] = expression
            shape.append(Column(name, "", kind_of(expression, self.relation.columns)))
            pull.names.append(name)
        kinds = {column.name: column.kind for column in self.relation.columns}
        for name in dict.fromkeys(needed):
            # Under its own name: the condition refers to it.
            outputs[name] = Field(name)
            shape.append(Column(name, "", kinds.get(name)))
            pull.names.append(name)

    def _open_output(self, items: list[Item]) -> Relation:
        """`SELECT *` from a table whose columns are not known: they pass as they are."""
        outputs: dict[str, Expression] = {}
        for item in items:
            if item.label != "*" or item.expression is not None:
                outputs[item.label] = self.translate(item.node)
        keys = []
        for each in self._order(0):
            name = each.this.name if isinstance(each.this, exp.Column) and not each.this.table else ""
            expression = outputs.get(name) or self.translate(each.this)
            keys.append(OrderKey(expression, bool(each.args.get("desc")), bool(each.args.get("nulls_first"))))
        relation = self.relation
        limit, offset = limit_of(self.node)
        distinct = self.node.args.get("distinct") is not None
        if outputs and not distinct and (keys or limit is not None or offset):
            relation, keys, limit, offset = Ordered(relation, keys, limit, offset), [], None, 0
        if outputs:
            relation = Project([Column(name, name) for name in outputs], relation, outputs, keep=True)
        if distinct:
            relation = Distinct(relation)
        return Ordered(relation, keys, limit, offset) if keys or limit is not None or offset else relation

    # -- ORDER BY

    def _order(self, columns: int) -> list[exp.Expr]:
        return [] if self.ignores_items() else order_of(self.node, columns)

    def _order_expression(self, node: exp.Expr, listed: _Listed) -> tuple[exp.Expr, Expression | int]:
        """What a key means: the number of a column of the select list, or an expression."""
        from ufl.sql.binder import position

        key = node.this
        if is_constant(key):
            return node, position(key, listed.count)
        if isinstance(key, exp.Column) and not key.table:
            named = listed.named(key.name)
            if named is not None:
                return node, named
        expression = self.final(key)
        return node, listed.places.get(expression, expression)

    def _order_key(
        self,
        node: exp.Expr,
        key: Expression | int,
        items: list[Item],
        outputs: dict[str, Expression],
        shape: list[Column],
        kinds: Mapping[str, pa.DataType | None],
    ) -> OrderKey:
        if isinstance(key, int):
            name = items[key].name
        else:
            name = self.binder.namer.fresh("order")
            outputs[name] = key
            shape.append(Column(name, "", kind_of(key, kinds, node)))
        return OrderKey(Field(name), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def label_of(node: exp.Expr) -> str:
    """What a column of the select list is called: its alias, its name, or its text."""
    if isinstance(node, exp.Alias | exp.Column):
        return str(node.alias_or_name)
    return str(node.sql(dialect="pier", normalize_functions=False))
