"""The keyring: text and back, rotation in two steps, no secrets in what is printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.transport.keyring import KEYS_MAX, KeyringError, from_text, new, retire, rotate, rows, to_text


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=20, unique=True))
def test_any_number_of_rotations_keeps_a_ring_that_reads_back(secrets: list[bytes]) -> None:
    ring = new(secrets[0], 1)
    for made_s, secret in enumerate(secrets[1:], 2):
        first = ring.first
        staged = rotate(ring, secret, made_s)
        assert staged.first == first, "staging changes nothing for those who seal"
        assert staged.staged is not None and staged.staged.secret == secret
        ring = rotate(staged, b"", made_s)
        assert ring.first.secret == secret and ring.staged is None
        assert first in ring.keys, "what was sealed before still opens"
    assert len(ring.keys) <= KEYS_MAX
    assert from_text(to_text(ring)) == ring
    assert retire(ring).keys == (ring.first,)


def test_rows_tell_roles_and_nothing_secret() -> None:
    ring = rotate(rotate(rotate(new(b"1" * 32, 1), b"2" * 32, 2), b"", 2), b"3" * 32, 3)
    listed = rows(ring)
    assert [row.role for row in listed] == ["seals", "staged", "opens"]
    secrets = [key.secret.hex() for key in ring.keys]
    assert not any(secret in repr(listed) + repr(ring) for secret in secrets)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "keys": []}',
        '{"version": 1, "keys": []}',
        '{"version": 1, "keys": [{"key": "00", "made_s": 1}]}',
        '{"version": 1, "keys": [{"key": "zz", "made_s": 1}]}',
        '{"version": 1, "keys": [' + ", ".join(['{"key": "' + "00" * 32 + '", "made_s": 1}'] * 2) + "]}",
        "[" * 10_000,
        " " * 100_000,
    ],
)
def test_what_is_no_keyring_is_refused_in_words(text: str) -> None:
    with pytest.raises(KeyringError):
        from_text(text)
