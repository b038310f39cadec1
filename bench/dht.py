"""The DHT against kademlia and OpenDHT: 16 processes of each on this machine; one of them puts, another one gets.

100-byte values, 64 operations in flight, interleaved rounds; each figure is the median of the rounds' ratios. Gets
cross the network: what the reader holds itself is passed over (OpenDHT does not tell; its gets ask others in any
case). Copies written: ours 1 (put again by its publisher when lost), kademlia 4 (its default of 20 is slower), OpenDHT
8 or more. Ours is sealed, theirs in the clear. Then, ours alone, with three copies beside the owner's: gets go on while
4 of the 16 processes are killed with -9. Usage: dht.py [ROUNDS [SECONDS]]
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NODES = 16
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(HERE.parent),
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "67108864",
    "MALLOC_MMAP_THRESHOLD_": "268435456",
}
#: (mode, peer, target)
FIGURES = [
    ("put", "kademlia", 5.0),
    ("put", "opendht", 3.0),
    ("get", "opendht", 6.0),
    ("get", "kademlia", 4.0),
]
OPERATION_MAX_S = 1.0
KILLED = 4
KILL_COPIES = 3
KILL_LOAD_S = 8.0
SETTLE_S = 5.0


class Cluster:
    """Nodes that serve, one that puts, and another one that gets."""

    def __init__(self, program: str) -> None:
        self.program = program
        first = self._start("serve")
        self.nodes = [first]
        self.gateway = self._address(first)
        waiting = [self._start("serve", self.gateway) for _ in range(NODES - 3)]
        self.nodes += waiting
        for process in waiting:
            self._address(process)
        self.drivers = {mode: self._start("drive", self.gateway) for mode in ("put", "get")}
        for process in self.drivers.values():
            self._address(process)
        self._tag = 0
        self._count = 0

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(HERE / f"dht_{self.program}.py"), *arguments]
        return subprocess.Popen(
            command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _address(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, f"{self.program}: a node did not start"
        return address

    def run(self, mode: str, seconds: float, copies: int = 0) -> dict[str, Any]:
        """Gets are for what the last puts put."""
        driver = self.drivers[mode]
        assert driver.stdin is not None and driver.stdout is not None
        if mode == "put":
            self._tag, self._count = self._tag + 1, 0
        driver.stdin.write(f"{mode} {seconds} {copies} {self._tag} {self._count}\n")
        driver.stdin.flush()
        result: dict[str, Any] = json.loads(driver.stdout.readline())
        self._count = result["count"]
        return result

    def kill(self, count: int) -> None:
        for process in self.nodes[-count:]:
            process.kill()

    def close(self) -> None:
        for process in [*self.drivers.values(), *self.nodes]:
            process.kill()
            process.wait()


def line(
    name: str, ours: float, peer: float, peer_name: str, ratio: float, target: float, holds: bool
) -> str:
    return json.dumps(
        {
            "name": f"dht: {name}",
            "ours": round(ours, 4),
            "peer": round(peer, 4),
            "peer_name": peer_name,
            "ratio": round(ratio, 3),
            "target": target,
            "holds": holds,
        }
    )


def compare(clusters: dict[str, Cluster], rounds: int, seconds: float) -> list[tuple[str, bool]]:
    results: list[dict[tuple[str, str], dict[str, Any]]] = []
    for number in range(rounds):
        results.append(
            {(mode, name): clusters[name].run(mode, seconds) for mode in ("put", "get") for name in clusters}
        )
        for (mode, name), result in results[-1].items():
            print(f"round {number}: {name} {mode}: {json.dumps(result)}", file=sys.stderr)
    lines = []
    ours = [result for each in results for (_, name), result in each.items() if name == "ours"]
    slowest = max(result["max_s"] for result in ours)
    failed = sum(result["failed"] for result in ours)
    fits = slowest <= OPERATION_MAX_S and failed == 0
    ratio = slowest / OPERATION_MAX_S
    lines.append((line("slowest operation, s", slowest, OPERATION_MAX_S, "limit", ratio, 1.0, fits), fits))
    for mode, peer, target in FIGURES:
        if peer not in clusters:
            continue
        mine, theirs = (statistics.median(r[mode, name]["per_s"] for r in results) for name in ("ours", peer))
        ratio = statistics.median(r[mode, "ours"]["per_s"] / r[mode, peer]["per_s"] for r in results)
        lines.append(
            (line(f"{mode}s a second", mine, theirs, peer, ratio, target, ratio >= target), ratio >= target)
        )
    return lines


def kill_while_reading(cluster: Cluster) -> tuple[str, bool]:
    cluster.run("put", 2.0, KILL_COPIES)
    timer = threading.Timer(1.0, cluster.kill, [KILLED])
    timer.start()
    result = cluster.run("get", KILL_LOAD_S)
    print(f"kill -9 of {KILLED}: {json.dumps(result)}", file=sys.stderr)
    holds = result["failed"] == 0 and result["p99_s"] < OPERATION_MAX_S
    name = f"p99 of gets while {KILLED} of {NODES} are killed, s ({result['failed']} failed)"
    return line(name, result["p99_s"], 15.0, "the original Bamboo", result["p99_s"] / 15.0, 1.0, holds), holds


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3.0
    clusters: dict[str, Cluster] = {}
    try:
        for name in ("ours", "kademlia", "opendht"):
            if name == "ours" or importlib.util.find_spec(name) is not None:
                clusters[name] = Cluster(name)
            else:
                print(f"{name} is not installed: skipped", file=sys.stderr)
        time.sleep(SETTLE_S)
        lines = compare(clusters, rounds, seconds)
    finally:
        for cluster in clusters.values():
            cluster.close()
    fresh = Cluster("ours")
    try:
        time.sleep(SETTLE_S)
        lines.insert(0, kill_while_reading(fresh))
    finally:
        fresh.close()
    for text, _ in lines:
        print(text)
    return 0 if all(holds for _, holds in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
