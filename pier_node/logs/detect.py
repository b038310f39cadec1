"""Which dialect a log is in, by its first lines.

Every dialect has a sign its event lines match; the dialect with the largest share of matching lines, by the
sign's weight, is it. Bytes in, an answer out; the caller reads the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs.dialects import DIALECTS

# Enough for some hundred lines of the longest dialects; more is not read.
DETECT_BYTES = 128 << 10
DETECT_LINES_MAX = 400


@dataclass(frozen=True, slots=True)
class Detected:
    """`dialect` is None when no line bears any sign. `confidence`: share of the lines that bear it."""

    dialect: str | None
    confidence: float
    lines: int


def detect(first_bytes: bytes) -> Detected:
    lines = _lines(first_bytes)
    events = [line for line in lines if not line.startswith("#")]
    column = pa.array(lines, pa.string())
    best, best_score, best_share = None, 0.0, 0.0
    for dialect in DIALECTS.values():
        hits = int(np.count_nonzero(pc.match_substring_regex(column, dialect.sign))) if lines else 0
        share = min(1.0, hits / max(1, len(events)))
        if share * dialect.weight > best_score:
            best, best_score, best_share = dialect.name, share * dialect.weight, share
    return Detected(best, round(best_share, 3), len(events))


def _lines(first_bytes: bytes) -> list[str]:
    """Whole lines of the sample, without blanks; the last is partial if the sample was cut."""
    text = first_bytes[:DETECT_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.split("\n")
    if len(lines) > 1 and len(first_bytes) >= DETECT_BYTES:
        lines.pop()
    kept = [line.rstrip("\r") for line in lines if line.strip()]
    return kept[:DETECT_LINES_MAX]
