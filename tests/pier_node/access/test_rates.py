"""Rates: what a client may ask in a second and at once, and how it is slowed down."""

from __future__ import annotations

from pier_node.access.rates import CLIENTS_MAX, Hold, RateLimits, Share, Shares


def test_a_burst_then_the_rate() -> None:
    share = Share(RateLimits(requests_per_s=10.0, request_burst=5), 0.0)
    assert [share.request(0.0) is None for _ in range(7)] == [True] * 5 + [False] * 2
    assert share.request(0.1) is None
    assert "client.requests_per_s = 10" in (share.request(0.1) or "")
    assert share.rate_limited == 3
    assert [share.request(1_000.0) is None for _ in range(6)] == [True] * 5 + [False]


def test_what_is_held_is_bounded_told_by_name_and_given_back() -> None:
    share = Share(RateLimits(holds_max={Hold.QUERIES: 2, Hold.LOG_BYTES: 100}), 0.0)
    assert share.take(Hold.QUERIES) is None and share.take(Hold.QUERIES) is None
    assert "client.queries_max = 2" in (share.take(Hold.QUERIES) or "")
    share.give(Hold.QUERIES)
    assert share.take(Hold.QUERIES) is None
    assert share.take(Hold.LOG_BYTES, 60) is None
    assert "client.logs_bytes_max = 100" in (share.take(Hold.LOG_BYTES, 41) or "")
    assert share.take(Hold.LOG_BYTES, 40) is None
    figures = share.figures()
    assert (figures.held["queries"], figures.limited["queries"]) == (2, 1)
    assert (figures.held["log_bytes"], figures.limited["log_bytes"]) == (100, 1)


def test_what_cannot_be_refused_beforehand_is_seen_when_it_is_too_much() -> None:
    share = Share(RateLimits(holds_max={Hold.BACKLOG_BYTES: 100}), 0.0)
    share.adjust(Hold.BACKLOG_BYTES, 0, 100)
    assert share.too_much(Hold.BACKLOG_BYTES) is None
    share.adjust(Hold.BACKLOG_BYTES, 0, 1)
    assert "client.backlog_bytes_per_client_max = 100" in (share.too_much(Hold.BACKLOG_BYTES) or "")
    share.adjust(Hold.BACKLOG_BYTES, 100, 0)
    assert share.too_much(Hold.BACKLOG_BYTES) is None


def test_published_bytes_are_slowed_to_the_rate() -> None:
    share = Share(RateLimits(publish_bytes_per_s=1_000.0), 0.0)
    now_s = 0.0
    for _ in range(100):
        now_s += share.published(now_s, 500)
    assert 48.0 < now_s < 50.5
    assert share.figures().published_bytes == 50_000 and share.figures().publish_delays > 90


def test_without_limits_nothing_is_held_back() -> None:
    share = Share(RateLimits(), 0.0)
    assert all(share.request(0.0) is None and share.take(Hold.QUERIES) is None for _ in range(10_000))
    assert share.published(0.0, 1 << 40) == 0.0


def test_clients_are_kept_apart_and_their_number_is_bounded() -> None:
    shares = Shares(RateLimits(holds_max={Hold.QUERIES: 1}))
    assert shares.of("a", 0.0).take(Hold.QUERIES) is None
    assert shares.of("a", 0.0).take(Hold.QUERIES) is not None
    assert shares.of("b", 0.0).take(Hold.QUERIES) is None
    for n in range(CLIENTS_MAX * 2):
        shares.of(f"c{n}", 0.0)
    assert len(shares.figures()) == CLIENTS_MAX
    # Whoever holds something is not forgotten for others who come: it would get a second share.
    assert shares.of("a", 0.0).take(Hold.QUERIES) is not None
