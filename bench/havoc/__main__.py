"""Havoc on real processes, with DuckDB as the judge.

    ./run python -m bench.havoc --minutes 20             eight hosts; root and `ip` for cuts between two of them
    ./run python -m bench.havoc --minutes 1 --nodes 4    the short form

Hosts are paused (2-30 s), killed, told to leave, wiped, cloned and cut from each other at random, while clients ask
once and continuously, over the hosts' own tables, published tables and indexes. No answer that calls itself complete
may differ from DuckDB's, and no answer has a row twice. Prints what happens, then one JSON object; exit code 1 when an
answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import trio

from bench.havoc.run import havoc


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=30.0, metavar="S", help="the longest fault")
    parser.add_argument("--only", default="", metavar="pause,kill,…", help="only these faults")
    args = parser.parse_args()
    only = tuple(args.only.split(",")) if args.only else ()
    say = partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run = partial(
            havoc,
            Path(folder),
            args.nodes,
            args.minutes * 60,
            args.seed,
            say,
            args.clients,
            args.longest,
            only,
        )
        verdict = trio.run(run)
    print(json.dumps(verdict))
    return 0 if verdict["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
