"""Latencies: symmetric where they should be, clustered, and like what was measured."""

from __future__ import annotations

import statistics

import pytest

from runtime.sim import MatrixError, Topology, king, parse_matrix, star, transit_stub
from runtime.sim.topology.matrix import LAN_S


@pytest.mark.parametrize("topology", [star(0.05), transit_stub(3), king(3, sites=32)])
def test_every_pair_has_one_positive_latency_both_ways(topology: Topology) -> None:
    for a in range(60):
        assert topology.latency_s(a, a) == 0.0
        for b in range(a):
            assert 0.0 < topology.latency_s(a, b) == topology.latency_s(b, a) < 2.0


def test_the_king_generator_has_kings_median_and_a_heavy_tail() -> None:
    topology = king(1, sites=256)
    rtts = sorted(2.0 * topology.latency_s(a, b) for a in range(256) for b in range(a))
    assert statistics.median(rtts) == pytest.approx(0.159, rel=0.01)
    assert rtts[len(rtts) // 10] < 0.08
    assert rtts[len(rtts) * 99 // 100] > 0.4
    # Detours: some pairs are nearer to each other by way of a third site.
    broken = sum(
        topology.latency_s(a, c) > topology.latency_s(a, b) + topology.latency_s(b, c)
        for a in range(20)
        for b in range(20, 40)
        for c in range(40, 60)
    )
    assert broken > 100


def test_seeds_give_other_networks_and_the_same_seed_the_same() -> None:
    for make in (lambda seed: king(seed, sites=16), transit_stub):
        one, same, other = make(1), make(1), make(2)
        pairs = [(a, b) for a in range(50) for b in range(a)]
        assert [one.latency_s(*pair) for pair in pairs] == [same.latency_s(*pair) for pair in pairs]
        assert [one.latency_s(*pair) for pair in pairs] != [other.latency_s(*pair) for pair in pairs]


def test_hosts_of_one_stub_are_near_and_those_of_another_domain_far() -> None:
    topology = transit_stub(5)
    assert topology.latency_s(0, topology.stubs) <= 0.012
    far = max(topology.latency_s(0, other) for other in range(topology.stubs))
    assert far >= 0.07


WHITESPACE = "0 10 20\n10 0\t30.5\n\n20 30.5 0\n"
CSV = ',Oslo,"Rome, IT",Kyiv,\nOslo,0.0,10,20,\n"Rome, IT",10,0,30.5,\nKyiv,20,30.5,0,\n'


@pytest.mark.parametrize("text", [WHITESPACE, CSV])
def test_both_formats_load_and_round_trips_are_halved(text: str) -> None:
    matrix = parse_matrix(text.splitlines(), seed=1)
    latencies = sorted(matrix.latency_s(a, b) for a in range(3) for b in range(a))
    assert latencies == pytest.approx([0.005, 0.010, 0.01525])
    assert matrix.latency_s(0, 3) == LAN_S
    assert matrix.latency_s(0, 4) == matrix.latency_s(0, 1)


def test_missing_values_are_the_median_of_the_known() -> None:
    matrix = parse_matrix([",a,b,c", "a,0,10,", "b,10,0,nan", "c,,12,0"], seed=1)
    assert sorted(matrix.latency_s(a, b) for a in range(3) for b in range(3) if a != b) == pytest.approx(
        [0.005, 0.005, 0.005, 0.005, 0.005, 0.006]
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no latencies"),
        ("0 1\n1 0\n2 2\n", "row 1 has 2"),
        ("0 x\n1 0\n", "line 1: 'x'"),
        ("0 0\n0 0", "no lat"),
    ],
)
def test_what_is_no_matrix_is_refused_with_the_place(text: str, complaint: str) -> None:
    with pytest.raises(MatrixError, match=complaint):
        parse_matrix(text.splitlines(), seed=1)
