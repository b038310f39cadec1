"""Loads on disk: what this node keeps alive, a file each, so that it goes on with them when it is started again.

    published/MARK.load     a load that is there: its facts, then its objects, then keys of it that were taken back
    published/MARK.part     one that is still coming; of no use to anybody when the node stops

A file is a sequence of msgpack values, each behind its length. Appending is cheap and done on the loop; reading a whole
file and flushing one to the disk are not (`LoadJournal.read`, `_Writer.keep`). A file that ends within a value is
what a crash left: the values before it count.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from overlay.dht.messages import VALUE_BYTES_MAX
from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from pier_node.engine.published import LoadFacts, Restored
from runtime.api import Runtime

_log = logging.getLogger("pier.loads")

LOAD, PART = ".load", ".part"
_LENGTH_BYTES = 4
#: One value of a file: an object with its names, or a list of keys.
_RECORD_BYTES_MAX = 2 * VALUE_BYTES_MAX


class _Object(msgspec.Struct, frozen=True, array_like=True, tag=1):
    namespace: str
    key: str
    suffix: str
    value: bytes
    lifetime_s: float
    copies: int


class _Ended(msgspec.Struct, frozen=True, array_like=True, tag=2):
    keys: tuple[str, ...]


_facts = msgspec.msgpack.Decoder(LoadFacts)
_records = msgspec.msgpack.Decoder(_Object | _Ended)


class LoadFiles:
    """The `LoadJournal` of a node with a data directory."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        """Makes the folder; what was half there when the node stopped is removed."""
        self._runtime = runtime
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in folder.glob(f"*{PART}"):
            left.unlink()

    def begin(self, facts: LoadFacts) -> _Writer:
        return _Writer(self._runtime, self._folder, facts)

    def end(self, facts: LoadFacts) -> None:
        try:
            (self._folder / f"{facts.mark}{LOAD}").unlink(missing_ok=True)
        except OSError as error:
            _cannot(facts, error)

    def end_keys(self, facts: LoadFacts, keys: Sequence[str]) -> None:
        try:
            with (self._folder / f"{facts.mark}{LOAD}").open("ab") as file:
                file.write(_framed(_Ended(tuple(keys))))
        except OSError as error:
            _cannot(facts, error)

    def loads(self) -> Sequence[str]:
        return sorted(path.stem for path in self._folder.glob(f"*{LOAD}"))

    def read(self, mark: str) -> Restored | None:
        with (self._folder / f"{mark}{LOAD}").open("rb") as file:
            records = _read(file)
            try:
                first = next(records, None)
                if first is None:
                    return None
                facts = _facts.decode(first)
                puts: dict[Name, PutObject] = {}
                for data in records:
                    record = _records.decode(data)
                    if isinstance(record, _Object):
                        name = Name(record.namespace, record.key, record.suffix)
                        puts[name] = PutObject(name, record.value, record.lifetime_s, copies=record.copies)
                    else:
                        ended = set(record.keys)
                        puts = {
                            name: put
                            for name, put in puts.items()
                            if name.namespace != facts.table or name.key not in ended
                        }
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return None
        return Restored(facts, list(puts.values()))


class _Writer:
    """One load that is coming."""

    def __init__(self, runtime: Runtime, folder: Path, facts: LoadFacts) -> None:
        self._runtime = runtime
        self._part = folder / f"{facts.mark}{PART}"
        self._whole = folder / f"{facts.mark}{LOAD}"
        descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._file.write(_framed(facts))

    def add(self, puts: Sequence[PutObject]) -> None:
        for put in puts:
            self._file.write(_framed(_Object(*put.name, put.value, put.lifetime_s, put.copies)))

    def keep(self, done: Callable[[Exception | None], None]) -> None:
        def flush() -> None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.replace(self._whole)

        self._runtime.compute(flush, done)

    def discard(self) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)


def _cannot(facts: LoadFacts, error: OSError) -> None:
    """The rows go now; they would come back with the next start of this node."""
    details = {"table": facts.table, "load": facts.mark, "reason": str(error)}
    _log.warning("cannot write down that rows were taken back", extra={"details": details})


def _framed(value: LoadFacts | _Object | _Ended) -> bytes:
    data = msgspec.msgpack.encode(value)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


def _read(file: BinaryIO) -> Iterator[bytes]:
    """The values of a file, up to where it ends or makes no sense."""
    while len(head := file.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
        size = int.from_bytes(head, "big")
        if size > _RECORD_BYTES_MAX:
            return
        data = file.read(size)
        if len(data) < size:
            return
        yield data
