"""The event core against a plain heap: exact order, whatever is scheduled, cancelled and interrupted."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.sim.wheel import SWEEP_FLOOR, WORLD, PendingEventsExceeded, Wheel


class Reference:
    """A heap of (time, sequence): slow, and obviously right."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, list[Any]]] = []
        self._sequence = 0

    def call_at(self, at: float, fn: Any, arg: Any, owner: Any) -> Any:
        entry = [fn, arg]
        heapq.heappush(self._heap, (at, self._sequence, entry))
        self._sequence += 1

        class Handle:
            def cancel(self) -> None:
                entry[0] = None

        return Handle()

    def run_until(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, (fn, arg) = heapq.heappop(self._heap)
            if fn is not None:
                fn(arg)
        self.now = max(self.now, until)


#: Delays that fall into the same instant, the same bucket, the next ones, and far away.
delays = st.sampled_from([0.0, 0.0, 0.001, 0.001, 0.004, 1 / 64, 0.02, 0.5, 3.0, 100.0]) | st.floats(0.0, 2.0)
#: What event number n does: schedule some more, cancel some earlier ones.
programs = st.lists(
    st.tuples(st.lists(delays, max_size=3), st.lists(st.integers(0, 200), max_size=2)),
    min_size=1,
    max_size=120,
)


def play(
    core: Any, program: list[tuple[list[float], list[int]]], stops: list[float]
) -> list[tuple[float, int]]:
    ran: list[tuple[float, int]] = []
    handles: list[Any] = []

    def event(number: int) -> None:
        ran.append((core.now, number))
        if len(ran) > len(program):
            return
        new, cancelled = program[len(ran) - 1]
        for delay in new:
            handles.append(core.call_at(core.now + delay, event, len(handles), WORLD))
        for each in cancelled:
            if each < len(handles):
                handles[each].cancel()

    handles.append(core.call_at(0.25, event, 0, WORLD))
    handles.append(core.call_at(0.25, event, 1, WORLD))
    for stop in sorted(stops):
        core.run_until(stop)
        # From outside, between runs, also into the past of a bucket that was left half-way.
        handles.append(core.call_at(core.now, event, len(handles), WORLD))
        handles.append(core.call_at(core.now + 0.002, event, len(handles), WORLD))
    core.run_until(1e6)
    return ran


@given(programs, st.lists(st.floats(0.0, 4.0), max_size=4))
def test_events_run_in_the_order_of_time_and_then_of_scheduling(
    program: list[tuple[list[float], list[int]]], stops: list[float]
) -> None:
    assert play(Wheel(), program, stops) == play(Reference(), program, stops)


def test_the_clock_stops_where_it_was_told_and_events_there_have_run() -> None:
    wheel = Wheel()
    ran: list[str] = []
    for at in (1.0, 2.0, 2.0000001):
        wheel.call_at(at, ran.append, str(at), WORLD)
    wheel.run_until(2.0)
    assert (wheel.now, ran, wheel.pending(), wheel.run) == (2.0, ["1.0", "2.0"], 1, 2)


def test_events_of_a_dead_owner_do_not_run() -> None:
    class Host:
        alive = awake = True
        index = 7

    wheel, host = Wheel(), Host()
    ran: list[str] = []
    wheel.call_at(1.0, ran.append, "dead", host)
    wheel.call_at(1.0, ran.append, "living", WORLD)
    host.alive = host.awake = False
    wheel.run_until(2.0)
    assert ran == ["living"]


def test_a_failing_event_names_its_host_and_the_others_still_run() -> None:
    wheel = Wheel()
    ran: list[str] = []

    def fail(_: None) -> None:
        raise ValueError("broken")

    wheel.call_at(1.0, fail, None, WORLD)
    wheel.call_at(1.0, ran.append, "next", WORLD)
    with pytest.raises(ValueError, match="broken") as caught:
        wheel.run_until(2.0)
    assert any("at 1.0 s" in note for note in caught.value.__notes__)
    wheel.run_until(2.0)
    assert ran == ["next"]


def test_cancelled_events_are_swept_before_their_time() -> None:
    wheel = Wheel()

    def renew(count: int) -> None:
        wheel.call_at(1e9 + count, renew, 0, WORLD).cancel()
        if count:
            wheel.call_at(wheel.now + 0.001, renew, count - 1, WORLD)

    wheel.call_at(0.0, renew, 2 * SWEEP_FLOOR, WORLD)
    wheel.run_until(1e6)
    assert sum(len(bucket) for bucket in wheel._buckets.values()) <= SWEEP_FLOOR


@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_too_many_pending_events_end_the_run_and_name_the_knob(delay_s: float) -> None:
    wheel = Wheel(pending_max=1_000)

    def breed(_: None) -> None:
        for _i in range(2):
            wheel.call_at(wheel.now + delay_s, breed, None, WORLD)

    wheel.call_at(0.0, breed, None, WORLD)
    with pytest.raises(PendingEventsExceeded, match="pending_max = 1000"):
        wheel.run_until(1e6)
    assert wheel.pending() <= 1_000


def test_a_loop_without_time_ends_too() -> None:
    wheel = Wheel(pending_max=1_000)

    def again(_: None) -> None:
        wheel.call_at(wheel.now, again, None, WORLD)

    wheel.call_at(0.0, again, None, WORLD)
    with pytest.raises(PendingEventsExceeded):
        wheel.run_until(1.0)


def test_events_may_not_run_the_world() -> None:
    wheel = Wheel()
    wheel.call_at(1.0, wheel.run_until, 5.0, WORLD)
    with pytest.raises(RuntimeError, match="by an event"):
        wheel.run_until(2.0)
