"""Looking into a running query: copies of what flows into and out of operators, switched on and off while it runs
(PIER 3.3.7 and beyond it). What a node sends is bounded by its allowance of remarks.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from overlay.spread.branch import Branch
from query.batch import Batch
from query.engine.run import Run

TOPIC = "query-taps"
#: Rows of a batch that a tap shows; the number of all of them is shown too.
ROWS_SHOWN = 5
TEXT_CHARS_MAX = 2_000


class TapCall(msgspec.Struct, frozen=True, array_like=True):
    """Switches taps of a query on or off; no operators named means all."""

    query: str
    on: bool
    operators: tuple[str, ...] = ()


_decoder = msgspec.msgpack.Decoder(TapCall)


def encode(call: TapCall) -> bytes:
    return msgspec.msgpack.encode(call)


def answer(branch: Branch, runs: dict[str, Run], remark: Callable[[Run, str, str, str], None]) -> None:
    """Sets the taps of a run as a call says; `remark(run, operator, kind, text)` tells the author."""
    try:
        call = _decoder.decode(branch.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        branch.fail()
        return
    run = runs.get(call.query)
    if run is not None:
        run.set_taps(
            call.operators,
            call.on,
            lambda operator, direction, batch: remark(run, operator, direction, shown(batch)),
        )
    branch.reply()


def shown(batch: Batch) -> str:
    """A batch as a line of text: its table, columns, number of rows and the first of them."""
    columns = ", ".join(f"{field.name} {field.type}" for field in batch.schema)
    rows = "; ".join(str(tuple(row.values())) for row in batch.slice(0, ROWS_SHOWN).to_rows())
    more = ", …" if batch.num_rows > ROWS_SHOWN else ""
    return f"{batch.table}({columns}) {batch.num_rows} rows: {rows}{more}"[:TEXT_CHARS_MAX]
