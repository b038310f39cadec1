"""What a query author is told: message, line and column, the source line with a caret, a suggestion.

Every stage of the parser raises through `Source.error`, which alone knows how offsets become lines.
The picture of the line is safe for a terminal and short, whatever the text holds.
"""

from __future__ import annotations

import re

#: Characters of the source line shown around the caret; a line of a query may be megabytes long.
SHOWN_CHARS_MAX = 100
_BEFORE_CARET_MAX = 60


class UflError(ValueError):
    """A fault in the text of a query. Line and column count from 1; `hint` may be empty."""

    def __init__(self, message: str, line: int, column: int, shown: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint
        self.shown = shown

    def __str__(self) -> str:
        text = f"line {self.line}, column {self.column}: {self.message}\n{self.shown}"
        return f"{text}\nhint: {self.hint}" if self.hint else text


class Source:
    """The text of a query, and how to point into it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def error(self, message: str, start: int, end: int | None = None, hint: str = "") -> UflError:
        """The error for the characters from `start` up to `end`, or for the token that starts there."""
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        if line_end < 0:
            line_end = len(self.text)
        line = self.line(start)
        if end is None:
            end = _token_end(self.text, start)
        shown = self._picture(line, line_start, line_end, start, min(end, line_end))
        return UflError(message, line, start - line_start + 1, shown, hint)

    def line(self, offset: int) -> int:
        """The number of the line that holds the offset, from 1."""
        return self.text.count("\n", 0, offset) + 1

    def _picture(self, line: int, line_start: int, line_end: int, start: int, end: int) -> str:
        left = max(line_start, start - _BEFORE_CARET_MAX)
        right = min(line_end, left + SHOWN_CHARS_MAX)
        before = ("…" if left > line_start else "") + self.text[left:start]
        after = self.text[start:right].rstrip() + ("…" if right < line_end else "")
        carets = "^" * max(1, min(end, right) - start)
        gutter = f"{line:>4} | "
        margin = " " * (len(gutter) - 2) + "| "
        blank = "".join("\t" if char == "\t" else " " for char in before)
        return f"{gutter}{_safe(before + after)}\n{margin}{blank}{carets}"


_TOKEN_END = re.compile(r'[A-Za-z0-9.*\-_/]+|"(?:[^"\\\n]|\\.)*+"?|[!<>]=|::|')


def _token_end(text: str, start: int) -> int:
    match = _TOKEN_END.match(text, start)
    return match.end() if match else start


def _safe(line: str) -> str:
    """The line without anything a terminal would act on."""
    return "".join(
        char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in line
    )
