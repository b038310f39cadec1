"""Huge pages: which memory they are asked for, and that only speed depends on them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runtime.message import Codec, Message
from runtime.sim import World, star
from runtime.sim.pages import HUGE_BYTES, ranges_of

MAPS = """\
55d0c0000000-55d0c0800000 r-xp 00000000 fe:00 1234 /usr/bin/python3
55d0c0900000-55d0c0e00000 rw-p 00000000 00:00 0    [heap]
7f0000100000-7f0000a00000 rw-p 00000000 00:00 0
7f0001000000-7f0001100000 rw-p 00000000 00:00 0
7f0002000000-7f0002800000 rw-s 00000000 00:00 0
7f0003000000-7f0003800000 rw-p 00000000 fe:00 99   /lib/libc.so
7ffd00000000-7ffd00800000 rw-p 00000000 00:00 0    [stack]
"""


class Tick(Message, frozen=True, tag=1):
    number: int


def test_only_private_memory_without_a_file_and_only_whole_huge_pages() -> None:
    assert list(ranges_of(MAPS.splitlines())) == [
        (0x55D0C0A00000, 0x55D0C0E00000),
        (0x7F0000200000, 0x7F0000A00000),
    ]


#: In a process of its own: what others have freed there would be used again, and nothing would grow.
GROWING = """
from pathlib import Path
from runtime.sim.pages import GROWN_BYTES, HugePages

def huge_bytes():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("AnonHugePages:"))

pages = HugePages()
pages.gather()
before = huge_bytes()
held = [bytes(4_000) for _ in range(4 * GROWN_BYTES // 4_000)]
pages.gather()
print(pages.gathered_bytes, huge_bytes() - before)
"""


def test_memory_that_has_grown_is_moved() -> None:
    said = subprocess.run([sys.executable, "-c", GROWING], check=True, capture_output=True, text=True).stdout
    gathered_bytes, moved_bytes = map(int, said.split())
    if gathered_bytes == 0:
        pytest.skip("the kernel gives no huge pages on request (Linux 6.1 or later does)")
    # As much as the kernel had room for.
    assert moved_bytes >= HUGE_BYTES


def test_a_settled_run_is_the_same_run() -> None:
    def trace(settled: bool) -> str:
        world = World(seed=3, topology=star(0.01), codec=Codec([Tick]))
        hosts = [world.add_host() for _ in range(4)]
        for host in hosts:
            host.messenger.on(
                Tick,
                lambda sender, tick, host=host: host.messenger.send(sender, Tick(tick.number + 1)),  # type: ignore[misc]
            )
        hosts[0].messenger.send(hosts[1].address, Tick(0))
        if settled:
            with world.settled():
                world.run_for(7.3)
        else:
            world.run_for(7.3)
        return world.trace_hash()

    assert trace(settled=True) == trace(settled=False)
