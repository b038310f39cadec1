"""docs/client.md: its programs run as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pier_node.client import connection
from pier_node.client.errors import PierError
from pier_node.protocol import messages as m
from pier_node.service import AnswerSink
from tests.cli.conftest import Served, served
from tests.pier_node.worlds import BATCH

__all__ = ["served"]
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "client.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def answer(sink: AnswerSink) -> None:
    sink.batch("t", BATCH)
    sink.finish(m.Account("q1", asked=1, answered=1))


@pytest.mark.parametrize("program", PROGRAMS[:2])
def test_programs_run_as_printed(program: str, served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.engine.on_query = answer
    port = served.address.rpartition(":")[2]
    exec(compile(program.replace("7701", port), "docs/client.md", "exec"), {"__name__": "page"})
    assert "answered=1" in capsys.readouterr().out


def test_every_method_is_on_the_page() -> None:
    offered = {name for name in vars(connection.Connection) if not name.startswith("_")} - {"flush", "feed"}
    missing = [name for name in sorted(offered) if f"{name}(" not in PAGE]
    assert not missing, missing


def test_every_error_is_on_the_page() -> None:
    def family(kind: type) -> list[str]:
        return [kind.__name__, *(name for child in kind.__subclasses__() for name in family(child))]

    missing = [name for name in family(PierError) if name not in PAGE]
    assert not missing, missing
