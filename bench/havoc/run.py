"""Machines, faults and questions together: clients ask all the time and every answer is judged."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from bench.havoc.faults import Faults
from bench.havoc.hosts import LocalMachines, Machines, NamespaceMachines
from bench.havoc.questions import CONTINUOUS, Judgement, Question, Truth, draw, groups, published
from pier_node.client import Account, Connection, Piece, PierError
from tests.docker.namespaces import why_not

#: Published rows live this long without renewal; the node that published them renews well before.
LIFETIME_S = 60.0
#: One answer at most, whatever happens; the query's own limit is below it.
ANSWER_S = 60.0
#: Between two questions of one client; after one that failed.
PAUSE_S, AGAIN_S = 0.1, 0.5
#: All machines are there and agree, or the run has not begun.
FORMED_S = 180.0
#: After the last fault every question is answered complete and right within this.
CALM_S = 180.0
#: Wrong answers that are told in full.
TOLD_MAX = 20


@dataclass(slots=True)
class Havoc:
    machines: Machines
    names: list[str]
    rng: random.Random
    say: Callable[[str], None]
    longest_s: float
    only: tuple[str, ...] = ()
    truth: Truth = field(init=False)
    faults: Faults = field(init=False)
    tally: Counter[tuple[str, Judgement]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.truth = Truth(self.names)
        cuts = self.machines if isinstance(self.machines, NamespaceMachines) else None
        self.faults = Faults(
            self.machines,
            cuts,
            self.names,
            self.names[0],
            self.rng,
            self.say,
            self._retire,
            self.longest_s,
            self.only,
        )

    # -- the story

    async def begin(self) -> None:
        """All machines on one ring, tables published, indexes made, one right answer of each kind."""
        for name in self.names:
            await self.machines.start(name)
        self.faults.up = set(self.names)
        await self._until("the ring has formed", FORMED_S, self._formed)
        async with self.machines.open(self.names[0]) as conn:
            await conn.publish("pub", published().to_batches(), ["k"], LIFETIME_S)
            await conn.publish("dim", groups().to_batches(), ["g"], LIFETIME_S)
            for statement in (
                "CREATE INDEX by_v ON pub (v) USING pht",
                "CREATE INDEX by_h ON pub (h) USING hash",
            ):
                await conn.query(statement).table()
        await self.calm()

    async def calm(self) -> None:
        """Without faults every question is answered, whole, by every host."""
        for name in sorted(self.faults.up):
            await self._until(
                f"every answer at {name} is right", CALM_S, lambda host=name: self._all_right(host)
            )

    async def torment(self, duration_s: float, clients: int) -> None:
        with trio.move_on_after(duration_s):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.faults.run)
                for number in range(clients):
                    nursery.start_soon(self._client, random.Random(f"{self.rng.random()}/{number}"))
                for question in CONTINUOUS:
                    nursery.start_soon(self._watcher, question, random.Random(question.name))

    async def mend(self) -> None:
        """Whoever the last fault left away comes back."""
        for name in self.names:
            if not self.machines.runs(name):
                await self.machines.start(name)
        self.faults.up = set(self.names)

    # -- who asks

    async def _client(self, rng: random.Random) -> None:
        while True:
            name = rng.choice(sorted(self.faults.up))
            try:
                async with self.machines.open(name) as conn:
                    for _ in range(rng.randrange(1, 20)):
                        await self._ask(conn, name, draw(rng))
                        await trio.sleep(PAUSE_S)
            except (PierError, OSError, trio.TooSlowError) as error:
                self._failed(name, error)
                await trio.sleep(AGAIN_S)

    async def _ask(self, conn: Connection, name: str, question: Question) -> Judgement:
        left = self.faults.unexpected()
        answer = conn.query(question.sql, allow_partial=True)
        with trio.fail_after(ANSWER_S):
            rows = (await answer.table()).to_pylist()
        assert answer.account is not None
        return self._judged(name, question, rows, answer.account, left)

    async def _watcher(self, question: Question, rng: random.Random) -> None:
        """Keeps a continuous query open, somewhere else when its node is gone."""
        while True:
            name = rng.choice(sorted(self.faults.up))
            try:
                async with self.machines.open(name) as conn:
                    await self._watch(conn, name, question)
            except (PierError, OSError) as error:
                self._failed(name, error)
            await trio.sleep(AGAIN_S)

    async def _watch(self, conn: Connection, name: str, question: Question) -> None:
        rows: list[dict[str, object]] = []
        async for event in conn.query(question.sql, allow_partial=True).events():
            if isinstance(event, Piece):
                rows += event.batch.to_pylist()
            elif isinstance(event, Account) and event.epoch is not None:
                self._judged(name, question, rows, event, set())
                rows = []

    # -- what is made of it

    def _judged(
        self,
        name: str,
        question: Question,
        rows: list[dict[str, object]],
        account: Account,
        left: set[str],
    ) -> Judgement:
        doubled = question.continuous and "doubled" in account.causes
        judgement = self.truth.judge(question, rows, account.ended, left | self.faults.unexpected(), doubled)
        self.tally[question.name, judgement] += 1
        if account.asked != account.answered + account.empty + account.failed + account.unreachable:
            judgement = Judgement.WRONG
        if judgement in (Judgement.WRONG, Judgement.DOUBLED):
            right = self.truth.rows(question)
            text = (
                f"{name}: {question.sql}: {judgement.value}: {rows[:30]}, right are {right[:30]}; {account}"
            )
            self.say(text)
            self.wrong.append(text)
        return judgement

    def _failed(self, name: str, error: Exception) -> None:
        self.failures[f"{type(error).__name__}: {error}".replace(name, "n?")[:120]] += 1

    async def _retire(self, name: str) -> None:
        """Whoever is absent and not about to come back is taken off the roster: here, the old self of a wiped host, as
        soon as the new one is on the ring. Not every node may hear of it at once."""

        async def retired() -> str:
            async with self.machines.open(min(self.faults.up - {name})) as conn:
                members = await conn.members()
                here = sum(member.state == "here" for member in members)
                if here < len(self.names):
                    return f"{here} of {len(self.names)} are here"
                for member in members:
                    if member.state == "absent":
                        await conn.retire(member.id)
            return ""

        await self._until("a wiped host's old self is retired", CALM_S, retired)

    # -- waiting

    async def _formed(self) -> str:
        for name in (self.names[0], self.names[-1]):
            async with self.machines.open(name) as conn:
                ring = await conn.ring(whole=True)
            if len(ring.nodes) != len(self.names):
                return f"{name} sees {len(ring.nodes)} of {len(self.names)}"
        return ""

    async def _all_right(self, name: str) -> str:
        async with self.machines.open(name) as conn:
            seen: set[str] = set()
            while len(seen) < 8:
                question = draw(self.rng)
                judgement = await self._ask(conn, name, question)
                if judgement is not Judgement.RIGHT:
                    return f"{question.sql}: {judgement.value}"
                seen.add(question.name)
        return ""

    async def _until(self, what: str, timeout_s: float, check: Callable[[], object]) -> None:
        last = ""
        with trio.move_on_after(timeout_s):
            while True:
                try:
                    last = await check()  # type: ignore[misc]
                    if not last:
                        return
                except (PierError, OSError) as error:
                    last = f"{type(error).__name__}: {error}"
                await trio.sleep(AGAIN_S)
        raise AssertionError(f"{what}: not within {timeout_s:g} s: {last}")

    def verdict(self, seed: int, elapsed_s: float) -> dict[str, object]:
        totals = {each.value: 0 for each in Judgement}
        for (_, judgement), count in self.tally.items():
            totals[judgement.value] += count
        questions = {
            name: {each.value: self.tally[name, each] for each in Judgement if self.tally[name, each]}
            for name in sorted({name for name, _ in self.tally})
        }
        return {
            "name": "havoc",
            "seed": seed,
            "minutes": round(elapsed_s / 60, 1),
            "hosts": len(self.names),
            "cuts": self.faults.cuts is not None,
            "faults": dict(sorted(self.faults.done.items())),
            "answers": totals,
            "questions": questions,
            "requests_failed": dict(self.failures.most_common(8)),
            "wrong": self.wrong[:TOLD_MAX],
            "holds": not self.wrong,
        }


def machines_of(folder: Path, say: Callable[[str], None]) -> NamespaceMachines | LocalMachines:
    """Network namespaces where there are, loopback otherwise."""
    reason = why_not()
    if reason:
        say(f"no network namespaces ({reason}): nobody is cut from anybody")
        return LocalMachines(folder)
    return NamespaceMachines(folder)


async def havoc(
    folder: Path,
    nodes: int,
    duration_s: float,
    seed: int,
    say: Callable[[str], None],
    clients: int = 3,
    longest_s: float = 30.0,
    only: tuple[str, ...] = (),
) -> dict[str, object]:
    """Begins, torments, mends; the verdict. Raises AssertionError when the ring does not come to rest again."""
    began_s = time.monotonic()

    def tell(text: str) -> None:
        say(f"{time.monotonic() - began_s:7.1f} s  {text}")

    with machines_of(folder, tell) as machines:
        names = [f"n{number}" for number in range(1, nodes + 1)]
        run = Havoc(machines, names, random.Random(seed), tell, longest_s, only)
        tell(f"{nodes} hosts start")
        await run.begin()
        tell("trouble begins")
        await run.torment(duration_s, clients)
        tell("trouble is over")
        await run.mend()
        await run.calm()
        tell("all is right again")
        return run.verdict(seed, time.monotonic() - began_s)
