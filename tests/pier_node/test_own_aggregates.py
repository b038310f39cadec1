"""Files of the owner's: what is wrong with one is told in a line that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pier_node.own_aggregates import OwnAggregatesError, load_own_aggregates
from query.aggregate import AGGREGATES

GOOD = """
from query.aggregate import register
from query.aggregate.basic import Sum

@register
class Total(Sum):
    NAME = "total_of_the_owner"
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "registers no aggregate"),
        ("def", "SyntaxError"),
        (None, "is no Python file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(OwnAggregatesError, match=f"mine.py.*{says}"):
        load_own_aggregates([str(path)])


def test_what_a_file_registers_is_known(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    try:
        assert load_own_aggregates([str(tmp_path / "mine.py")]) == ["total_of_the_owner"]
        with pytest.raises(OwnAggregatesError, match="registered twice"):
            load_own_aggregates([str(tmp_path / "mine.py")])
    finally:
        del AGGREGATES["total_of_the_owner"]
