"""FROM: what stands in it, how it is joined, and which columns a star stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from query.plan import Constant, Expression, Field, Function, fields_of
from query.plan_hints import quoted
from query.wire.limits import COLUMNS_MAX
from ufl.sql.clauses import is_star
from ufl.sql.errors import Refused, unsupported
from ufl.sql.kinds import condition_of, kind_of
from ufl.sql.names import Scope, Source, missing
from ufl.sql.pushdown import add_key, joined
from ufl.sql.relations import (
    ANTI,
    FULL,
    INNER,
    LEFT,
    RIGHT,
    SEMI,
    Column,
    Join,
    Relation,
    Values,
    conjunction,
)
from ufl.sql.scalars import is_query, splits

if TYPE_CHECKING:
    from ufl.sql.blocks import Block, Item

_TRUE = Constant("true", "bool")
_KINDS = {"": INNER, "LEFT": LEFT, "RIGHT": RIGHT, "FULL": FULL}


def read_from(block: Block) -> None:
    """FROM, as the block's first relation."""
    given = block.node.args.get("from_")
    if given is None:
        name = block.binder.namer.fresh("one")
        block.relation = Values([Column(name, "")], [[_TRUE]])
        return
    _tree(block, given.this, block.node.args.get("joins") or ())
    block.hints.require_used()


def _tree(block: Block, node: exp.Expr, joins: Sequence[exp.Join]) -> None:
    """What stands in FROM or between parentheses there, with what is joined to it, as the block's relation."""
    joins = [*(node.args.get("joins") or ()), *joins]
    alone = not joins and not block.scope.sources
    star = alone and any(is_star(item) for item in block.node.expressions) and not block.ignores_items()
    # A comma binds weaker than JOIN: what stands between two commas is joined first, and sees only itself.
    done: Relation | None = None
    first, hint = len(block.scope.sources), ""
    block.relation = _source(block, node, star)
    for join in joins:
        if _is_comma(join):
            done = block.relation if done is None else Join(done, block.relation, hint=hint)
            first, hint = len(block.scope.sources), block.hints.of(join.this.alias_or_name)
            block.relation = _joined_source(block, join.this)
        else:
            _join(block, join, first)
    if done is not None:
        block.relation = Join(done, block.relation, hint=hint)


def _source(block: Block, node: exp.Expr, star: bool) -> Relation:
    """One thing in FROM, its names added to the block's scope; a join in parentheses without a name for the whole
    adds the names of all that is in it."""
    if is_join_in_parentheses(node) and not node.alias:
        around = block.relation
        _tree(block, node.this, ())
        relation, block.relation = block.relation, around
        return relation
    source = block.binder.source(node, block.env, star)
    block.scope.add(source, node)
    return source.relation


def _joined_source(block: Block, node: exp.Expr) -> Relation:
    """What stands behind JOIN or a comma: the joins that the parser hangs on it belong to it."""
    if node.args.get("joins"):
        around = block.relation
        _tree(block, node, ())
        relation, block.relation = block.relation, around
        return relation
    return _source(block, node, star=False)


def is_join_in_parentheses(node: exp.Expr) -> bool:
    """Whether parentheses in FROM hold tables and joins, not a query."""
    if not isinstance(node, exp.Subquery):
        return False
    inside = node.this
    if isinstance(inside, exp.Subquery):
        return bool(inside.alias or inside.args.get("joins")) or is_join_in_parentheses(inside)
    return isinstance(inside, exp.Table)


def _join(block: Block, node: exp.Join, first: int) -> None:
    """Joins what stands behind the last comma, sources from `first` on, with one more."""
    side, kind = node.side.upper(), node.kind.upper()
    how = _KINDS.get(side)
    if kind in ("SEMI", "ANTI") and not side:
        how = SEMI if kind == "SEMI" else ANTI
    elif how is None or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise unsupported(f"{side} {kind} JOIN".strip(), node)
    lefts = block.scope.sources[first:]
    right = _joined_source(block, node.this)
    rights = block.scope.sources[first + len(lefts) :]
    on, using = node.args.get("on"), node.args.get("using")
    hint = block.hints.of(node.this.alias_or_name)
    everything = block.scope.sources
    block.scope.sources = everything[first:]
    join = _on(block, right, how, splits(on) if on is not None else [], on)
    block.scope.sources = everything
    join.hint = hint
    for name in using or ():
        _using(block, join, name, lefts, rights)
    if how in (SEMI, ANTI):
        block.scope.sources = [each for each in everything if each not in rights]


