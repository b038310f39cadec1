"""Slow nodes: a loaded machine that computes slowly and handles late what reaches it."""

from __future__ import annotations

from runtime.sim.host import SimHost


def slow(host: SimHost, factor: float = 1.0, lag_s: float = 0.0) -> None:
    """Computations take `factor` times as long; messages, datagrams and stream data are handled `lag_s` after
    their arrival. Holds over restarts, until set again; slow(host) ends it."""
    if not (factor > 0.0 and lag_s >= 0.0):
        raise ValueError(f"factor = {factor}, lag_s = {lag_s}: must be positive, and not negative")
    host.compute_factor = factor
    host.lag_s = lag_s
