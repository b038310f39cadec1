"""Publishers keep what they publish alive: renewal before it ends, a new put when the owner has lost it (PIER 3.2.3).

In come objects to publish and to withdraw; out go batched renewals and puts. An object is renewed once per
period; a renewal that its owner refuses as unknown is followed at once by a put. So whatever a failure took
away is back after at most one period and one round trip, as long as the publisher lives.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

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
#: Puts of one publication, or renewals, under way at once; the rest follows when they have ended.
BURST_OBJECTS = 4096
#: Renewals under way in all: those for an owner that is silent do not keep the others waiting.
RENEWING_MAX = 8 * BURST_OBJECTS
#: Objects that are taken back at a time; the next follow when their owners have said that these are gone.
WITHDRAWN_OBJECTS = 4096
#: Tries to take one object back, each of them with all the attempts of a request. What is left ends by itself.
WITHDRAW_TRIES = 3


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """How a withdrawal ended, by objects: gone for certain, or perhaps still there until their life is over."""

    gone: int
    doubtful: int


#: Looks after what it keeps in some arcs, and tells whether all of it has an answer.
Helper: TypeAlias = Callable[[Sequence[Arc], Callable[[bool], None]], None]


@dataclass(slots=True)
class _Published:
    put: PutObject
    period_s: float
    #: When this content was first put.
    born_s: float
    #: The step in which it is next renewed; met in another step's list, it has moved on.
    due: int = -1
    #: Brought back from an earlier life of this node: whatever version its owner has is the one.
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class PublisherStatistics:
    published: int
    puts: int
    renewals: int
    republished: int
    refused: int
    unreached: int
    over_limit: int
    withdrawals_failed: int


#: What an owner says that no longer has an object.
_GONE = (Code.OK, Code.UNKNOWN)


class Publisher:
    """Keeps objects of this node alive in the DHT."""

    __slots__ = (
        "_dht",
        "_heap",
        "_helpers",
        "_looking_after",
        "_lost",
        "_objects",
        "_over_limit",
        "_published_max",
        "_puts",
        "_refused",
        "_renewals",
        "_renewing",
        "_republished",
        "_rng",
        "_runtime",
        "_steps",
        "_timer",
        "_timer_step",
        "_to_look_after",
        "_unreached",
        "_version",
        "_withdrawals_failed",
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
        self._helpers: list[Helper] = []
        self._timer: Timer | None = None
        self._timer_step = 0
        #: Objects whose renewal has no answer yet; those that are to be put again at the end of this turn.
        self._renewing = 0
        self._lost: list[_Published] = []
        self._puts = self._renewals = self._republished = 0
        self._refused = self._unreached = self._over_limit = self._withdrawals_failed = 0

    def publish(
        self,
        puts: Sequence[PutObject],
        done: Callable[[list[Code]], None] | None = None,
        *,
        period_s: float | None = None,
        adopt: bool = False,
    ) -> None:
        """Puts objects and keeps them alive until withdrawn. Publishing a name again replaces its value. The
        codes are those of the first puts: one that failed is tried again. LIMIT: too many are kept alive. With `adopt`
        an object that its owner has already is renewed, and only put where it is lost."""
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
            published = _Published(
                replace(put, version=self._version), period, self._born_s(put), adopted=adopt
            )
            self._objects[put.name] = published
            kept.append(published)
        if adopt:
            self._confirm(kept, done)
        else:
            self._put(kept, done)

    def _born_s(self, put: PutObject) -> float:
        """What is published again as it was is no younger for it."""
        before = self._objects.get(put.name)
        again = before is not None and before.put.value == put.value
        return before.born_s if before is not None and again else self._runtime.now() - put.age_s

    def renew(self, names: Sequence[Name], done: Callable[[int], None]) -> None:
        """Renews these objects now, and puts those that are lost; `done` gets how many their owners have."""
        kept = [self._objects[name] for name in names if name in self._objects]

        def confirmed(codes: list[Code]) -> None:
            done(sum(code is Code.OK for code in codes))

        self._confirm(kept, confirmed)

    @property
    def room(self) -> int:
        """How many more objects may be kept alive."""
        return self._published_max - len(self._objects)

    def withdraw(self, names: Sequence[Name], done: Callable[[Withdrawn], None] | None = None) -> None:
        """Renews no more, and has the owners let go, so many at a time; `done` says of how many they confirmed it."""
        ended = []
        for name in names:
            published = self._objects.pop(name, None)
            if published is not None:
                # Another node may have put the same name meanwhile: only what is this publisher's own ends.
                version = None if published.adopted else published.put.version
                ended.append(RenewObject(name, 0.0, published.put.target, version))
        self._end(ended, 0, Withdrawn(0, 0), done)

    def _end(
        self,
        left: list[RenewObject],
        tries: int,
        so_far: Withdrawn,
        done: Callable[[Withdrawn], None] | None,
    ) -> None:
        """Ends the first of these objects, then the rest. A name that was published again meanwhile is let be."""
        left = [each for each in left if each.name not in self._objects]
        now, rest = left[:WITHDRAWN_OBJECTS], left[WITHDRAWN_OBJECTS:]
        if not now:
            if done is not None:
                self._runtime.call_later(0.0, done, so_far)
            return

        def ended(codes: list[Code]) -> None:
            again = [each for each, code in zip(now, codes, strict=True) if code not in _GONE]
            gone = so_far.gone + len(now) - len(again)
            if again and tries + 1 < WITHDRAW_TRIES:
                self._end([*again, *rest], tries + 1, Withdrawn(gone, so_far.doubtful), done)
            else:
                self._withdrawals_failed += len(again)
                self._end(rest, 0, Withdrawn(gone, so_far.doubtful + len(again)), done)

        self._dht.renew_many(now, ended)

    def forget(self, names: Sequence[Name]) -> int:
        """Renews no more, and leaves it to others that the objects go; how many of them were kept alive."""
        return sum(self._objects.pop(name, None) is not None for name in names)

    def show(self, names: Iterable[Name]) -> None:
        """Objects of a load that is shown: from now on they are renewed, and put again, to be seen."""
        for name in names:
            published = self._objects.get(name)
            if published is not None and published.put.load:
                # It is as old as it has been seen.
                published.put, published.born_s = replace(published.put, load=""), self._runtime.now()

    def shows(self, name: Name) -> bool:
        """Whether an object is kept alive and to be seen."""
        published = self._objects.get(name)
        return published is not None and not published.put.load

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

    def also(self, helper: Helper) -> None:
        """Whoever keeps objects of its own alive looks after them, too, when this publisher is asked to."""
        self._helpers.append(helper)

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
            withdrawals_failed=self._withdrawals_failed,
        )

    # --- putting and renewing ----------------------------------------------------------------------------------

    def _put(self, kept: list[_Published], done: Callable[[list[Code]], None] | None) -> None:
        """Puts objects, a burst at a time: a whole table never fills what one node may have under way."""
        self._puts += len(kept)
        all_codes: list[Code] = []

        def burst() -> None:
            now = kept[len(all_codes) : len(all_codes) + BURST_OBJECTS]
            for published in now:
                published.adopted = False
                self._plan(published)
            # What an owner that is silent keeps waiting does not hold up the others.
            self._dht.put_many(
                [self._aged(each) for each in now], ended, lambda n, code: self._answered(now[n], code)
            )

        def ended(codes: list[Code]) -> None:
            all_codes.extend(codes)
            if len(all_codes) < len(kept):
                burst()
            elif done is not None:
                done(all_codes)

        burst()

    def _aged(self, published: _Published) -> PutObject:
        """What is put again is as old as it is."""
        return replace(published.put, age_s=self._runtime.now() - published.born_s)

    def _answered(self, published: _Published, code: Code) -> None:
        """What has failed does not wait for its turn."""
        if code is Code.OK or self._objects.get(published.put.name) is not published:
            return
        if code is Code.UNREACHED or code is Code.LIMIT:
            self._unreached += 1
        else:
            self._refused += 1
        self._plan(published, RETRY_SHARE)

    def _plan(self, published: _Published, share: float = 1.0) -> None:
        """When to renew: a little before the period is over, so that no object stays lost longer than that. Planned as
        a put or renewal leaves, not when its answer comes: one that hangs keeps the next one from nothing."""
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

        def told(ok: bool) -> None:
            for _arcs, done in asked:
                done(ok)
            self._begin_looking_after(None)

        def step(_: None) -> None:
            chunk = list(islice(names, BURST_OBJECTS))
            if not chunk:
                self._have_helped(arcs, reached, list(self._helpers), told)
                return
            found = [self._objects[name] for name in chunk if name in self._objects]
            found = [each for each in found if any(arc.contains(_id_of(each)) for arc in arcs)]
            if found:
                self._renew_lost(found, ended)
            else:
                ended([])

        step(None)

    def _have_helped(
        self, arcs: Sequence[Arc], ok: bool, helpers: list[Helper], done: Callable[[bool], None]
    ) -> None:
        """One helper after the other; `done` in a turn of its own."""
        if helpers:
            helper = helpers.pop()
            helper(arcs, lambda helped: self._have_helped(arcs, ok and helped, helpers, done))
        else:
            self._runtime.call_later(0.0, done, ok)

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
            for each in lost:
                each.adopted = False
            self._dht.put_many([self._aged(each) for each in lost], lambda puts: done([*rest, *puts]))

        self._renewals += len(found)
        self._dht.renew_many([_renewal(each) for each in found], renewed)

    def _arm(self) -> None:
        if not self._heap or (self._timer is not None and self._timer_step <= self._heap[0]):
            return
        if self._renewing >= RENEWING_MAX:
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
                due.append(published)
        if not names:
            del self._steps[heapq.heappop(self._heap)]
        for published in due:
            self._plan(published)
        if due:
            self._renewing += len(due)
            self._renewals += len(due)
            self._dht.renew_many(
                [_renewal(each) for each in due], each=lambda n, code: self._renewed(due[n], code)
            )
        self._arm()

    def _renew(self, due: list[_Published], done: Callable[[list[Code]], None]) -> None:
        self._renewals += len(due)
        self._dht.renew_many([_renewal(each) for each in due], done)

    def _confirm(self, kept: list[_Published], done: Callable[[list[Code]], None] | None) -> None:
        """Renews objects a burst at a time, whether or not they are due, and puts those that are lost."""
        all_codes: list[Code] = []

        def burst() -> None:
            now = kept[len(all_codes) : len(all_codes) + BURST_OBJECTS]
            for each in now:
                self._plan(each)
            self._renew(now, lambda codes: renewed(now, codes))

        def renewed(now: list[_Published], codes: list[Code]) -> None:
            lost = [number for number, code in enumerate(codes) if code is Code.UNKNOWN]
            self._republished += len(lost)
            for each, code in zip(now, codes, strict=True):
                if code is not Code.UNKNOWN:
                    self._answered(each, code)

            def put(again: list[Code]) -> None:
                for number, code in zip(lost, again, strict=True):
                    codes[number] = code
                all_codes.extend(codes)
                if len(all_codes) < len(kept):
                    burst()
                elif done is not None:
                    done(all_codes)

            self._put([now[number] for number in lost], put)

        burst()

    def _renewed(self, published: _Published, code: Code) -> None:
        self._renewing -= 1
        if self._objects.get(published.put.name) is published:
            if code is Code.UNKNOWN:
                if not self._lost:
                    self._runtime.call_later(0.0, self._put_lost, None)
                self._lost.append(published)
            else:
                self._answered(published, code)
        self._arm()

    def _put_lost(self, _: None) -> None:
        """What owners did not have, together."""
        lost, self._lost = self._lost, []
        self._republished += len(lost)
        self._put([each for each in lost if self._objects.get(each.put.name) is each], None)


def _renewal(published: _Published) -> RenewObject:
    put = published.put
    version = None if published.adopted else put.version
    return RenewObject(put.name, put.lifetime_s, put.target, version, put.load)


def _id_of(published: _Published) -> int:
    put = published.put
    return id_of(put.name.namespace, put.name.key, put.target)
