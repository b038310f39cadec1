"""Rates: what a client may ask in a second and at once, and how it is slowed down."""

from __future__ import annotations

from pier_node.access.rates import CLIENTS_MAX, RateLimits, Share, Shares


def test_a_burst_then_the_rate() -> None:
    share = Share(RateLimits(requests_per_s=10.0, request_burst=5), 0.0)
    assert [share.request(0.0) is None for _ in range(7)] == [True] * 5 + [False] * 2
    assert share.request(0.1) is None
    assert "client.requests_per_s = 10" in (share.request(0.1) or "")
    assert share.rate_limited == 3
    assert [share.request(1_000.0) is None for _ in range(6)] == [True] * 5 + [False]


def test_queries_at_once() -> None:
    share = Share(RateLimits(queries_max=2), 0.0)
    assert share.query() is None and share.query() is None
    assert share.query() == "client.queries_max = 2"
    share.query_ended()
    assert share.query() is None
    assert share.figures().queries_limited == 1


def test_published_bytes_are_slowed_to_the_rate() -> None:
    share = Share(RateLimits(publish_bytes_per_s=1_000.0), 0.0)
    now_s = 0.0
    for _ in range(100):
        now_s += share.published(now_s, 500)
    assert 48.0 < now_s < 50.5
    assert share.figures().published_bytes == 50_000 and share.figures().publish_delays > 90


def test_without_limits_nothing_is_held_back() -> None:
    share = Share(RateLimits(), 0.0)
    assert all(share.request(0.0) is None and share.query() is None for _ in range(10_000))
    assert share.published(0.0, 1 << 40) == 0.0


def test_clients_are_kept_apart_and_their_number_is_bounded() -> None:
    shares = Shares(RateLimits(queries_max=1))
    assert shares.of("a", 0.0).query() is None
    assert shares.of("a", 0.0).query() is not None and shares.of("b", 0.0).query() is None
    for n in range(CLIENTS_MAX * 2):
        shares.of(f"c{n}", 0.0)
    assert len(shares.figures()) == CLIENTS_MAX
