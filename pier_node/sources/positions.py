"""Where followed logs stood, kept in the node's data directory so that a restarted node goes on there.

One small file a source, replaced as a whole: a crash leaves the old one or the new one. A file that cannot be read
counts as none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from pier_node.sources.rotation import Position


@dataclass(frozen=True, slots=True)
class Positions:
    """A folder of positions; without one nothing is remembered."""

    folder: Path | None

    def load(self, table: str, path: Path) -> Position | None:
        """The position of a table's log, if it was last read from the same path."""
        if self.folder is None:
            return None
        try:
            kept = msgspec.json.decode(self._file(self.folder, table).read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return kept.position if kept.path == str(path) else None

    def save(self, table: str, path: Path, position: Position) -> None:
        """Raises OSError."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._file(self.folder, table)
        fresh = file.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(_Kept(str(path), position)))
        fresh.replace(file)

    @staticmethod
    def _file(folder: Path, table: str) -> Path:
        return folder / f"{table}.position"


class _Kept(msgspec.Struct, frozen=True):
    path: str
    position: Position
