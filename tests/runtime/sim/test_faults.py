"""The fault menu, at message level: each fault does what its file says, and ends when told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.message import Codec, Message
from runtime.sim import Churn, ComputeModel, SimHost, World, jump, pause, skew, slow, star


class Note(Message, frozen=True, tag=1):
    number: int
    body: bytes = b""


def make(count: int = 4, **options: object) -> tuple[World, list[SimHost], list[tuple[float, int]]]:
    world = World(seed=5, topology=star(0.05), codec=Codec([Note]), **options)  # type: ignore[arg-type]
    seen: list[tuple[float, int]] = []
    hosts = [world.add_host() for _ in range(count)]
    for host in hosts:
        host.messenger.on(Note, lambda _, note: seen.append((world.now, note.number)))
    return world, hosts, seen


def test_loss_delays_messages_and_costs_few_of_them() -> None:
    world, (a, b, *_), seen = make()
    world.faults.loss.set_rate(0.3)
    told: list[bool] = []
    for number in range(2_000):
        a.messenger.send(b.address, Note(number), told.append)
    world.run_until(30.0)
    prompt = sum(1 for at, _ in seen if at == 0.05)
    assert 0.66 < prompt / 2_000 < 0.74
    assert len(told) == 2_000
    assert 1_950 <= len(seen) < 2_000
    # A lost acknowledgement makes the sender believe less than what happened, never more.
    assert told.count(True) <= len(seen)
    assert world.statistics(a).drops["lost"] == 2_000 - len(seen)
    assert [number for _, number in seen] != sorted(number for _, number in seen), "delays reorder"


def test_large_messages_lose_packets_more_often() -> None:
    world, (a, b, *_), seen = make()
    world.faults.loss.set_rate(0.01)
    for number in range(200):
        a.messenger.send(b.address, Note(number, bytes(100_000)))
    world.run_until(30.0)
    prompt = sum(1 for at, _ in seen if at == 0.05)
    assert 0.35 < prompt / 200 < 0.52, "0.99 ** 84 is 0.43"


def test_total_loss_is_a_failure_and_loss_may_be_one_hosts_alone() -> None:
    world, (a, b, c, _), seen = make()
    world.faults.loss.set_rate(1.0, host=b.index)
    told: list[str] = []
    a.messenger.send(b.address, Note(1), lambda ok: told.append(f"b {ok} {world.now}"))
    a.messenger.send(c.address, Note(2), lambda ok: told.append(f"c {ok} {world.now}"))
    world.run_until(10.0)
    assert told == ["c True 0.1", "b False 5.0"]
    world.faults.loss.set_rate(0.0, host=b.index)
    a.messenger.send(b.address, Note(3))
    world.run_until(20.0)
    assert [number for _, number in seen] == [2, 3]


def test_a_partition_cuts_both_ways_until_it_heals() -> None:
    world, (a, b, c, _), seen = make()
    told: list[bool] = []
    cut = world.faults.partitions.cut([a.index], [b.index])
    a.messenger.send(b.address, Note(1), told.append)
    b.messenger.send(a.address, Note(2), told.append)
    a.messenger.send(c.address, Note(3), told.append)
    world.run_until(10.0)
    assert [number for _, number in seen] == [3]
    assert told == [True, False, False]
    world.faults.partitions.heal(cut)
    a.messenger.send(b.address, Note(4))
    world.run_until(20.0)
    assert [number for _, number in seen] == [3, 4]


def test_a_one_way_partition_lets_the_message_through_but_not_its_notice() -> None:
    world, (a, b, *_), seen = make()
    told: list[tuple[float, bool]] = []
    world.faults.partitions.cut([a.index], [b.index], one_way=True)
    a.messenger.send(b.address, Note(1), lambda ok: told.append((world.now, ok)))
    b.messenger.send(a.address, Note(2), lambda ok: told.append((world.now, ok)))
    world.run_until(10.0)
    assert [number for _, number in seen] == [2]
    assert told == [(5.0, False), (5.0, False)]


def test_cut_pairs_reach_everybody_but_each_other() -> None:
    world, (a, b, c, _), seen = make()
    cut = world.faults.partitions.cut_pairs([(a.index, b.index)])
    one_way = world.faults.partitions.cut_one_way([(a.index, c.index)])
    routes = ((a, b), (b, a), (a, c), (c, a), (b, c), (c, b))
    for number, (sender, to) in enumerate(routes):
        sender.messenger.send(to.address, Note(number))
    world.run_until(10.0)
    assert sorted(number for _, number in seen) == [3, 4, 5]
    world.faults.partitions.heal(cut)
    world.faults.partitions.heal(one_way)
    seen.clear()
    for number, (sender, to) in enumerate(routes):
        sender.messenger.send(to.address, Note(number))
    world.run_until(20.0)
    assert sorted(number for _, number in seen) == [0, 1, 2, 3, 4, 5]


def test_reordering_lets_later_messages_overtake() -> None:
    world, (a, b, *_), seen = make()
    world.faults.reordering.set_rate(0.2, delay_s_max=1.0)
    for number in range(100):
        world.call_at(number * 0.01, lambda number: a.messenger.send(b.address, Note(number)), number)
    world.run_until(10.0)
    numbers = [number for _, number in seen]
    assert sorted(numbers) == list(range(100)) != numbers


def test_a_slow_host_handles_late_and_computes_long() -> None:
    world, (a, b, *_), seen = make(compute=ComputeModel(cost_s=0.1, fudge_factor=2.0))
    slow(b, factor=3.0, lag_s=0.5)
    a.messenger.send(b.address, Note(1))
    done: list[tuple[float, object]] = []
    a.runtime.compute(lambda: 7, lambda result: done.append((world.now, result)))
    b.runtime.compute(lambda: 1 // 0, lambda result: done.append((world.now, type(result))))
    world.run_until(5.0)
    assert seen == [(0.55, 1)]
    assert done == [(0.2, 7), (pytest.approx(0.6), ZeroDivisionError)]
    slow(b)
    a.messenger.send(b.address, Note(2))
    world.run_until(10.0)
    assert seen[1][0] == 5.05


def test_computations_may_be_estimated_or_measured() -> None:
    ticks = iter([10.0, 10.25])
    for model in (ComputeModel(estimate=lambda fn: 0.25), ComputeModel(stopwatch=lambda: next(ticks))):
        world, (a, *_), _ = make(compute=model)
        done: list[float] = []
        a.runtime.compute(lambda: None, lambda _: done.append(world.now))  # noqa: B023
        world.run_until(1.0)
        assert done == [0.25]


def test_a_skewed_clock_jumps_on_the_wall_only_and_runs_at_its_rate() -> None:
    world, (a, b, *_), _ = make()
    world.run_until(100.0)
    before = a.runtime.now()
    skew(a, offset_s=-30.0, rate=1.5)
    assert a.runtime.now() == before == b.runtime.now()
    assert a.runtime.wall() == b.runtime.wall() - 30.0
    fired: list[float] = []
    a.runtime.call_later(3.0, lambda _: fired.append(world.now), None)
    world.run_until(110.0)
    assert fired == [102.0]
    assert a.runtime.now() == before + 15.0
    world.restart(a)
    assert a.runtime.now() == before + 15.0, "the clock belongs to the machine"


@given(st.floats(0.0, 10_000.0), st.floats(0.0, 100.0), st.floats(0.999, 1.001))
@settings(max_examples=200)
def test_a_timer_never_fires_before_its_own_clock_says_so(
    start_s: float, delay_s: float, rate: float
) -> None:
    """By not so much as a rounding error: whoever sets it again for the rest would do so for ever."""
    world, (a, *_), _ = make()
    world.run_until(start_s)
    skew(a, offset_s=0.0, rate=rate)
    world.run_until(start_s * 1.1)
    due_s = a.runtime.now() + delay_s
    fired: list[float] = []
    a.runtime.call_later(delay_s, lambda _: fired.append(a.runtime.now()), None)
    world.run_for(delay_s * 1.1 + 1e-6)
    assert len(fired) == 1
    assert due_s <= fired[0] <= due_s + 1e-9


@given(st.integers(0, 2**32), st.floats(0.5, 2.0))
@settings(max_examples=20)
def test_now_never_goes_back(seed: int, rate: float) -> None:
    world, (a, *_), _ = make()
    last = a.runtime.now()
    for _ in range(10):
        world.run_for(0.1)
        skew(a, offset_s=seed % 100, rate=rate)
        assert a.runtime.now() > last
        last = a.runtime.now()


def test_churn_ends_sessions_at_their_rate_and_replaces_each_with_a_fresh_host() -> None:
    world, hosts, _ = make(100)
    built: list[SimHost] = []
    churn = Churn(world, built.append, hosts=hosts, session_median_s=60.0, replace_s_max=2.0)
    world.run_until(60.0)
    gone = sum(not host.alive for host in hosts)
    assert 38 <= gone <= 62, "half of the sessions are over after the median"
    alive = sum(host.alive for host in world.hosts)
    assert 95 <= alive <= 100
    assert churn.replaced == len(built) == len(world.hosts) - 100
    assert len({host.address for host in world.hosts}) == len(world.hosts)
    churn.stop()
    world.run_until(1_000.0)
    assert sum(host.alive for host in world.hosts) == alive


def test_two_churns_at_once_leave_as_many_hosts_as_there_were() -> None:
    world, hosts, _ = make(100)
    churns = [
        Churn(world, lambda host: None, hosts=hosts, session_mean_s=60.0, replace_s_max=30.0)
        for _ in range(2)
    ]
    world.run_until(60.0)
    assert sum(host.alive for host in world.hosts) < 90, "places are empty for a while"
    for churn in churns:
        churn.stop(refill=True)
    world.run_until(100.0)
    assert sum(host.alive for host in world.hosts) == 100
    assert sum(churn.ended for churn in churns) == sum(churn.replaced for churn in churns)


def test_a_restart_has_other_random_numbers_and_labels_are_independent() -> None:
    world, (a, b, *_), _ = make()
    draws = [a.runtime.rng("x").bits64(), a.runtime.rng("y").bits64(), b.runtime.rng("x").bits64()]
    assert a.runtime.rng("x").bits64() == draws[0]
    world.restart(a)
    draws.append(a.runtime.rng("x").bits64())
    assert len(set(draws)) == 4


def test_a_host_always_reaches_itself() -> None:
    world, (a, *_), seen = make()
    world.faults.loss.set_rate(1.0)
    told: list[bool] = []
    a.messenger.send(a.address, Note(1), told.append)
    world.run_until(1.0)
    assert (len(seen), told) == (1, [True])


def test_what_churn_took_does_not_come_back() -> None:
    world, (a, *_), _ = make()
    world.retire(a)
    with pytest.raises(ValueError, match="retired"):
        world.restart(a)


def test_a_paused_host_does_everything_late_and_at_once() -> None:
    world, (a, b, *_), seen = make()
    fired: list[tuple[float, float]] = []
    for delay_s in (1.0, 3.0, 7.0):
        b.runtime.call_later(delay_s, lambda _: fired.append((world.now, b.runtime.now())), None)
    cancelled = b.runtime.call_later(2.0, lambda _: fired.append((0.0, 0.0)), None)
    told: list[str] = []
    world.call_at(0.5, lambda _: pause(b, 5.5), None)
    world.call_at(
        0.6, lambda _: a.messenger.send(b.address, Note(1), lambda ok: told.append(f"1 {ok}")), None
    )
    world.call_at(
        4.0, lambda _: a.messenger.send(b.address, Note(2), lambda ok: told.append(f"2 {ok}")), None
    )
    world.call_at(5.0, lambda _: cancelled.cancel(), None)
    world.run_until(5.9)
    assert not seen and not fired, "nothing runs"
    world.run_until(8.0)
    assert seen == [(6.0, 1), (6.0, 2)], "what came lay in the socket"
    assert fired == [(6.0, 6.0), (6.0, 6.0), (7.0, 7.0)], "its clock went on, its timers did not"
    assert told == ["1 False", "2 True"], "the first sender's patience ended before it was read"


def test_a_restart_ends_a_pause_and_drops_what_waited() -> None:
    world, (a, b, *_), seen = make()
    pause(b, 100.0)
    a.messenger.send(b.address, Note(1))
    world.run_until(1.0)
    world.restart(b)
    b.messenger.on(Note, lambda _, note: seen.append((world.now, note.number)))
    a.messenger.send(b.address, Note(2))
    world.run_until(200.0)
    assert [number for _, number in seen] == [2]


def test_a_pause_may_be_made_longer() -> None:
    world, (a, b, *_), seen = make()
    pause(b, 2.0)
    pause(b, 4.0)
    pause(b, 1.0)
    a.messenger.send(b.address, Note(1))
    world.run_until(10.0)
    assert seen == [(4.0, 1)]
    with pytest.raises(ValueError, match="for_s"):
        pause(b, 0.0)


def test_a_clock_that_jumps_makes_timers_late() -> None:
    world, (a, *_), _ = make()
    fired: list[float] = []
    a.runtime.call_later(2.0, lambda _: fired.append(a.runtime.now()), None)
    wall_s = a.runtime.wall()
    world.run_until(1.0)
    jump(a, 10.0, -3.0)
    assert a.runtime.now() == 11.0 and a.runtime.wall() == wall_s + 1.0 + 10.0 - 3.0
    world.run_until(3.0)
    assert fired == [12.0]
