"""A node as a process: from configuration to a running node and, on SIGTERM or SIGINT, out again.

Start: claim the data directory, read the keys, open the socket, build the node (`parts.py`), open the door for
clients, write the state file, join. Stop: hang up on clients, hand what this node owns to its neighbours, leave
the ring, close. A second signal skips the manners. What goes wrong before the node is up is a `StartError`. A node that
finds an earlier life of its own id on the ring stops by itself (`PutOut`).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import resource
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from overlay.roster.member import Profile
from overlay.transport.identity import SECRET_BYTES
from pier_node.config import Config, ConfigError, load, parse_source
from pier_node.data_dir import DataDir, DataDirError, NodeState, write_state
from pier_node.http.door import HttpDoor, HttpLimits
from pier_node.joining import Joining
from pier_node.journal import Journal
from pier_node.key_files import KeyFilesError
from pier_node.key_watch import watch_keys
from pier_node.load_files import LoadFiles
from pier_node.own_aggregates import OwnAggregatesError, load_own_aggregates
from pier_node.parts import NodeParts, build_node
from pier_node.resolve import ResolveError, own_address, resolve_one
from pier_node.roster_file import KeptRoster
from pier_node.security import Credentials, SecurityError, load_credentials
from pier_node.service import NodeStatus
from pier_node.sources.log_scan import compile_parsers
from pier_node.sources.opening import NodeSources, SourceOpenError
from pier_node.tls import TlsError
from query.keys import use_numba
from query.keys.large import on_large
from runtime.api import Stream
from runtime.native import AddressError, NativeRuntime, open_native, settle
from runtime.native.address import is_wildcard
from runtime.native.secret_files import fresh_secret

#: How long the goodbyes may take to leave the machine.
GOODBYE_S = 0.5
_GOODBYE_LOOK_S = 0.01
#: Open files and connections of one node: all streams that the runtime allows, and files beside.
DESCRIPTORS = 8_192


#: The exit code of a node that was put out; a supervisor should not start it again.
EXIT_PUT_OUT = 3


class StartError(Exception):
    """The node cannot start; the message is for whoever started it."""


class PutOut(Exception):
    """An earlier life of this node's id is on the ring; this one has stopped."""


