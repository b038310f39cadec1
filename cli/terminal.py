"""What reaches a terminal: text, never commands to it, whoever wrote the text.

Rows, names of tables and columns, errors and notes come from other hosts and from log lines of strangers. A terminal
takes some characters for orders: to move, to clear, to answer as if typed. So everything a command prints passes a
`Guarded` stream, which writes such characters as escapes; what the program itself wants of the terminal goes round it
by `control`. Into files and pipes rows go as they are, since programs read them there.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_PLAIN = "\n\t"


def shown(text: str) -> str:
    """The text with every character written out that a terminal might act upon."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _PLAIN else repr(each)[1:-1] for each in text)


def control(out: TextIO | Guarded, order: str) -> None:
    """An order of the program's own to the terminal."""
    if isinstance(out, Guarded):
        out.order(order)
    else:
        out.write(order)


class Guarded(io.TextIOBase):
    """A text stream through which no orders pass."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        self._out.write(shown(text))
        return len(text)

    def order(self, text: str) -> None:
        self._out.write(text)

    @property
    def buffer(self) -> io.BufferedIOBase:
        """Bytes, too, are shown as text."""
        return io.BufferedWriter(_Bytes(self))  # type: ignore[type-var]

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._out.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._out.errors

    def flush(self) -> None:
        self._out.flush()

    def isatty(self) -> bool:
        return self._out.isatty()

    def fileno(self) -> int:
        return self._out.fileno()

    def writable(self) -> bool:
        return True


class _Bytes(io.RawIOBase):
    """UTF-8 on its way to a guarded stream; what is no UTF-8 becomes replacement characters."""

    def __init__(self, out: Guarded) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._out.write(self._decoder.decode(bytes(data)))
        return len(data)

    def writable(self) -> bool:
        return True


@contextmanager
def guarded() -> Iterator[None]:
    """Guards what a command prints: words for people always, rows where a terminal shows them."""
    before = sys.stdout, sys.stderr
    if sys.stdout.isatty():
        sys.stdout = Guarded(sys.stdout)
    sys.stderr = Guarded(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
