"""A published table under faults, as somebody sees it who knows every row that was published: who publishes it, what
asks for it, and who judges the answers.

Rows have numbers that no two share. One publisher, on a host that no fault strikes, lives all the time: its rows belong
into every answer that calls itself complete, whichever owners died, paused or changed meanwhile; but for an asker that
is, or was of late, cut off from that host, since a ring knows only whom it can reach. Rows of other publishers fade
with them, and may be there or not. No row may be in an answer twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from pier_node.engine.service import QueryService
from pier_node.protocol.messages import Account
from pier_node.scenario.overlay_nodes import Life
from pier_node.scenario.questions import Asked, Question
from pier_node.service import Failure, Publication, PublicationResult
from runtime.sim import World

PUBLISHED = "published"
#: Rows of the publisher that stays, and of every other one.
ROWS_STAYING, ROWS_PASSING = 60, 5
#: How long after a cut its two sides may still be two rings: they look for each other once a minute.
HEALED_S = 130.0
#: How often it is noted who is cut off from the publisher that stays.
NOTED_S = 1.0

QUESTIONS = (
    Question("rows", f"SELECT id FROM {PUBLISHED}", 0, 3),
    Question("pairs", f"SELECT a.id FROM {PUBLISHED} a JOIN {PUBLISHED} b ON a.id = b.id", 0, 2),
    Question("total", f"SELECT count(*) AS n, count(DISTINCT id) AS d FROM {PUBLISHED}", 0, 2),
    # To the owner of one key alone: a row of the publisher that stays.
    Question("one", f"SELECT id FROM {PUBLISHED} WHERE id = 7", 0, 1),
)
DRAWN = tuple(question for question in QUESTIONS for _ in range(question.share))


@dataclass(frozen=True, slots=True)
class Truth:
    """What must be in an answer, and what may be."""

    required: frozenset[int]
    possible: frozenset[int]


class PublishedTable:
    """All rows there ever were, and which of them an asker must see."""

    def __init__(self, world: World, lifetime_s: float) -> None:
        self._world = world
        self._lifetime_s = lifetime_s
        self._staying: Life | None = None
        self._ids = 0
        self._possible: set[int] = set()
        self._stored: set[int] = set()
        #: By host: when it was last seen cut off from the publisher that stays.
        self._cut_at: dict[int, float] = {}
        #: The time in which somebody was cut off from somebody, or soon after.
        self._cut_from = self._cut_until = -HEALED_S

    def publish(self, life: Life, service: QueryService) -> None:
        """The first who publishes is the one that stays."""
        staying = self._staying is None
        if staying:
            self._staying = life
            self._note(None)
        count = ROWS_STAYING if staying else ROWS_PASSING
        ids = range(self._ids, self._ids + count)
        self._ids += count
        self._possible.update(ids)
        control = _Control(lambda: self._stored.update(ids) if staying else None)
        feed = service.publish(Publication(PUBLISHED, ("id",), self._lifetime_s), control)
        feed.batch(pa.record_batch({"id": pa.array(ids, pa.int64())}), 8 * count)
        feed.end()

    @property
    def is_stored(self) -> bool:
        return bool(self._stored)

    def truth(self, asker: Life, question: Question) -> Truth:
        now, cut_at = self._world.now, self._cut_at.get(asker.host.index, -HEALED_S)
        if asker.joined_at is not None and asker.joined_at >= self._cut_from:
            # It came while there were two rings, and may be in the other one.
            cut_at = max(cut_at, self._cut_until)
        apart = now < cut_at + HEALED_S
        required, possible = frozenset(self._stored), frozenset(self._possible)
        if question.name == "one":
            required, possible = required & {7}, possible & {7}
        return Truth(frozenset() if apart else required, possible)

    def _note(self, _: None) -> None:
        assert self._staying is not None
        here, partitions = self._staying.host.index, self._world.faults.partitions
        now = self._world.now
        if partitions.cuts:
            if now >= self._cut_until + HEALED_S:
                self._cut_from = now
            self._cut_until = now
        for host in self._world.hosts if partitions.cuts else ():
            if partitions.blocked(here, host.index) or partitions.blocked(host.index, here):
                self._cut_at[host.index] = now
        self._world.call_at(now + NOTED_S, self._note, None)


class _Control:
    """A publishing client, told when all its rows are stored."""

    def __init__(self, stored: Callable[[], object]) -> None:
        self._stored = stored

    def consumed(self, size_bytes: int) -> None:
        """It has no more to send."""

    def progress(self, objects: int, confirmed: int, rows_confirmed: int, elapsed_s: float) -> None:
        """It waits for all of them."""

    def finish(self, result: PublicationResult) -> None:
        if not result.refused and not result.unconfirmed:
            self._stored()

    def fail(self, failure: Failure) -> None:
        """Its rows may be there or not."""


class AskedRows(Asked):
    """A question about the published table: `truth` says what belongs into the answer, when it is asked and when it has
    come."""

    def __init__(
        self,
        question: Question,
        now: Callable[[], float],
        limit_s: float,
        complain: Callable[[str, str], None],
        over: Callable[[Asked, str], None],
        truth: Callable[[], Truth],
    ) -> None:
        super().__init__(question, now, limit_s, complain, over)
        self._truth = truth
        self._required = truth().required
        self._ids: Counter[int] = Counter()
        self._total: tuple[int, int] | None = None

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        if "id" in batch.schema.names:
            self._ids.update(batch.column("id").to_pylist())
        else:
            ((self._total),) = zip(batch.column("n").to_pylist(), batch.column("d").to_pylist(), strict=True)
        return True

    def judge(self, account: Account) -> None:
        if account.ended != "complete":
            return
        truth = self._truth()
        required = self._required & truth.required
        if self._total is not None:
            rows, distinct = self._total
            if rows != distinct or not len(required) <= rows <= len(truth.possible):
                self._complain(
                    "published", f"{rows} rows, {distinct} of them different, not {len(required)}: {account}"
                )
            return
        doubled = [each for each, count in self._ids.items() if count > 1]
        missing = required - self._ids.keys()
        if doubled or missing or self._ids.keys() - truth.possible:
            self._complain(
                "published",
                f"{self.question.name}: of {len(required)} rows {len(missing)} are missing, "
                f"{len(doubled)} are doubled: {account}",
            )
