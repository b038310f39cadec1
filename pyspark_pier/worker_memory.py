"""Spark collects all garbage of a Python worker after each task. In a worker that has imported Arrow, Spark and this
package that is a walk over some hundred thousand objects that live as long as the process: 40 ms, more than a short
task itself. They are set aside once, in the first task; later ones are collected as before."""

from __future__ import annotations

import gc


def keep_lasting() -> None:
    """Takes what lives now out of later collections; only the first call in a process does anything."""
    if not gc.get_freeze_count():
        gc.freeze()
