"""Keys that change under running processes: a token and a node are revoked, a certificate is replaced."""

from __future__ import annotations

import hashlib
import shutil
import ssl
from pathlib import Path

import pytest
import trio

from pier_node.access import tokens
from pier_node.access.tokens import Token
from pier_node.client import Connection, PierError, connect
from pier_node.config.addresses import split_address
from pier_node.data_dir import NodeState
from pier_node.key_files import KeysDir, change_tokens, read_token
from pier_node.tls import client_context
from tests.pier_node.processes.test_node_process import node
from tests.pier_node.processes.test_siege import figure, until

pytestmark = pytest.mark.processes

WORD = "the word of somebody who only asks"
#: Nodes look at their key files this often.
LOOK = ["--set", "security.keyring_check_s=0.2"]


def test_a_token_a_certificate_and_a_node_change_while_nodes_run(tmp_path: Path) -> None:
    keys = KeysDir(tmp_path / "keys")
    keys.make(["localhost"])
    asker = Token("asker", ("ask",), (tokens.digest(WORD),), 1)
    change_tokens(keys.tokens, lambda book: tokens.added(book, asker))
    # The host that will be thrown out has files of its own, and nobody tells it.
    shutil.copytree(keys.path, tmp_path / "stolen")
    with node(tmp_path / "first", "--keys", str(keys.path), *LOOK) as (process, state):
        flags = ["--keys", str(tmp_path / "stolen"), "--join", state.address, *LOOK]
        with node(tmp_path / "second", *flags) as (other, stolen):
            trio.run(story, keys, state, stolen)
            assert other.poll() is None
        assert process.poll() is None


async def story(keys: KeysDir, state: NodeState, stolen: NodeState) -> None:
    tls = client_context(keys.tls_authority)
    address = split_address(state.client_address)
    async with connect(*address, tls=tls, token=read_token(keys.token)) as admin:
        await until("two are on the ring", lambda: sees(admin, 2))
        await token_is_revoked(keys, address, admin)
        await certificate_is_replaced(keys, address, admin)
        await node_is_revoked(keys, stolen, admin)
        assert await figure(admin, "runtime.crashes") == 0


async def sees(conn: Connection, nodes: int) -> bool:
    return len((await conn.ring(whole=True)).nodes) == nodes


async def token_is_revoked(keys: KeysDir, address: tuple[str, int], admin: Connection) -> None:
    """Its session ends in the middle, and it opens no other; the administrator's goes on."""
    tls = client_context(keys.tls_authority)
    async with connect(*address, tls=tls, token=WORD) as conn:
        assert (await conn.query("SELECT 1 AS one").table()).num_rows == 1
        change_tokens(keys.tokens, lambda book: tokens.revoked(book, "asker"))

        async def turned_away() -> bool:
            try:
                await conn.query("SELECT 1 AS one").table()
            except PierError:
                return True
            return False

        await until("the session ends", turned_away)
    with pytest.raises(PierError):
        async with connect(*address, tls=tls, token=WORD):
            raise AssertionError("a revoked token was let in")
    assert await figure(admin, "clients.tokens_refused") > 0


async def certificate_is_replaced(keys: KeysDir, address: tuple[str, int], admin: Connection) -> None:
    """Who connects from now on is shown the new one; who is connected stays."""
    before = await shown(keys, address)
    keys.renew_tls([])

    async def another() -> bool:
        return await shown(keys, address) != before

    await until("another certificate is shown", another)
    assert (await admin.status()).joined


async def shown(keys: KeysDir, address: tuple[str, int]) -> str:
    """The certificate that a client is shown, which it can check against the authority it knows."""
    context = client_context(keys.tls_authority)
    stream = await trio.open_ssl_over_tcp_stream(*address, ssl_context=context)
    async with stream:
        await stream.do_handshake()
        certificate = stream.getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)
        return hashlib.sha256(ssl.DER_cert_to_PEM_cert(certificate).encode()).hexdigest()


async def node_is_revoked(keys: KeysDir, stolen: NodeState, admin: Connection) -> None:
    """It is taken off the ring by everybody who knows, and its greetings are dropped from then on."""
    before = await figure(admin, "transport.dropped.revoked_id")
    keys.revoke_node(bytes.fromhex(stolen.node_id))
    await until("it is off the ring", lambda: sees(admin, 1))

    async def dropped() -> bool:
        return await figure(admin, "transport.dropped.revoked_id") > before

    await until("its greetings are dropped", dropped)
    assert await sees(admin, 1)
