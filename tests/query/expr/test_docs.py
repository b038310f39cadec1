from pathlib import Path

import query.expr
from query.expr.docs import FAMILIES, markdown

ROOT = Path(query.expr.__file__).parents[2]


def test_the_printed_documentation_is_up_to_date() -> None:
    assert (ROOT / "docs" / "functions.md").read_text(encoding="utf-8") == markdown(), (
        "run python -m query.expr.docs"
    )


def test_every_function_is_in_a_family_and_says_what_it_does() -> None:
    for spec in query.expr.functions():
        assert spec.family in FAMILIES
        assert spec.doc.endswith((".", "...")) and spec.signature.startswith("(")
        assert f"`{spec.name}{spec.signature}`".replace("|", "\\|") in markdown()
