"""Where the Bloom filters of a query meet: each name has a node that holds the filters all nodes put under it, and
whoever needs the whole asks there when all are in (CAN 4, PIER 4.3: the Bloom join's collector).

Without the whole filter every row passes, which is slower and never wrong; a filter that cannot be stored ends the
query, for without it rows with a partner could be thrown away.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, PutObject, Target
from overlay.dht.verbs import Dht
from overlay.objects.name import Name
from query.engine.spec import QuerySpec
from query.engine.stages import FILTER
from query.keys.bloom import BloomFilter

#: How long a filter waits for those who read it.
LIFETIME_S = 120.0


class QueryFilters:
    """The service "bloom" of one query on one node."""

    def __init__(
        self,
        spec: QuerySpec,
        node: bytes,
        dht: Dht,
        when_complete: Callable[[str, Callable[[], None]], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._spec = spec
        self._node = node
        self._dht = dht
        self._when_complete = when_complete
        self._fail = fail
        self._puts = 0

    def put(self, name: str, filter_: BloomFilter, done: Callable[[], None]) -> None:
        self._puts += 1

        def stored(code: Code) -> None:
            if code is Code.OK:
                done()
            else:
                self._fail(ConnectionError(f"the Bloom filter {name!r} could not be stored: {code.name}"))

        suffix = f"{self._node.hex()}.{self._puts}"
        put = PutObject(
            Name(self._namespace, name, suffix), filter_.to_bytes(), LIFETIME_S, self._holder(name)
        )
        self._dht.put_temp(put, stored)

    def get(self, name: str, handler: Callable[[BloomFilter | None], None]) -> None:
        def got(answer: Got) -> None:
            handler(merged(answer))

        def complete() -> None:
            self._dht.get(GetObject(self._namespace, name, target=self._holder(name)), got)

        self._when_complete(FILTER + name, complete)

    @property
    def _namespace(self) -> str:
        return f"pier.q.{self._spec.id}.bloom"

    def _holder(self, name: str) -> Target:
        spec = self._spec
        if not spec.group_owner:
            return Target(address=spec.proxy.address)
        group = zlib.crc32(name.encode()) % len(spec.group_owner)
        return Target(address=spec.owners[spec.group_owner[group]])


def merged(answer: Got) -> BloomFilter | None:
    """All filters in one; None when they are not all there, or cannot be merged."""
    if answer.code is not Code.OK or not answer.objects:
        return None
    try:
        first, *others = [BloomFilter.from_bytes(found.value) for found in answer.objects]
        for other in others:
            first.merge(other)
    except ValueError:
        return None
    return first
