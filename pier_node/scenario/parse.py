"""TOML text in, a checked `Scenario` out; every complaint names the key."""

from __future__ import annotations

import re
import tomllib
from typing import Any, TypeVar

import msgspec

from pier_node.scenario.form import Scenario

T = TypeVar("T")


class ScenarioError(ValueError):
    """The scenario's author made a mistake; the text names the key."""


def parse_scenario(text: str) -> Scenario:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"not TOML: {error}") from None
    scenario = convert(table, Scenario, "")
    if scenario.arrival_s >= scenario.duration_s:
        raise ScenarioError("arrival_s: must be less than duration_s")
    return scenario


def convert(table: Any, form: type[T], key: str) -> T:
    """`key` is where `table` stands in the file, such as "workload"."""
    try:
        return msgspec.convert(table, form, strict=True)
    except msgspec.ValidationError as error:
        raise ScenarioError(_name_key(str(error), key)) from None


def split_kind(table: dict[str, Any], key: str) -> tuple[str, dict[str, Any]]:
    """The `kind` of a table, and the rest of it."""
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise ScenarioError(f"{key}.kind: must name the kind of {key}")
    return kind, {name: value for name, value in table.items() if name != "kind"}


def _name_key(complaint: str, key: str) -> str:
    """msgspec's "... - at `$.faults[0].rate`" becomes "faults[0].rate: ...", and so does a field it names."""
    text, _, path = complaint.partition(" - at `$")
    place = (key + path.rstrip("`")).lstrip(".")
    named = re.search(r"(?:unknown|required) field `([^`]*)`", text)
    if named is not None:
        place = f"{place}.{named[1]}".lstrip(".")
    return f"{place}: {text}" if place else text
