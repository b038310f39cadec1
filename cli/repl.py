"""`pier sql` at a terminal: queries one after the other, with history and completion.

A query may go over several lines and ends with a semicolon. Words that complete are SQL's, the functions, and the
tables and columns of the ring. Each query is asked as `pier sql "…"` would ask it, so Ctrl-C, formats and the account
are the same; a query that fails does not end the prompt.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from cli.failure import CommandFailed

HISTORY_LINES_MAX = 10_000
#: Words offered for one beginning.
CHOICES_MAX = 200
PROMPT, MORE = "pier> ", "   -> "
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "OFFSET", "DISTINCT", "AS", "ON"),
    *("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "USING", "UNION", "INTERSECT", "EXCEPT"),
    *("ALL", "WITH", "RECURSIVE", "AND", "OR", "NOT", "IN", "EXISTS", "BETWEEN", "LIKE", "ILIKE", "IS NULL"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "INTERVAL", "FILTER", "DESC", "ASC", "NULLS FIRST"),
    *("NULLS LAST", "EXPLAIN", "SHOW TABLES", "DESCRIBE"),
)
HELP = """A query ends with ; and may take several lines.
  SHOW TABLES;  DESCRIBE t;  EXPLAIN SELECT …;
  \\d lists the tables, \\d t its columns, \\h shows this, \\q or Ctrl-D leaves."""
_SHORT = {"\\d": "SHOW TABLES", "\\h": "", "\\q": ""}


class Prompt:
    """Reads queries from a terminal until the person leaves."""

    def __init__(self, args: argparse.Namespace, ask: Callable[[str], int]) -> None:
        self._args = args
        self._ask = ask
        self._words: list[str] = []

    def run(self) -> int:
        self._words = sorted({*KEYWORDS, *_functions(), *self._names()}, key=str.lower)
        history = _start_readline(self.complete)
        print(HELP, file=sys.stderr)
        try:
            while (text := self._read()) is not None:
                self._answer(text)
        finally:
            _keep_history(history)
        return 0

    def complete(self, beginning: str, number: int) -> str | None:
        """The number-th word that begins so, as readline asks for it."""
        found = completions(beginning, self._words)
        return found[number] if number < len(found) else None

    def _read(self) -> str | None:
        """One query; None when there will be no more. Ctrl-C forgets what was typed."""
        lines: list[str] = []
        while True:
            try:
                line = input(MORE if lines else PROMPT)
            except EOFError:
                print(file=sys.stderr)
                return None
            except KeyboardInterrupt:
                print(file=sys.stderr)
                lines = []
                continue
            if not lines and line.strip().startswith("\\"):
                return None if line.strip() == "\\q" else line.strip()
            lines.append(line)
            if line.rstrip().endswith(";"):
                return "\n".join(lines)

    def _answer(self, text: str) -> None:
        query = expanded(text)
        if not query:
            print(HELP, file=sys.stderr)
            return
        try:
            self._ask(query)
        except CommandFailed as error:
            print(f"pier: {error}", file=sys.stderr)

    def _names(self) -> Iterable[str]:
        """Tables and columns, for completion; none when no node can be reached, which the first query will say."""
        import trio

        from cli.reach import reach
        from pier_node.client import PierError

        async def names() -> list[str]:
            async with reach(self._args) as conn:
                tables = await conn.tables()
            names = (name for table in tables for name in (table.name, *table.columns))
            # Readline writes what it offers to the terminal by itself.
            return [name for name in names if name.isprintable()]

        try:
            return trio.run(names)
        except (PierError, CommandFailed):
            return []


def expanded(text: str) -> str:
    """A line as the query it stands for; empty for those that only want help."""
    if not text.startswith("\\"):
        return text.strip().rstrip(";").strip()
    command, _, name = text.partition(" ")
    if command == "\\d" and name.strip():
        quoted = name.strip().rstrip(";").replace('"', '""')
        return f'DESCRIBE "{quoted}"'
    return _SHORT.get(command.rstrip(";"), "")


def completions(beginning: str, words: Iterable[str]) -> list[str]:
    """Words that begin so, in any case; keywords follow the case of what was typed."""
    found = []
    for word in words:
        if word.lower().startswith(beginning.lower()):
            small = word in KEYWORDS and beginning.islower()
            found.append(word.lower() if small else word)
    return found[:CHOICES_MAX]


def _functions() -> list[str]:
    from query.aggregate import AGGREGATES
    from query.expr import functions

    return [f"{name}(" for name in (*(each.name for each in functions()), *AGGREGATES)]


def history_file() -> Path:
    state_home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state_home) / "pier" / "sql_history"


def _start_readline(complete: Callable[[str, int], str | None]) -> Path | None:
    """History and completion, where Python has readline."""
    try:
        import readline
    except ImportError:
        return None
    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            readline.read_history_file(path)
    except OSError as error:
        print(f"pier: no history: {error}", file=sys.stderr)
        return None
    readline.set_history_length(HISTORY_LINES_MAX)
    readline.set_completer_delims(" \t\n,()=<>+-*/;")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    return path


def _keep_history(path: Path | None) -> None:
    if path is None:
        return
    import readline

    try:
        readline.write_history_file(path)
        path.chmod(0o600)
    except OSError as error:
        print(f"pier: history not kept: {error}", file=sys.stderr)
