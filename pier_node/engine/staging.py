"""Loads that become visible all at once: rows wait at the nodes that take them in until their load is settled.

    feed(publication, control)     one task's rows come in; they count once the task has ended
    settle(check)                  are all of these tasks here?
    settle(commit)                 their rows are published, everybody else's rows of this load are let go
    settle(abort)                  the load's rows are let go: all of them, or those of the runs that are named
    settle(withdraw, clear)        rows that a load published are taken back; those of all other loads

A task that was tried twice staged its rows twice under two names; only the one that settling names counts. Objects are
named by load, node and number, so what several nodes publish of one load never meets; a load that is committed again
(a batch of a stream that is played again) replaces what this node published of it before (`published.py`). Whoever
gives a run up may be faster than its last tasks: what they still send is refused, while another run goes on.

Invariant: staged bytes of all loads together stay under the limit; what nobody settles within its lease is let go.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from overlay.dht.operations import PutObject
from overlay.dht.publisher import Withdrawn
from overlay.objects.name import Name
from pier_node.access.rates import Hold, Share
from pier_node.engine.cutting import objects_of
from pier_node.engine.loading import OnLoaded
from pier_node.engine.publication import dictionary_put, lifetime_s, refused_name, rows_of
from pier_node.engine.published import Load, LoadFacts, PublishedLoads
from pier_node.protocol.messages import Stage
from pier_node.service import Failure, FeedControl, Publication, PublicationResult, Reply, Settlement
from query.batch import Batch
from query.wire import encode
from runtime.api import Runtime, Timer

#: Rows that wait at one node, over all loads.
STAGED_BYTES_MAX = 256 << 20
#: Loads that wait or were settled and are remembered.
LOADS_MAX = 1_024
#: Between the name of a run, which a job draws once, and the rest of a task's name.
RUN_END = "."
#: Runs that were given up and are remembered, so that their last tasks leave nothing behind.
GIVEN_UP_MAX = 1_024
#: Of the node's id, in the names of objects.
NODE_MARK_CHARS = 12


_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _TaskRows:
    batches: list[Batch]
    bytes: int
    #: Of the client that sent them.
    share: Share


@dataclass(slots=True)
class _Load:
    publication: Publication
    stage: Stage
    #: Rows of tasks that have ended, by task.
    tasks: dict[str, _TaskRows] = field(default_factory=dict)
    timer: Timer | None = None
    committing: bool = False


@dataclass(frozen=True, slots=True)
class StagingStatistics:
    loads: int
    bytes: int
    committed: int
    aborted: int
    expired: int
    refused: int


class Staging:
    """All loads that wait at this node."""

    def __init__(
        self, runtime: Runtime, published: PublishedLoads, node_id: bytes, bytes_max: int = STAGED_BYTES_MAX
    ) -> None:
        self.bytes = 0
        self._node = node_id.hex()[:NODE_MARK_CHARS]
        self._runtime = runtime
        self._published = published
        self._bytes_max = bytes_max
        #: By table and load: whoever may settle one table cannot touch another's loads.
        self._loads: dict[_Key, _Load] = {}
        #: Tasks that still send.
        self._sending: dict[StagedTask, None] = {}
        self._given_up: OrderedDict[tuple[_Key, str], None] = OrderedDict()
        #: What a commit gave, for a client that lost its connection and asks again.
        self._settled: OrderedDict[tuple[_Key, tuple[str, ...]], PublicationResult] = OrderedDict()
        self._committed = self._aborted = self._expired = self._refused = 0

    def feed(self, publication: Publication, stage: Stage, control: FeedControl) -> StagedTask:
        task = StagedTask(self, publication, stage, control)
        refused = refused_name(publication)
        if refused is not None:
            task.refuse(refused)
        elif (task.key, run_of(stage.task)) in self._given_up:
            task.give_up()
        else:
            self._sending[task] = None
        return task

    def statistics(self) -> StagingStatistics:
        return StagingStatistics(
            len(self._loads), self.bytes, self._committed, self._aborted, self._expired, self._refused
        )

    # -- rows

    def hold(self, size_bytes: int, share: Share) -> str | None:
        """Makes room for rows; why there is none, for anybody or for this client."""
        full = self.bytes + size_bytes > self._bytes_max
        words = (
            f"this node holds {self.bytes} bytes of loads that are not settled; "
            "there is no room for more (client.staged_bytes_max)"
            if full
            else share.take(Hold.STAGED_BYTES, size_bytes)
        )
        if words is None:
            self.bytes += size_bytes
        else:
            self._refused += 1
        return words

    def let_go(self, task: StagedTask, size_bytes: int) -> None:
        """A task that came to nothing."""
        self._sending.pop(task, None)
        self.bytes -= size_bytes
        task.share.give(Hold.STAGED_BYTES, size_bytes)

    def ended(
        self, task: StagedTask, publication: Publication, stage: Stage, batches: list[Batch], size_bytes: int
    ) -> bool:
        """A task's rows are all here; whether its load takes them."""
        load = self._loads.get(task.key)
        if load is None:
            if len(self._loads) >= LOADS_MAX:
                self._refused += 1
                return False
            load = self._loads[task.key] = _Load(publication, stage)
        self._sending.pop(task, None)
        self._drop(load, [stage.task])
        load.tasks[stage.task] = _TaskRows(batches, size_bytes, publication.share)
        self._extend(load)
        return True

    def _drop(self, load: _Load, tasks: Iterable[str]) -> None:
        for name in tasks:
            rows = load.tasks.pop(name, None)
            if rows is not None:
                self.bytes -= rows.bytes
                rows.share.give(Hold.STAGED_BYTES, rows.bytes)

    def _extend(self, load: _Load) -> None:
        if load.timer is not None:
            load.timer.cancel()
        load.timer = self._runtime.call_later(load.stage.lease_s, self._lapsed, load)

    def _lapsed(self, load: _Load) -> None:
        if not load.committing:
            self._expired += 1
            self._forget(load)

    def _forget(self, load: _Load) -> None:
        self._loads.pop((load.publication.table, load.stage.load), None)
        self._drop(load, list(load.tasks))
        if load.timer is not None:
            load.timer.cancel()

    # -- decisions

    def settle(self, settlement: Settlement, done: Reply[PublicationResult]) -> None:
        load = self._loads.get((settlement.table, settlement.load))
        if settlement.verdict == "commit":
            self._commit(settlement, load, done)
        elif settlement.verdict == "check":
            tasks = load.tasks if load is not None else {}
            if load is not None:
                self._extend(load)
            here = [tasks[name] for name in settlement.tasks if name in tasks]
            rows = sum(batch.num_rows for each in here for batch in each.batches)
            missing = len(settlement.tasks) - len(here)
            done(PublicationResult(rows, 0, 0, {"tasks missing": missing} if missing else {}))
        elif settlement.verdict == "abort":
            self._abort(settlement, load)
            done(PublicationResult(0, 0))
        else:
            self._withdraw(settlement, done)

    def _abort(self, settlement: Settlement, load: _Load | None) -> None:
        key, runs = (settlement.table, settlement.load), settlement.tasks
        for run in runs:
            self._given_up[key, run] = None
            if len(self._given_up) > GIVEN_UP_MAX:
                self._given_up.popitem(last=False)
        for task in [each for each in self._sending if each.key == key and _of_runs(each.name, runs)]:
            task.give_up()
        if load is None or load.committing:
            return
        self._drop(load, [name for name in load.tasks if _of_runs(name, runs)])
        if not load.tasks:
            self._aborted += 1
            self._forget(load)

    def _withdraw(self, settlement: Settlement, done: Reply[PublicationResult]) -> None:
        """Takes published objects back: those of the load, or all others of its table; says what is certain."""

        def ended(withdrawn: Withdrawn) -> None:
            done(PublicationResult(0, withdrawn.gone, unconfirmed=withdrawn.doubtful))

        if settlement.verdict == "withdraw":
            self._published.withdraw(settlement.table, settlement.load, ended)
        else:
            self._published.clear(settlement.table, settlement.load, ended)

    def _commit(self, settlement: Settlement, load: _Load | None, done: Reply[PublicationResult]) -> None:
        key = (settlement.table, settlement.load)
        if load is None and (key, settlement.tasks) in self._settled:
            done(self._settled[key, settlement.tasks])
            return
        missing = [name for name in settlement.tasks if load is None or name not in load.tasks]
        if load is None or missing or load.committing:
            what = f"task {missing[0]} is not staged here" if missing else "it is being committed already"
            done(Failure("refused", f"load {settlement.load} cannot be committed: {what}"))
            return
        into = self._published.begin(LoadFacts(*key, load.publication.owner))
        if isinstance(into, Failure):
            done(into)
            return
        load.committing = True
        batches = [batch for name in settlement.tasks for batch in load.tasks[name].batches]

        def ended(result: PublicationResult | Failure) -> None:
            self._forget(load)
            if isinstance(result, PublicationResult):
                self._committed += 1
                self._settled[key, settlement.tasks] = result
                if len(self._settled) > LOADS_MAX:
                    self._settled.popitem(last=False)
            done(result)

        mark = f"{load_mark(settlement.load)}{self._node}-"
        _Commit(self._runtime, load, into, mark).start(batches, ended)


