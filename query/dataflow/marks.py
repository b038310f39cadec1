"""Sets that follow one another in a stream of results: epochs of a continuous query (PIER 4.2.2).

A source that answers again and again gives every answer a tag of its own, and ends it; so all operators above it work
on one epoch as they work on one probe. `Mark` says which epoch such a tag stands for. It travels to the asker in front
of the epoch's rows, as a batch of one row under a table name that no data has.
"""

from __future__ import annotations

import msgspec

from query.batch import Batch, from_pydict
from query.causes import Cause, WireCauses, added
from query.counts import Count

#: The table name of marks. Names of tables of the system begin so.
TABLE = "pier.epoch"
#: The one column of a mark.
_COLUMN = "mark"


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """An answer: its epoch, which revision of it, how many nodes' data is in it, and how many rows follow."""

    epoch: Count
    #: Above 0: replaces an earlier answer, because data came late.
    revision: Count
    nodes: Count
    rows: Count = 0
    #: What it lacks, beside nodes that are not in it.
    causes: WireCauses = {}
    #: Epochs before it that were left out, because the client was behind.
    skipped: Count = 0

    def lacking(self, cause: Cause) -> Mark:
        """The same, less than whole for one more cause."""
        return msgspec.structs.replace(self, causes=added(self.causes, {cause.number: 1}))

    def to_batch(self) -> Batch:
        return from_pydict(TABLE, {_COLUMN: [msgspec.msgpack.encode(self)]})


_decode = msgspec.msgpack.Decoder(Mark).decode


def mark_of(batch: Batch) -> Mark | None:
    """The mark that a batch is; None for a batch of data, and for one that a broken peer made up."""
    if batch.table != TABLE or batch.num_rows != 1:
        return None
    value = batch.to_rows()[0].get(_COLUMN)
    try:
        return _decode(value) if isinstance(value, bytes) else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
