"""From preset, file, environment and flags to one checked `Config`.

Later sources win, knob by knob. Every error names the knob and where its value came from, with the nearest
knob when a name is unknown. Nothing is opened here but the TOML file.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pier_node.config.addresses import AddressError, split_address
from pier_node.config.describe import ENVIRONMENT_PREFIX, field_types, knobs, sections
from pier_node.config.knobs import Config
from pier_node.config.presets import DEFAULT_PRESET, PRESETS
from pier_node.config.sources import SourceError, parse_source

#: A configuration file is a page; anything larger is the wrong file.
FILE_BYTES_MAX = 1 << 20
#: Members to join through; one live one is enough, so more only slow a hopeless start down.
JOIN_MAX = 64
_LISTS = ("node.join", "node.sources")


class ConfigError(ValueError):
    """A setting that cannot be used; the message names it and where it came from."""


def load(
    path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    preset: str | None = None,
) -> Config:
    """`flags` maps knob paths ("node.listen") to values; those that are None were not given."""
    environment = os.environ if environment is None else environment
    document = {} if path is None else _read(path)
    named = preset or environment.get("PIER_PRESET") or document.pop("preset", None) or DEFAULT_PRESET
    document.pop("preset", None)
    if named not in PRESETS:
        raise ConfigError(f"there is no preset {named!r}; the presets are {', '.join(PRESETS)}")
    tree = {section: _preset_values(named, section) for section in sections()}
    _merge_document(tree, document, str(path))
    _merge_environment(tree, environment)
    for knob_path, value in (flags or {}).items():
        if value is not None:
            section, _, name = knob_path.partition(".")
            tree[section][name] = value
    config = _convert(tree)
    check(config)
    return config


def _preset_values(preset: str, section: str) -> dict[str, Any]:
    values = PRESETS[preset].get(section)
    return (
        {} if values is None else {name: getattr(values, name) for name in field_types(sections()[section])}
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path} has more than {FILE_BYTES_MAX} bytes")
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _merge_document(tree: dict[str, dict[str, Any]], document: Mapping[str, Any], origin: str) -> None:
    known = {knob.path for knob in knobs()}
    for section, values in document.items():
        if section not in tree or not isinstance(values, dict):
            raise ConfigError(f"{origin}: there is no section [{section}]{_nearest(section, tree)}")
        for name, value in values.items():
            if f"{section}.{name}" not in known:
                names = [knob.name for knob in knobs() if knob.section == section]
                raise ConfigError(f"{origin}: [{section}] has no {name}{_nearest(name, names)}")
            tree[section][name] = value


def _merge_environment(tree: dict[str, dict[str, Any]], environment: Mapping[str, str]) -> None:
    variables = {knob.variable: knob for knob in knobs()}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == "PIER_PRESET":
            continue
        knob = variables.get(variable)
        if knob is None:
            # A variable of a section that exists is a slip; others may belong to other programs.
            if variable.split("_")[1].lower() in tree:
                raise ConfigError(f"{variable} sets nothing{_nearest(variable, variables)}")
            continue
        listed = knob.path in _LISTS
        tree[knob.section][knob.name] = [part for part in text.split(",") if part] if listed else text


def _convert(tree: dict[str, dict[str, Any]]) -> Config:
    parts: dict[str, Any] = {}
    for section, kind in sections().items():
        types = field_types(kind)
        values = {
            name: _value(f"{section}.{name}", value, types[name]) for name, value in tree[section].items()
        }
        try:
            parts[section] = kind(**values)
        except AssertionError as error:
            raise ConfigError(f"[{section}] contradicts itself: {error or 'see its bounds'}") from None
    return Config(**parts)


def _value(path: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path} = {value!r}: {str(error)[:1].lower()}{str(error)[1:]}") from None


def check(config: Config) -> None:
    """What no type says: addresses, sources, bounds."""
    _address("node.listen", config.node.listen)
    for name, text in (
        ("node.advertise", config.node.advertise),
        ("client.listen", config.client.listen),
        ("http.listen", config.http.listen),
    ):
        if text:
            _address(name, text)
    for text in config.node.join:
        _address("node.join", text)
    if len(config.node.join) > JOIN_MAX:
        raise ConfigError(f"node.join names {len(config.node.join)} members, {JOIN_MAX} are enough")
    for text in config.node.sources:
        try:
            parse_source(text)
        except SourceError as error:
            raise ConfigError(f"node.sources: {error}") from None
    for knob in knobs():
        value = getattr(getattr(config, knob.section), knob.name)
        if isinstance(value, int | float) and value < 0:
            raise ConfigError(f"{knob.path} = {value} is negative")
    if config.client.ping_after_s >= config.client.gone_after_s:
        raise ConfigError("client.ping_after_s must be below client.gone_after_s")


def _address(name: str, text: str) -> None:
    try:
        split_address(text)
    except AddressError as error:
        raise ConfigError(f"{name}: {error}") from None


def _nearest(name: str, choices: Any) -> str:
    close = difflib.get_close_matches(name, list(choices), 1)
    return f"; did you mean {close[0]}?" if close else ""
