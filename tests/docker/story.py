"""What an operator does to a cluster in a bad week, told once for containers and once for network namespaces.

Five hosts are fed and asked; one is paused, one cut off, one killed and started again; three more come; keys rotate
and every node is replaced by another release while questions run. After every chapter the answers are whole again;
in between each answer is right about what it says it has: rows of exactly the nodes it counts as answered.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pyarrow as pa
import trio

from pier_node.client import Connection, PierError, RequestFailed
from pier_node.key_files import retire_keys, rotate_keyring
from pier_node.protocol.messages import Account
from tests.docker.hosts import ROWS, Door, Hosts

FIRST, ALL = 5, 8
OLD, NEW = "0.1.0", "0.1.1"
PUBLISHED = 200
#: Published rows are renewed within a few seconds, and put again when their owner died with them.
LIFETIME_S = 12.0
PATIENCE_S = 60.0
#: One answer, whatever happens to nodes meanwhile.
ANSWER_S = 20.0
#: Between two looks at whether something has happened, and between two questions of those who ask all the time.
LOOK_PAUSE_S = 0.2
ASK_PAUSE_S = 0.4
#: Answers that may lack a node that is only late.
LATE_SHARE_MAX = 0.1
COUNT = "SELECT count(*) AS n FROM fw"
KEPT = "SELECT count(*) AS n FROM kept"


def name(number: int) -> str:
    return f"n{number}"


class Story:
    def __init__(self, hosts: Hosts, say: Callable[[str], None], upgraded: int = ALL) -> None:
        """`upgraded`: how many of all nodes go over to the new release, seeds and publisher first."""
        self.hosts = hosts
        self._upgraded = upgraded
        self.door = Door(hosts)
        self.up: dict[str, str] = {}
        self.answers = 0
        self._say = say
        self._began_s = time.monotonic()

    def chapter(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._began_s:6.1f} s  {text}")

    async def tell(self) -> None:
        self.chapter(f"{FIRST} hosts start")
        await self.start([name(n) for n in range(1, FIRST + 1)])
        self.chapter("rows are published, and kept alive by n2")
        await self.feed("n2")
        await self.trouble("n3 is paused", "n3", self.hosts.pause, self.hosts.resume)
        await self.trouble("n4 is cut off", "n4", self.hosts.cut, self.hosts.mend)
        await self.trouble("n5 is killed and started again", "n5", self.hosts.kill, self.start_again)
        self.chapter(f"the cluster grows to {ALL}")
        await self.start([name(n) for n in range(FIRST + 1, ALL + 1)])
        self.chapter("keys rotate while questions run")
        async with self.asking(whole=True):
            await self.rotate()
        self.chapter(f"{self._upgraded} go over from {OLD} to {NEW}, one at a time, while questions run")
        async with self.asking(whole=False):
            for number in range(1, self._upgraded + 1):
                await self.upgrade(name(number))
        await self.settled()
        self.chapter(f"done: {self.answers} answers, each as its account says")

    # -- chapters

    async def start(self, names: list[str]) -> None:
        async with trio.open_nursery() as nursery:
            for each in names:
                self.up[each] = OLD
                nursery.start_soon(self.hosts.start, each, OLD)
        await self.settled()

    async def start_again(self, victim: str) -> None:
        await self.hosts.start(victim, self.up[victim])

    async def feed(self, via: str) -> None:
        rows = pa.table({"k": [f"k{n}" for n in range(PUBLISHED)], "n": list(range(PUBLISHED))})
        async with self.door.open(via) as conn:
            published = await conn.publish("kept", rows.to_batches(), ["k"], LIFETIME_S)
        assert (published.rows, published.refused) == (PUBLISHED, 0), published
        await self.until("all published rows are there", self.kept)

    async def trouble(
        self,
        what: str,
        victim: str,
        begin: Callable[[str], Awaitable[None]],
        end: Callable[[str], Awaitable[None]],
    ) -> None:
        """One host is gone and comes back. While it is away answers say so, and nothing published stays lost."""
        self.chapter(what)
        await begin(victim)
        away, self.up = self.up, {each: release for each, release in self.up.items() if each != victim}
        await self.until(f"answers of the others while {what}", self.whole)
        await self.until(f"all published rows while {what}", self.kept)
        self.up = away
        await end(victim)
        await self.settled()

    async def rotate(self) -> None:
        file = self.hosts.keys.keyring
        first = rotate_keyring(file)
        await self.until("every node has the staged key", lambda: self.have_keys(2, first.first.key_id))
        second = rotate_keyring(file)
        assert second.first != first.first
        await self.until("every node seals with it", lambda: self.have_keys(2, second.first.key_id))
        retire_keys(file)
        await self.until("the old key is gone", lambda: self.have_keys(1, second.first.key_id))

    async def upgrade(self, each: str) -> None:
        await self.hosts.stop(each)
        await self.hosts.start(each, NEW)
        self.up[each] = NEW
        await self.until(f"{each} is back as {NEW}", self.whole)
        if each == "n2":
            # Whoever published tells the new process to keep the rows alive: a node renews what it was given.
            await self.feed(each)

    # -- what must be true

    async def settled(self) -> None:
        """Every node sees all of them, has the release it should have, and gets everybody's rows."""
        await self.until("all nodes see the whole ring", self.one_ring)
        await self.until("answers are whole", self.whole)

    async def one_ring(self) -> str:
        for each, release in self.up.items():
            async with self.door.open(each) as conn:
                status = await conn.status()
                if status.version != release:
                    return f"{each} is {status.version}"
                if not status.joined:
                    return f"{each} has not joined"
                ring = await conn.ring(whole=True)
                if len(ring.nodes) != len(self.up):
                    return f"{each} sees {len(ring.nodes)} of {len(self.up)}"
        return ""

    async def whole(self) -> str:
        """Asks the first and the last host; the reason why an answer is not everybody's."""
        for each in (min(self.up), max(self.up)):
            async with self.door.open(each) as conn:
                rows, account = await self.ask(conn)
            if (rows, account.answered) != (ROWS * len(self.up), len(self.up)):
                return f"{each} got {rows} rows of {account}"
        return ""

    async def kept(self) -> str:
        async with self.door.open(max(self.up)) as conn:
            answer = conn.query(KEPT, allow_partial=True, allow_unknown=True)
            with trio.fail_after(ANSWER_S):
                (row,) = (await answer.table()).to_pylist()
        return "" if row["n"] == PUBLISHED else f"{row['n']} of {PUBLISHED}"

    async def have_keys(self, count: int, seals: bytes) -> str:
        for each in self.up:
            async with self.door.open(each) as conn:
                figures = (await conn.status()).figures
            if (figures["keys.ring"], figures["keys.seals"]) != (count, seals.hex()):
                return f"{each} has {figures['keys.ring']} keys and seals with {figures['keys.seals']}"
        return ""

    async def ask(self, conn: Connection) -> tuple[int, Account]:
        """Counts everybody's rows, and holds the answer against its own account."""
        answer = conn.query(COUNT, allow_partial=True)
        with trio.fail_after(ANSWER_S):
            rows = (await answer.table()).to_pylist()
        account = answer.account
        assert account is not None
        self.answers += 1
        parts = account.answered + account.empty + account.failed + account.unreachable
        assert account.asked == parts, f"the account does not add up: {account}"
        counted: int = rows[0]["n"] if rows else 0
        if account.ended == "complete":
            assert counted == ROWS * account.answered, f"{counted} rows, but {account}"
        assert counted <= ROWS * len(self.up) and counted % ROWS == 0, f"{counted} rows: {account}"
        return counted, account

    @asynccontextmanager
    async def asking(self, *, whole: bool) -> AsyncIterator[None]:
        """Questions all the time, from a connection of their own to each of some hosts. `whole`: nobody is away, so
        that a node may be late for an answer now and then, on a machine that is busy, and no more. A host that is being
        replaced hangs up; whoever asked it asks it again when it is back."""
        before, partial = self.answers, 0

        async def ask_on(each: str) -> None:
            nonlocal partial
            while True:
                try:
                    async with self.door.open(each) as conn:
                        while True:
                            rows, account = await self.ask(conn)
                            assert account.ended in ("complete", "partial"), account
                            partial += rows != ROWS * len(self.up)
                            await trio.sleep(ASK_PAUSE_S)
                except (PierError, OSError):
                    assert not whole, f"{each} hung up"
                    await trio.sleep(ASK_PAUSE_S)

        async with trio.open_nursery() as nursery:
            for each in (min(self.up), max(self.up)):
                nursery.start_soon(ask_on, each)
            yield
            nursery.cancel_scope.cancel()
        asked = self.answers - before
        assert asked and (not whole or partial <= max(1, LATE_SHARE_MAX * asked)), f"{partial} of {asked}"

    async def until(self, what: str, check: Callable[[], Awaitable[str]]) -> None:
        """Asks until there is nothing left to complain about."""
        wrong = "no answer"
        with trio.move_on_after(PATIENCE_S):
            while True:
                try:
                    wrong = await check()
                except (PierError, RequestFailed, OSError, trio.TooSlowError) as error:
                    wrong = f"{type(error).__name__}: {error}"
                if not wrong:
                    return
                await trio.sleep(LOOK_PAUSE_S)
        raise AssertionError(f"{what}: not within {PATIENCE_S:g} s; {wrong}")
