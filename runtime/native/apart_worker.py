"""The worker process of `runtime.native.apart`: reads computations from its input, writes their results to its output.

The kernel holds it to its bounds: of memory (address space beyond what the imports took) and, should the process that
started it be gone or stopped, of processor time. It ends when its input does.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import resource
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

from runtime.api import OutOfMemory
from runtime.native.apart import LENGTH_BYTES

#: Processor time beyond a computation's own, after which the kernel ends a worker that nobody looks after.
GRACE_S = 5


def main() -> None:
    # A terminal's interrupt goes to all processes; this one ends with the one that started it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _offer_oneself()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    # What a computation prints must not be taken for its result.
    sys.stdout = sys.stderr
    while True:
        length = source.read(LENGTH_BYTES)
        if len(length) < LENGTH_BYTES:
            return
        # Reading it imports the module of the function.
        fn, argument, time_s, memory_bytes = pickle.loads(source.read(int.from_bytes(length, "big")))
        target.write(b"!")
        target.flush()
        _bound(time_s, memory_bytes)
        _reply(target, _result(fn, argument, memory_bytes))


def _offer_oneself() -> None:
    """Where memory ends, the kernel ends a process: rather this one than the node."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _bound(time_s: float, memory_bytes: int) -> None:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    taken = int(pages) * resource.getpagesize()
    _limit(resource.RLIMIT_AS, taken + memory_bytes)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + time_s) + GRACE_S)


def _limit(which: int, most: int) -> None:
    """The soft limit; the hard one stays, so that the next computation may be given more."""
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _result(fn: Any, argument: Any, memory_bytes: int) -> bytes:
    try:
        return pickle.dumps(fn(argument))
    except MemoryError:
        return pickle.dumps(OutOfMemory(f"it took more than {memory_bytes >> 20} MB"))
    except Exception as error:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


def _reply(target: BinaryIO, reply: bytes) -> None:
    target.write(len(reply).to_bytes(LENGTH_BYTES, "big") + reply)
    target.flush()


if __name__ == "__main__":
    main()