class StagedTask:
    """The `Feed` of one task: its rows are kept, bounded, and handed over whole when it ends."""

    def __init__(
        self, staging: Staging, publication: Publication, stage: Stage, control: FeedControl
    ) -> None:
        self._staging = staging
        self._publication = publication
        self._stage = stage
        self._control = control
        self._batches: list[Batch] = []
        self._bytes = self._rows = 0
        self._over = False

    @property
    def key(self) -> _Key:
        return self._publication.table, self._stage.load

    @property
    def name(self) -> str:
        return self._stage.task

    @property
    def share(self) -> Share:
        return self._publication.share

    def batch(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        if self._over:
            return
        rows = rows_of(self._publication, batch)
        if isinstance(rows, Failure):
            self._fail(rows)
        elif (full := self._staging.hold(size_bytes, self.share)) is not None:
            self._fail(Failure("limit", full, hint="load less at once, or raise the limit"))
        else:
            self._batches.append(rows)
            self._bytes += size_bytes
            self._rows += rows.num_rows
            self._control.consumed(size_bytes)

    def end(self) -> None:
        if self._over:
            return
        self._over = True
        if self._staging.ended(self, self._publication, self._stage, self._batches, self._bytes):
            self._control.finish(PublicationResult(self._rows, 0))
        else:
            self._staging.let_go(self, self._bytes)
            self._control.fail(Failure("limit", f"{LOADS_MAX} loads wait at this node (LOADS_MAX)"))

    def cancel(self, reason: str) -> None:
        """A task that was given up: its rows go."""
        if not self._over:
            self._over = True
            self._staging.let_go(self, self._bytes)

    def give_up(self) -> None:
        """Its run was given up by whoever settles the load."""
        self.refuse(Failure("refused", f"load {self._stage.load} was given up"))

    def refuse(self, failure: Failure) -> None:
        self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        self._over = True
        self._staging.let_go(self, self._bytes)
        self._control.fail(failure)


class _Commit:
    """One load on its way into the DHT: objects are made off the loop, then published as one load."""

    def __init__(self, runtime: Runtime, load: _Load, into: Load, mark: str) -> None:
        """`mark` is how the suffixes of its objects begin."""
        self._runtime = runtime
        self._publication = load.publication
        self._copies = load.stage.copies
        self._into = into
        self._mark = mark
        self._lifetime_s = lifetime_s(load.publication)

    def start(self, batches: list[Batch], done: OnLoaded) -> None:
        full = [batch for batch in batches if batch.num_rows]
        table, keys = self._publication.table, self._publication.keys
        schemas = {batch.schema: batch for batch in full}
        described = [dictionary_put(table, keys, schema, self._lifetime_s) for schema in schemas]
        for batch in schemas.values():
            # Schemas are interned in tables of the loop's thread; the computation only reads them.
            encode(batch.slice(0, 1), True)

        def made(result: list[tuple[PutObject, int]] | Exception) -> None:
            if isinstance(result, Exception):
                self._into.give_up()
                done(Failure("refused", f"rows could not be made into objects: {result}"))
            else:
                self._into.add(result, lambda: None)
                self._into.end(described, done)

        self._runtime.compute(lambda: list(self._puts(full)), made)

    def _puts(self, batches: list[Batch]) -> Iterable[tuple[PutObject, int]]:
        """Objects with the number of their rows. Runs beside the loop: it touches nothing that others do."""
        for form, same in enumerate(_by_schema(batches)):
            for cut in objects_of(same, self._publication.keys):
                name = Name(self._publication.table, cut.key, f"{self._mark}{form}.{cut.number}")
                yield PutObject(name, cut.value, self._lifetime_s, copies=self._copies), cut.rows


def run_of(task: str) -> str:
    return task.partition(RUN_END)[0]


def _of_runs(task: str, runs: tuple[str, ...]) -> bool:
    return not runs or run_of(task) in runs


def load_mark(load: str) -> str:
    """How the suffixes of a load's objects begin."""
    return hashlib.blake2b(load.encode(), digest_size=9).hexdigest() + "-"


def _by_schema(batches: list[Batch]) -> list[Batch]:
    """One batch of all rows of each schema, in the order in which schemas came."""
    same: dict[pa.Schema, list[pa.RecordBatch]] = {}
    for batch in batches:
        same.setdefault(batch.schema, []).append(batch.data)
    return [Batch(batches[0].table, pa.concat_batches(datas)) for datas in same.values()]
