"""A node's door with a scripted engine, served by a thread, for commands that run in the test's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import trio

from pier_node.node_service import ComposedService
from pier_node.server import ClientServer, ServerOptions
from runtime.native import open_native
from tests.pier_node.worlds import FixedOverlay, ListJournal, ScriptedEngine


class Served:
    """Where to connect, and what answers."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine()
        self.address = ""
        self.ready = threading.Event()
        self._stop: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    async def serve(self) -> None:
        self._token, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
        async with open_native() as runtime:
            service = ComposedService(FixedOverlay(), self.engine)
            server = ClientServer(runtime, service, "ab" * 20, ServerOptions(), ListJournal())
            self.address = runtime.listen("127.0.0.1:0", server.accept)
            self.ready.set()
            await self._stop.wait()

    def close(self) -> None:
        assert self._token is not None and self._stop is not None
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)


@pytest.fixture
def served() -> Iterator[Served]:
    node = Served()
    thread = threading.Thread(target=trio.run, args=(node.serve,))
    thread.start()
    assert node.ready.wait(10)
    try:
        yield node
    finally:
        node.close()
        thread.join()
