"""The tokens a cluster gives to its clients, as a book that nodes can hold without being able to say any.

A token is a random word. The book keeps its SHA-256, which is enough to recognise it and no help to whoever
steals the file: with 192 random bits there is nothing to guess. Rotation keeps the word before valid until
it is retired, so that clients move over one at a time. Pure functions from book to book; files are the business
of `key_files`.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec

from pier_node.access.clients import Client, Role
from pier_node.protocol.messages import Limits, Name

TOKENS_MAX = 1_024
#: Words that open for one name: the one in use, and the one before during a rotation.
WORDS_MAX = 2
VERSION = 1


class TokenBookError(ValueError):
    """Not a book of tokens, or not a change it can take."""


class Token(msgspec.Struct, frozen=True):
    """One name and what it may do."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.@-]+$")]
    roles: tuple[Role, ...]
    digests: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=WORDS_MAX)]
    made_s: int
    namespaces: tuple[Name, ...] = ()
    expires_s: int | None = None
    limits: Limits = Limits()

    def client(self) -> Client:
        return Client(self.name, frozenset(self.roles), self.namespaces, self.limits)


class TokenBook(msgspec.Struct, frozen=True):
    version: int = VERSION
    tokens: Annotated[tuple[Token, ...], msgspec.Meta(max_length=TOKENS_MAX)] = ()

    def client_of(self, word: str, now_s: float) -> Client | None:
        """Whom a word belongs to; None when nobody, or no longer."""
        wanted = digest(word)
        for token in self.tokens:
            if wanted in token.digests and (token.expires_s is None or now_s < token.expires_s):
                return token.client()
        return None


def digest(word: str) -> str:
    return hashlib.sha256(b"pier token " + word.encode()).hexdigest()


def added(book: TokenBook, token: Token) -> TokenBook:
    if any(each.name == token.name for each in book.tokens):
        raise TokenBookError(f"there is a token {token.name} already; rotate it or revoke it first")
    if len(book.tokens) >= TOKENS_MAX:
        raise TokenBookError(f"there are {TOKENS_MAX} tokens already")
    return msgspec.structs.replace(book, tokens=(*book.tokens, token))


def rotated(book: TokenBook, name: str, word: str) -> TokenBook:
    """The name gets a new word; the one before still opens."""
    token = _find(book, name)
    digests = (digest(word), *token.digests)[:WORDS_MAX]
    return _replaced(book, name, msgspec.structs.replace(token, digests=digests))


def retired(book: TokenBook, name: str) -> TokenBook:
    """The word before the last rotation opens no more."""
    token = _find(book, name)
    return _replaced(book, name, msgspec.structs.replace(token, digests=token.digests[:1]))


def revoked(book: TokenBook, name: str) -> TokenBook:
    _find(book, name)
    return _replaced(book, name, None)


def to_text(book: TokenBook) -> str:
    return msgspec.json.format(msgspec.json.encode(book)).decode() + "\n"


def from_text(text: str) -> TokenBook:
    try:
        book = msgspec.json.decode(text, type=TokenBook)
    except msgspec.MsgspecError as error:
        raise TokenBookError(f"not a book of tokens: {error}") from None
    if book.version != VERSION:
        raise TokenBookError(f"version {book.version} of a book of tokens is not {VERSION}")
    return book


def _find(book: TokenBook, name: str) -> Token:
    for token in book.tokens:
        if token.name == name:
            return token
    known = ", ".join(token.name for token in book.tokens) or "none"
    raise TokenBookError(f"there is no token {name}; there are: {known}")


def _replaced(book: TokenBook, name: str, token: Token | None) -> TokenBook:
    changed = [token if each.name == name else each for each in book.tokens]
    return msgspec.structs.replace(book, tokens=tuple(each for each in changed if each is not None))
