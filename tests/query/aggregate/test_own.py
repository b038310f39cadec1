"""An aggregate of a node's owner: the one in the documentation, registered and used by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from query.aggregate import AGGREGATES
from query.aggregate.registry import BY_ARGUMENTS, SYNONYMS
from tests.query.aggregate.ways import all_ways

DOCUMENT = Path(__file__).parents[3] / "docs" / "aggregates.md"


@pytest.fixture
def documented() -> Iterator[None]:
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert code is not None
    exec(code[1], {})
    yield
    del AGGREGATES["product"]


@pytest.mark.usefixtures("documented")
def test_the_documented_aggregate_works_by_its_name() -> None:
    table = pa.table({"k": ["a", "b", "a", "a"], "v": [2, 3, None, 5]})
    for found in all_ways([table.slice(0, 2), table.slice(2)], ["k"], "product", ["v"]):
        assert found == {("a",): 10.0, ("b",): 3.0}


def test_every_name_is_documented() -> None:
    text = DOCUMENT.read_text()
    spelled = set(re.findall(r"[a-z_]+(?=\()", text)) | set(re.findall(r"`([a-z_]+)`", text))
    hidden = {*BY_ARGUMENTS.values(), "any_true", "argmin", "argmax"}
    assert {*AGGREGATES, *SYNONYMS} - hidden <= spelled
