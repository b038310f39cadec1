"""What PIER 4.3 says of its join strategies holds on a small ring too; the whole curves are in `docs/experiments`."""

from __future__ import annotations

import duckdb
import pytest

from pier_node.scenario.join_ring import Asked, JoinRing, Outcome, text_of

NODES = 16
#: Without maintenance, as here, nobody has a neighbour's fresh word that an arc is its own: whoever reads a published
#: table asks for it first, at the scan and at the owners of the keys, some round trips on these links.
CONFIRM_S = 0.6


def outcome(strategy: str, s_percent: int = 50, **more: object) -> Outcome:
    asked = Asked(strategy, s_percent=s_percent, **more)  # type: ignore[arg-type]
    return asked_of(JoinRing(NODES, seed=1), asked)


def asked_of(ring: JoinRing, asked: Asked) -> Outcome:
    """What a ring answers; it is DuckDB's answer."""
    found = ring.run(asked)
    r, s = ring.tables()
    connection = duckdb.connect()
    connection.register("r", r)
    connection.register("s", s)
    assert [(found.rows,)] == connection.execute(f"SELECT count(*) FROM ({text_of(asked)})").fetchall()
    assert (found.ended, found.errors, found.dropped) == ("complete", (), {})
    return found


@pytest.fixture(scope="module")
def hashed() -> dict[int, Outcome]:
    return {percent: outcome("hash", percent) for percent in (5, 50, 100)}


def test_a_rehash_costs_little_more_than_the_rows_themselves(hashed: dict[int, Outcome]) -> None:
    """The thesis paid a lookup for each row."""
    ring = JoinRing(NODES, seed=1)
    r, s = ring.tables()
    row_bytes = [table.nbytes / table.num_rows for table in (r, s)]
    away = (NODES - 1) / NODES
    # Half of R, half of S, both halves without the number that the condition has used up; results of both pads.
    rehashed = (r.num_rows * (row_bytes[0] - 8) + s.num_rows * (row_bytes[1] - 8)) / 2
    ideal = away * (rehashed + hashed[50].rows * 2_000)
    assert hashed[50].total_bytes <= 1.15 * ideal


def test_fetch_matches_is_flat_but_for_its_results(hashed: dict[int, Outcome]) -> None:
    few, all_ = outcome("fetch", 5), outcome("fetch", 100)
    assert all_.total_bytes - 2_048 * all_.rows <= 1.15 * (few.total_bytes - 2_048 * few.rows)
    assert few.nth_s - CONFIRM_S < hashed[5].nth_s


def test_the_semi_join_grows_with_what_it_fetches() -> None:
    low, middle, high = (outcome("semi", percent).total_bytes for percent in (10, 50, 90))
    assert 0.7 < (high - middle) / (middle - low) < 1.4


def test_bloom_filters_win_where_few_rows_match_and_are_the_slowest(hashed: dict[int, Outcome]) -> None:
    few, all_ = outcome("bloom", 5), outcome("bloom", 100)
    assert few.total_bytes < 0.75 * hashed[5].total_bytes
    assert abs(all_.total_bytes / hashed[100].total_bytes - 1) < 0.25
    slowest = outcome("bloom", 50).nth_s
    assert slowest > max(hashed[50].nth_s, outcome("semi", 50).nth_s)


def test_the_hierarchy_is_the_fastest_and_the_costliest(hashed: dict[int, Outcome]) -> None:
    climbing = outcome("hierarchical")
    assert climbing.nth_s < hashed[50].nth_s
    assert climbing.total_bytes > 1.2 * hashed[50].total_bytes
    skewed, skewed_climbing = outcome("hash", one_bucket=True), outcome("hierarchical", one_bucket=True)
    assert skewed_climbing.nth_s < skewed.nth_s
    assert skewed_climbing.total_bytes > skewed.total_bytes


@pytest.mark.parametrize("seed", [2, 3])
def test_a_put_for_each_key_loses_and_repeats_nothing_on_saturated_links(seed: int) -> None:
    """The thesis's links are full for seconds, and the routers take live nodes for dead."""
    ring = JoinRing(NODES, seed, link_bits_per_s=1.5e6)
    asked_of(ring, Asked("hash", routing="key"))
    assert sum(node.overlay.statistics().router.get("suspected", 0) for node in ring.nodes) > 0
