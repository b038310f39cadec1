"""Reads the knobs' descriptions out of the source: the `#:` lines above each field.

So a knob is written once, as a field with a comment, and `docs/configuration.md`, `--check-config` and error
messages all say the same. A field without lines of its own shares those above the field before it.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec

from pier_node.config.knobs import SECTION_DOCS, Config
from pier_node.config.presets import PRESET_DOCS, PRESETS

ENVIRONMENT_PREFIX = "PIER_"


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting."""

    section: str
    name: str
    type: str
    default: Any
    doc: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"{ENVIRONMENT_PREFIX}{self.section}_{self.name}".upper()


@cache
def sections() -> dict[str, type]:
    """The sections of the configuration and their classes."""
    hints = typing.get_type_hints(Config)
    return {section.name: hints[section.name] for section in dataclasses.fields(Config)}


@cache
def field_types(kind: type) -> dict[str, Any]:
    """The fields of a section and their types, whether it is a dataclass or a struct."""
    hints = typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        return {part.name: hints[part.name] for part in dataclasses.fields(kind)}
    return {name: hints[name] for name in kind.__struct_fields__}  # type: ignore[attr-defined]


@cache
def knobs() -> tuple[Knob, ...]:
    return tuple(knob for section, kind in sections().items() for knob in _section_knobs(section, kind))


def _section_knobs(section: str, kind: type) -> Iterator[Knob]:
    comments = _comments(kind)
    defaults = kind()
    for name, hint in field_types(kind).items():
        default = msgspec.to_builtins(getattr(defaults, name))
        yield Knob(section, name, _type_name(hint), default, comments.get(name, ""))


def _comments(kind: type) -> dict[str, str]:
    """The `#:` lines above each field of a class."""
    found: dict[str, str] = {}
    lines: list[str] = []
    last = ""
    for raw in inspect.getsource(kind).splitlines():
        line = raw.strip()
        if line.startswith("#:"):
            lines.append(line[2:].strip())
            continue
        name, colon, _ = line.partition(":")
        if colon and name.isidentifier() and raw.startswith("    ") and not raw.startswith("     "):
            last = found[name] = " ".join(lines) or last
        if not line:
            last = ""
        lines = []
    return found


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " or ".join(f"`{choice}`" for choice in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "list of texts"
    return {"str": "text", "int": "integer", "float": "number", "bool": "true or false"}[hint.__name__]


def configuration_page() -> str:
    """The text of docs/configuration.md."""
    parts = [_HEAD]
    parts += [f"- `{name}`: {text}\n" for name, text in PRESET_DOCS.items()]
    for section, kind in sections().items():
        doc = SECTION_DOCS.get(section) or (kind.__doc__ or "").split("\n\n")[0]
        parts.append(
            f"\n## [{section}]\n\n{doc}\n\n| knob | type | default | what it does |\n|---|---|---|---|\n"
        )
        parts += [_row(knob) for knob in knobs() if knob.section == section]
    parts.append(_presets_table())
    return "".join(parts)


def _row(knob: Knob) -> str:
    return f"| `{knob.name}` | {knob.type} | {_value(knob.default)} | {knob.doc} |\n"


def _value(value: Any) -> str:
    if value in ("", [], ()):
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:,}`" if isinstance(value, int) and value >= 10_000 else f"`{value}`"


def _presets_table() -> str:
    text = (
        "\n## What the presets set\n\n| knob | "
        + " | ".join(PRESETS)
        + " |\n|---"
        + "|---" * len(PRESETS)
        + "|\n"
    )
    for knob in knobs():
        values = [getattr(PRESETS[preset].get(knob.section), knob.name, knob.default) for preset in PRESETS]
        if any(value != knob.default for value in values):
            text += f"| `{knob.path}` | " + " | ".join(map(_value, values)) + " |\n"
    return text


_HEAD = """# Configuration

Made from the code by `pier node --describe-config`; a test keeps it up to date.

A node reads its settings from a preset, then a TOML file (`pier node --config FILE`), then the environment,
then flags; the last one wins. In the file a knob stands under its section:

```toml
preset = "datacentre"

[node]
listen = "0.0.0.0:7700"
advertise = "db1.example.net:7700"
join = ["seed1.example.net:7700", "seed2.example.net:7700"]
sources = ["fw=firewall:/var/log/ufw.log"]

[security]
keys_dir = "/etc/pier/keys"
```

In the environment it is `PIER_<SECTION>_<KNOB>`, lists separated by commas: `PIER_NODE_JOIN=a:7700,b:7700`.
`pier node --check-config` checks all of it, prints what would be used, and exits.

Presets (`preset = …`, `PIER_PRESET`, `--preset`):

"""
