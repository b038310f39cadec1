"""The example queries on one node without a network: their scans are fed by hand, their results collected.

`tests/pier_node/processes` runs the same queries on real nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import query.operators  # noqa: F401 - makes the operators known
import ufl
from pier_node.readable.files import ReadableFiles
from query import plan
from query.batch import Batch
from query.dataflow.check import operator_problems
from tests.query.dataflow.harness import operator, sink
from tests.query.operators.feeding import answer, rows

EXAMPLES = Path(ufl.__file__).parent / "examples"
FW = rows(
    "fw",
    src=["a", "a", "b", "c"],
    action=["BLOCK", "BLOCK", "BLOCK", "ALLOW"],
    dpt=[22, 80, 3389, 443],
    length=[60, 1500, 1500, 99],
)
#: What the scan of each query brings, by the name of its operator, and what it must answer.
LOCAL: dict[str, tuple[dict[str, Batch], list[tuple[Any, ...]]]] = {
    "csv_filter": ({}, [("10.0.0.1", 22)]),
    "projection": ({}, [("x", 80), ("y", 160)]),
    "tee_union": (
        {"log": FW},
        [("a", "BLOCK", 22, 60), ("a", "BLOCK", 80, 1500), *[("b", "BLOCK", 3389, 1500)] * 2],
    ),
}


def local(spec: plan.Operator) -> plan.Operator:
    """Operators that need a network, replaced by hands."""
    if spec.type == "scan" and spec.implementation != "CSV":
        return operator(spec.name, "test/Fed")
    return sink(*spec.sources) if spec.type == "result" else spec


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ufl")), ids=lambda path: path.stem)
def test_every_example_names_real_operators_and_settings(path: Path) -> None:
    assert list(operator_problems(ufl.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("name", LOCAL)
def test_examples_of_one_opgraph_run_on_the_local_engine(name: str, tmp_path: Path) -> None:
    (tmp_path / "connections.csv").write_text("src,dpt\n10.0.0.1,22\n10.0.0.2,8080\n192.168.0.1,22\n")
    (tmp_path / "samples.csv").write_text("host,bytes\nx,10\ny,20\n")
    (opgraph,) = ufl.parse((EXAMPLES / f"{name}.ufl").read_text(encoding="utf-8")).opgraphs
    fed, wanted = LOCAL[name]
    events = [event for source, batch in fed.items() for event in ((source, batch), (source, None))]
    graph = [local(spec) for spec in opgraph.operators]
    assert answer(graph, events, files=ReadableFiles(tmp_path)) == sorted(wanted, key=repr)
