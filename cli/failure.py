"""How a command says that it failed: an exit code and one line (or a few) on stderr."""

from __future__ import annotations

import sys

from cli.exits import Exit

EXIT_FAILED = Exit.FAILED
EXIT_USAGE = Exit.USAGE
EXIT_INTERRUPTED = Exit.INTERRUPTED
#: Of a query's line shown above a caret.
_LINE_CHARS_MAX = 200


class CommandFailed(Exception):
    """The command cannot go on; the message is for the person who typed it."""

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.code = code


def describe(error: BaseException) -> str | None:
    """The words for an error a person can act on; None for a bug, whose traceback is wanted."""
    errors = sys.modules.get("pier_node.client.errors")
    if errors is not None and isinstance(error, errors.PierError):
        return query_error(error)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return None


def query_error(error: Exception, text: str = "") -> str:
    """An error of the client library; with the query's text also the place in it."""
    position = getattr(error, "position", None)
    hint = getattr(error, "hint", "")
    words = str(error)
    place = "" if position is None else f"line {position.line}, column {position.column}"
    if position is not None and not words.startswith(place):
        # Some compilers draw the place themselves; the others are helped here.
        words = f"{place}: {words}"
        lines = text.splitlines()
        if 0 < position.line <= len(lines) and "\n" not in str(error):
            words += "\n" + _caret(lines[position.line - 1], position.column)
    return f"{words}\nhint: {hint}" if hint and hint not in words else words


def _caret(line: str, column: int) -> str:
    start = max(0, column - 1 - _LINE_CHARS_MAX // 2)
    shown = line[start : start + _LINE_CHARS_MAX].replace("\t", " ")
    return f"  {shown}\n  {' ' * (column - 1 - start)}^"
