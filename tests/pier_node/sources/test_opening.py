"""Specifications of sources to tables, or to words about what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pier_node.config.sources import parse_source
from pier_node.engine.tables import NodeTables
from pier_node.sources.log_scan import LogOptions
from pier_node.sources.opening import NodeSources, SourceOpenError, log_options
from query.engine.node import NODE_MESSAGES
from runtime.message import Codec
from runtime.sim import World, star


def opened(folder: Path, *specs: str) -> tuple[NodeTables, list[str]]:
    clock = World(seed=1, topology=star(0.01), codec=Codec(NODE_MESSAGES)).add_host().runtime
    tables = NodeTables()
    sources = NodeSources([parse_source(spec) for spec in specs], clock, folder / "positions", "here")
    return tables, sources.start(tables)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("t=csv:/no/such.csv", "t=csv:/no/such.csv: /no/such.csv: "),
        ("t=ndjson:/no/such.ndjson", "/no/such.ndjson"),
        ("t=parquet:/no/such.parquet", "/no/such.parquet"),
        ("t=sql:sqlite:///no/such.db#t", "there is no such file"),
        ("t=sql:postgresql://h/db#t", "adbc-driver-postgresql"),
        ("t=firewall:/", "Is a directory"),
        ("t=firewall:/x#dialect=latin", "there is no dialect 'latin'"),
        ("t=firewall:/x#tz=Mars/Olympus", "no time zone"),
        ("t=firewall:/x#colour=red", "there is no option 'colour'"),
        ("t=firewall:/x#history=maybe", "history is yes or no"),
    ],
)
def test_what_cannot_be_opened_is_named(spec: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SourceOpenError) as caught:
        opened(tmp_path, spec)
    assert str(caught.value).startswith(spec.partition("#")[0]) and words in str(caught.value)


def test_a_log_may_come_later_and_has_a_table_of_unparsed_lines(tmp_path: Path) -> None:
    tables, warnings = opened(tmp_path, f"fw=firewall:{tmp_path}/fw.log")
    assert tables.names() == ["fw", "fw.unparsed"]
    assert warnings == [f"fw=firewall:{tmp_path}/fw.log: there is no such file yet"]


def test_a_table_has_one_source(tmp_path: Path) -> None:
    with pytest.raises(SourceOpenError, match="there is a source 'fw' already"):
        opened(tmp_path, "fw=firewall:/a", "fw=firewall:/b")


def test_options_of_a_log() -> None:
    spec = parse_source("fw=firewall:/var/log/x#dialect=ufw&tz=Europe/Berlin&history=yes")
    assert (spec.path, log_options(spec, "here")) == (
        "/var/log/x",
        LogOptions("ufw", "Europe/Berlin", "here", True),
    )
    assert parse_source("fw=firewall:/odd#name.log").path == "/odd#name.log"
    assert str(spec) == "fw=firewall:/var/log/x#dialect=ufw&tz=Europe/Berlin&history=yes"
