"""`pier sim FILE`: runs a scenario and prints its figures.

One JSON object on stdout, the trace hash last in it; nothing on stdout depends on the machine, so two runs of
one seed print the same bytes. How fast it went is on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from pier_node.scenario import (
    DRAWN_PREFIX,
    NODES_MAX,
    ScenarioError,
    load_scenario,
    run_scenario,
    with_latencies,
)

#: Seeds in one call; each is a whole run.
SEEDS_MAX = 10_000


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "sim",
        help="simulate a scenario",
        description="Simulate a scenario file and print its figures as JSON, with a hash of the whole trace. "
        "The same seed always gives the same output. Exit code 1 if a check fails.",
    )
    parser.add_argument("file", metavar="SCENARIO.toml", type=Path)
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=int, default=1, metavar="N", help="default 1")
    seeds.add_argument("--seeds", type=_seeds, metavar="A..B", help="every seed from A to B, side by side")
    parser.add_argument("--nodes", type=int, metavar="N", help="in place of the file's number")
    parser.add_argument(
        "--latencies",
        type=Path,
        metavar="F",
        help="matrix of round trips in ms, in place of the file's topology",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes for --seeds; default one per core")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        if args.seeds is None:
            outcome = _run_seed(args.file, args.seed, args.nodes, args.latencies)
        else:
            outcome = _run_seeds(args)
    except ScenarioError as error:
        print(f"pier sim: {args.file}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(outcome))
    return 0 if outcome["holds"] else 1


def _run_seed(file: Path, seed: int, nodes: int | None, matrix: Path | None) -> dict[str, Any]:
    scenario, latencies = load_scenario(file)
    if matrix is not None:
        scenario, latencies = with_latencies(scenario, matrix)
    if nodes is not None:
        if not 1 <= nodes <= NODES_MAX:
            raise ScenarioError(f"nodes: --nodes {nodes} must be in 1 ... {NODES_MAX}")
        scenario = msgspec.structs.replace(scenario, nodes=nodes)
    started = time.process_time()
    result = run_scenario(scenario, seed, latencies=latencies)
    cpu_s = max(time.process_time() - started, 1e-9)
    print(
        f"seed {seed}: {result.simulated_s:g} simulated s in {cpu_s:.2f} CPU s, {result.events / cpu_s:,.0f} events/s",
        file=sys.stderr,
    )
    for verdict in result.checks:
        if not verdict.holds:
            print(f"seed {seed}: check failed: {verdict.check}: {verdict.found}", file=sys.stderr)
    return dict(msgspec.to_builtins(result))


def _run_seeds(args: argparse.Namespace) -> dict[str, Any]:
    scenario, _ = load_scenario(args.file)
    jobs = max(1, min(args.jobs or os.cpu_count() or 1, len(args.seeds)))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_try_seed, args.file, seed, args.nodes, args.latencies) for seed in args.seeds]
        runs = [future.result() for future in futures]
    failed = [each["seed"] for each in runs if not each["holds"]]
    whole = [each for each in runs if "error" not in each]
    hours = round(sum(each["simulated_s"] for each in whole) / 3600.0, 2)
    faults = Counter[str]()
    for each in whole:
        faults.update(each["faults"])
    told = f"{len(failed)} FAILED: {', '.join(map(str, failed))}" if failed else "all hold"
    print(
        f"{len(runs)} seeds, {hours:g} simulated hours, {_struck(faults):,} faults: {told}",
        file=sys.stderr,
    )
    return {
        "scenario": scenario.name,
        "seeds": len(runs),
        "seeds_failed": failed,
        "simulated_hours": hours,
        "faults": dict(sorted(faults.items())),
        "holds": not failed,
        "runs": runs,
        "trace_hash": [each.get("trace_hash", "") for each in runs],
    }


def _try_seed(file: Path, seed: int, nodes: int | None, matrix: Path | None) -> dict[str, Any]:
    """One seed of many: what escapes from a node is a fault that this seed shows, not the end of the others."""
    try:
        return _run_seed(file, seed, nodes, matrix)
    except ScenarioError:
        raise
    except Exception as error:
        traceback.print_exc()
        print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
        return {"seed": seed, "holds": False, "error": f"{type(error).__name__}: {error}"}


def _struck(faults: Mapping[str, int]) -> int:
    """Faults of a run: those drawn at random, or else the hosts that were struck one by one."""
    drawn = sum(count for name, count in faults.items() if name.startswith(DRAWN_PREFIX))
    return drawn or sum(faults.get(name, 0) for name in ("crashed", "churn_ended"))


def _seeds(text: str) -> range:
    found = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not A..B with A <= B")
    seeds = range(int(found[1]), int(found[2]) + 1)
    if len(seeds) > SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"more than {SEEDS_MAX} seeds")
    return seeds
