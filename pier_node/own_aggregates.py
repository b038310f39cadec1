"""Aggregates of the node's owner: Python files that the configuration names are run once, before the node joins.

A query can only name what is registered on a node; code never comes with a query (docs/aggregates.md).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from query.aggregate import AGGREGATES


class OwnAggregatesError(Exception):
    """A file of the owner's cannot be used; the message says which and why."""


def load_own_aggregates(paths: Iterable[str]) -> list[str]:
    """Runs the files; returns the names that they registered. Raises OwnAggregatesError."""
    before = set(AGGREGATES)
    for number, path in enumerate(paths):
        spec = importlib.util.spec_from_file_location(f"pier_own_aggregates_{number}", path)
        if spec is None or spec.loader is None or not Path(path).is_file():
            raise OwnAggregatesError(f"node.aggregates: {path} is no Python file")
        known = set(AGGREGATES)
        try:
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        except Exception as error:
            # Whatever the owner's code raises is told in one line, as everything wrong with a configuration.
            raise OwnAggregatesError(f"node.aggregates: {path}: {type(error).__name__}: {error}") from error
        if known == set(AGGREGATES):
            raise OwnAggregatesError(f"node.aggregates: {path} registers no aggregate")
    return sorted(set(AGGREGATES) - before)
