"""Many hosts as containers: the image is built from this tree, and lives through what an operator does to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.docker.containers import Containers
from tests.docker.engine import another_release, base_tag, docker, image, why_not
from tests.docker.story import NEW, OLD, PATIENCE_S, Story

pytestmark = [pytest.mark.processes, pytest.mark.trio]

#: What an image may weigh beyond its base: numpy and Arrow are most of it.
IMAGE_BYTES_MAX = 300 << 20
COMPILERS = "for each in cc gcc c++ g++ make pip java; do command -v $each; done; true"


async def test_a_bad_week_in_containers(tmp_path: Path) -> None:
    reason = why_not()
    if reason:
        pytest.skip(f"no containers here: {reason}")
    old = image(tmp_path, OLD)
    images = {OLD: old, NEW: another_release(old, NEW)}
    with Containers(tmp_path / "hosts", images) as hosts:
        story = Story(hosts, print)
        try:
            await story.tell()
            await what_the_image_promises(hosts, images[NEW])
        except BaseException:
            for each in story.up:
                print(f"-- {each}:\n{await hosts.log(each)}")
            raise


async def what_the_image_promises(hosts: Containers, tag: str) -> None:
    assert await hosts.run("n1", "sh", "-c", COMPILERS) == "", "there is a compiler in the image"
    assert await hosts.run("n1", "id", "-u") != "0"
    written = await hosts.run("n1", "sh", "-c", "touch /opt/pier/x 2>/dev/null || echo read-only")
    assert written == "read-only"
    assert await hosts.run("n1", "pier", "health", "--ready") == ""
    with trio.fail_after(PATIENCE_S):
        while await hosts.inspect("n1", "{{.State.Health.Status}}") != "healthy":
            await trio.sleep(0.2)
    sizes = [int(docker("image", "inspect", "-f", "{{.Size}}", each)) for each in (tag, base_tag())]
    assert sizes[0] - sizes[1] < IMAGE_BYTES_MAX, sizes
