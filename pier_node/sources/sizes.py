"""How large a file of lines is, told from its beginning: for the data dictionary, which wants to know about how many
rows a table has without reading it."""

from __future__ import annotations

from pathlib import Path

#: The beginning that tells how long lines are.
HEAD_BYTES = 64 << 10


def lines_and_bytes(path: Path) -> tuple[int, int]:
    """About how many lines a file has, and its bytes; nothing when it is not there."""
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return 0, 0
    lines = head.count(b"\n")
    if len(head) == size_bytes:
        return lines + (not head.endswith(b"\n") and size_bytes > 0), size_bytes
    return round(size_bytes * max(1, lines) / len(head)), size_bytes
