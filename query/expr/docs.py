"""`docs/functions.md`, printed from the registry: `python -m query.expr.docs` rewrites the file."""

from __future__ import annotations

from query.expr.registry import FunctionSpec, functions

FAMILIES = {
    "arithmetic": "Arithmetic",
    "comparison": "Comparison",
    "logic": "Logic, NULL, conditions and casts",
    "text": "Text",
    "pattern": "Searching in text",
    "time": "Dates and times",
    "address": "IP addresses",
}

_INTRODUCTION = """\
# Functions

Expressions of UFL and SQL are made of columns (`$src`), literals with a type (`"10"::long`) and these
functions. Operators are functions too: `$a + $b` is `add($a, $b)`. This file is printed from the registry in
`query/expr`; do not edit it.

Results equal DuckDB's, which is the judge in the tests, under its settings `ieee_floating_point_ops = false`
and `error_on_division_by_zero = false`: division or remainder by zero is NULL, and the square root of a
negative number is an error rather than NaN. What differs, on purpose:

- Integers are computed in 64 bits whatever their type, decimals in up to 38 digits: fewer overflows. An overflow
  is an error, never a wrapped number.
- Text that is not a literal is never cast by itself: compare a text column with a number by `cast`.
- `reverse` and lengths count code points, not what a reader sees as one letter.
- `greatest` and `least` order intervals as `<` does.
- `strptime` takes no `epoch` or `infinity`; dates lie between the years 1 and 9999 when read from text.

A row for which a function has no result (an overflow, a text that is no number) is dropped and counted; the
other rows of its batch go on. `try(x)` gives NULL instead. Branches that a `case`, `coalesce`, `and` or `or` does
not need for a row cannot fail in that row. A batch that lacks a column or has another type is dropped whole.

## Types

| UFL | also (SQL) | values |
|---|---|---|
| `null` | | only NULL |
| `bool` | boolean, logical | `"true"::bool`, also t, yes, y, 1 |
| `byte` `short` `int` `long` | tinyint, smallint, integer, bigint; int8 ... int64 | 8, 16, 32, 64 bits |
| `uint8` `uint16` `uint32` `uint64` | utinyint, usmallint, uinteger, ubigint | the same, unsigned |
| `float` `double` | real, float4; float8, double precision | IEEE 754 |
| `decimal(p,s)` | numeric, dec | up to 38 digits (76 without arithmetic beyond); `decimal` is (18,3) |
| `hugeint` | | decimal(38,0) |
| `string` | varchar, text, char | UTF-8 |
| `binary` | blob, bytea, varbinary | `"\\xAA"::binary` |
| `date` | | `"2020-01-31"::date` |
| `time` | | `"12:34:56.5"::time` |
| `timestamp` | datetime | microseconds, no zone |
| `timestamptz` | timestamp with time zone | microseconds, UTC |
| `interval` | | `"1 month 2 days 03:00:00"::interval` |
| `duration` | | a time span as Arrow has it; becomes an interval in expressions |
| `long[]` | any type with [] | lists; structs are carried too |

Names are read without regard to case. IP addresses are strings.
"""


def markdown() -> str:
    """The whole document."""
    parts = [_INTRODUCTION]
    known = sorted(functions(), key=lambda f: f.name)
    for family, title in FAMILIES.items():
        rows = [_row(f) for f in known if f.family == family]
        parts.append(f"\n## {title}\n\n| function | also | |\n|---|---|---|\n" + "".join(rows))
    return "".join(parts)


def _row(spec: FunctionSpec) -> str:
    also = ", ".join(f"`{_escaped(a)}`" for a in spec.aliases)
    return f"| `{_escaped(spec.name + spec.signature)}` | {also} | {_escaped(spec.doc)} |\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    from pathlib import Path

    import query.expr  # noqa: F401  (loads the registry)

    Path("docs/functions.md").write_text(markdown(), encoding="utf-8")
