"""Publishers keep what they publish alive: renewal before it ends, a new put when the owner has lost it (PIER 3.2.3).

In come objects to publish and to withdraw; out go batched renewals and puts. An object is renewed once per
period; a renewal that its owner refuses as unknown is followed at once by a put. So whatever a failure took
away is back after at most one period and one round trip, as long as the publisher lives.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject, RenewObject, id_of
from overlay.dht.verbs import Dht
from overlay.objects.name import Name
from overlay.ring import Arc
from runtime.api import Runtime, Timer

#: Objects one node may keep alive; about 400 bytes each besides their values.
PUBLISHED_MAX = 1_000_000
#: Of an object's lifetime, how much passes between renewals: two may be lost before it ends.
RENEWAL_SHARE = 0.4
#: Renewals fall due together once a second, so that those for one owner share messages.
STEP_S = 1.0
#: What failed or was refused is tried again after this share of its period.
RETRY_SHARE = 0.1
#: Heirs of dead nodes that are served together; more are told to ask again.
LOOK_AFTER_MAX = 256
#: Renewals under way at once; the rest of a step follows when they have ended.
BURST_OBJECTS = 4096


@dataclass(slots=True)
class _Published:
    put: PutObject
    period_s: float
    #: The step in which it is next renewed; met in another step's list, it has moved on.
    due: int = -1


@dataclass(frozen=True, slots=True)
class PublisherStatistics:
    published: int
    puts: int
    renewals: int
    republished: int
    refused: int
    unreached: int
    over_limit: int


class Publisher:
    """Keeps objects of this node alive in the DHT."""

    __slots__ = (
        "_dht",
        "_heap",
        "_looking_after",
        "_objects",
        "_over_limit",
        "_published_max",
        "_puts",
        "_refused",
        "_renewals",
        "_republished",
        "_rng",
        "_runtime",
        "_steps",
        "_timer",
        "_timer_step",
        "_to_look_after",
        "_unreached",
        "_version",
    )

    def __init__(self, runtime: Runtime, dht: Dht, published_max: int = PUBLISHED_MAX) -> None:
        self._runtime = runtime
        self._dht = dht
        self._published_max = published_max
        self._rng = runtime.rng("dht/publisher")
        # Another life of this node must not renew what it published in this one: versions start anywhere.
        self._version = self._rng.getrandbits(31)
        self._objects: dict[Name, _Published] = {}
        self._steps: dict[int, list[Name]] = {}
        self._heap: list[int] = []
        #: Arcs in which lost objects are to be put again, and who waits for that.
        self._to_look_after: list[tuple[tuple[Arc, ...], Callable[[bool], None]]] = []
        self._looking_after = False
        self._timer: Timer | None = None
        self._timer_step = 0
        self._puts = self._renewals = self._republished = 0
        self._refused = self._unreached = self._over_limit = 0

    def publish(
        self,
        puts: Sequence[PutObject],
        done: Callable[[list[Code]], None] | None = None,
        *,
        period_s: float | None = None,
    ) -> None:
        """Puts objects and keeps them alive until withdrawn. Publishing a name again replaces its value. The
        codes are those of the first puts: one that failed is tried again. LIMIT: too many are kept alive."""
        known = sum(1 for put in puts if put.name in self._objects)
        if len(self._objects) + len(puts) - known > self._published_max:
            self._over_limit += len(puts)
            if done is not None:
                self._runtime.call_later(0.0, done, [Code.LIMIT] * len(puts))
            return
        self._version += 1
        kept = []
        for put in puts:
            period = period_s if period_s is not None else put.lifetime_s * RENEWAL_SHARE
            published = _Published(replace(put, version=self._version), period)
            self._objects[put.name] = published
            kept.append(published)
        self._put(kept, done)

    def withdraw(self, names: Sequence[Name], *, end_now: bool = True) -> None:
        """Renews no more; with `end_now` the owners are told to let go at once."""
        ended = []
        for name in names:
            published = self._objects.pop(name, None)
            if published is not None:
                ended.append(RenewObject(name, 0.0, published.put.target))
        if end_now and ended:
            self._dht.renew_many(ended)

    def look_after(self, arcs: Sequence[Arc], done: Callable[[bool], None]) -> None:
        """Renews at once what is published in some arcs, and puts again what is lost there; `done` tells whether all
        of it has an answer. Several that come while one is at work are done together."""
        if len(self._to_look_after) >= LOOK_AFTER_MAX:
            self._runtime.call_later(0.0, done, False)
            return
        self._to_look_after.append((tuple(arcs), done))
        if not self._looking_after:
            self._looking_after = True
            self._runtime.call_later(0.0, self._begin_looking_after, None)

    def names(self) -> list[Name]:
        return list(self._objects)

    def statistics(self) -> PublisherStatistics:
        return PublisherStatistics(
            published=len(self._objects),
            puts=self._puts,
            renewals=self._renewals,
            republished=self._republished,
            refused=self._refused,
            unreached=self._unreached,
            over_limit=self._over_limit,
        )

    # --- putting and renewing ----------------------------------------------------------------------------------

    def _put(self, kept: list[_Published], done: Callable[[list[Code]], None] | None) -> None:
        self._puts += len(kept)

        def ended(codes: list[Code]) -> None:
            for published, code in zip(kept, codes, strict=True):
                self._next(published, code)
            if done is not None:
                done(codes)

        self._dht.put_many([published.put for published in kept], ended)

    def _next(self, published: _Published, code: Code) -> None:
        """When to renew: a little before the period is over, so that no object stays lost longer than that."""
        if self._objects.get(published.put.name) is not published:
            return
        share = 1.0
        if code is Code.UNREACHED or code is Code.LIMIT:
            self._unreached += 1
            share = RETRY_SHARE
        elif code is not Code.OK:
            self._refused += 1
            share = RETRY_SHARE
        delay_s = max(0.0, published.period_s * share * self._rng.uniform(0.9, 1.0) - STEP_S)
        published.due = step = int((self._runtime.now() + delay_s) / STEP_S) + 1
        names = self._steps.get(step)
        if names is None:
            names = self._steps[step] = []
            heapq.heappush(self._heap, step)
        names.append(published.put.name)
        self._arm()

    def _begin_looking_after(self, _: None) -> None:
        asked, self._to_look_after = self._to_look_after, []
        if not asked:
            self._looking_after = False
            return
        arcs = [arc for wanted, _done in asked for arc in wanted]
        names = iter(list(self._objects))
        reached = True

        def ended(codes: list[Code]) -> None:
            nonlocal reached
            reached = reached and not any(code in (Code.UNREACHED, Code.LIMIT) for code in codes)
            self._runtime.call_later(0.0, step, None)

        def step(_: None) -> None:
            chunk = list(islice(names, BURST_OBJECTS))
            if not chunk:
                for _arcs, done in asked:
                    done(reached)
                self._begin_looking_after(None)
                return
            found = [self._objects[name] for name in chunk if name in self._objects]
            found = [each for each in found if any(arc.contains(_id_of(each)) for arc in arcs)]
            if found:
                self._renew_lost(found, ended)
            else:
                ended([])

        step(None)

    def _renew_lost(self, found: list[_Published], done: Callable[[list[Code]], None]) -> None:
        """Renews out of turn; what its owner does not have is put again before it is done."""

        def renewed(codes: list[Code]) -> None:
            lost = [each for each, code in zip(found, codes, strict=True) if code is Code.UNKNOWN]
            lost = [each for each in lost if self._objects.get(each.put.name) is each]
            rest: list[Code] = [code for code in codes if code is not Code.UNKNOWN]
            if not lost:
                done(rest)
                return
            self._republished += len(lost)
            self._puts += len(lost)
            self._dht.put_many([each.put for each in lost], lambda puts: done([*rest, *puts]))

        self._renewals += len(found)
        self._dht.renew_many([_renewal(each) for each in found], renewed)

    def _arm(self) -> None:
        if not self._heap or (self._timer is not None and self._timer_step <= self._heap[0]):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_step = self._heap[0]
        delay_s = max(0.0, self._timer_step * STEP_S - self._runtime.now())
        self._timer = self._runtime.call_later(delay_s, self._step, None)

    def _step(self, _: None) -> None:
        """Renews what is due, at most a burst; what is over stays due and follows."""
        self._timer = None
        step = self._heap[0]
        names = self._steps[step]
        due: list[_Published] = []
        while names and len(due) < BURST_OBJECTS:
            published = self._objects.get(names.pop())
            if published is not None and published.due == step:
                published.due = -1
                due.append(published)
        if not names:
            del self._steps[heapq.heappop(self._heap)]
        if not due:
            self._arm()
            return
        self._renewals += len(due)
        self._dht.renew_many([_renewal(each) for each in due], lambda codes: self._renewed(due, codes))

    def _renewed(self, due: list[_Published], codes: list[Code]) -> None:
        lost = []
        for published, code in zip(due, codes, strict=True):
            if self._objects.get(published.put.name) is not published:
                continue
            if code is Code.UNKNOWN:
                lost.append(published)
            else:
                self._next(published, code)
        if lost:
            self._republished += len(lost)
            self._put(lost, None)
        self._arm()


def _renewal(published: _Published) -> RenewObject:
    put = published.put
    return RenewObject(put.name, put.lifetime_s, put.target, put.version)


def _id_of(published: _Published) -> int:
    put = published.put
    return id_of(put.name.namespace, put.name.key, put.target)