def _on(block: Block, right: Relation, how: str, parts: list[exp.Expr], node: exp.Expr | None) -> Join:
    """The join of the block's relation with another; it becomes the block's relation. Conditions that are or have
    subqueries come last: those of an inner join are conditions on its result, those of others belong to a side."""
    nested = [part for part in parts if any(is_query(each) for each in part.walk())]
    plain = [part for part in parts if not any(part is each for each in nested)]
    conditions = [condition_of(block.translate(part), block.scope.columns(), part) for part in plain]
    if how != INNER:
        for part in nested:
            right, nesting = _with_subquery(block, right, how, part)
            conditions.append(nesting)
    condition = conjunction(conditions)
    join = joined(block.relation, right, how, None if condition == _TRUE else condition, node)
    block.relation = join
    if how == INNER:
        for part in nested:
            block.keep(part)
    return join


def _with_subquery(block: Block, right: Relation, how: str, node: exp.Expr) -> tuple[Relation, Expression]:
    """A condition of an outer, semi or anti join that needs a subquery. What the subquery gives is joined to the side
    whose columns the condition names, one row to each of its rows, so that the join itself only compares."""
    left = block.relation
    pairs = block.relation = Join(left, right, INNER)
    condition = condition_of(block.translate(node), block.scope.columns(), node)
    joins: list[Join] = []
    below: Relation = block.relation
    while below is not pairs:
        assert isinstance(below, Join), "subqueries are joined to the relation there was"
        joins.append(below)
        below = below.left
    around = [name for each in joins for name in fields_of(*(key for key, _ in each.keys))]
    around += [name for each in joins if each.condition is not None for name in fields_of(each.condition)]
    names = {side: set(relation.names) for side, relation in (("left", left), ("right", right))}
    used = {side for side in names if any(name in names[side] for name in around)}
    if len(used) > 1:
        what = f"a subquery in ON of a {how} join that depends on both sides"
        raise unsupported(what, node, "join with a subquery in FROM that has the condition")
    if used == {"right"}:
        joins[-1].left, right, block.relation = right, block.relation, left
    else:
        joins[-1].left = left
    return right, condition


def _using(block: Block, join: Join, name: exp.Expr, lefts: list[Source], rights: list[Source]) -> None:
    scope = Scope()
    scope.sources, scope.merged = lefts, dict(block.scope.merged)
    label = name.name
    left = scope.resolve(exp.column(label))
    holders = [(each, column) for each in rights if (column := each.find(label, name)) is not None]
    if len(holders) > 1:
        raise Refused(f"column {quoted(label)} is on the right side {len(holders)} times", name)
    right, found = holders[0] if holders else (rights[0], None)
    if left is None or found is None:
        raise Refused(f"no column {quoted(label)} on both sides", name)
    add_key(join, left, Field(found.name), name)
    kinds = kind_of(left, join.left.columns), found.kind
    merged = {RIGHT: Field(found.name), FULL: _coalesce(left, Field(found.name))}.get(join.kind, left)
    block.scope.merged[label] = (merged, kinds[0] if kinds[0] == kinds[1] else None)
    right.hidden.add(label.lower())


def star_items(block: Block, node: exp.Expr) -> list[Item]:
    """The columns that a star stands for."""
    from ufl.sql.blocks import Item

    star = node if isinstance(node, exp.Star) else node.this
    excluded = star.args.get("except_") or ()
    left_out = {each.name.lower() for each in excluded}
    sources = block.scope.sources
    if isinstance(node, exp.Column):
        named = block.scope.source(node.table)
        if named is None:
            raise Refused(f"there is no table {quoted(node.table)} here", node)
        sources = [named]
    if block.relation.open and len(sources) == 1 and sources[0].relation.open:
        if left_out:
            raise Refused("the columns of the table are not known, so none can be left out", node)
        return [Item("*", node)]
    known = {label.lower() for source in sources for label in source.labels()}
    for each in excluded:
        if each.name.lower() not in known and not any(source.may_have(each.name) for source in sources):
            raise missing(each.name, known, "to leave out here", each)
    items: list[Item] = []
    for source in sources:
        if source.is_unknown:
            hint = "name the columns"
            raise Refused(f"a star needs the columns of {source.alias}, which are not known", node, hint)
        if source.left_out:
            count = len(source.labels()) + source.left_out
            message = f"{source.alias} has {count} columns, more than a result may have ({COLUMNS_MAX})"
            raise Refused(message, node, "name the columns that are wanted")
        for label in source.labels():
            if label.lower() in left_out or (isinstance(node, exp.Star) and label.lower() in source.hidden):
                continue
            merged = block.scope.merged.get(label) if isinstance(node, exp.Star) else None
            found = source.find(label, node)
            assert found is not None
            items.append(Item(label, node, Field(found.name) if merged is None else merged[0]))
    return items


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "side", "kind", "method"))


def _coalesce(left: Expression, right: Expression) -> Expression:
    return Function("coalesce", (left, right))
