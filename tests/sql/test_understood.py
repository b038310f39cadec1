"""Whatever the parser reads and nobody plans is refused by name."""

from __future__ import annotations

import pytest
from sqlglot import exp

from ufl.sql.errors import Refused
from ufl.sql.understood import UNDERSTOOD, require_understood

UNREAD = [(kind, part) for kind, parts in UNDERSTOOD.items() for part in kind.arg_types if part not in parts]


@pytest.mark.parametrize(("kind", "part"), UNREAD, ids=lambda each: getattr(each, "__name__", each))
def test_a_part_that_nobody_reads_is_refused(kind: type[exp.Expr], part: str) -> None:
    made = kind(**{part: exp.Identifier(this="x"), "expressions": [exp.Identifier(this="x")]})
    with pytest.raises(Refused, match="is not supported"):
        require_understood(made)


def test_a_kind_that_nobody_plans_is_refused() -> None:
    planned = set(UNDERSTOOD) | {exp.DataType}
    kinds = [each for each in vars(exp).values() if isinstance(each, type)]
    refused = 0
    for kind in kinds:
        if kind in planned or not issubclass(kind, exp.Expression):
            continue
        with pytest.raises(Refused, match="is not supported"):
            require_understood(kind())
        refused += 1
    assert refused > 500


def test_parts_that_are_read_pass() -> None:
    assert len(UNREAD) > 100
    for kind, parts in UNDERSTOOD.items():
        # A name stands in a select list, which is not empty.
        if kind is not exp.Alias:
            require_understood(kind(**{part: [exp.Identifier(this="x")] for part in parts}))
