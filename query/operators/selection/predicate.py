"""Predicate objects of UFL, and the setting `where` beside them, as one expression (PIER Appendix A)."""

from __future__ import annotations

from collections.abc import Sequence

from query.plan import Expression, Function, Predicate

_FUNCTIONS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def condition_expression(predicates: Sequence[Predicate], where: Expression | None) -> Expression | None:
    """All that a row must satisfy, as a truth value whatever its parts are: NULL is one, and is not true."""
    given = [each for each in (predicate_expression(predicates), where) if each is not None]
    return Function("and", tuple(given)) if given else None


def predicate_expression(predicates: Sequence[Predicate]) -> Expression | None:
    """All predicates that are not part of another one must hold. The plan's checks bound the expansion."""
    by_name = {predicate.name: predicate for predicate in predicates}
    members = {name for predicate in predicates for name in predicate.members}
    roots = [_expression(p, by_name) for p in predicates if p.name not in members]
    return _joined("and", roots) if roots else None


def _expression(predicate: Predicate, by_name: dict[str, Predicate]) -> Expression:
    if predicate.type != "atomic":
        return _joined(predicate.type, [_expression(by_name[name], by_name) for name in predicate.members])
    assert predicate.left is not None
    assert predicate.right is not None
    return Function(_FUNCTIONS[predicate.op], (predicate.left, predicate.right))


def _joined(function: str, parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Function(function, tuple(parts))
