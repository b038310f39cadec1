"""Characters to tokens, one at a time: the parser asks for the next token when it needs it.

One compiled pattern finds every token, so lexing is linear and nothing is kept. Appendix A has words
(TextString), quoted strings and marks; `#` to the end of the line is a comment, which is ours: Appendix A
gives `#` no other meaning.
"""

from __future__ import annotations

import re

from query.plan import TEXT_CHARS_MAX
from query.plan_hints import quoted
from ufl.errors import Source, UflError
from ufl.limits import TEXT_BYTES_MAX, Budget
from ufl.literals import decode

WORD, STRING, MARK, COMPARE, BAD, END = range(1, 7)

_TOKEN = re.compile(
    r"""(?:[ \t\r\n\f]++|\#[^\n]*+)*+
    (?: ([A-Za-z0-9.*\-_/]++)
      | ("[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (::|[%(){}\[\]$,])
      | ([!<>]=|[=<>])
      | (.)
      | (\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_QUOTE_LIKE = "'`´‘’“”„«»"


class Lexer:
    """The current token, in `kind`, `text` and `start`, and the way to the next."""

    __slots__ = ("_matches", "budget", "kind", "long_string_start", "source", "start", "text")

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.budget = Budget(self.source)
        require_short(self.source.text)
        #: Where the last string of several lines began: the likely home of a missing quote.
        self.long_string_start = -1
        self._matches = _TOKEN.finditer(text, 1 if text.startswith("\ufeff") else 0)
        self.advance()

    def advance(self) -> None:
        """Go to the next token; never called at the end."""
        match = next(self._matches)
        kind = match.lastindex or END
        self.kind, self.text, self.start = kind, match[kind], match.start(kind)
        if kind == BAD:
            raise self._bad_character()
        if kind == STRING and "\n" in self.text:
            self.long_string_start = self.start

    def at_mark(self, mark: str) -> bool:
        return self.kind == MARK and self.text == mark

    def take_mark(self, mark: str) -> bool:
        """Step over the mark if it is next."""
        if self.kind == MARK and self.text == mark:
            self.advance()
            return True
        return False

    def expect_mark(self, mark: str, where: str) -> None:
        if not self.take_mark(mark):
            raise self.unexpected(f"'{mark}' {where}")

    def take_text(self, what: str) -> str:
        """Step over a word or a quoted string and return its text."""
        kind, text, start = self.kind, self.text, self.start
        if kind == STRING:
            text = decode(text[1:-1], start + 1, self.source, self.budget)
        elif kind != WORD:
            raise self.unexpected(what)
        if len(text) > TEXT_CHARS_MAX:
            message = f"a text is longer than {TEXT_CHARS_MAX} characters (TEXT_CHARS_MAX)"
            raise self.source.error(message, start, start + 1)
        self.advance()
        return text

    def unexpected(self, wanted: str, hint: str = "") -> UflError:
        """The error for a token that is not what the grammar wants here."""
        found = "the end of the text" if self.kind == END else quoted(self.text)
        hint = self._missing_quote_hint() or hint
        return self.source.error(f"expected {wanted}, found {found}", self.start, hint=hint)

    def _missing_quote_hint(self) -> str:
        if self.long_string_start < 0:
            return ""
        line = self.source.line(self.long_string_start)
        return f"the text in quotes that starts on line {line} spans lines: is a closing quote missing?"

    def _bad_character(self) -> UflError:
        if self.text == '"':
            hint = self._missing_quote_hint()
            return self.source.error("this quote is never closed", self.start, self.start + 1, hint)
        if self.text in _QUOTE_LIKE:
            hint = 'texts are quoted with "'
        elif self.text == ":":
            hint = 'a cast is written "10"::long; a text with a colon needs quotes'
        else:
            hint = "outside quotes, texts hold only letters, digits and . * - _ /"
        hint = self._missing_quote_hint() or hint
        return self.source.error(f"unexpected character {quoted(self.text)}", self.start, hint=hint)


def require_short(text: str) -> None:
    """Raises UflError for a text that is too long to be looked at, or no text."""
    source = Source(text)
    size_bytes = len(text)
    if size_bytes <= TEXT_BYTES_MAX and not text.isascii():
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError as error:
            raise source.error("the text is not valid Unicode", error.start) from None
    if size_bytes > TEXT_BYTES_MAX:
        raise source.error(f"the query text is larger than {TEXT_BYTES_MAX} bytes (TEXT_BYTES_MAX)", 0, 1)
