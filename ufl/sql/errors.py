"""What is wrong with a SQL text, or not supported, and where.

Every step of the compiler raises `Refused` with the part of the syntax tree it is about; `located` finds the place of
that part in the text, and the author sees the line with a caret, as for UFL.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from ufl.errors import Source, UflError


class Refused(Exception):
    """The query cannot be planned; the fault is the author's or the compiler's limits."""

    def __init__(self, message: str, node: exp.Expr | None = None, hint: str = "", word: str = "") -> None:
        """`word` finds the place of parts that the parser keeps no place for."""
        super().__init__(message)
        self.word = word
        self.message = message
        self.node = node
        self.hint = hint


def unsupported(clause: str, node: exp.Expr | None = None, hint: str = "") -> Refused:
    """The error for something SQL has and this dialect has not."""
    return Refused(f"{clause} is not supported", node, hint)


def located(text: str, error: Refused) -> UflError:
    """The error with its place in the text."""
    at = text.find(error.word) if error.word else -1
    place = (at, at + len(error.word)) if at >= 0 else _span(error.node)
    start, end = (0, None) if place is None else place
    return Source(text).error(error.message, min(start, len(text)), end, error.hint)


def misread(text: str, error: ParseError | TokenError) -> UflError:
    """The error for a text that is no SQL."""
    details = getattr(error, "errors", None) or [{}]
    first = details[0]
    message = _plain(str(first.get("description") or str(error).split("\n")[0]))
    start = len(text.rstrip())
    line, column = first.get("line"), first.get("col")
    highlight = first.get("highlight") or ""
    if line and column:
        lines = text.split("\n")
        # The parser's column is that of the last character of the token.
        before = sum(len(each) + 1 for each in lines[: line - 1])
        start = max(0, min(len(text), before + column - len(highlight)))
    return Source(text).error(f"not understood: {message}", start)


def _plain(message: str) -> str:
    """The parser's words without its insides."""
    if message.startswith("Required keyword"):
        return "something is missing here"
    if "Error tokenizing" in message:
        return "a quotation or comment does not end"
    return re.sub(r" but got <Token.*", "", message, flags=re.DOTALL)


def _span(node: exp.Expr | None) -> tuple[int, int] | None:
    """Where the part lies in the text: from its first known token to its last."""
    if node is None:
        return None
    spans = [
        (each.meta["start"], each.meta["end"] + 1)
        for each in node.walk()
        if "start" in each.meta and "end" in each.meta
    ]
    if spans:
        return min(start for start, _ in spans), max(end for _, end in spans)
    return _span(node.parent) if node.parent is not None else None
