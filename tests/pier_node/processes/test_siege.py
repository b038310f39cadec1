"""A node under siege from both sides: what it does with each attack is counted, and it comes out as it went in.

The rows of the table in docs/security.md that need a real process; the others name their tests there.
"""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from overlay.transport import open_messenger
from overlay.transport.keyring import Keyring, new
from pier_node.client import LimitReached, RequestFailed, connect
from pier_node.client.connection import Connection
from pier_node.config.addresses import split_address
from pier_node.data_dir import NodeState
from pier_node.key_files import KeysDir, read_keyring, read_token, retire_keys, rotate_keyring
from pier_node.protocol.messages import Limits
from pier_node.tls import client_context
from query.engine.node import NODE_MESSAGES
from runtime.message import Codec, Message
from runtime.native import open_native
from tests.pier_node.processes.test_node_process import node

pytestmark = pytest.mark.processes

PATIENCE_S = 60.0
ROWS = 3_000
#: Attackers have an address of their own, as they would have.
ATTACKER = "127.0.0.2"
#: Attempts in all, and how many at once.
CONNECTIONS, AT_ONCE = 10_000, 400
PER_ADDRESS = 64
DATAGRAMS = 10_000
SLOW = 50
#: What a node may keep of a siege: descriptors, and memory that the allocator does not give back at once.
DESCRIPTORS_MORE_MAX = 8
GROWTH_BYTES_MAX = 150 << 20
SELF_JOIN = (
    "SELECT count(*) AS n FROM fw a JOIN fw b ON a.g = b.g JOIN fw c ON b.g = c.g JOIN fw d ON c.g = d.g"
)
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT g FROM fw UNION SELECT n + 1 FROM r) SELECT count(*) AS n FROM r"


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def memory_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) << 10


async def figure(conn: Connection, name: str) -> int:
    value = (await conn.status()).figures.get(name, 0)
    assert isinstance(value, int)
    return value


async def until(what: str, check: Callable[[], Awaitable[bool]]) -> None:
    with trio.move_on_after(PATIENCE_S):
        while not await check():
            await trio.sleep(0.1)
        return
    raise AssertionError(f"{what}: not within {PATIENCE_S:g} s")


async def counted(conn: Connection) -> int:
    (row,) = (await conn.query("SELECT count(*) AS n FROM fw").table()).to_pylist()
    return int(row["n"])


# -- the client port


def test_clients_that_mean_harm(tmp_path: Path) -> None:
    (tmp_path / "fw.csv").write_text("g,n\n" + "".join(f"{n % 3},{n}\n" for n in range(ROWS)))
    flags = ["--source", f"fw=csv:{tmp_path}/fw.csv", "--set", "client.hello_timeout_s=2"]
    flags += ["--set", f"client.connections_per_address_max={PER_ADDRESS}"]
    with node(tmp_path / "data", *flags) as (process, state):
        trio.run(siege_of_the_door, process.pid, state)
        assert process.poll() is None


async def siege_of_the_door(pid: int, state: NodeState) -> None:
    address = split_address(state.client_address)
    async with connect(*address) as conn:
        assert await counted(conn) == ROWS
        before = descriptors(pid), memory_bytes(pid)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slowloris, address)
            await ten_thousand_connections(address, conn)
        await query_bombs(conn)
        assert await counted(conn) == ROWS

        async def let_go() -> bool:
            return descriptors(pid) <= before[0] + DESCRIPTORS_MORE_MAX

        await until("descriptors are given back", let_go)
        assert memory_bytes(pid) - before[1] < GROWTH_BYTES_MAX
        assert await figure(conn, "runtime.crashes") == 0


async def slowloris(address: tuple[str, int]) -> None:
    """A byte of a hello now and then: the whole hello has one deadline, and a trickle does not move it."""

    async def trickle(number: int) -> None:
        with trio.fail_after(PATIENCE_S):
            source = f"127.0.1.{1 + number % 200}"
            stream = await trio.open_tcp_stream(*address, local_address=source)
            async with stream:
                try:
                    while True:
                        await stream.send_all(b"\x00")
                        with trio.move_on_after(0.2):
                            if not await stream.receive_some(4_096):
                                return
                except (trio.BrokenResourceError, OSError):
                    return

    async with trio.open_nursery() as nursery:
        for number in range(SLOW):
            nursery.start_soon(trickle, number)


