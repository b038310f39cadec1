"""Messages between real sockets on loopback, and what faults of node code do to a node: nothing."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from dataclasses import replace

import pytest
import trio

from overlay.transport import LOCAL, MessageHost, open_messenger
from overlay.transport.keyring import Keyring, new
from runtime.api import Address
from runtime.message import Codec, Message, NotUnderstood
from runtime.native import NativeRuntime, open_native
from runtime.native.address import split_address

RING = new(bytes(range(32)), 1)


class Ask(Message, frozen=True, tag=1):
    number: int
    body: bytes


class Answer(Message, frozen=True, tag=2):
    number: int
    body: bytes


class Unknown(Message, frozen=True, tag=3):
    text: str


class LooseAsk(Message, frozen=True, tag=1):
    """The same kind as `Ask`, as a node would send it that has it wrong."""

    number: int | str
    body: bytes


CODEC = Codec([Ask, Answer])


def start(runtime: NativeRuntime, ring: Keyring | None = RING) -> MessageHost:
    return open_messenger(runtime, CODEC, LOCAL, ring)


async def wait_until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not condition():
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("offload", [True, False])
@pytest.mark.parametrize("ring", [RING, None])
@pytest.mark.trio
async def test_requests_and_large_answers(offload: bool, ring: Keyring | None) -> None:
    async with open_native(offload=offload) as one, open_native(offload=offload) as two:
        a, b = start(one, ring), start(two, ring)
        b.on(Ask, lambda sender, ask: b.send(sender, Answer(ask.number, ask.body * 100)))
        got: dict[int, bytes] = {}
        told: list[bool] = []
        a.on(Answer, lambda _, answer: got.__setitem__(answer.number, answer.body))
        for number in range(300):
            a.send(two.address, Ask(number, bytes([number % 256]) * number), told.append)
        await wait_until(lambda: len(got) == 300 and len(told) == 300)
        assert told == [True] * 300
        assert all(got[number] == bytes([number % 256]) * number * 100 for number in range(300))
        assert a.statistics().crashes == one.statistics().crashes == 0
        assert one.statistics().gso == one.statistics().gro == offload
        assert a.statistics().send_calls < a.statistics().messages_sent


@pytest.mark.trio
async def test_ipv6() -> None:
    async with open_native("[::1]:0") as one, open_native("[::1]:0") as two:
        a, b = start(one), start(two)
        senders: list[Address] = []
        b.on(Ask, lambda sender, _: senders.append(sender))
        a.send(two.address, Ask(1, b""))
        await wait_until(lambda: bool(senders))
        assert senders == [one.address] and one.address.startswith("[::1]:")


@pytest.mark.trio
async def test_a_dead_process_is_reported() -> None:
    async with open_native() as one:
        a = start(one)
        async with open_native() as two:
            b = start(two)
            b.on(Ask, lambda *_: None)
            told: list[bool] = []
            a.send(two.address, Ask(1, b""), told.append)
            await wait_until(lambda: told == [True])
        began = trio.current_time()
        a.send(two.address, Ask(2, b""), told.append)
        await wait_until(lambda: told == [True, False])
        assert trio.current_time() - began <= LOCAL.dead_after_s() + 1.0


@pytest.mark.trio
async def test_a_message_to_itself_arrives_later_not_at_once() -> None:
    async with open_native() as one:
        a = start(one)
        got: list[object] = []
        a.on(Ask, lambda sender, ask: got.append((sender, ask.number)))
        a.send(one.address, Ask(7, b""), got.append)
        assert got == []
        await wait_until(lambda: len(got) == 2)
        assert got == [(one.address, 7), True]


@pytest.mark.trio
async def test_handlers_that_raise_are_counted_and_the_node_goes_on() -> None:
    async with open_native() as one, open_native() as two:
        a, b = start(one), start(two)
        seen: list[int] = []

        def fragile(_: Address, ask: Ask) -> None:
            seen.append(ask.number)
            raise ValueError("provoked from afar")

        def bad_notice(_: bool) -> None:
            raise KeyError("in a notice")

        b.on(Ask, fragile)
        for number in range(5):
            a.send(two.address, Ask(number, b""), bad_notice)
        await wait_until(lambda: len(seen) == 5 and a.statistics().crashes == 5)
        assert sorted(seen) == [0, 1, 2, 3, 4]
        assert b.statistics().crashes == 5


@pytest.mark.trio
async def test_what_nobody_understands_is_counted_and_told_to_its_sender() -> None:
    async with open_native() as one, open_native() as two:
        a, b = open_messenger(one, Codec([Ask, Unknown, NotUnderstood]), LOCAL, RING), start(two)
        told: list[bool] = []
        a.send(two.address, Unknown("?"), told.append)
        a.send(two.address, Ask(1, b""), told.append)
        await wait_until(lambda: len(told) == 2)
        assert dict(b.statistics().dropped) == {"undecodable": 1, "unhandled": 1}
        await wait_until(lambda: dict(a.statistics().not_understood) == {"Unknown": 1, "Ask": 1})
        # Whoever sends more of them need not wait to learn that nothing comes of it.
        a.send(two.address, Unknown("?"), told.append)
        await wait_until(lambda: told[2:] == [False])
        assert a.statistics().refused == {"not_understood": 1}


@pytest.mark.trio
async def test_the_word_that_something_was_not_understood_is_never_answered() -> None:
    """Neither end knows that kind of message: each says so at most once."""
    async with open_native() as one, open_native() as two:
        a, b = open_messenger(one, Codec([Ask, Unknown]), LOCAL, RING), start(two)
        told: list[bool] = []
        a.send(two.address, Unknown("?"), told.append)
        await wait_until(lambda: a.statistics().dropped.get("undecodable") == 1)
        b.send(one.address, Ask(1, b""), told.append)
        await wait_until(lambda: len(told) == 2)
        await wait_until(lambda: b.statistics().dropped.get("undecodable") == 2)
        with trio.move_on_after(0.3):
            await wait_until(lambda: a.statistics().messages_received > 2)
        assert (a.statistics().messages_received, b.statistics().messages_received) == (2, 2)


@pytest.mark.trio
async def test_a_malformed_message_does_not_shut_out_its_kind() -> None:
    async with open_native() as one, open_native() as two:
        loose = Codec([LooseAsk, Answer, NotUnderstood])
        a, b = open_messenger(one, loose, LOCAL, RING), start(two)
        got: list[int] = []
        b.on(Ask, lambda sender, ask: got.append(ask.number))
        told: list[bool] = []
        a.send(two.address, LooseAsk("not a number", b""), told.append)
        await wait_until(lambda: dict(a.statistics().not_understood) == {"LooseAsk malformed": 1})
        a.send(two.address, LooseAsk(7, b""), told.append)
        await wait_until(lambda: got == [7])
        assert b.statistics().dropped == {"undecodable": 1}


@pytest.mark.trio
async def test_closing_tells_everybody_who_waits() -> None:
    async with open_native() as one:
        a = start(one)
        told: list[bool] = []
        for number in range(10):
            a.send("127.0.0.1:9", Ask(number, b""), told.append)
        a.close()
        assert told == [False] * 10
        a.close()
        a.send("127.0.0.1:9", Ask(11, b""), told.append)
        await wait_until(lambda: told == [False] * 11)


@pytest.mark.trio
async def test_garbage_from_the_network_changes_nothing() -> None:
    draw = random.Random(3)
    async with open_native() as one, open_native() as two:
        a, b = start(one), start(two)
        got: list[int] = []
        b.on(Ask, lambda _, ask: got.append(ask.number))
        host, port = split_address(two.address)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as attacker:
            for number in range(2_000):
                head = draw.choice([b"", b"\x11", b"\x12", b"\x13"])
                attacker.sendto(head + draw.randbytes(draw.randrange(1_400)), (host, port))
                if number % 100 == 0:
                    a.send(two.address, Ask(number, b""))
                    await trio.lowlevel.checkpoint()
        await wait_until(lambda: len(got) == 20)
        assert two.statistics().crashes == b.statistics().crashes == 0
        assert b.statistics().peers == 1


@pytest.mark.trio
async def test_small_messages_share_datagrams_and_calls_under_load() -> None:
    """The figures that no noise touches; and nothing but the runtime's own tasks run."""
    async with open_native() as one, open_native() as two:
        a, b = start(one), start(two)
        b.on(Ask, lambda sender, ask: b.send(sender, Answer(ask.number, ask.body)))
        done = 0

        def answered(_: Address, answer: Answer) -> None:
            nonlocal done
            done += 1
            if done < 5_000:
                a.send(two.address, Ask(answer.number, bytes(200)))

        a.on(Answer, answered)
        tasks = trio.lowlevel.current_statistics().tasks_living
        for number in range(64):
            a.send(two.address, Ask(number, bytes(200)))
        await wait_until(lambda: done >= 5_000)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        statistics = a.statistics()
        assert statistics.datagrams_sent <= 0.35 * statistics.messages_sent
        assert statistics.messages_sent >= 8 * one.statistics().send_calls


@pytest.mark.trio
async def test_bulk_survives_one_percent_loss() -> None:
    """The same machine over real sockets, with datagrams lost on purpose."""
    draw = random.Random(4)
    async with open_native() as one, open_native() as two:
        send_many = one._udp.send_many
        one._udp.send_many = lambda to, datagrams: send_many(  # type: ignore[method-assign]
            to, [datagram for datagram in datagrams if draw.random() >= 0.01]
        )
        a = open_messenger(one, CODEC, replace(LOCAL), RING)
        b = start(two)
        got: list[bytes] = []
        b.on(Ask, lambda _, ask: got.append(ask.body))
        told: list[bool] = []
        body = random.Random(5).randbytes(65_536)
        for number in range(50):
            a.send(two.address, Ask(number, body), told.append)
        await wait_until(lambda: len(told) == 50)
        assert told == [True] * 50 and got == [body] * 50
        assert a.statistics().segments_repeated > 0
