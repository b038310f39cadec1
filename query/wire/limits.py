"""Bounds on what a batch from the network may be, and the one error that says a peer broke them.

Every size a message claims is checked against these before anything of that size is allocated.
"""

from __future__ import annotations

#: Rows of one message. The coalescer makes batches of 64 k rows; a sender splits what is larger.
ROWS_MAX = 1 << 20
COLUMNS_MAX = 4_096
#: Bytes of the columns of a batch that may be sent.
BATCH_BYTES_MAX = 48 << 20
#: Bytes of a message's body, decompressed, so a few bytes cannot become gigabytes. Above what may be sent, because
#: a struct's NULLs are written for each of its fields.
DECODED_BYTES_MAX = 64 << 20
#: Bytes of memory for decoding one message: columns as they came and as Arrow has them.
DECODING_BYTES_MAX = 2 * DECODED_BYTES_MAX
#: Bytes of the description of a schema: table, column names and types.
SCHEMA_BYTES_MAX = 1 << 18


class WireError(ValueError):
    """Bytes from a peer that are no batch: the peer's fault; drop the message and count it."""


class BatchTooLarge(ValueError):
    """A batch beyond the limits above: the local caller's fault; split it (`query.wire.split`)."""
