"""The native runtime: timers, computations, streams, addresses, clean ends."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from runtime.api import Stream
from runtime.native import AddressError, format_address, is_loopback, open_native, split_address
from runtime.native.address import from_sockaddr, to_sockaddr
from runtime.native.process import COMPUTE_WAITING_MAX
from runtime.native.secret_files import SecretFileError, fresh_secret, read_secret, write_secret
from runtime.native.timers import CANCELLED_SLACK, TimerHeap
from runtime.native.udp import RUN_BYTES_MAX, SEGMENTS_MAX, UdpSocket, runs


async def wait_until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not condition():
            await trio.lowlevel.checkpoint()


# -- addresses


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":1", "host:x", "host:70000", "::1:5", "[::1]", "host:-1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        split_address(text)


@given(st.ip_addresses(), st.integers(0, 65_535))
def test_addresses_read_back(ip: Any, port: int) -> None:
    text = format_address(str(ip), port)
    assert split_address(text) == (str(ip), port)
    if ip.version == 4 or ip.ipv4_mapped is None:
        assert from_sockaddr(to_sockaddr(text, socket.AF_INET6)) == text


def test_names_are_not_resolved_here() -> None:
    assert split_address("localhost:1") == ("localhost", 1)
    with pytest.raises(AddressError):
        is_loopback("localhost:1")


@pytest.mark.trio
async def test_without_keys_only_loopback_may_be_bound() -> None:
    for bind in ("0.0.0.0:0", "192.0.2.1:0", "[::]:0"):
        with pytest.raises(AddressError):
            async with open_native(bind):
                raise AssertionError("bound")
    with pytest.raises(AddressError):
        async with open_native("0.0.0.0:0", sealed=True):
            raise AssertionError("nobody knows the address")
    async with open_native("0.0.0.0:0", "127.0.0.1:7000", sealed=True) as runtime:
        assert runtime.address == "127.0.0.1:7000"


# -- timers


@pytest.mark.trio
async def test_timers_run_in_order_and_cancelled_ones_do_not() -> None:
    async with open_native() as runtime:
        ran: list[str] = []
        runtime.call_later(0.02, ran.append, "later")
        runtime.call_later(0.0, ran.append, "soon")
        runtime.call_later(0.01, ran.append, "next")
        cancelled = runtime.call_later(0.005, ran.append, "never")
        cancelled.cancel()
        cancelled.cancel()
        await wait_until(lambda: len(ran) == 3)
        assert ran == ["soon", "next", "later"]
        assert runtime.statistics().timers == 0


@pytest.mark.trio
async def test_an_earlier_timer_wakes_the_sleeper_and_a_raising_one_harms_nobody() -> None:
    async with open_native() as runtime:
        ran: list[int] = []
        runtime.call_later(1_000.0, ran.append, 0)
        await trio.testing.wait_all_tasks_blocked()
        runtime.call_later(0.01, lambda _: 1 / 0, None)  # type: ignore[arg-type]
        runtime.call_later(0.011, ran.append, 1)
        await wait_until(lambda: ran == [1])
        assert runtime.statistics().crashes == 1


@pytest.mark.trio
async def test_an_idle_runtime_uses_no_cpu() -> None:
    async with open_native() as runtime:
        runtime.call_later(1_000.0, lambda _: None, None)
        await trio.testing.wait_all_tasks_blocked()
        before = time.process_time()
        woken = threading.Event()
        await trio.to_thread.run_sync(woken.wait, 0.2)
        assert time.process_time() - before < 0.05


def test_cancelled_timers_do_not_pile_up() -> None:
    heap = TimerHeap()
    kept = heap.add(1e9, print, None)
    for n in range(20 * CANCELLED_SLACK):
        heap.add(float(n), print, None).cancel()
    assert len(heap._heap) <= 2 * CANCELLED_SLACK + 2
    assert len(heap) == 1 and heap.next_at() == 1e9
    kept.cancel()
    assert heap.next_at() is None


# -- computations


@pytest.mark.trio
async def test_computations_run_elsewhere_and_their_errors_are_results() -> None:
    async with open_native() as runtime:
        results: list[object] = []
        runtime.compute(threading.get_ident, results.append)
        runtime.compute(lambda: 1 // 0, results.append)
        await wait_until(lambda: len(results) == 2)
        assert threading.get_ident() not in results
        assert any(isinstance(result, ZeroDivisionError) for result in results)


@pytest.mark.trio
async def test_computations_waiting_are_bounded() -> None:
    async with open_native() as runtime:
        gate = threading.Event()
        results: list[object] = []
        for _ in range(COMPUTE_WAITING_MAX + 5):
            runtime.compute(gate.wait, results.append)
        await wait_until(lambda: len(results) == 5)
        assert all(isinstance(result, RuntimeError) for result in results)
        gate.set()
        await wait_until(lambda: len(results) == COMPUTE_WAITING_MAX + 5)
        assert runtime.statistics().computations_refused == 5


# -- datagrams


@given(st.lists(st.integers(0, 1_500), max_size=200))
def test_runs_are_what_one_call_may_carry(sizes: list[int]) -> None:
    datagrams = [bytes(size) for size in sizes]
    split = [list(run) for run in runs(datagrams)]
    assert [datagram for run in split for datagram in run] == datagrams
    for run in split:
        assert all(len(datagram) == len(run[0]) for datagram in run[:-1])
        assert len(run[-1]) <= len(run[0])
        assert len(run) <= SEGMENTS_MAX and sum(map(len, run)) <= RUN_BYTES_MAX


@pytest.mark.parametrize(("gso", "gro"), [(True, True), (True, False), (False, True), (False, False)])
def test_datagrams_survive_any_mix_of_offloads(gso: bool, gro: bool) -> None:
    sender, receiver = UdpSocket("127.0.0.1:0", offload=gso), UdpSocket("127.0.0.1:0", offload=gro)
    sent = [bytes([n]) * (1_200 if n % 7 else 300) for n in range(100)]
    sender.send_many(receiver.address, sent)
    batch: list[tuple[str, bytes]] = []
    while receiver.receive(batch):
        pass
    assert batch == [(sender.address, datagram) for datagram in sent]
    assert sender.sends < 100 if sender.gso else sender.sends == 100
    sender.close()
    receiver.close()


def test_a_refusal_of_gso_falls_back_to_single_datagrams(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __init__(self, inner: socket.socket) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def sendmsg(self, *_: object) -> int:
            raise OSError(5, "no checksum offload here")

    sender, receiver = UdpSocket("127.0.0.1:0"), UdpSocket("127.0.0.1:0")
    monkeypatch.setattr(sender, "socket", Refusing(sender.socket))
    sender.send_many(receiver.address, [b"x" * 100] * 10)
    batch: list[tuple[str, bytes]] = []
    while receiver.receive(batch):
        pass
    assert len(batch) == 10 and not sender.gso and not sender.unsent
    sender.close()
    receiver.close()


def test_what_cannot_be_sent_is_counted() -> None:
    sender = UdpSocket("127.0.0.1:0")
    sender.send_many("nowhere:1", [b"x"])
    sender.send_many("[::1]:1", [b"x", b"y"])
    assert sender.unsent == {"bad_address": 3}
    sender.close()


# -- streams


class Collector:
    def __init__(self) -> None:
        self.data = bytearray()
        self.drains = 0
        self.reason: str | None = None

    def received(self, data: bytes) -> None:
        self.data += data

    def drained(self) -> None:
        self.drains += 1

    def closed(self, reason: str) -> None:
        assert self.reason is None, "closed is the last call"
        self.reason = reason


@pytest.mark.trio
async def test_streams_carry_bytes_push_back_and_end() -> None:
    async with open_native() as runtime:
        accepted: list[Stream] = []
        server, client = Collector(), Collector()
        address = runtime.listen("127.0.0.1:0", accepted.append)
        connected: list[Stream | str] = []
        runtime.connect(address, connected.append)
        await wait_until(lambda: bool(accepted) and bool(connected))
        stream = connected[0]
        assert not isinstance(stream, str)
        stream.handle(client)
        data = os.urandom(5_000_000)
        assert stream.write(data) is False, "above the high-water mark"
        accepted[0].handle(server)
        await wait_until(lambda: len(server.data) == len(data))
        assert bytes(server.data) == data
        await wait_until(lambda: client.drains == 1)
        accepted[0].write(b"bye")
        accepted[0].close()
        await wait_until(lambda: client.reason is not None)
        assert bytes(client.data) == b"bye" and client.reason == "" and server.reason == ""
        await wait_until(lambda: runtime.statistics().streams == 0)


@pytest.mark.trio
async def test_a_paused_reader_reads_nothing_until_resumed() -> None:
    async with open_native() as runtime:
        collector = Collector()
        accepted: list[Stream] = []

        def accept(stream: Stream) -> None:
            stream.pause_reading()
            stream.handle(collector)
            accepted.append(stream)

        address = runtime.listen("127.0.0.1:0", accept)
        host, port = split_address(address)
        async with await trio.open_tcp_stream(host, port) as client:
            await client.send_all(b"x" * 1_000)
            await wait_until(lambda: bool(accepted))
            await trio.testing.wait_all_tasks_blocked()
            assert not collector.data
            accepted[0].resume_reading()
            await wait_until(lambda: len(collector.data) == 1_000)


@pytest.mark.trio
async def test_a_failed_connection_says_why() -> None:
    async with open_native() as runtime:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            results: list[Stream | str] = []
            runtime.connect(from_sockaddr(unused.getsockname()), results.append)
            runtime.connect("no address", results.append)
            await wait_until(lambda: len(results) == 2)
        assert all(isinstance(result, str) and result for result in results)


@pytest.mark.trio
async def test_the_end_closes_everything_even_with_work_in_hand() -> None:
    gate = threading.Event()
    with trio.fail_after(10):
        async with open_native() as runtime:
            address = runtime.address
            at = runtime.listen("127.0.0.1:0", lambda stream: None)
            results: list[Stream | str] = []
            runtime.connect(at, results.append)
            runtime.compute(gate.wait, lambda _: None)
            runtime.call_later(0.0, lambda _: None, None)
            await wait_until(lambda: bool(results))
    gate.set()
    again = UdpSocket(address)
    again.close()


# -- secret files


def test_secret_files_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    write_secret(path, "hush")
    assert path.stat().st_mode & 0o777 == 0o600 and read_secret(path) == "hush"
    with pytest.raises(FileExistsError):
        write_secret(path, "other")
    write_secret(path, "other", replace=True)
    assert read_secret(path) == "other" and list(tmp_path.iterdir()) == [path]
    path.chmod(0o640)
    with pytest.raises(SecretFileError):
        read_secret(path)
    assert len(fresh_secret(32)) == 32 and fresh_secret(32) != fresh_secret(32)
