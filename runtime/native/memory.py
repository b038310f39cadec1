"""Garbage collection for a process that handles messages by the hundred thousand a second.

Messages, datagrams and their lists come and go without forming cycles, so looking at the young every few
hundred allocations finds nothing and costs a twentieth of the time.
"""

from __future__ import annotations

import gc

#: Allocations between collections of the youngest generation, and of those between collections of the next.
THRESHOLDS = (50_000, 20, 20)


def settle() -> None:
    """Called once a process is set up: what is there by now is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
