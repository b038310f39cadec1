"""The answers of a continuous query: on a terminal a table that is redrawn in place, elsewhere one table after the
other.

Rows of an epoch wait for its account, which comes behind them; so what is seen is always one whole answer, with the
line that says whose it is. A table that is higher than the terminal is cut, and says how much is left out.
"""

from __future__ import annotations

import io
import shutil
from typing import TYPE_CHECKING, TextIO

import pyarrow as pa

from cli.output import TableWriter, cell
from cli.terminal import control

if TYPE_CHECKING:
    from pier_node.protocol.messages import Account

#: Back to the first of so many lines, and everything from there on cleared.
_BACK = "\x1b[{}F\x1b[J"


class LiveTable:
    """One epoch at a time."""

    def __init__(self, out: TextIO, *, in_place: bool | None = None) -> None:
        self._out = out
        self._in_place = out.isatty() if in_place is None else in_place
        self._batches: list[pa.RecordBatch] = []
        #: The columns of the last rows: a table without rows still has its head.
        self._schema: pa.Schema | None = None
        self._drawn_lines = 0
        self._newest = 0
        #: For rows of no epoch: a query that is asked once.
        self._plain = TableWriter(out)

    def write(self, batch: pa.RecordBatch, epoch: int | None = None) -> None:
        if epoch is None:
            self._plain.write(batch)
            return
        self._schema = batch.schema
        self._batches.append(batch)

    def flush(self) -> None:
        """What came behind the last account is of an epoch that was cut off: it is not shown."""
        self._batches.clear()
        self._plain.flush()

    def epoch(self, account: Account) -> None:
        """The rows so far are the answer of an epoch."""
        assert account.epoch is not None
        if self._in_place and account.epoch < self._newest:
            # The first epoch may come behind the second, since nobody knew then whom to wait for.
            self._batches.clear()
            return
        self._newest = account.epoch
        size = shutil.get_terminal_size()
        rows_max = max(1, size.lines - 5) if self._in_place else None
        lines = self._table(rows_max)
        self._batches.clear()
        if self._in_place:
            lines = [line[: size.columns - 1] for line in lines]
            if self._drawn_lines:
                control(self._out, _BACK.format(self._drawn_lines))
        lines.append(summary(account))
        if not self._in_place:
            lines.append("")
        self._drawn_lines = len(lines)
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()

    def _table(self, rows_max: int | None) -> list[str]:
        if self._schema is None:
            return []
        text = io.StringIO()
        table = TableWriter(text)
        rows = 0
        for batch in self._batches:
            left = batch.num_rows if rows_max is None else max(0, rows_max - rows)
            table.write(batch.slice(0, left))
            rows += batch.num_rows
        table.flush()
        lines = text.getvalue().splitlines() if rows else ["  ".join(map(cell, self._schema.names))]
        if rows_max is not None and rows > rows_max:
            lines.append(f"… {rows - rows_max:,} more rows")
        return lines


def summary(account: Account) -> str:
    """An epoch's account as a line."""
    rows = f"{account.rows:,} row{'' if account.rows == 1 else 's'}"
    nodes = f"{account.answered + account.empty:,} of {account.asked:,} nodes"
    revised = " · revised" if account.revision else ""
    return f"epoch {account.epoch} · {nodes} · {rows} · {account.elapsed_s:.1f} s{revised}"
