"""The roster on disk: a ring that was stopped as a whole, or a node that starts alone, knows whom to expect.

    node.roster     the members as this node last knew them, in its data directory

Written some seconds after a change, in one piece, beside the loop. A file that cannot be read is left behind with a
word in the log: neighbours tell the rest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import trio

from overlay.roster.member import Member
from overlay.roster.roster import Roster
from pier_node.journal import Journal

NAME = "node.roster"
#: Between looks whether something has changed.
LOOK_S = 2.0
FILE_BYTES_MAX = 256 << 20


class RosterFile(msgspec.Struct, frozen=True, array_like=True):
    """What the file holds: members, each with the wall time since when it has stood so."""

    members: Sequence[tuple[Member, float]]


def read_roster(path: Path) -> RosterFile:
    """What is there; nothing when there is no file. Raises OSError and ValueError."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ValueError(f"more than {FILE_BYTES_MAX} bytes")
        return msgspec.msgpack.decode(path.read_bytes(), type=RosterFile)
    except FileNotFoundError:
        return RosterFile(())
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def write_roster(path: Path, members: Sequence[tuple[Member, float]]) -> None:
    temporary = path.with_name(f".{path.name}.new")
    data = msgspec.msgpack.encode(RosterFile(members))
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


class KeptRoster:
    """A node's roster and its file."""

    def __init__(self, roster: Roster, folder: Path, journal: Journal) -> None:
        self._roster = roster
        self._path = folder / NAME
        self._journal = journal
        self._written = -1
        self._problem = ""

    def load(self) -> None:
        try:
            self._roster.load(read_roster(self._path).members)
        except (OSError, ValueError) as error:
            self._journal.warning("the roster cannot be read; neighbours tell it anew", reason=error)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            if self._roster.book.changes != self._written:
                await self.save()

    async def save(self) -> None:
        self._written = self._roster.book.changes
        members = [(kept.member, kept.since) for kept in self._roster.book]
        try:
            await trio.to_thread.run_sync(write_roster, self._path, members)
            self._problem = ""
        except OSError as error:
            self._written = -1
            if str(error) != self._problem:
                self._problem = str(error)
                self._journal.warning("the roster cannot be kept", reason=error)
