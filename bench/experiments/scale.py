"""How many nodes one simulation holds: COUNT over 10,000 and over 100,000 nodes, with what it takes.

    python bench/experiments/scale.py continuous      10,000 nodes, 30 epochs of the default plan (Tree-Hi-S-Topology)
    python bench/experiments/scale.py one-shot        100,000 nodes, one answer (DHT-Hi-Optimal)

Every epoch must count every node. PIER's simulator ran out of memory beyond 10,000 nodes (PIER 4.1). The overlay is
static with perfect tables; latencies are King-like, links 1.5 Mbps, as in `aggregation.py`. Prints one JSON object;
exit code 1 when a bound is not kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from dataclasses import dataclass

from pier_node.scenario.aggregation_ring import AggregationRing
from query.aggregation.session import SessionSpec
from query.aggregation.strategy import DEFAULT_CONTINUOUS, DEFAULT_ONE_SHOT, Strategy


@dataclass(frozen=True, slots=True)
class Scale:
    nodes: int
    epochs: int
    strategy: Strategy
    cpu_s_max: float
    memory_gb_max: float


SCALES = {
    "continuous": Scale(10_000, 30, DEFAULT_CONTINUOUS, 90.0, 0.5),
    "one-shot": Scale(100_000, 1, DEFAULT_ONE_SHOT, float("inf"), 6.0),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scale", choices=SCALES)
    parser.add_argument("--nodes", type=int, help="another number of nodes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    scale = SCALES[options.scale]
    nodes = options.nodes or scale.nodes
    # The nodes stay until the end: looking for garbage among them again and again takes longer than making them.
    gc.disable()
    ring = AggregationRing(nodes, options.seed)
    gc.freeze()
    gc.enable()
    outcome = ring.run(SessionSpec("", scale.strategy, "", epochs=scale.epochs))
    final = outcome.final()
    counted = sum(given.nodes == given.count == nodes for given in final.values())
    cpu_s = time.process_time()
    memory_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    holds = counted == scale.epochs and cpu_s < scale.cpu_s_max and memory_gb < scale.memory_gb_max
    print(
        json.dumps(
            {
                "strategy": scale.strategy.name,
                "nodes": nodes,
                "epochs": scale.epochs,
                "epochs_with_every_node": counted,
                "latency_s": round(final[scale.epochs - 1].latency_s, 2),
                "cpu_s": round(cpu_s, 1),
                "memory_gb": round(memory_gb, 2),
                "holds": holds,
            }
        )
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
