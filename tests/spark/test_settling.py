"""The word about a load, given to real nodes while one of them is dead: all, or nothing, or exactly what is left."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pytest

from pyspark_pier import reach
from pyspark_pier.errors import PierSparkError
from pyspark_pier.options import write_options
from pyspark_pier.ring_placement import targets_of
from pyspark_pier.settling import Settling
from pyspark_pier.writer import Feeding, Staged
from tests.spark.conftest import Ring
from tests.spark.test_batch import count

pytestmark = pytest.mark.processes

ROWS = pa.record_batch({"k": [f"k{n}" for n in range(200)], "n": list(range(200))})


def staged(ring: Ring, table: str, load: str) -> tuple[Feeding, Staged]:
    options = write_options({"nodes": ring.nodes, "table": table, "key": "k"})
    feeding = Feeding(options, targets_of(reach.doors(options.access)), "run")
    return feeding, feeding.stage(iter([ROWS]), load)


def test_a_node_that_dies_before_the_word_leaves_nothing_visible(ring: Ring) -> None:
    feeding, message = staged(ring, "unsettled", "L")
    assert sum(message.rows.values()) == 200 and len(message.rows) > 1
    victim = next(
        state
        for state in ring.directory.running()
        if any(state.client_address in place for place in message.rows)
    )
    os.kill(victim.pid, signal.SIGKILL)
    try:
        with pytest.raises(PierSparkError, match="nothing of it was made visible"):
            Settling(feeding.options, "L", message.rows, feeding.run).commit()
        assert count(ring, "unsettled") == 0
    finally:
        ring.start()


def test_a_node_that_dies_while_the_word_goes_round_is_told_of(ring: Ring) -> None:
    """Its part cannot be published, so the parts of the others are taken back."""
    feeding, message = staged(ring, "halfway", "H")
    settling = Settling(feeding.options, "H", message.rows, feeding.run)
    victim = next(
        state
        for state in ring.directory.running()
        if any(state.client_address in place for place in message.rows)
    )
    ask = settling._each

    def dies_between(tasks: dict[str, list[str]], verdict: str, attempts: int = 1) -> object:
        if verdict == "commit":
            os.kill(victim.pid, signal.SIGKILL)
        return ask(tasks, verdict, 1)  # type: ignore[arg-type]

    settling._each = dies_between  # type: ignore[assignment,method-assign]
    try:
        with pytest.raises(
            PierSparkError, match=rf"{victim.client_address}.* may be visible for another 600 s"
        ):
            settling.commit()
        assert count(ring, "halfway") == 0
    finally:
        ring.start()


def test_a_load_goes_through_the_nodes_that_are_left(ring: Ring) -> None:
    """A dead node among the targets is stood in for by the next."""
    options = write_options({"nodes": ring.nodes, "table": "stood_in", "key": "k"})
    feeding = Feeding(options, targets_of(reach.doors(options.access)), "run")
    victim = ring.directory.running()[-1]
    os.kill(victim.pid, signal.SIGKILL)
    try:
        message = feeding.stage(iter([ROWS]), "S")
        Settling(options, "S", message.rows, feeding.run).commit()
        assert all(victim.client_address not in place for place in message.rows)
        assert count(ring, "stood_in") == 200
    finally:
        ring.start()
