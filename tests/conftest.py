"""What holds for all tests.

Tests of real processes, containers and Spark share two cores with everything else that runs, and a machine that
stalls for seconds looks to a node like dead peers. One that fails is tried a second time; the summary counts such
reruns, and what fails twice has failed. Nothing else is tried again: it is deterministic.
"""

from __future__ import annotations

import pytest

#: A test of real processes may fail this often before it counts.
RERUNS = 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("processes") is not None:
            item.add_marker(pytest.mark.flaky(reruns=RERUNS))
