"""One line on a terminal's stderr that says how far a query is; nothing when stderr is no terminal."""

from __future__ import annotations

import sys
from typing import TextIO

from cli.terminal import control

#: Back to the beginning of a line that is empty then.
_CLEARED = "\r\x1b[K"
#: Redrawing more often than the eye follows costs time and flickers.
REDRAW_S = 0.1


class ProgressLine:
    """Drawn over itself; cleared before anything else is printed."""

    def __init__(self, out: TextIO | None = None, *, wanted: bool = True) -> None:
        self._out = out or sys.stderr
        self._on = wanted and self._out.isatty()
        self._shown = False
        self._drawn_s = -1.0

    def update(self, answered: int, asked: int, rows: int, elapsed_s: float) -> None:
        self.say(words(answered, asked, rows, elapsed_s), elapsed_s)

    def say(self, text: str, elapsed_s: float) -> None:
        if not self._on or 0 <= elapsed_s - self._drawn_s < REDRAW_S:
            return
        self._drawn_s = elapsed_s
        control(self._out, _CLEARED)
        self._out.write(text)
        self._out.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            control(self._out, _CLEARED)
            self._out.flush()
            self._shown = False


def words(answered: int, asked: int, rows: int, elapsed_s: float) -> str:
    nodes = f"{answered:,} of {asked:,} nodes answered" if asked else "spreading the query"
    return f"{nodes} · {rows:,} rows · {elapsed_s:.1f} s"
