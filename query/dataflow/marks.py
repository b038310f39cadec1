"""Sets that follow one another in a stream of results: epochs of a continuous query (PIER 4.2.2).

A source that answers again and again gives every answer a tag of its own, and ends it; so all operators above it work
on one epoch as they work on one probe. `Mark` says which epoch such a tag stands for. It travels to the asker in front
of the epoch's rows, as a batch of one row under a table name that no data has.
"""

from __future__ import annotations

from typing import NamedTuple

from query.batch import Batch, from_pydict

#: The table name of marks. Names of tables of the system begin so.
TABLE = "pier.epoch"


class Mark(NamedTuple):
    """An answer: its epoch, which revision of it, how many nodes' data is in it, whether parts of published tables were
    changing hands, and how many rows follow."""

    epoch: int
    #: Above 0: replaces an earlier answer, because data came late.
    revision: int
    nodes: int
    #: 1: rows of published tables may be missing from it, or in it twice.
    moving: int = 0
    rows: int = 0

    def to_batch(self) -> Batch:
        return from_pydict(TABLE, {name: [value] for name, value in self._asdict().items()})


def mark_of(batch: Batch) -> Mark | None:
    """The mark that a batch is; None for a batch of data, and for one that a broken peer made up."""
    if batch.table != TABLE or batch.num_rows != 1:
        return None
    row = batch.to_rows()[0]
    values = [value for name in Mark._fields if isinstance(value := row.get(name), int)]
    return Mark(*values) if len(values) == len(Mark._fields) else None
