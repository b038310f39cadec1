"""FROM: what stands in it, how it is joined, and which columns a star stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from query.plan import Constant, Expression, Field, Function
from query.plan_hints import quoted
from ufl.sql.clauses import check_join, is_star
from ufl.sql.errors import Refused, unsupported
from ufl.sql.kinds import kind_of
from ufl.sql.names import Scope, Source
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
from ufl.sql.scalars import splits

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
    joins = [*(given.this.args.get("joins") or ()), *(block.node.args.get("joins") or ())]
    star = not joins and any(is_star(item) for item in block.node.expressions) and not block.ignores_items()
    source = block.binder.source(given.this, block.env, star)
    block.scope.add(source, given.this)
    block.relation = source.relation
    # A comma binds weaker than JOIN: what stands between two commas is joined first, and sees only itblock.
    done: Relation | None = None
    first, hint = 0, ""
    for join in joins:
        if _is_comma(join):
            done = block.relation if done is None else Join(done, block.relation, hint=hint)
            first, hint = len(block.scope.sources), block.hints.of(join.this.alias_or_name)
            source = block.binder.source(join.this, block.env, False)
            block.scope.add(source, join.this)
            block.relation = source.relation
        else:
            _join(block, join, first)
    if done is not None:
        block.relation = Join(done, block.relation, hint=hint)
    block.hints.require_used()


def _join(block: Block, node: exp.Join, first: int) -> None:
    """Joins what stands behind the last comma, sources from `first` on, with one more."""
    check_join(node)
    side, kind = node.side.upper(), node.kind.upper()
    how = _KINDS.get(side)
    if kind in ("SEMI", "ANTI") and not side:
        how = SEMI if kind == "SEMI" else ANTI
    elif how is None or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise unsupported(f"{side} {kind} JOIN".strip(), node)
    left_scope = block.scope.sources[first:]
    source = block.binder.source(node.this, block.env, False)
    block.scope.add(source, node.this)
    on, using = node.args.get("on"), node.args.get("using")
    condition = None if on is None else _on(block, on, first)
    join = joined(block.relation, source.relation, how, condition, on)
    join.hint = block.hints.of(node.this.alias_or_name)
    for name in using or ():
        _using(block, join, name, left_scope, source)
    if how in (SEMI, ANTI):
        block.scope.sources.remove(source)
    block.relation = join


def _on(block: Block, node: exp.Expr, first: int) -> Expression | None:
    everything = block.scope.sources
    block.scope.sources = everything[first:]
    condition = conjunction([block.translate(part) for part in splits(node)])
    block.scope.sources = everything
    return None if condition == _TRUE else condition


def _using(block: Block, join: Join, name: exp.Expr, lefts: list[Source], right: Source) -> None:
    scope = Scope()
    scope.sources, scope.merged = lefts, dict(block.scope.merged)
    label = name.name
    left = scope.resolve(exp.column(label))
    found = right.find(label, name)
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
    if any(value for key, value in star.args.items() if key != "except_"):
        raise unsupported("REPLACE or RENAME in a star", node)
    left_out = {each.name.lower() for each in star.args.get("except_") or ()}
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
    items: list[Item] = []
    for source in sources:
        if source.is_unknown:
            hint = "name the columns"
            raise Refused(f"a star needs the columns of {source.alias}, which are not known", node, hint)
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
