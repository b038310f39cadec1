"""Settings of an operator, declared once: checked at the proxy before a query spreads, read by the operator,
and printed in the documentation.

An operator class lists its `Option`s; `read` turns the texts of a plan into values or raises `SettingError`
with a hint. Unknown settings are errors: a misspelt one must not be ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from query import plan
from query.plan_hints import did_you_mean, quoted

#: Namespaces, channels and indexes, in characters: what messages between nodes take.
NAME_CHARS_MAX = 256

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


class SettingError(ValueError):
    """A setting the query author got wrong."""

    def __init__(self, setting: str, message: str, hint: str = "") -> None:
        self.setting = setting
        self.message = message
        self.hint = hint
        super().__init__(f"setting {quoted(setting)}: {message}" + (f" ({hint})" if hint else ""))


@dataclass(frozen=True, slots=True)
class Option:
    """One setting of an operator.

    `kind` is text, integer, number, flag, choice, expression, texts (an array), expressions (an array),
    text table or expression table (hash tables)."""

    name: str
    kind: str
    doc: str
    default: Any = None
    required: bool = False
    choices: Sequence[str] = ()
    #: Of a number; of a text, `most` is how many characters it may have.
    least: float | None = None
    most: float | None = None


def read(options: Sequence[Option], settings: Mapping[str, plan.Setting]) -> dict[str, Any]:
    """The values of all options by name; defaults where a setting is absent."""
    known = {option.name.lower(): option for option in options}
    given: dict[str, plan.Setting] = {}
    for name, setting in settings.items():
        if name.lower() not in known:
            names = [option.name for option in options]
            listed = "it takes " + ", ".join(names) if names else "it takes no settings"
            raise SettingError(name, "this operator has no such setting", did_you_mean(name, names, listed))
        if name.lower() in given:
            raise SettingError(name, "is given twice", "capitals make no difference in the names of settings")
        given[name.lower()] = setting
    values = {}
    for key, option in known.items():
        if key in given:
            values[option.name] = _value(option, given[key])
        elif option.required:
            raise SettingError(option.name, "is required", option.doc)
        else:
            values[option.name] = option.default
    return values


def normalised(options: Sequence[Option], settings: Mapping[str, plan.Setting]) -> dict[str, plan.Setting]:
    """The same settings under the names of their options, texts as plain text, choices in the options' spelling: who
    reads a plan then sees what its operators will see. The settings are right, as `read` has found."""
    known = {option.name.lower(): option for option in options}
    written: dict[str, plan.Setting] = {}
    for name, setting in settings.items():
        option = known[name.lower()]
        written[option.name] = _value(option, setting) if option.kind in ("text", "choice") else setting
    return written


def _value(option: Option, setting: plan.Setting) -> Any:
    kind = option.kind
    if kind in ("texts", "expressions"):
        if isinstance(setting, plan.Table):
            raise SettingError(
                option.name, "is an array, not a hash table", f"write {option.name}[0] = value"
            )
        items = setting.items if isinstance(setting, plan.Array) else (setting,)
        return [_item(option, kind[:-1], item) for item in items]
    if kind in ("text table", "expression table"):
        if not isinstance(setting, plan.Table):
            raise SettingError(option.name, "is a hash table", f"write {option.name}[name] = value")
        return {name: _item(option, kind.split()[0], item) for name, item in setting.items.items()}
    if isinstance(setting, plan.Array | plan.Table):
        raise SettingError(option.name, "takes one value, not several")
    return _item(option, kind, setting)


def _item(option: Option, kind: str, item: plan.Setting | None) -> Any:
    if item is None or isinstance(item, plan.Array | plan.Table):
        raise SettingError(option.name, "has a position without a value")
    if kind == "expression":
        # A bare word where an expression is wanted is a column: `columns[0] = src`.
        return plan.Field(item) if isinstance(item, str) else item
    if isinstance(item, plan.Constant):
        item = item.text
    if not isinstance(item, str):
        raise SettingError(option.name, "takes plain text, not an expression")
    return _SCALARS[kind](option, item)


def _text(option: Option, text: str) -> str:
    if option.most is not None and len(text) > option.most:
        raise SettingError(option.name, f"has {len(text)} characters, more than {option.most:g}")
    return text


def _choice(option: Option, text: str) -> str:
    for choice in option.choices:
        if choice.lower() == text.lower():
            return choice
    raise SettingError(
        option.name,
        f"{quoted(text)} is not one of {', '.join(option.choices)}",
        did_you_mean(text, option.choices),
    )


def _flag(option: Option, text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise SettingError(option.name, f"{quoted(text)} is neither true nor false")


def _integer(option: Option, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise SettingError(option.name, f"{quoted(text)} is not a whole number") from None
    _in_range(option, value)
    return value


def _number(option: Option, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SettingError(option.name, f"{quoted(text)} is not a number") from None
    _in_range(option, value)
    return value


def _in_range(option: Option, value: float) -> None:
    if option.least is not None and not value >= option.least:
        raise SettingError(option.name, f"{value:g} is below {option.least:g}")
    if option.most is not None and not value <= option.most:
        raise SettingError(option.name, f"{value:g} is above {option.most:g}")


_SCALARS = {
    "text": _text,
    "choice": _choice,
    "flag": _flag,
    "integer": _integer,
    "number": _number,
}
