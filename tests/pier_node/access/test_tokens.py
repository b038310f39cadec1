"""The book of tokens: words open for their names, for as long as they are meant to."""

from __future__ import annotations

import pytest

from pier_node.access import tokens
from pier_node.access.clients import Client
from pier_node.access.tokens import Token, TokenBook, TokenBookError, digest, from_text, to_text
from pier_node.protocol.messages import Limits
from tests.pier_node.worlds import book

ONE = book("first", "ask", "publish", namespaces=("fw", "sensors.*"), limits=Limits(time_s=5.0))


def test_a_book_survives_its_file_and_holds_no_word() -> None:
    text = to_text(ONE)
    assert from_text(text) == ONE
    assert "first" not in text


@pytest.mark.parametrize("text", ["", "{}x", '{"version": 9}', '{"tokens": [{"name": "a b"}]}', "[]"])
def test_what_is_no_book(text: str) -> None:
    with pytest.raises(TokenBookError):
        from_text(text)


def test_a_rotation_leaves_nobody_out() -> None:
    during = tokens.rotated(ONE, "someone", "second")
    assert during.client_of("first", 0) == during.client_of("second", 0) == ONE.tokens[0].client()
    after = tokens.retired(during, "someone")
    assert after.client_of("first", 0) is None and after.client_of("second", 0) is not None
    assert tokens.revoked(after, "someone").client_of("second", 0) is None


def test_the_second_rotation_drops_the_oldest_word() -> None:
    twice = tokens.rotated(tokens.rotated(ONE, "someone", "second"), "someone", "third")
    assert [twice.client_of(word, 0) is None for word in ("first", "second", "third")] == [True, False, False]


def test_a_token_ends_when_it_should() -> None:
    short = book("w", "ask", expires_s=100)
    assert short.client_of("w", 99.9) is not None
    assert short.client_of("w", 100.0) is None


def test_names_are_used_once_and_missing_ones_are_named() -> None:
    with pytest.raises(TokenBookError, match="already"):
        tokens.added(ONE, Token("someone", ("ask",), (digest("x"),), 0))
    with pytest.raises(TokenBookError, match="there are: someone"):
        tokens.revoked(ONE, "nobody")
    assert TokenBook().client_of("", 0) is None


@pytest.mark.parametrize(
    ("namespace", "allowed"),
    [("fw", True), ("sensors.cellar", True), ("sensors", False), ("fw2", False), ("pier.tables", False)],
)
def test_where_a_publisher_may_write(namespace: str, allowed: bool) -> None:
    assert ONE.tokens[0].client().publishes_into(namespace) is allowed


def test_the_systems_own_namespaces_are_not_for_publishers() -> None:
    everywhere = Client("x", frozenset({"publish"}), ("*",))
    assert everywhere.publishes_into("anything") and not everywhere.publishes_into("pier.tables")
    assert not Client("x", frozenset({"ask"}), ("*",)).publishes_into("anything")
    assert Client("x", frozenset({"administer"})).publishes_into("pier.tables")
