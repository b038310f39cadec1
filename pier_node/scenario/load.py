"""Scenario files and the latency files they name, read from disk."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pier_node.scenario.form import MatrixForm, Scenario
from pier_node.scenario.parse import ScenarioError, parse_scenario

#: A scenario is a page of text; a latency matrix of a few thousand sites tens of megabytes.
SCENARIO_BYTES_MAX = 1 << 20
LATENCIES_BYTES_MAX = 512 << 20


def load_scenario(path: Path) -> tuple[Scenario, str | None]:
    """The scenario, and the text of the latency file it names, if any."""
    scenario = parse_scenario(_read(path, SCENARIO_BYTES_MAX))
    if not isinstance(scenario.topology, MatrixForm):
        return scenario, None
    try:
        return scenario, read_latencies(path.parent / scenario.topology.file)
    except ScenarioError as error:
        raise ScenarioError(f"topology.file: {error}") from None


def read_latencies(path: Path) -> str:
    return _read(path, LATENCIES_BYTES_MAX)


def with_latencies(scenario: Scenario, path: Path) -> tuple[Scenario, str]:
    """The scenario on a measured matrix in place of its own topology."""
    form = MatrixForm(file=str(path))
    return msgspec.structs.replace(scenario, topology=form), read_latencies(path)


def _read(path: Path, bytes_max: int) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
        if len(data) > bytes_max:
            raise ScenarioError(f"{path}: larger than {bytes_max} bytes")
        return data.decode()
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror or error}") from None
