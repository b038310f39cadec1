"""Where texts become plans: never on the node's loop, in turn by client, within bounds of time and memory.

A strange text passes three gates. Its length is looked at first, before anything else is done with it. A short one is
planned in a thread, with so many steps that it is done within some tens of milliseconds. One that is long, or that
turns out to need more, is planned in a process of its own, which is ended when its time or its memory is used up: so
nobody's text holds up the node or what others ask of it.

Clients take turns at both places, and each may have so many texts waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pier_node.engine.compilers import Job, TooLarge, too_long
from pier_node.service import Failure
from runtime.api import OutOfMemory, OutOfTime, Runtime

T = TypeVar("T")

#: Texts up to this length are tried in a thread first, with so many steps: some 50 ms at most.
BESIDE_CHARS_MAX = 4_000
BESIDE_STEPS_MAX = 4_000
#: Texts that are planned at a time in threads, and in processes of their own.
BESIDE_AT_ONCE, APART_AT_ONCE = 2, 1
#: What planning a text may take in a process of its own.
APART_S_MAX = 10.0
APART_BYTES_MAX = 512 << 20
#: Texts that wait in front of the threads, of one client and of all: bursts of short ones are done in no time,
BESIDE_CLIENT_MAX, BESIDE_WAITING_MAX = 512, 2_048
#: and in front of the process.
APART_CLIENT_MAX, APART_WAITING_MAX = 16, 128


@dataclass(slots=True)
class _Waiting:
    fn: Callable[[Job], Any]
    job: Job
    until_s: float
    done: Callable[[Any], None]


@dataclass(slots=True)
class _Place:
    """One place where texts are planned: who waits for it, in turn, and how many are there now."""

    at_once: int
    client_max: int
    waiting_max: int
    queues: dict[str, deque[_Waiting]] = field(default_factory=dict)
    waiting: int = 0
    busy: int = 0

    def add(self, client: str, waiting: _Waiting) -> bool:
        queue = self.queues.get(client)
        count = 0 if queue is None else len(queue)
        if count >= self.client_max or self.waiting >= self.waiting_max:
            return False
        self.waiting += 1
        self.queues.setdefault(client, deque()).append(waiting)
        return True

    def take(self) -> tuple[str, _Waiting] | None:
        """The next one, if there is a place for it; its client goes to the end of the row."""
        if self.busy >= self.at_once or not self.queues:
            return None
        client = next(iter(self.queues))
        queue = self.queues.pop(client)
        waiting = queue.popleft()
        self.waiting -= 1
        if queue:
            self.queues[client] = queue
        self.busy += 1
        return client, waiting


class Planning:
    """Plans the texts of a node's clients."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._beside = _Place(BESIDE_AT_ONCE, BESIDE_CLIENT_MAX, BESIDE_WAITING_MAX)
        self._apart = _Place(APART_AT_ONCE, APART_CLIENT_MAX, APART_WAITING_MAX)

    def plan(
        self,
        client: str,
        fn: Callable[[Job], T | Failure],
        job: Job,
        until_s: float,
        done: Callable[[T | Failure], None],
    ) -> None:
        """Makes something of a text by a time of the clock; `done` is told what, or why not."""
        refused = too_long(job)
        if refused is not None:
            done(refused)
            return
        short = len(job.text.text) <= BESIDE_CHARS_MAX
        self._enter(self._beside if short else self._apart, client, _Waiting(fn, job, until_s, done))

    def _enter(self, place: _Place, client: str, waiting: _Waiting) -> None:
        if place.add(client, waiting):
            self._next(place)
        else:
            most = f"{place.client_max} of one client, {place.waiting_max} in all"
            waiting.done(
                Failure("limit", f"too many texts wait to be planned here: {most}", hint="ask again later")
            )

    def _next(self, place: _Place) -> None:
        while (taken := place.take()) is not None:
            client, waiting = taken
            left_s = waiting.until_s - self._runtime.now()
            if left_s <= 0.0:
                place.busy -= 1
                waiting.done(_late())
            elif place is self._beside:
                self._plan_beside(client, waiting)
            else:
                self._plan_apart(waiting, min(left_s, APART_S_MAX))

    def _plan_beside(self, client: str, waiting: _Waiting) -> None:
        job = replace(waiting.job, steps=BESIDE_STEPS_MAX)

        def done(result: Any) -> None:
            self._beside.busy -= 1
            if isinstance(result, TooLarge):
                self._enter(self._apart, client, waiting)
            else:
                waiting.done(_outcome(result))
            self._next(self._beside)

        self._runtime.compute(lambda: waiting.fn(job), done)

    def _plan_apart(self, waiting: _Waiting, time_s: float) -> None:
        def done(result: Any) -> None:
            self._apart.busy -= 1
            waiting.done(_outcome(result))
            self._next(self._apart)

        self._runtime.compute_apart(waiting.fn, waiting.job, time_s, APART_BYTES_MAX, done)


def _outcome(result: Any) -> Any:
    if isinstance(result, OutOfTime | OutOfMemory):
        return Failure("limit", f"planning this text was given up: {result}", hint="a shorter text may do")
    return Failure("internal", str(result)) if isinstance(result, Exception) else result


def _late() -> Failure:
    return Failure("limit", "the query's time was over before it was planned", hint="give it more (time_s)")
