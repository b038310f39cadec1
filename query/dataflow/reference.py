"""The reference of operators in `docs/ufl.md`, printed from the registry: `python -m query.dataflow.reference`.

What an operator is comes from its module's and class's docstrings, its settings from its options, so the page says
what is so. Only the text between the two marks is replaced.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import query
from query.dataflow.operator import Operator
from query.dataflow.registry import DEFAULTS, all_operators
from query.dataflow.settings import Option

BEGIN, END = "<!-- operators: begin -->", "<!-- operators: end -->"
PAGE = Path(query.__file__).parent.parent / "docs" / "ufl.md"
#: What the operators are for, in the order of PIER's Table 3.3 where it has them.
TITLES = {
    "selection": "Rows that satisfy a condition",
    "projection": "Columns",
    "tee": "One producer, several consumers",
    "union": "Several producers, one consumer",
    "join": "Pairs of rows",
    "groupby": "Groups",
    "dupelim": "Each row once",
    "sort": "Order",
    "scan": "Where rows come from",
    "put": "Where rows go",
    "result": "The answer",
    "flowcontrol": "When data is asked for",
    "queue": "Yielding",
    "cache": "Rows kept",
    "eddy": "The order of operators decided while they run",
    "null": "Places",
}
_KINDS = {
    "texts": "array of texts",
    "expressions": "array of expressions",
    "text table": "table of texts",
    "expression table": "table of expressions",
    "flag": "true or false",
    "integer": "whole number",
}


def markdown() -> str:
    """All operators that queries can name."""
    kinds = [kind for kind in all_operators() if kind.TYPE in TITLES]
    parts = []
    for name, title in TITLES.items():
        members = [kind for kind in kinds if name == kind.TYPE]
        default = members[0].IMPLEMENTATION if len(members) == 1 else DEFAULTS[name]
        members.sort(key=lambda kind: default != kind.IMPLEMENTATION)
        parts.append(f"### {name}: {title[0].lower()}{title[1:]}\n")
        parts += [_operator(kind, default == kind.IMPLEMENTATION) for kind in members]
    return "\n".join(parts)


def _operator(kind: type[Operator], default: bool) -> str:
    lines = [f"#### {kind.TYPE} {kind.IMPLEMENTATION}{' (default)' if default else ''}\n"]
    lines.append(_paragraph(kind.__doc__ or "") + _sources(kind) + "\n")
    module = inspect.getdoc(sys.modules[kind.__module__]) or ""
    lines += [_block(paragraph) + "\n" for paragraph in module.split("\n\n")[1:]]
    if kind.OPTIONS:
        lines.append("| setting | is | default | meaning |\n|---|---|---|---|")
        lines += [_setting(option) for option in kind.OPTIONS]
    else:
        lines.append("It takes no settings.")
    return "\n".join(lines) + "\n"


def _paragraph(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split())


def _block(text: str) -> str:
    """A paragraph on one line; an indented one stays as it is."""
    return text if text.startswith("    ") else _paragraph(text)


def _sources(kind: type[Operator]) -> str:
    least, most = kind.SOURCES
    if (least, most) == (0, 0):
        return " It has no sources."
    if least == most:
        return "" if least == 1 else f" It has {least} sources."
    return f" It has {least} or more sources." if most is None else f" It has {least} to {most} sources."


def _setting(option: Option) -> str:
    is_ = _KINDS.get(option.kind, option.kind)
    if option.choices:
        is_ = ", ".join(f"`{choice}`" for choice in option.choices)
    cells = (f"`{option.name}`", is_ + _bounds(option), _default(option), option.doc)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _bounds(option: Option) -> str:
    if option.least is None and option.most is None:
        return ""
    if option.most is None:
        return f", at least {option.least:,}"
    return (
        f", {option.least:,} to {option.most:,}" if option.least is not None else f", at most {option.most:,}"
    )


def _default(option: Option) -> str:
    if option.required:
        return "required"
    return _shown(option.default)


def _shown(value: Any) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, dict) or (isinstance(value, Sequence) and not isinstance(value, str)):
        return ", ".join(f'`"{item}"`' for item in value) or "none"
    return f"`{value}`"


def renewed(page: str) -> str:
    """The page with its operators as they are now."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{markdown()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    import query.operators

    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
