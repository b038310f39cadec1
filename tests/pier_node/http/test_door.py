"""The HTTP door: right pages, a valid exposition, and no patience with bad clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pier_node.access.rates import ClientFigures
from pier_node.engine.figures import Durations, QueryStatistics
from pier_node.http.door import HttpDoor, HttpLimits
from pier_node.service import NodeStatus
from tests.pier_node.worlds import ManualClock, PipeStream

STATUS = NodeStatus("ab" * 20, "127.0.0.1:9", True, 3, "0.1", 7, 1.5)


def snapshots() -> dict[str, Any]:
    durations = Durations()
    for duration_s in (0.001, 0.2, 1_000.0):
        durations.add(duration_s)
    return {
        "queries": QueryStatistics(1, 2, 3, {"complete": 2}, {"syntax": 1}, 10, 0, 0, durations),
        "clients": {"a": ClientFigures(1, 2, 3, 0, 0, {"queries": 4}, {})},
        "transport": {"bad_seal": 4},
    }


LIMITS = HttpLimits()


class Visit:
    def __init__(self, door: HttpDoor, host: str = "127.0.0.1") -> None:
        self.stream = PipeStream()
        self.stream.peer = f"{host}:55555"
        stream: Any = self.stream
        door.accept(stream)

    def ask(self, method: str = "GET", target: str = "/health") -> tuple[int, bytes]:
        client = h11.Connection(h11.CLIENT)
        request = h11.Request(method=method, target=target, headers=[("host", "x")])
        self.stream.handler.received(client.send(request) + client.send(h11.EndOfMessage()))
        client.receive_data(bytes(self.stream.sent))
        response = client.next_event()
        assert isinstance(response, h11.Response)
        body = b""
        while isinstance(data := client.next_event(), h11.Data):
            body += data.data
        assert isinstance(data, h11.EndOfMessage) and self.stream.over
        return response.status_code, body


@pytest.fixture
def door() -> HttpDoor:
    return HttpDoor(ManualClock(), lambda: STATUS, snapshots)


def test_health_and_readiness(door: HttpDoor) -> None:
    assert Visit(door).ask()[0] == 200
    assert Visit(door).ask(target="/ready")[0] == 200
    assert Visit(door).ask("HEAD", "/ready") == (200, b"")
    outside = HttpDoor(ManualClock(), lambda: replace(STATUS, joined=False), snapshots)
    status, body = Visit(outside).ask(target="/ready")
    assert status == 503 and b"not on the ring" in body
    assert Visit(outside).ask()[0] == 200


def test_metrics_are_an_exposition_that_prometheus_reads(door: HttpDoor) -> None:
    status, body = Visit(door).ask(target="/metrics?x=1")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert families["pier_queries_running"].type == "gauge"
    ended = families["pier_queries_ended"]
    assert ended.type == "counter" and ended.samples[0].labels == {"how": "complete"}
    buckets = families["pier_queries_durations_seconds"].samples
    assert [s.value for s in buckets if s.name.endswith("_count")] == [3.0]
    assert [s.value for s in buckets if s.labels.get("le") == "0.25"] == [2.0]
    assert families["process_resident_memory_bytes"].samples[0].value > 0


def test_other_pages_and_methods_are_refused(door: HttpDoor) -> None:
    assert Visit(door).ask(target="/secret")[0] == 404
    assert Visit(door).ask("POST", "/metrics")[0] == 405


@given(st.binary(min_size=1, max_size=400))
def test_noise_is_answered_or_waited_for_and_never_raises(noise: bytes) -> None:
    clock = ManualClock()
    door = HttpDoor(clock, lambda: STATUS, snapshots)
    visit = Visit(door)
    visit.stream.handler.received(noise)
    visit.stream.handler.received(noise)
    clock.advance(LIMITS.request_timeout_s + 1)
    assert visit.stream.over


def test_headers_without_end_are_cut_off(door: HttpDoor) -> None:
    visit = Visit(door)
    visit.stream.handler.received(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000)
    assert visit.stream.over and door.counted.malformed == 1


def test_slow_and_many_clients_do_not_hold_the_door() -> None:
    clock = ManualClock()
    door = HttpDoor(clock, lambda: STATUS, snapshots)
    slow = [Visit(door) for _ in range(900)]
    assert sum(not visit.stream.over for visit in slow) == LIMITS.connections_per_address_max
    assert Visit(door).ask()[0] == 200, "although the door is held open"
    for _ in range(int(LIMITS.request_timeout_s) + 1):
        for visit in slow:
            if not visit.stream.over:
                visit.stream.handler.received(b"x")
        clock.advance(1.0)
    assert all(visit.stream.over for visit in slow)
    assert Visit(door).ask()[0] == 200
    assert door.counted.refused == 900 and not door.open_count


def test_who_comes_from_elsewhere_is_not_put_out_by_a_crowd(door: HttpDoor) -> None:
    alone = Visit(door, "10.0.0.9")
    for number in range(900):
        Visit(door, f"10.0.{number % 3 + 1}.1")
    assert not alone.stream.over and alone.ask()[0] == 200
    assert door.open_count <= LIMITS.connections_max