async def ten_thousand_connections(address: tuple[str, int], good: Connection) -> None:
    """From one host: all but a few are turned away and told why; who is in is served all the time, and who comes later
    is let in."""
    limiter = trio.CapacityLimiter(AT_ONCE)

    async def knock() -> None:
        async with limiter:
            try:
                stream = await trio.open_tcp_stream(*address, local_address=ATTACKER)
                async with stream:
                    with trio.move_on_after(0.05):
                        await stream.receive_some(4_096)
            except (OSError, trio.BrokenResourceError):
                return

    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS):
            nursery.start_soon(knock)
        with trio.fail_after(PATIENCE_S):
            for _ in range(5):
                assert await counted(good) == ROWS
    async with connect(*address, timeout_s=PATIENCE_S) as another:
        assert (await another.status()).joined
    refused = await figure(good, "clients.refused_by_address") + await figure(good, "clients.refused")
    assert refused > 0, "nobody was turned away"
    assert await figure(good, "clients.accepted") + refused >= CONNECTIONS // 2


async def query_bombs(conn: Connection) -> None:
    """Joins that explode and recursions without end stop at a limit that the answer names; the node goes on."""
    tight = Limits(time_s=5.0, memory_bytes=32 << 20, steps=20_000)
    for bomb in (SELF_JOIN, ENDLESS):
        answer = conn.query(bomb, limits=tight, allow_partial=True)
        try:
            with trio.fail_after(PATIENCE_S):
                await answer.table()
        except RequestFailed as refused:
            assert isinstance(refused, LimitReached) or refused.kind in ("syntax", "unsupported"), refused
        else:
            assert answer.account is not None and answer.account.ended == "limit", answer.account
            assert any("limit" in note for note in answer.account.notes)
    assert not await conn.queries()


# -- the port for nodes


class Knock(Message, frozen=True, tag=99):
    """What no node expects."""


def test_strangers_among_nodes(tmp_path: Path) -> None:
    keys = KeysDir(tmp_path / "keys")
    keys.make(["localhost"])
    old = read_keyring(keys.keyring)
    rotate_keyring(keys.keyring)
    rotate_keyring(keys.keyring)
    retire_keys(keys.keyring)
    with node(tmp_path / "data", "--keys", str(keys.path)) as (process, state):
        trio.run(siege_of_the_ring, process.pid, state, keys, old)
        assert process.poll() is None


async def siege_of_the_ring(pid: int, state: NodeState, keys: KeysDir, old: Keyring) -> None:
    tls: ssl.SSLContext = client_context(keys.tls_authority)
    token = read_token(keys.token)
    async with connect(*split_address(state.client_address), tls=tls, token=token) as conn:
        before = descriptors(pid), memory_bytes(pid)
        await random_datagrams(state)
        await foreign_keys(state, conn, new(bytes(range(32)), 1))
        await foreign_keys(state, conn, old)
        assert await figure(conn, "transport.peers") == 0, "somebody was let in"
        assert await figure(conn, "runtime.crashes") == await figure(conn, "transport.crashes") == 0
        assert descriptors(pid) <= before[0] + DESCRIPTORS_MORE_MAX
        assert memory_bytes(pid) - before[1] < GROWTH_BYTES_MAX


async def random_datagrams(state: NodeState) -> None:
    rng = random.Random(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
        for number in range(DATAGRAMS):
            size = (
                rng.choice((0, 1, 20, 60, 200, 1_200, 9_000, 60_000))
                if number % 50 == 0
                else rng.randrange(100)
            )
            noise.sendto(rng.randbytes(size), split_address(state.address))
            if number % 200 == 0:
                await trio.sleep(0)


async def foreign_keys(state: NodeState, conn: Connection, ring: Keyring) -> None:
    """A node with keys that are not, or no longer, the ring's: its greetings open nothing."""
    before = await figure(conn, "transport.dropped.wrong_key")
    told: list[bool] = []
    async with open_native(sealed=True) as runtime:
        stranger = open_messenger(runtime, Codec((*NODE_MESSAGES, Knock)), keyring=ring)
        stranger.send(state.address, Knock(), told.append)

        async def dropped() -> bool:
            return await figure(conn, "transport.dropped.wrong_key") > before

        await until("greetings under foreign keys are dropped", dropped)
        stranger.close()
    assert told == [False]
