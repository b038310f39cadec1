"""Configuration: where values come from, what is refused, and that the page describes what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.transport import config as transport
from pier_node.config import ConfigError, load
from pier_node.config.addresses import AddressError, is_loopback, join_address, split_address
from pier_node.config.describe import configuration_page, knobs
from pier_node.config.presets import PRESET_DOCS, PRESETS
from pier_node.config.sources import SourceError, parse_source

ROOT = Path(__file__).resolve().parents[3]


def test_later_sources_win_knob_by_knob(tmp_path: Path) -> None:
    file = tmp_path / "pier.toml"
    file.write_text(
        '[node]\nlisten = "127.0.0.1:1"\njoin = ["a:1"]\n[client]\nrequests_max = 5\nlisten = "127.0.0.1:3"\n'
    )
    config = load(
        file,
        environment={"PIER_NODE_JOIN": "b:2,c:3", "PIER_CLIENT_REQUESTS_MAX": "6", "PIER_OTHER": "x"},
        flags={"node.listen": "127.0.0.1:9", "node.advertise": None},
    )
    assert config.node.listen == "127.0.0.1:9"
    assert config.node.join == ("b:2", "c:3")
    assert config.client.requests_max == 6
    assert config.client.listen == "127.0.0.1:3"


def test_a_preset_is_the_ground_the_rest_stands_on(tmp_path: Path) -> None:
    file = tmp_path / "pier.toml"
    file.write_text('preset = "internet"\n[transport]\ntimeout_max_s = 7.5\n')
    config = load(file, {})
    assert config.transport.timeout_max_s == 7.5
    assert config.transport.timeouts_max == transport.WAN.timeouts_max
    assert load(file, {"PIER_PRESET": "local"}).transport.timeout_min_s == 0.03
    assert load(file, {}, preset="local").transport.timeout_min_s == 0.03


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_described_and_consistent(preset: str) -> None:
    assert preset in PRESET_DOCS
    load(None, {}, preset=preset)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[nod]\n", r"no section \[nod\]; did you mean node"),
        ('[node]\nlisen = "x"\n', r"\[node\] has no lisen; did you mean listen"),
        ('[node]\nlisten = "nowhere"\n', "node.listen: 'nowhere' has no port"),
        ('[node]\njoin = ["a:1:2"]\n', "brackets"),
        ('[client]\nrequests_max = "many"\n', "client.requests_max = 'many'"),
        ("[client]\nrequests_max = -1\n", "client.requests_max = -1 is negative"),
        ("[client]\nping_after_s = 99\n", "ping_after_s must be below"),
        ('[node]\nsources = ["fw=tape:/x"]\n', "there is no kind 'tape'"),
        ("[transport]\nack_delay_s = 9.0\n", r"\[transport\] contradicts itself"),
        ('preset = "moon"\n', "there is no preset 'moon'"),
        ("[node\n", "line 1"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "pier.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load(file, {})


def test_a_slip_in_the_environment_is_told() -> None:
    with pytest.raises(ConfigError, match="PIER_NODE_LISEN sets nothing; did you mean PIER_NODE_LISTEN"):
        load(None, {"PIER_NODE_LISEN": "x"})


def test_a_missing_file_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot read /nonexistent"):
        load(Path("/nonexistent"), {})


def test_every_knob_says_what_it_does() -> None:
    silent = [knob.path for knob in knobs() if not knob.doc]
    assert not silent, silent


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == configuration_page(), "run: ./run pier node --describe-config > docs/configuration.md"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", 7)),
        ("host", ("host", 7)),
    ],
)
def test_addresses(text: str, parsed: tuple[str, int]) -> None:
    assert split_address(text, 7) == parsed


@pytest.mark.parametrize("text", ["", ":80", "::1:80", "a:b", "a:65536", "a:-1", "a:²"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressError):
        split_address(text)


def test_joining_and_loopback() -> None:
    assert join_address("::1", 1) == "[::1]:1" and join_address("a", 1) == "a:1"
    assert is_loopback("127.8.0.1") and is_loopback("::1") and is_loopback("localhost")
    assert not is_loopback("0.0.0.0") and not is_loopback("example.net")


@pytest.mark.parametrize(
    "text", ["fw=firewall:/var/log/ufw.log", "r=csv:/a=b:c.csv", "r=sql:sqlite:///x.db#t", "a.b=parquet:x"]
)
def test_sources_print_as_they_were_read(text: str) -> None:
    assert str(parse_source(text)) == text


@pytest.mark.parametrize("text", ["fw", "fw=x", "fw=csv:", "1t=csv:x", "r=sql:sqlite:///x.db", "=csv:x"])
def test_what_is_no_source(text: str) -> None:
    with pytest.raises(SourceError):
        parse_source(text)