_START_ERRORS = (
    ConfigError,
    DataDirError,
    KeyFilesError,
    SecurityError,
    TlsError,
    ResolveError,
    AddressError,
    OwnAggregatesError,
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the node is, in numbers. No door means no clients."""

    bind: str
    advertise: str | None
    door: str | None
    http: str | None


async def _addresses(config: Config) -> Addresses:
    async def numeric(text: str) -> str | None:
        return await resolve_one(text) if text else None

    bind = await resolve_one(config.node.listen)
    advertise = await numeric(config.node.advertise)
    if advertise is None and is_wildcard(bind):
        advertise = await own_address(bind)
    return Addresses(bind, advertise, await numeric(config.client.listen), await numeric(config.http.listen))


class NodeProcess:
    """One node and what only a process knows about it."""

    def __init__(self, config: Config, credentials: Credentials, journal: Journal) -> None:
        self.config = config
        self.credentials = credentials
        self.journal = journal
        self.client_address = self.http_address = ""
        #: Told to stop, and by which other life of this node's id, if so.
        self._told = trio.Event()
        self.put_out_by = ""
        self._started_s = time.monotonic()
        self._version = importlib.metadata.version("pier")

    async def run(self, at: Addresses) -> None:
        sealed = self.credentials.keyring is not None
        async with open_native(at.bind, at.advertise, sealed=sealed) as runtime:
            sources = self._sources(runtime)
            parts = build_node(
                runtime,
                self.config,
                self.credentials,
                self.journal,
                self._describe,
                lambda: {"sources": sources.statistics(), "runtime": runtime.statistics()},
                {**sources.services(self._folder("files")), "host": socket.gethostname()},
                self._version,
                self._loads(runtime),
            )
            parts.roster.namesakes.on_put_out = self._put_out
            with ExitStack() as cleanup:
                self._open_sources(sources, parts, cleanup)
                kept = self._roster(parts)
                self._keep_compiled()
                if sources.has_logs:
                    runtime.compute(compile_parsers, self._compiled)
                on_large(lambda: runtime.compute(use_numba, self._compiled_keys))
                if at.door is not None:
                    self.client_address = self._listen(
                        runtime, "client.listen", at.door, parts.server.accept, self.credentials.tls
                    )
                if at.http is not None:
                    http = HttpDoor(runtime, parts.status, parts.snapshots, self._http_limits())
                    self.http_address = self._listen(runtime, "http.listen", at.http, http.accept, None)
                settle()
                self._write_state(runtime, cleanup)
                self.journal.info(
                    "node is up",
                    id=self.credentials.node_id.hex(),
                    address=runtime.address,
                    clients=self.client_address or "none",
                    http=self.http_address or "none",
                )
                async with trio.open_nursery() as nursery:
                    joining = Joining(parts.overlay, runtime.address, self.config.node.join, self.journal)
                    nursery.start_soon(joining.run)
                    nursery.start_soon(watch_keys, self.config, self.credentials, parts, self.journal)
                    if kept is not None:
                        nursery.start_soon(kept.run)
                    await self._until_told(parts)
                    nursery.cancel_scope.cancel()
                if kept is not None:
                    await kept.save()
            parts.messenger.close()

    def _http_limits(self) -> HttpLimits:
        http = self.config.http
        return HttpLimits(http.connections_max, http.connections_per_address_max, http.request_timeout_s)

    def _describe(self, status: NodeStatus) -> NodeStatus:
        return replace(
            status,
            version=self._version,
            pid=os.getpid(),
            uptime_s=time.monotonic() - self._started_s,
            client_address=self.client_address,
            sources=self.config.node.sources,
        )

    def _roster(self, parts: NodeParts) -> KeptRoster | None:
        """What the node says of itself, and whom it knew in its last life."""
        identity = self.credentials.identity
        certificate = "" if identity is None else hashlib.sha256(identity.certificate).hexdigest()[:16]
        tables = tuple(parts.tables.names())
        parts.roster.describe(Profile(socket.gethostname(), self._version, certificate, tables))
        if not self.config.node.data_dir:
            return None
        kept = KeptRoster(parts.roster, Path(self.config.node.data_dir), self.journal)
        kept.load()
        return kept

    def _put_out(self, other: str) -> None:
        self.put_out_by = other
        self._told.set()

    def _sources(self, runtime: NativeRuntime) -> NodeSources:
        specs = [parse_source(text) for text in self.config.node.sources]
        try:
            return NodeSources(specs, runtime, self._folder("sources"), socket.gethostname())
        except SourceOpenError as error:
            raise StartError(f"node.sources: {error}") from None

    def _folder(self, name: str) -> Path | None:
        """A folder of the data directory: what queries may read never lies beside the node's secret."""
        return Path(self.config.node.data_dir) / name if self.config.node.data_dir else None

    def _loads(self, runtime: NativeRuntime) -> LoadFiles | None:
        """Where what is published through this node is written down; without a data directory it is not."""
        folder = self._folder("published")
        try:
            return None if folder is None else LoadFiles(runtime, folder)
        except OSError as error:
            raise StartError(f"node.data_dir: cannot use {folder}: {error.strerror}") from None

    def _open_sources(self, sources: NodeSources, parts: NodeParts, cleanup: ExitStack) -> None:
        cleanup.callback(sources.close)
        try:
            for warning in sources.start(parts.tables):
                self.journal.warning("a source is not there yet", source=warning)
        except SourceOpenError as error:
            raise StartError(f"node.sources: {error}") from None

    def _keep_compiled(self) -> None:
        """What this node compiles lies with the package, or in the data directory where that cannot be written."""
        folder = self._folder("compiled")
        if folder is not None and not os.access(Path(__file__).parent, os.W_OK):
            os.environ.setdefault("NUMBA_CACHE_DIR", str(folder))

    def _compiled(self, result: Exception | None) -> None:
        if result is not None:
            self.journal.warning("logs are parsed without compiled scans", reason=result)

    def _compiled_keys(self, result: bool | Exception) -> None:
        if isinstance(result, Exception):
            self.journal.warning("keys are looked up without compiled loops", reason=result)

    def _listen(
        self,
        runtime: NativeRuntime,
        knob: str,
        at: str,
        accept: Callable[[Stream], None],
        tls: ssl.SSLContext | None,
    ) -> str:
        try:
            return runtime.listen(at, accept, tls)
        except OSError as error:
            raise StartError(f"{knob}: cannot listen on {at}: {error.strerror}") from None

    def _write_state(self, runtime: NativeRuntime, cleanup: ExitStack) -> None:
        if not self.config.node.state_file:
            return
        path = Path(self.config.node.state_file)
        state = NodeState(os.getpid(), self.credentials.node_id.hex(), runtime.address, self.client_address)
        try:
            write_state(path, state)
        except OSError as error:
            raise StartError(f"node.state_file: cannot write {path}: {error.strerror}") from None
        cleanup.callback(path.unlink, missing_ok=True)

    async def _until_told(self, parts: NodeParts) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen_to, signals)
                await self._told.wait()
                nursery.cancel_scope.cancel()
            if self.put_out_by:
                # The other life goes on: nobody is told that this id has left.
                parts.roster.withdraw()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._leave, parts, nursery.cancel_scope)
                async for _ in signals:
                    self.journal.warning("leaving without goodbye")
                    nursery.cancel_scope.cancel()
                    break

    async def _listen_to(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self.journal.info("stopping", signal=signal.Signals(number).name)
            self._told.set()
            break

    async def _leave(self, parts: NodeParts, scope: trio.CancelScope) -> None:
        parts.server.close("the node is stopping")
        gone = trio.Event()
        parts.overlay.leave(gone.set)
        with trio.move_on_after(self.config.node.leave_timeout_s) as patience:
            await gone.wait()
        with trio.move_on_after(GOODBYE_S):
            while parts.messenger.statistics().backlog_bytes:
                await trio.sleep(_GOODBYE_LOOK_S)
        self.journal.info("left the ring", handed_over=not patience.cancelled_caught)
        scope.cancel()


def _allow_descriptors() -> None:
    """As many open files as the system lets this process have: often that is fewer than connections may be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def run_node(config: Config) -> None:
    """Runs a node until it is told to stop."""
    _allow_descriptors()
    with ExitStack() as held:
        data = DataDir(Path(config.node.data_dir)) if config.node.data_dir else None
        try:
            if data is not None:
                held.callback(os.close, data.lock())
            secret = data.secret() if data is not None else fresh_secret(SECRET_BYTES)
            credentials = load_credentials(config, secret, data)
            at = await _addresses(config)
            own = load_own_aggregates(config.node.aggregates)
        except _START_ERRORS as error:
            raise StartError(str(error)) from None
        journal = Journal(config.log, credentials.node_id.hex())
        if own:
            journal.info("aggregates of the owner", names=", ".join(own))
        process = NodeProcess(config, credentials, journal)
        try:
            await process.run(at)
        except AddressError as error:
            raise StartError(f"node.listen: {error}") from None
        except OSError as error:
            raise StartError(f"node.listen: cannot listen on {at.bind}: {error.strerror}") from None
        except BaseExceptionGroup as group:
            # The door is opened inside the runtime's nursery, which wraps what goes wrong there.
            refused = group.subgroup(StartError)
            if refused is None:
                raise
            raise StartError(str(_leaf(refused))) from None
        if process.put_out_by:
            raise PutOut(
                f"put out: the node at {process.put_out_by} has this node's id {credentials.node_id.hex()} and began "
                f"earlier; a data directory was copied. Remove {config.node.data_dir or 'the copy'} on one of the two "
                "hosts: a node without one gets an id of its own"
            )


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def main(path: str) -> int:
    """`python -m pier_node CONFIG.toml`: a node from a file and the environment."""
    try:
        trio.run(run_node, load(Path(path)))
    except (StartError, ConfigError, PutOut) as error:
        print(f"pier node: {error}", file=sys.stderr)
        return EXIT_PUT_OUT if isinstance(error, PutOut) else 1
    return 0
