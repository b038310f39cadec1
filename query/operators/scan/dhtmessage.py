"""Scan, DHTMessage: rows that were sent through the overlay, at their owner or on their way (PIER Table 3.3).

With `midway` a node takes what passes through it and stops it there: the upcall with which hierarchical operators
combine on the way to the root (PIER 3.2.2, 4.2). With `path` it takes a copy of what passes, writes its own id into it
and lets it go on: rows then have a column that says which nodes they had passed before, and one that tells them apart,
for the hierarchical join (PIER 4.3.4). Otherwise it is a scan of what arrives at the owner. Each object is taken once.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

import numpy as np
import pyarrow as pa

from overlay.dht.operations import GotObject
from overlay.dht.watch import Passing
from overlay.objects.name import Name
from overlay.router import Verdict
from query.batch import Batch
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.engine.paths import add_hop, id_column, read_path
from query.operators.scan.dht import ScanDht


@register
class ScanDhtMessage(ScanDht):
    """Rows sent with put DHTMessage."""

    TYPE = "scan"
    IMPLEMENTATION = "DHTMessage"
    OPTIONS: ClassVar = (
        *ScanDht.OPTIONS,
        Option("midway", "flag", "whether to take rows that are on their way to another node", False),
        Option(
            "path", "text", "take a copy of rows on their way; this column says whom they had passed before"
        ),
    )

    def open(self) -> None:
        super().open()
        self._path: str | None = self.options["path"]
        self._node: bytes = self.context.services["node"]
        self._paths = self._exchange.paths
        self._seen: set[Name] = set()
        #: Those of them that this node owns.
        self._home: set[Name] = set()

    def follow(self, tag: int) -> None:
        super().follow(tag)
        if not self.options["midway"] and self._path is None:
            return

        def passing(object_: Passing) -> Verdict | bytes:
            at_home = object_.passage.at_owner
            if at_home or (object_.passage.locally_sent and self._path is None):
                return Verdict.FORWARD
            self.context.guard(lambda: self._take_passing(object_, tag))
            return Verdict.STOP if self._path is None else add_hop(object_.value, self._node)

        self.subscriptions.append(self.dht.upcall(self.prefix, passing))

    def take_objects(self, objects: list[GotObject], tag: int, here: bool = True) -> None:
        """Each has a way it came by."""
        for got in objects:
            self.take_object(got.name, got.value, tag)

    def take_object(self, name: Name, value: bytes, tag: int) -> None:
        """One that has reached its owner; it may have been copied here when it was on its way."""
        if self._path is None:
            if name not in self._seen:
                self._seen.add(name)
                self.take(value, tag)
        elif name not in self._home:
            self._home.add(name)
            self._take_copy(name, value, tag, objects=1)

    def _take_passing(self, object_: Passing, tag: int) -> None:
        """With a path what passes goes on: its owner counts it."""
        if self._path is None:
            self.take_object(object_.name, object_.value, tag)
        else:
            self._take_copy(object_.name, object_.value, tag, objects=0)

    def _take_copy(self, name: Name, value: bytes, tag: int, objects: int) -> None:
        assert self._path is not None, "copies have a way they came by"
        if name in self._seen:
            if self.taking is not None:
                self.taking.batches += objects
            return
        self._seen.add(name)
        path, payload = read_path(value)
        batch = self.read(payload)
        if batch is not None:
            batch = self._origin.added(batch)
            number = np.full(batch.num_rows, self._paths.number(path))
            first = int.from_bytes(hashlib.blake2b(name.suffix.encode(), digest_size=8).digest(), "big")
            ids = (np.arange(batch.num_rows, dtype=np.uint64) + np.uint64(first)).view(np.int64)
            data = batch.data.append_column(self._path, pa.array(number))
            self.give(
                Batch(batch.table, data.append_column(id_column(self._path), pa.array(ids))), tag, objects
            )
