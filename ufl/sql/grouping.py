"""GROUP BY and aggregates: what the groups are, what is computed of each, and what may be said of them afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from query.aggregate import find
from query.plan import Constant, Expression, Field, Function, fields_of
from ufl.sql.errors import Refused, unsupported
from ufl.sql.kinds import aggregate_kind, kind_of, kinds_of
from ufl.sql.names import Spelled
from ufl.sql.relations import Aggregate, Call, Column, Relation, replaced
from ufl.sql.scalars import aggregates_in, translate

if TYPE_CHECKING:
    from ufl.sql.blocks import Block, Item

#: For these it makes no difference whether equal arguments count once.
_IDEMPOTENT = ("min", "max", "bool_and", "bool_or")
_NULL = Constant("", "null")


class Groups:
    """The grouping of one SELECT; replaces the block's relation by its groups."""

    def __init__(self, block: Block, items: list[Item]) -> None:
        self._block = block
        self._keys: dict[Expression, Expression] = {}
        self._calls: dict[Call, str] = {}
        self._labels: Spelled | None = None
        #: The relation whose columns were looked at last, and their names.
        self._known: tuple[Relation, frozenset[str]] | None = None
        #: Names of the keys that were added for the query around.
        self.pulled: list[str] = []
        keys: dict[str, Expression] = {}
        shape: list[Column] = []
        grouped = self._key_expressions(items)
        calls = [(node, self._call(node)) for each in self._nodes(items) for node in aggregates_in(each)]
        # Now every column has been asked for, and has a type if it ever will.
        self._kinds = kinds_of(block.relation.columns)
        for node, expression in grouped:
            self._add_key(node, expression, keys, shape)
        if block.pull is not None:
            for _, inner in block.pull.equal:
                self.pulled.append(self._add_key(None, inner, keys, shape))
        for node, call in calls:
            self._add_call(node, call, shape)
        block.relation = Aggregate(
            shape, block.relation, keys, {name: call for call, name in self._calls.items()}
        )
        if block.pull is not None and block.node.args.get("group") is None:
            self._default(items)

    def aggregate(self, node: exp.Expr) -> Expression:
        """The column of the groups that holds an aggregate."""
        return Field(self._calls[self._call(node)])

    def rewritten(self, expression: Expression, node: exp.Expr) -> Expression:
        """An expression over groups: its parts are keys and aggregates, or it has no answer for a group."""
        done = replaced(expression, self._keys)
        relation = self._block.relation
        if self._known is None or self._known[0] is not relation:
            self._known = relation, frozenset(relation.names)
        for name in fields_of(done):
            if name not in self._known[1]:
                label = name.rpartition(".")[2]
                hint = f"group by {label} too, or use an aggregate such as max({label})"
                raise Refused(f"column {label!r} is neither grouped by nor aggregated", node, hint)
        return done

    def _nodes(self, items: list[Item]) -> list[exp.Expr]:
        args = self._block.node.args
        nodes = [item.node for item in items if item.expression is None]
        return [*nodes, *(args[clause] for clause in ("having", "order") if args.get(clause) is not None)]

    def _key_expressions(self, items: list[Item]) -> list[tuple[exp.Expr, Expression]]:
        group = self._block.node.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            plain = [item for item in items if not aggregates_in(item.node)]
            return [(item.node, self._item(item)) for item in plain]
        return [(node, self._key(node, items)) for node in group.expressions]

    def _key(self, node: exp.Expr, items: list[Item]) -> Expression:
        from ufl.sql.binder import position

        if isinstance(node, exp.Literal) and not node.is_string:
            placed = items[position(node, len(items))]
            if aggregates_in(placed.node):
                raise Refused("a group cannot be made by an aggregate", node)
            return self._item(placed)
        item = self._aliased(node, items)
        if item is not None:
            if aggregates_in(item.node):
                raise Refused("a group cannot be made by an aggregate", node)
            return self._item(item)
        return self._block.translate(node)

    def _aliased(self, node: exp.Expr, items: list[Item]) -> Item | None:
        """What a name means that is the select list's and not a column: only where no column is known by it."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        if self._labels is None:
            self._labels = Spelled(item.label for item in items)
        places = self._labels.alike(node.name)
        if not places or not isinstance(items[places[0]].node, exp.Alias):
            return None
        item, scope = items[places[0]], self._block.scope
        if any(column.name.lower() == node.name.lower() for column in item.node.find_all(exp.Column)):
            return None
        if any(source.find(node.name) is not None for source in scope.sources if not source.is_unknown):
            return None
        return item

    def _item(self, item: Item) -> Expression:
        return item.expression if item.expression is not None else self._block.translate(item.node)

    def _add_key(
        self, node: exp.Expr | None, expression: Expression, keys: dict[str, Expression], shape: list[Column]
    ) -> str:
        known = self._keys.get(expression)
        if isinstance(known, Field):
            return known.name
        kind = kind_of(expression, self._kinds, node)
        label = expression.name if isinstance(expression, Field) else "group"
        name = self._block.binder.namer.fresh(label)
        keys[name] = expression
        self._keys[expression] = Field(name)
        shape.append(Column(name, "", kind))
        return name

    def _add_call(self, node: exp.Expr, call: Call, shape: list[Column]) -> None:
        if call not in self._calls:
            name = self._calls[call] = self._block.binder.namer.fresh(call.function)
            kind = aggregate_kind(call, self._kinds, node)
            shape.append(Column(name, "", kind))

    def _call(self, node: exp.Expr) -> Call:
        block = self._block
        condition = None
        if isinstance(node, exp.Filter):
            condition = translate(node.expression.this, _Rows(block))
            node = node.this
        function = node.name.lower()
        arguments = list(node.expressions)
        distinct = False
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            distinct = function not in _IDEMPOTENT
            arguments = list(arguments[0].expressions)
            if len(arguments) != 1 or isinstance(arguments[0], exp.Star):
                raise unsupported("DISTINCT over several columns in an aggregate", node)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            if function != "count":
                raise Refused(f"{function}(*) has no meaning", node)
            arguments = []
        args = tuple(translate(each, _Rows(block)) for each in arguments)
        kind = find(function, len(args))
        least, most = (0, 0) if kind is None else kind.ARGUMENTS
        if kind is None or not least <= len(args) <= most:
            raise Refused(f"{function} does not take {len(args)} arguments", node)
        if condition is not None:
            args = (Function("case", (condition, args[0] if args else Constant("true", "bool"))), *args[1:])
        return Call("count" if kind.NAME == "count_all" else kind.NAME, args, distinct)

    def _default(self, items: list[Item]) -> None:
        """What the select list gives over no rows: counts are zero, everything else NULL."""
        pull = self._block.pull
        assert pull is not None
        pull.aggregate = True
        if len(items) != 1 or items[0].expression is not None or not pull.correlated:
            return
        nothing: dict[Expression, Expression] = {
            Field(name): Constant("0", "long") if call.function == "count" else _NULL
            for call, name in self._calls.items()
        }
        self._block.groups = self
        pull.default = replaced(self._block.final(items[0].node), nothing)
        for name in fields_of(pull.default):
            raise Refused(f"column {name.rpartition('.')[2]!r} is not aggregated", items[0].node)


class _Rows:
    """The place of an aggregate's argument: the rows before they are grouped."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.steps = block.steps

    def column(self, node: exp.Column) -> Expression:
        return self._block.row_column(node)

    def aggregate(self, node: exp.Expr) -> Expression:
        raise Refused("an aggregate cannot be aggregated again", node, "use a subquery in FROM")

    def subquery(self, node: exp.Expr) -> Expression:
        raise unsupported("a subquery inside an aggregate", node, "compute it in a subquery in FROM")
