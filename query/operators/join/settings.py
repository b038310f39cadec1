"""Settings that the joins share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from query.batch.types import parse_type
from query.dataflow.settings import Option, SettingError
from query.plan import Expression

INNER, LEFT, RIGHT, FULL, SEMI, ANTI = "inner", "left", "right", "full", "semi", "anti"

KEYS = (
    Option(
        "leftkeys",
        "expressions",
        "what must be equal, of rows of sources[0]: leftkeys[0] = $dst",
        required=True,
    ),
    Option("rightkeys", "expressions", "what must be equal, of rows of sources[1]", required=True),
)
FIRST = Option(
    "first",
    "choice",
    "none: both sides build and probe as rows arrive, so results come at once; left, right: this side is read to its "
    "end while rows of the other wait, which is half the work",
    "none",
    choices=("none", "left", "right"),
)
OUTPUT = (
    Option(
        "where",
        "expression",
        "a further condition on a pair, over the columns of the result; predicate objects may say it, too",
    ),
    Option("leftname", "text", "what a column of sources[0] is called in front of the dot", "left"),
    Option("rightname", "text", "the same for sources[1]", "right"),
    Option(
        "qualify",
        "choice",
        "which columns get such a name, as left.x: those that both sides have (duplicates), or all",
        "duplicates",
        choices=("duplicates", "all"),
    ),
    Option(
        "leftcolumns",
        "texts",
        "the columns of sources[0] that the result has; all when absent. Named columns are there, as NULL, also "
        "when that side never had a row",
    ),
    Option("rightcolumns", "texts", "the same for sources[1]"),
    Option(
        "lefttypes",
        "texts",
        "the types of leftcolumns, for when that side never had a row: NULLs without a type would make a second schema",
    ),
    Option("righttypes", "texts", "the same for rightcolumns"),
    Option("table", "text", "the table name of the result; that of the left rows when absent"),
)


def kind_option(*choices: str) -> Option:
    meanings = {
        INNER: "inner: pairs",
        LEFT: "left: also left rows without partner",
        RIGHT: "right: also right rows without partner",
        FULL: "full: both",
        SEMI: "semi: left rows with a partner, once each",
        ANTI: "anti: left rows without one",
    }
    return Option("kind", "choice", "; ".join(meanings[choice] for choice in choices), INNER, choices=choices)


def unseen(options: Mapping[str, Any], side: str) -> pa.Schema:
    """The columns of a side that has not had a row, as the settings tell them; those without a type are NULL."""
    columns: Sequence[str] = options[f"{side}columns"] or ()
    given: Sequence[str] = options[f"{side}types"] or [""] * len(columns)
    if len(given) != len(columns):
        raise SettingError(f"{side}types", f"has {len(given)} types for {len(columns)} columns")
    kinds = [parse_type(text) if text else pa.null() for text in given]
    for text, kind in zip(given, kinds, strict=True):
        if kind is None:
            raise SettingError(f"{side}types", f"{text!r} is no type")
    return pa.schema([pa.field(name, kind) for name, kind in zip(columns, kinds, strict=True)])


def require_same_number(left: list[Expression], right: list[Expression]) -> None:
    if not left:
        raise SettingError("leftkeys", "is empty", "a join compares at least one key")
    if len(left) != len(right):
        raise SettingError("rightkeys", f"has {len(right)} keys where leftkeys has {len(left)}")
