"""What can go wrong with an expression, and whose fault it is.

ExprError           the query's author, against one schema: found when compiling; the batch is dropped whole
  ExprLimit         more kinds of columns or keys than a named limit allows
  MissingColumn     the schema has no such column
  UnknownFunction   no function of that name
  TypeClash         the function does not take these types, or too many or few arguments
  BadLiteral        a literal that its type cannot hold, or an unknown type name
EvalError           one row's data: overflow, a text that is no number; that row is dropped and counted
  EvalLimit         a result beyond a limit on memory; no part of the batch is tried again
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

from query.causes import Cause

#: Names offered in "did you mean"; more than a few helps nobody.
SUGGESTIONS_MAX = 3
#: Names shown or searched at most, so that a schema of thousands of columns cannot make a message huge.
NAMES_MAX = 1_000
TEXT_SHOWN_CHARS = 80


class ExprError(ValueError):
    """The expression cannot be compiled against this schema."""

    #: What rows are that it costs.
    cause: ClassVar[Cause] = Cause.UNFIT


class ExprLimit(ExprError):
    """More kinds of rows than a named limit allows."""

    cause = Cause.LIMIT


class MissingColumn(ExprError):
    """`column` is its name, `close` a name that may have been meant; empty where there is none."""

    def __init__(self, message: str, column: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.column = column
        self.close = next(iter(_close(column, known)), "")


class UnknownFunction(ExprError):
    pass


class TypeClash(ExprError):
    pass


class BadLiteral(ExprError):
    pass


class EvalError(ValueError):
    """A value for which the function has no result."""

    cause: ClassVar[Cause] = Cause.UNFIT


class EvalLimit(EvalError):
    """A result larger than a named limit allows."""

    cause = Cause.LIMIT


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` or nothing."""
    close = _close(name, known)
    if not close:
        return ""
    return "; did you mean " + " or ".join(repr(c) for c in close) + "?"


def _close(name: str, known: Iterable[str]) -> list[str]:
    names = [k for _, k in zip(range(NAMES_MAX), known, strict=False)]
    return get_close_matches(name[:TEXT_SHOWN_CHARS], names, n=SUGGESTIONS_MAX, cutoff=0.6)


def shown(text: str) -> str:
    """A text from outside, quoted and cut to a length that fits a message."""
    return repr(text if len(text) <= TEXT_SHOWN_CHARS else text[: TEXT_SHOWN_CHARS - 3] + "...")
