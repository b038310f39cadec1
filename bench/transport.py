"""The transport against aioquic and against a bare UDP echo, two processes on loopback each.

Sealed messages of 200 bytes, 64 in flight, interleaved rounds; each figure is the median of the rounds' ratios.
All processes run with the same malloc settings, without which glibc gives memory back too eagerly and slows
asyncio most. Usage: transport.py [ROUNDS [SECONDS]]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(HERE.parent),
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "67108864",
    "MALLOC_MMAP_THRESHOLD_": "268435456",
}
LOSS = "0.01"
#: (figure, our program's mode, the peer, its mode, lossy, target)
FIGURES: list[tuple[str, str, str, str, bool, float]] = [
    ("request/response with callbacks, one aioquic stream", "rr", "quic", "rr", False, 7.0),
    ("request/response with callbacks, bare Python echo", "rr", "echo", "rr", False, 0.7),
    ("request/response, each awaited by a trio task", "tasks", "quic", "rr", False, 3.0),
    ("one-way messages, aioquic with a stream each", "oneway", "quic", "oneway", False, 20.0),
    ("bulk, 64 KB messages", "bulk", "quic", "bulk", False, 8.0),
    ("bulk, 64 KB messages, 1 % loss", "bulk", "quic", "bulk", True, 2.0),
]
PEER_NAMES = {"quic": "aioquic", "echo": "bare UDP echo in Python"}
DATAGRAMS_PER_MESSAGE_MAX = 0.35
MESSAGES_PER_SEND_CALL_MIN = 8.0


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str


def start(program: str, lossy: bool) -> Server:
    command = [sys.executable, str(HERE / f"transport_{program}.py"), "serve", *([LOSS] if lossy else [])]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return Server(process, process.stdout.readline().strip())


def measure(program: str, mode: str, server: Server, seconds: float, lossy: bool) -> dict[str, Any]:
    command = [sys.executable, str(HERE / f"transport_{program}.py"), mode, server.address, str(seconds)]
    run = subprocess.run(
        command + ([LOSS] if lossy else []), env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def one_round(servers: dict[tuple[str, bool], Server], seconds: float) -> dict[tuple[str, str, bool], Any]:
    wanted = [(side, mode, lossy) for _, mode, _, _, lossy, _ in FIGURES for side in ("ours",)]
    wanted += [(peer, mode, lossy) for _, _, peer, mode, lossy, _ in FIGURES]
    wanted += [(program, "latency", False) for program in ("ours", "quic", "echo")]
    return {
        (program, mode, lossy): measure(program, mode, servers[program, lossy], seconds, lossy)
        for program, mode, lossy in dict.fromkeys(wanted)
    }


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.5
    kinds = [("ours", False), ("ours", True), ("quic", False), ("quic", True), ("echo", False)]
    servers = {kind: start(*kind) for kind in kinds}
    try:
        results = [one_round(servers, seconds) for _ in range(rounds)]
    finally:
        for server in servers.values():
            server.process.terminate()
            server.process.wait()

    def median(program: str, mode: str, lossy: bool = False, field: str = "per_s") -> float:
        return statistics.median(result[program, mode, lossy][field] for result in results)

    for program in ("ours", "quic", "echo"):
        latency_us = 1e6 / median(program, "latency")
        print(f"latency with one in flight, {program}: {latency_us:.0f} us", file=sys.stderr)
    lines = []
    for name, mode, peer, peer_mode, lossy, target in FIGURES:
        ratio = statistics.median(
            result["ours", mode, lossy]["per_s"] / result[peer, peer_mode, lossy]["per_s"]
            for result in results
        )
        lines.append(
            {
                "name": f"transport: {name}",
                "ours": round(median("ours", mode, lossy), 1),
                "peer": round(median(peer, peer_mode, lossy), 1),
                "peer_name": PEER_NAMES[peer],
                "ratio": round(ratio, 2),
                "target": target,
                "holds": ratio >= target,
            }
        )
        ratio = statistics.median(
            result["ours", mode, lossy]["per_cpu_s"] / result[peer, peer_mode, lossy]["per_cpu_s"]
            for result in results
        )
        print(f"{name}: {ratio:.2f} x by the client's CPU time, which load blurs less", file=sys.stderr)
    for name, field, limit, most in (
        ("datagrams per small message", "datagrams_per_message", DATAGRAMS_PER_MESSAGE_MAX, True),
        ("messages per send call", "messages_per_send_call", MESSAGES_PER_SEND_CALL_MIN, False),
    ):
        value = median("ours", "rr", False, field)
        lines.append(
            {
                "name": f"transport: {name}",
                "ours": round(value, 3),
                "peer": limit,
                "peer_name": "limit",
                "ratio": round(value / limit, 3),
                "target": limit,
                "holds": value <= limit if most else value >= limit,
            }
        )
    lines.append(lines.pop(0))
    for line in lines:
        print(json.dumps(line))
    return 0 if all(line["holds"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
