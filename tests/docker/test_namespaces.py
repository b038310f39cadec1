"""Many hosts without a container engine: network namespaces, each node with its own address."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docker.namespaces import Namespaces, why_not
from tests.docker.story import Story

pytestmark = [pytest.mark.processes, pytest.mark.trio]


async def test_a_bad_week_in_network_namespaces(tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(f"no network namespaces here: {reason}")
    with Namespaces(tmp_path) as hosts:
        story = Story(hosts, print, upgraded=2)
        try:
            await story.tell()
        except BaseException:
            for each in story.up:
                print(f"-- {each}:\n{(await hosts.log(each))[-3000:]}")
            raise
