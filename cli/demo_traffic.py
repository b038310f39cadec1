"""The demo's made-up world: hosts with eight kinds of firewall, a day of old logs, and what is known of strangers.

Every host's log begins with the last few minutes and grows while the demo runs. Sources are the same everywhere, as
real strangers knock at every door.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import trio

#: What the hosts run; each node reads its own kind of log, all become one table.
DIALECTS = ("iptables", "ufw", "nftables", "filterlog", "fortinet", "mikrotik", "firewalld", "proxmox")
#: Of each host: events before the demo, and a second while it runs.
EVENTS_BEFORE = 3_000
RATE = 60.0
#: Old logs: files and events in each, over a day.
OLD_FILES = 4
OLD_EVENTS = 25_000
DAY_S = 86_400
#: How often a host's log grows.
BEAT_S = 0.5
SOURCES = 2_000
#: Of the busiest strangers so many are known, every third of them excepted.
KNOWN = 400
KINDS = ("botnet", "scanner", "research", "tor exit", "mail relay")


@dataclass(frozen=True, slots=True)
class World:
    """The files of one demo."""

    folder: Path
    hosts: int

    def log(self, number: int) -> Path:
        return self.folder / f"n{number + 1:02}.log"

    @property
    def old_logs(self) -> Path:
        return self.folder / "yesterday"

    @property
    def reputation(self) -> Path:
        return self.folder / "reputation.parquet"

    def make(self) -> None:
        """Writes everything that is there before the demo begins."""
        self.old_logs.mkdir(parents=True, exist_ok=True)
        now_us = int(time.time() * 1e6)
        for number in range(self.hosts):
            span_s = EVENTS_BEFORE / RATE
            raw = _log(self._dialect(number), number, now_us - int(span_s * 1e6), EVENTS_BEFORE, RATE)
            self.log(number).write_bytes(raw)
        start_us = now_us - DAY_S * 1_000_000
        for number in range(OLD_FILES):
            raw = _log("iptables", 100 + number, start_us, OLD_EVENTS, OLD_EVENTS / DAY_S, hosts=self.hosts)
            (self.old_logs / f"kern-{number}.log").write_bytes(raw)
        self._write_reputation(start_us)

    def _dialect(self, number: int) -> str:
        return DIALECTS[number % len(DIALECTS)]

    def _write_reputation(self, start_us: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as parquet

        from pier_node.logs import Workload, generate_events

        workload = Workload(seed=100, start_us=start_us, count=OLD_EVENTS, sources=SOURCES)
        seen = pa.Table.from_batches(list(generate_events(workload)))
        busiest = seen.group_by("src").aggregate([("src", "count")]).sort_by([("src_count", "descending")])
        sources = [src for number, src in enumerate(busiest["src"].to_pylist()[:KNOWN]) if number % 3 != 2]
        rows = {
            "src": sources,
            "kind": [KINDS[(7 * number) % len(KINDS)] for number in range(len(sources))],
            "score": [99 - number * 13 % 60 for number in range(len(sources))],
        }
        parquet.write_table(pa.table(rows), self.reputation)

    async def grow(self, number: int) -> None:
        """Appends to one host's log, for ever."""
        beat = 0
        with self.log(number).open("ab", buffering=0) as file:
            while True:
                await trio.sleep(BEAT_S)
                beat += 1
                seed = 1_000 * (number + 1) + beat
                start_us = int((time.time() - BEAT_S) * 1e6)
                file.write(_log(self._dialect(number), seed, start_us, int(RATE * BEAT_S), RATE))


def _log(dialect: str, seed: int, start_us: int, count: int, rate: float, hosts: int = 1) -> bytes:
    from pier_node.logs import generate

    return generate(
        dialect, seed=seed, start_us=start_us, count=count, rate=rate, hosts=hosts, sources=SOURCES, zipf=1.2
    )
