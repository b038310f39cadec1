r"""Quoted text and back: the escapes of Appendix A.

The lexer hands over the raw characters between quotes and gets the text; the printer hands over a text
and gets it as it must be written. Both agree: `decode(encode(text)) == text`.

`\qt` and `\qi` stand for the time and the id of the query. Neither is known until the query is
submitted, so in a plan each is one reserved character, a Unicode noncharacter that no text may hold
otherwise; `ufl.expand` replaces them.
"""

from __future__ import annotations

import re

from query.plan import QUERY_ID, QUERY_TIME
from ufl.errors import Source
from ufl.limits import Budget

EXPANSION_CHARS = {"qt": QUERY_TIME, "qi": QUERY_ID}
_ESCAPES_OF_RESERVED = {QUERY_TIME: r"\qt", QUERY_ID: r"\qi"}

_TEXT_STRING = re.compile(r"[A-Za-z0-9.*\-_/]+")
#: The `$` that may end an escape belongs to it, so a `$` of the text after an escape is written twice.
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(q[ti])|([\\\"])|(.|\Z))\$?", re.DOTALL)
_RESERVED = re.compile(f"[{QUERY_TIME}{QUERY_ID}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FAMILIAR = {"n": "000A", "t": "0009", "r": "000D", "0": "0000", "b": "0008", "f": "000C", "'": "0027"}


def is_text_string(text: str) -> bool:
    """Whether the text may be written without quotes."""
    return _TEXT_STRING.fullmatch(text) is not None


def decode(raw: str, offset: int, source: Source, budget: Budget) -> str:
    """The text that the characters between two quotes stand for; `offset` is where they start."""
    if not raw.isascii() and (reserved := _RESERVED.search(raw)):
        at = offset + reserved.start()
        raise source.error("a reserved character (U+FDD0 or U+FDD1)", at, hint=r"write \qt or \qi")
    if "\\" not in raw:
        return raw
    text = _ESCAPE.sub(lambda match: _unescape(match, offset, source, budget), raw)
    if text.isascii() or not _SURROGATE.search(text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        message = r"half of a surrogate pair: \uD800 to \uDFFF come in twos"
        hint = r"write characters above \uFFFF as they are, or as a pair such as \uD83D\uDE00"
        raise source.error(message, offset - 1, hint=hint) from None


def _unescape(match: re.Match[str], offset: int, source: Source, budget: Budget) -> str:
    code, expansion, plain, bad = match.groups()
    if code is not None:
        char = chr(int(code, 16))
        if char in _ESCAPES_OF_RESERVED:
            at = offset + match.start()
            hint = f"write {_ESCAPES_OF_RESERVED[char]}"
            raise source.error(f"\\u{code} is reserved", at, at + 6, hint)
        return char
    if expansion is not None:
        budget.spend_expansion(offset + match.start())
        return EXPANSION_CHARS[expansion]
    if plain is not None:
        return str(plain)
    raise _bad_escape(bad, offset + match.start(), source)


def _bad_escape(char: str, at: int, source: Source) -> Exception:
    if char == "u":
        return source.error(r"\u needs four hexadecimal digits", at, at + 2, r"for example \u00E9")
    if char in _FAMILIAR:
        hint = rf"write \u{_FAMILIAR[char]}" + (
            ", or break the line inside the quotes" if char == "n" else ""
        )
    else:
        hint = r"the escapes are \\ \" \uXXXX \qt \qi; a backslash itself is \\"
    shown = char if char.isprintable() else "…"
    return source.error(f"there is no escape \\{shown}", at, at + 2, hint)


_TO_ESCAPE = re.compile(r"([^ !#-\[\]-~])(\$?)")


def encode(text: str) -> str:
    """The text in quotes, with an escape for all that is not plainly visible."""
    return '"' + _TO_ESCAPE.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char, dollar = match.groups()
    if char in _ESCAPES_OF_RESERVED:
        escape = _ESCAPES_OF_RESERVED[char]
    elif char in '"\\':
        escape = "\\" + char
    elif char.isprintable():
        return str(match[0])
    elif char <= "\uffff":
        escape = f"\\u{ord(char):04X}"
    else:
        high, low = divmod(ord(char) - 0x10000, 0x400)
        escape = f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"
    return escape + dollar * 2
