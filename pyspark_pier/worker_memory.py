"""Spark collects all garbage of a Python worker after each task, and of the processes that plan for the driver after
each question. In one that has imported Arrow, Spark and this package that is a walk over some hundred thousand objects
that live as long as the process: 40 ms, more than a short task itself. They are set aside in the first tasks, which
import what is left to import; later ones are collected as before."""

from __future__ import annotations

import gc

#: Spark has just collected all garbage when a task begins, so what is set aside then is what lasts.
TASKS = 2
_tasks = 0


def keep_lasting() -> None:
    """Takes what lives now out of later collections, in the first tasks of a process."""
    global _tasks
    if _tasks < TASKS:
        _tasks += 1
        gc.freeze()
