"""What a large simulated ring costs: real joins, then full maintenance, in CPU time and memory of one process.

Usage: ring.py [NODES [MAINTENANCE_S]]. The nodes join over 40 simulated seconds (250 a second); ten seconds after the
last, every leaf set is compared with the truth; then `MAINTENANCE_S` simulated seconds of full maintenance, at the end
of which lookups from random members must all be right. Limits are those for 10,000 nodes, for 50,000 only the memory's.
No trace is kept: no other run is compared with this one. The limits are in CPU seconds of a machine of its day, and
machines that share their memory with others are sometimes several times slower: what SimPy does in the same run
(`simulator.py`) tells how fast this one is now.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time

from simulator import simpys

from overlay.bamboo import BambooConfig
from pier_node.scenario.routing_ring import ROUTING_MESSAGES, RoutingRing, Tally
from runtime.message import Codec
from runtime.sim import World
from runtime.sim.topology import king

SEED = 1
SITES = 512
JOINS_PER_S = 250.0
LEAF_SETS_AFTER_S = 10.0
LOOKUPS = 1_000
#: Nodes -> limits on the joins' CPU time, on simulated seconds a CPU second, and on memory.
LIMITS = {10_000: (40.0, 2.5, 0.4), 50_000: (None, None, 2.0)}


def memory_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def line(name: str, ours: float, limit: float | None, holds: bool) -> bool:
    found = {"name": f"ring: {name}", "ours": round(ours, 3), "peer_name": "limit", "peer": limit}
    print(json.dumps({**found, "target": limit, "holds": holds}), flush=True)
    return holds


def join(world: World, ring: RoutingRing, nodes: int) -> float:
    """Lets the nodes join; the CPU time it took until the last has been a member for a while."""
    began = time.process_time()
    for number in range(nodes):
        world.call_at(number / JOINS_PER_S, ring.build, world.add_host())
    with world.settled():
        world.run_until(nodes / JOINS_PER_S)
    return time.process_time() - began


def look_up(world: World, ring: RoutingRing) -> Tally:
    ring.tally = Tally(world)
    for number in range(LOOKUPS):
        world.call_at(world.now + number / 100, lambda _: ring.look(), None)
    world.run_for(LOOKUPS / 100 + 10.0)
    return ring.tally


def main() -> int:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    maintenance_s = float(sys.argv[2]) if len(sys.argv) > 2 else 300.0
    join_cpu_s, speed, memory = LIMITS.get(nodes, (None, None, None))
    line("for comparison, SimPy's events a CPU s", statistics.median(simpys() for _ in range(3)), None, True)
    world = World(seed=SEED, topology=king(SEED, SITES), codec=Codec(ROUTING_MESSAGES), trace=False)
    ring = RoutingRing(world, BambooConfig())
    took_s = join(world, ring, nodes)
    held = line(f"{nodes:,} joins, CPU s", took_s, join_cpu_s, join_cpu_s is None or took_s < join_cpu_s)
    with world.settled():
        world.run_for(LEAF_SETS_AFTER_S)
        wrong = ring.wrong_leaf_sets()
        held &= line("wrong leaf sets 10 s after the last join", wrong, 0, wrong == 0)
        began, from_s = time.process_time(), world.now
        world.run_for(maintenance_s)
        rate = (world.now - from_s) / (time.process_time() - began)
        name = f"{nodes:,} nodes, simulated s of maintenance a CPU s"
        held &= line(name, rate, speed, speed is None or rate >= speed)
        tally = look_up(world, ring)
    held &= line("lookups right after it, share", tally.right_share(), 1.0, tally.right_share() == 1.0)
    used = memory_gb()
    held &= line(f"{nodes:,} nodes, peak memory, GB", used, memory, memory is None or used < memory)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
