"""A scenario's faults, put on the world's clock.

Each fault of the file begins at its time, and ends at its `until_s` or with the load, so that what happens in
the drain time happens in a healthy network. Which hosts it strikes is drawn when it begins, from a stream of
its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

from pier_node.scenario.form import (
    AnyFault,
    ChosenForm,
    ChurnForm,
    CrashForm,
    DuplicationForm,
    JumpForm,
    LossForm,
    PairsForm,
    PartitionForm,
    PauseForm,
    RandomForm,
    ReorderingForm,
    SkewForm,
    SlowForm,
    StallForm,
)
from pier_node.scenario.parse import ScenarioError
from pier_node.scenario.random_faults import draw
from runtime.rng import Rng
from runtime.sim import Churn, SimHost, World, jump, pause, skew, slow

#: The shortest time for which a loop is busy that is told of.
BUSY_S_LEAST = 0.1
#: What the counts of faults drawn at random are called, before their kind.
DRAWN_PREFIX = "drawn_"


@dataclass(slots=True)
class Mischief:
    """`build` puts a node on a host that restarted or is new."""

    world: World
    build: Callable[[SimHost], None]
    load_until_s: float
    crashed: int = 0
    restarted: int = 0
    churns: list[Churn] = field(default_factory=list)
    #: Faults drawn at random, by kind.
    drawn: dict[str, int] = field(default_factory=dict)

    def schedule(self, faults: tuple[AnyFault, ...]) -> None:
        for number, form in enumerate(faults):
            _validate(form, number)
            rng = self.world.rng(f"fault {number}")
            self.world.call_at(form.at_s, self._begin, (form, rng))

    def figures(self) -> dict[str, int]:
        return {
            "crashed": self.crashed,
            "restarted": self.restarted,
            "churn_ended": sum(churn.ended for churn in self.churns),
            "churn_replaced": sum(churn.replaced for churn in self.churns),
            **{f"{DRAWN_PREFIX}{kind}": count for kind, count in sorted(self.drawn.items())},
        }

    def _begin(self, fault: tuple[AnyFault, Rng]) -> None:
        form, rng = fault
        faults = self.world.faults
        match form:
            case CrashForm():
                self._crash(form, rng)
            case ChurnForm():
                self._churn(form)
            case LossForm():
                faults.loss.set_rate(form.rate)
                self._end(form.until_s, lambda _: faults.loss.set_rate(0.0))
            case DuplicationForm():
                faults.duplication.set_rate(form.rate)
                self._end(form.until_s, lambda _: faults.duplication.set_rate(0.0))
            case ReorderingForm():
                faults.reordering.set_rate(form.rate, form.delay_s_max)
                self._end(form.until_s, lambda _: faults.reordering.set_rate(0.0))
            case PartitionForm():
                self._partition(form, rng)
            case PairsForm():
                self._cut_pairs(form, rng)
            case SlowForm():
                self._slow(form, rng)
            case PauseForm():
                for host in self._choose(form, rng):
                    self._pause(host, form.for_s)
            case StallForm():
                for host in self._choose(form, rng):
                    self._stall((form, rng, host))
            case JumpForm():
                for host in self._choose(form, rng):
                    ahead_s = rng.uniform(0.0, form.ahead_s_max)
                    jump(host, ahead_s, rng.uniform(-form.wall_s_max, form.wall_s_max))
            case RandomForm():
                self._draw_later(form, rng)
            case SkewForm():
                for host in self._choose(form, rng):
                    offset_s = rng.uniform(-form.offset_s_max, form.offset_s_max)
                    skew(host, offset_s, 1.0 + rng.uniform(-form.drift_max, form.drift_max))

    def _end(self, until_s: float | None, end: Callable[[None], None]) -> None:
        self.world.call_at(min(until_s or self.load_until_s, self.load_until_s), end, None)

    def _draw_later(self, form: RandomForm, rng: Rng) -> None:
        at_s = self.world.now + rng.expovariate(1.0 / form.every_s)
        if at_s < min(form.until_s or self.load_until_s, self.load_until_s):
            self.world.call_at(at_s, self._draw, (form, rng))

    def _draw(self, fault: tuple[RandomForm, Rng]) -> None:
        form, rng = fault
        kind, drawn = draw(rng, self.world.now, form.spare)
        self.drawn[kind] = self.drawn.get(kind, 0) + 1
        self._begin((drawn, rng))
        self._draw_later(form, rng)

    def _crash(self, form: CrashForm, rng: Rng) -> None:
        for host in self._choose(form, rng):
            self.world.crash(host)
            self.crashed += 1
            if form.restart_after_s is not None:
                self.world.call_at(self.world.now + form.restart_after_s, self._restart, host)

    def _restart(self, host: SimHost) -> None:
        if host.retired:
            return
        self.restarted += 1
        self.build(self.world.restart(host))

    def _churn(self, form: ChurnForm) -> None:
        churn = Churn(
            self.world,
            self.build,
            hosts=[host for host in self.world.hosts[form.spare :] if host.alive],
            session_mean_s=form.session_mean_s,
            session_median_s=form.session_median_s,
            replace_s_max=form.replace_s_max,
        )
        self.churns.append(churn)
        self._end(form.until_s, lambda _: churn.stop(refill=True))

    def _partition(self, form: PartitionForm, rng: Rng) -> None:
        chosen = {host.index for host in self._choose(form, rng)}
        rest = [host.index for host in self.world.hosts if host.index not in chosen]
        cut = self.world.faults.partitions.cut(chosen, rest, form.one_way)
        self._end(form.until_s, lambda _: self.world.faults.partitions.heal(cut))

    def _cut_pairs(self, form: PairsForm, rng: Rng) -> None:
        hosts = [host.index for host in self.world.hosts if host.alive]
        rng.shuffle(hosts)
        pairs = [pair for pair in combinations(hosts, 2) if rng.random() < form.fraction]
        partitions = self.world.faults.partitions
        cut = partitions.cut_one_way(pairs) if form.one_way else partitions.cut_pairs(pairs)
        self._end(form.until_s, lambda _: partitions.heal(cut))

    def _slow(self, form: SlowForm, rng: Rng) -> None:
        chosen = self._choose(form, rng)
        for host in chosen:
            slow(host, form.factor, form.lag_s)

        def end(_: None) -> None:
            for host in chosen:
                slow(host)

        self._end(form.until_s, end)

    def _pause(self, host: SimHost, for_s: float) -> None:
        """No longer than the load lasts: what is under way then has the drain time to end."""
        left_s = self.load_until_s - self.world.now
        if left_s > 0.0:
            pause(host, min(for_s, left_s))

    def _stall(self, stalled: tuple[StallForm, Rng, SimHost]) -> None:
        """A busy loop, and when the next one comes: one after the other, until the fault is over."""
        form, rng, host = stalled
        if self.world.now >= min(form.until_s or self.load_until_s, self.load_until_s) or not host.alive:
            return
        busy_s = rng.uniform(min(BUSY_S_LEAST, form.busy_s_max), form.busy_s_max)
        self._pause(host, busy_s)
        next_s = self.world.now + busy_s + rng.expovariate(1.0 / form.every_s)
        self.world.call_at(next_s, self._stall, stalled)

    def _choose(self, form: ChosenForm, rng: Rng) -> list[SimHost]:
        alive = [host for host in self.world.hosts[form.spare :] if host.alive]
        count = form.count if form.count is not None else math.ceil((form.fraction or 0.0) * len(alive))
        return rng.sample(alive, count)


def _validate(form: AnyFault, number: int) -> None:
    """What the forms cannot say by themselves."""
    key = f"faults[{number}]"
    if isinstance(form, ChosenForm) and (form.count is None) == (form.fraction is None):
        raise ScenarioError(f"{key}.count: give count or fraction")
    if isinstance(form, ChurnForm) and (form.session_mean_s is None) == (form.session_median_s is None):
        raise ScenarioError(f"{key}.session_median_s: give session_median_s or session_mean_s")
    until_s = getattr(form, "until_s", None)
    if until_s is not None and until_s <= form.at_s:
        raise ScenarioError(f"{key}.until_s: must be after at_s")
