"""One aggregation on one node: own states at the start of each epoch, others' as they come, one result an epoch.

Who is root, who is parent and when to pass on follow from the strategy (`strategy`). A state counts once: it is passed
on by whoever took it in, and what comes after that goes up as a further state with only the rest in it, so a
parent may add whatever comes. The root's result says how many nodes are in it; a result that has been overtaken
by late data is given again with a higher revision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from msgspec import structs

from query.aggregation.children import Places, Waited
from query.aggregation.ending import Ending, Standing
from query.aggregation.epoch import BadState, Combine, Epoch
from query.aggregation.messages import HEIGHT_MAX, EpochResult, Psr
from query.aggregation.share import NOTHING, Share
from query.aggregation.strategy import Routing, Strategy, Structure, Timing
from query.aggregation.transit import Transit
from query.causes import Cause
from runtime.api import Address, Runtime, Timer

#: Epochs open at a node at a time; data for older ones is too late and counted. With Timeout each level of a tree waits
#: its time, so that the last data comes that many timeouts late.
EPOCHS_OPEN_MAX = 8
#: States that come after a node has passed its own on wait so long for others like them.
LATE_S = 0.25
#: Nodes whose epochs begin further apart than that many epochs are out of step.
BEHIND_EPOCHS = 1.5


class Give(Protocol):
    """Takes this node's own state of an epoch: empty for nothing, None when it could not be read in time; and what the
    node could answer for when it read it."""

    def __call__(self, state: bytes | None, share: Share = NOTHING) -> None: ...


#: Asked for this node's own state of an epoch, which it hands to the function it is given, at once or later.
Source: TypeAlias = Callable[[int, Give], None]


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """An aggregation as every node knows it."""

    id: str
    strategy: Strategy
    #: Where results go.
    asker: Address
    epochs: int = 1
    epoch_s: float = 5.0
    #: For Timeout: how long after something came the node passes on.
    timeout_s: float = 5.0
    #: For Learned and Topology: how long a child that has not sent is waited for; then it is forgotten.
    cleanup_s: float = 5.0
    #: For Optimal with one root that everything reaches: the number of nodes.
    nodes: int = 0
    #: For Tree: children a node takes.
    degree_max: int = 64
    #: For IP: the root.
    root: Address = ""


@dataclass(slots=True)
class SessionCounts:
    sent: int = 0
    received: int = 0
    results: int = 0
    revised: int = 0
    #: States for epochs that are over here.
    late: int = 0
    #: States that could not be read; the nodes in them are not in the result.
    malformed: int = 0
    redirected: int = 0
    #: Times this node found itself behind the others.
    caught_up: int = 0
    #: States sent a second time to the same node, and such that came here a second time.
    repeated: int = 0
    repeats: int = 0
    rerouted: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Edges:
    """A node's place in the tree of the query's dissemination: for Hi-Optimal."""

    parent: Address | None
    children: tuple[Address, ...]


class Session:
    """This node's part."""

    def __init__(
        self,
        spec: SessionSpec,
        runtime: Runtime,
        transit: Transit,
        combine: Combine,
        source: Source,
        edges: Callable[[], Edges] | None = None,
        age_s: float = 0.0,
        over: Callable[[], None] | None = None,
        first: int = 0,
    ) -> None:
        """`age_s` is how long ago the aggregation began; epochs from `first` on that are past begin at once. `edges`
        tells this node's place in the tree of the dissemination, which may change."""
        self.spec = spec
        self.counts = transit.counts
        self.transit = transit
        self._runtime = runtime
        self._combine = combine
        self._source = source
        self._edges = edges
        self._epochs: dict[int, Epoch] = {}
        self._waited = Waited()
        self._places = Places(spec.degree_max)
        self._next = first
        #: The last epoch that began before anybody could be known.
        self._first = max(first, int(age_s // spec.epoch_s))
        #: Epochs begin by this, however late a timer comes.
        self._began_s = runtime.now() - age_s
        self._sequence = 0
        self._timer: Timer | None = None
        self._closed = False
        self._ending = Ending(
            runtime,
            spec.strategy,
            spec.epochs == 1,
            spec.epochs * spec.epoch_s - age_s,
            spec.timeout_s,
            self._standing,
            over or (lambda: None),
        )
        transit.on_settled = self._ending.look
        if self._next < spec.epochs:
            self._arm()

    @property
    def is_root(self) -> bool:
        if self.spec.strategy.by_dissemination:
            return self._edges is not None and self._edges().parent is None
        return self.transit.is_root

    @property
    def in_degree(self) -> int:
        """Nodes that this one takes states from."""
        return len(self._places) if self.spec.strategy.routing is Routing.TREE else len(self._waited)

    def close(self) -> None:
        self._closed = True
        self._ending.close()
        if self._timer is not None:
            self._timer.cancel()
        for epoch in self._epochs.values():
            epoch.stop_timer()

    # -- in

    def _begin(self, _: None) -> None:
        """An epoch starts by this node's own clock."""
        number, self._next = self._next, self._next + 1
        if self._next < self.spec.epochs:
            self._arm()
        self._drop_old(number)
        began_s = self._runtime.now()

        def give(state: bytes | None, share: Share = NOTHING) -> None:
            self._own(number, state, share, began_s)

        self._source(number, give)

    def _arm(self) -> None:
        at_s = self._began_s + self._next * self.spec.epoch_s
        self._timer = self._runtime.call_later(max(0.0, at_s - self._runtime.now()), self._begin, None)

    def _own(self, number: int, state: bytes | None, share: Share, began_s: float) -> None:
        """This node's own state of an epoch is there; None: it has none, and is not counted among those in it."""
        epoch = None if self._closed else self._epoch(number)
        if epoch is None or epoch.began:
            self.counts.late += epoch is None and not self._closed
            return
        epoch.began = True
        if state is None:
            epoch.note({Cause.NOT_READ.number: 1})
        if share.doubts:
            epoch.note({Cause.UNOWNED.number: share.doubts})
        nodes = 0 if state is None else 1
        epoch.add(state or b"", nodes, began_s, self._combine, self.is_root, share.steps)
        if self.is_root or self._waits:
            self._progress(epoch)
        else:
            self._pass_on(epoch)
        self._ending.look()

    @property
    def _waits(self) -> bool:
        """Whether a node below the root holds its own state back for others."""
        strategy = self.spec.strategy
        return strategy.structure is Structure.HIERARCHY and strategy.timing is not Timing.TIMEOUT

    def arrived(self, psr: Psr, previous: Address) -> None:
        """A state came, by way of `previous`."""
        if self._closed:
            return
        self.counts.received += 1
        self._ending.touched()
        strategy, is_root = self.spec.strategy, self.is_root
        self._compare(psr)
        if previous == self.transit.parent or psr.height >= HEIGHT_MAX:
            self.transit.leave_parent()
        stays = strategy.routing is not Routing.TREE or self._place(psr, previous)
        if not is_root and strategy.structure is not Structure.HIERARCHY:
            self.transit.send(self._placed(psr))
            return
        epoch = self._epoch(psr.epoch)
        if epoch is None:
            self.counts.late += 1
            return
        if strategy.learns and (stays or strategy.timing is Timing.LEARNED):
            self._waited.heard(psr.sender, psr.epoch)
        epoch.missing.pop(psr.sender, None)
        if not epoch.is_new(psr.sender, psr.sequence):
            self.counts.repeats += 1
            return
        born_s = self._runtime.now() - psr.age_ms / 1000.0
        try:
            epoch.add(psr.state, psr.nodes, born_s, self._combine, is_root, psr.steps)
            epoch.note(psr.causes)
        except BadState:
            self.counts.malformed += 1
            epoch.note({Cause.UNREADABLE.number: max(1, psr.nodes)})
        self._progress(epoch)

    def _compare(self, psr: Psr) -> None:
        """Whether the sender and this node count epochs alike, going by the age of what it sent; whoever is behind, for
        example because the query came to it late, catches up."""
        epoch_s = self.spec.epoch_s
        theirs_s = psr.epoch * epoch_s + psr.age_ms / 1000.0
        ours_s = self._runtime.now() - self._began_s
        if theirs_s - ours_s > BEHIND_EPOCHS * epoch_s:
            self.catch_up(theirs_s)
        elif ours_s - theirs_s > BEHIND_EPOCHS * epoch_s and psr.sender != self._runtime.address:
            self.transit.tell_time(psr.sender, int(ours_s * 1000.0))

    def catch_up(self, age_s: float) -> None:
        """The aggregation began so long ago: goes on with the epoch that is next by that."""
        behind_s = age_s - (self._runtime.now() - self._began_s)
        epoch_s = self.spec.epoch_s
        if self._closed or behind_s <= BEHIND_EPOCHS * epoch_s or self._next >= self.spec.epochs:
            return
        self.counts.caught_up += 1
        self._began_s -= behind_s
        self._next = self._first = min(self.spec.epochs - 1, max(self._next, 1 + int(age_s // epoch_s)))
        self._ending.sooner(behind_s)
        if self._timer is not None:
            self._timer.cancel()
        self._arm()

    def _place(self, psr: Psr, previous: Address) -> bool:
        """Gives a child its place in the tree, here or elsewhere; whether it stays."""
        elsewhere = self._places.take(previous, psr.epoch, psr.height, psr.free)
        if elsewhere is None or elsewhere == previous:
            return True
        self.counts.redirected += 1
        self.transit.redirect(previous, elsewhere)
        if self.spec.strategy.timing is Timing.TOPOLOGY:
            self._forget(previous)
        return False

    def _forget(self, sender: Address) -> None:
        """Waits no more for a child, in any epoch that is open."""
        self._waited.forget(sender)
        for epoch in list(self._epochs.values()):
            if sender in epoch.missing:
                del epoch.missing[sender]
                self._progress(epoch)

    # -- when to pass on

    def _progress(self, epoch: Epoch) -> None:
        if self._is_complete(epoch) and (not epoch.passed_on or epoch.unsent_nodes):
            self._pass_on(epoch)
        elif epoch.timer is None and (not epoch.passed_on or epoch.unsent_nodes):
            epoch.timer = self._runtime.call_later(self._patience_s(epoch), self._overdue, epoch)

    def _is_complete(self, epoch: Epoch) -> bool:
        """Whether nothing more is to be expected, as far as this node can know."""
        strategy = self.spec.strategy
        if strategy.timing is Timing.TIMEOUT:
            return False
        if strategy.by_dissemination:
            return epoch.began and not epoch.missing
        if strategy.timing is Timing.OPTIMAL:
            return self.is_root and epoch.nodes >= self.spec.nodes
        if not epoch.began or epoch.missing or epoch.passed_on:
            return False
        # In its first epoch a root knows nobody yet and lets the time run; afterwards nobody means alone.
        return epoch.number > self._first or not self.is_root

    def _patience_s(self, epoch: Epoch) -> float:
        strategy = self.spec.strategy
        if strategy.learns and epoch.passed_on:
            return LATE_S
        return self.spec.cleanup_s if strategy.learns else self.spec.timeout_s

    def _overdue(self, epoch: Epoch) -> None:
        epoch.timer = None
        if self._closed:
            return
        if self.spec.strategy.learns and not epoch.passed_on:
            for sender in self._waited.silent(epoch.number):
                self._forget(sender)
        if epoch.unsent_nodes or not epoch.passed_on:
            self._pass_on(epoch)

    # -- out

    def _pass_on(self, epoch: Epoch) -> None:
        epoch.stop_timer()
        if self.is_root:
            epoch.keep()
        state, nodes, steps, causes = epoch.take_unsent()
        age_ms = max(0, int((self._runtime.now() - epoch.born_s) * 1000.0))
        spec = self.spec
        if epoch.kept:
            self.counts.results += 1
            self.counts.revised += epoch.revision > 0
            result = EpochResult(
                spec.id, epoch.number, epoch.revision, epoch.nodes, epoch.state, age_ms, causes, epoch.steps
            )
            epoch.revision += 1
            self.transit.answer(spec.asker, result)
            return
        self._sequence += 1
        me = self._runtime.address
        psr = self._placed(
            Psr(spec.id, epoch.number, me, nodes, state, age_ms, 0, 0, self._sequence, causes, steps)
        )
        parent = self._edges().parent if spec.strategy.by_dissemination and self._edges is not None else None
        if parent is not None:
            self.transit.send_to(parent, psr)
        else:
            self.transit.send(psr)

    def _placed(self, psr: Psr) -> Psr:
        """A state with what a parent in a Tree wants to know of the node that sends it, which need not have made it."""
        if self.spec.strategy.routing is not Routing.TREE:
            return psr
        return structs.replace(psr, height=self._places.height, free=max(0, self._places.free))

    # -- the end

    def _standing(self) -> Standing | None:
        last = self._epochs.get(self.spec.epochs - 1)
        if self._closed or last is None or not last.began:
            return None
        is_root = self.is_root
        is_complete = last.passed_on and (not is_root or self._is_complete(last))
        is_settled = self.transit.pending == 0 and last.unsent_nodes == 0
        return Standing(is_root, last.passed_on, is_complete, is_settled)

    # -- epochs

    def _epoch(self, number: int) -> Epoch | None:
        epoch = self._epochs.get(number)
        if epoch is not None:
            return epoch
        # A child whose clock is ahead may begin an epoch before this node does, but not by more than one.
        now = 1 + int((self._runtime.now() - self._began_s) // self.spec.epoch_s)
        newest = max(self._next, now)
        if not newest - EPOCHS_OPEN_MAX < number <= newest or number >= self.spec.epochs:
            return None
        strategy, missing = self.spec.strategy, {}
        if strategy.by_dissemination and self._edges is not None:
            missing = dict.fromkeys(self._edges().children)
        elif strategy.learns:
            missing = self._waited.known()
        epoch = self._epochs[number] = Epoch(number, self._runtime.now(), missing)
        return epoch

    def _drop_old(self, number: int) -> None:
        oldest = number - EPOCHS_OPEN_MAX + 1
        for each in [each for each in self._epochs if each < oldest]:
            epoch = self._epochs.pop(each)
            epoch.stop_timer()
            self.counts.late += epoch.unsent_nodes > 0 and epoch.passed_on
        if self.spec.strategy.routing is Routing.TREE:
            silent_epochs = 1 + int(self.spec.cleanup_s / self.spec.epoch_s)
            self._places.forget_silent(number - silent_epochs)
