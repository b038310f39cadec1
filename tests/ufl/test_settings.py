"""Flat, array and hash-table settings: Appendix A's index rules."""

from __future__ import annotations

import pytest

import ufl
from query.plan import ITEMS_MAX, Array, Setting, Table


def read(body: str) -> dict[str, Setting]:
    return ufl.parse(f"%opgraph(g) {{\n{body}\n}}").opgraphs[0].settings


def error(body: str) -> ufl.UflError:
    with pytest.raises(ufl.UflError) as caught:
        read(body)
    return caught.value


def test_the_array_of_the_appendix() -> None:
    settings = read(
        "RenameList[0] = Column1\nRenameList[40] = Column2\nRenameList[2] = Column3\nRenameList[] = Column4"
    )
    expected: list[str | None] = [None] * 42
    expected[0], expected[40], expected[2], expected[41] = "Column1", "Column2", "Column3", "Column4"
    assert settings == {"RenameList": Array(tuple(expected))}


def test_the_hash_table_of_the_appendix() -> None:
    settings = read("Options[FE] = 100\nOptions[FW] = 20\nOptions[FC] = 32")
    assert settings == {"Options": Table({"FE": "100", "FW": "20", "FC": "32"})}


def test_elements_without_index_follow_all_others_in_the_order_listed() -> None:
    assert read("a[] = y a[0] = x a[] = z") == {"a": Array(("x", "y", "z"))}


def test_first_use_without_index_makes_an_array() -> None:
    assert read("a[] = x") == {"a": Array(("x",))}


def test_star_forces_a_hash_table_and_leaves_no_entry() -> None:
    assert read("a[*] = anything a[0] = x a[-1] = y") == {"a": Table({"0": "x", "-1": "y"})}
    assert read("a[*] = anything") == {"a": Table({})}


def test_star_may_repeat_in_a_hash_table() -> None:
    assert read("a[k] = x a[*] = dummy") == {"a": Table({"k": "x"})}


def test_numbers_are_keys_in_what_is_already_a_hash_table() -> None:
    assert read("a[k] = x a[7] = y") == {"a": Table({"k": "x", "7": "y"})}


def test_a_quoted_index_is_a_key() -> None:
    assert read('a["0"] = x a["*"] = y a["odd key"] = z') == {
        "a": Table({"0": "x", "*": "y", "odd key": "z"})
    }


def test_empty_array() -> None:
    assert read("a = []") == {"a": Array(())}


def test_keys_keep_their_order_and_case() -> None:
    assert list(read("Zeta = 1 alpha = 2 ALPHA = 3")) == ["Zeta", "alpha", "ALPHA"]


@pytest.mark.parametrize(
    ("body", "line", "column", "message"),
    [
        ("a = 1\na[0] = 2", 3, 1, "'a' is a single value since line 2"),
        ("a[0] = 1\na = 2", 3, 1, "'a' is an array since line 2"),
        ("a[k] = 1\na = 2", 3, 1, "'a' is a hash table since line 2"),
        ("a[0] = 1\na[k] = 2", 3, 3, "'a' is an array since line 2"),
        ("a[0] = 1\na[*] = 2", 3, 3, "'a' is an array since line 2"),
        ('a[0] = 1\na["1"] = 2', 3, 3, "'a' is an array since line 2"),
        ("a[k] = 1\na[] = 2", 3, 3, "entries need keys"),
        ("a = []\na[0] = 2", 3, 1, "'a' is an empty array since line 2"),
        ("a = []\na = []", 3, 1, "'a' is an empty array since line 2"),
        ("a = 1\na = 1", 3, 1, "'a' is given twice, first on line 2"),
        ("a[1] = 1\na[01] = 1", 3, 3, "'a[1]' is given twice, first on line 2"),
        ("a[k] = 1\na[k] = 1", 3, 3, "'a[k]' is given twice, first on line 2"),
        ("a[-1] = x", 2, 3, "array positions start at zero"),
        (f"a[{ITEMS_MAX}] = x", 2, 3, "array positions end at 65535 (ITEMS_MAX)"),
        ("a[" + "9" * 10_000 + "] = x", 2, 3, "array positions end at 65535"),
        (f"a[{ITEMS_MAX - 1}] = x a[] = y", 2, 1, "grows beyond 65536 elements (ITEMS_MAX)"),
        ("a[65535] = x\nb[65535] = x", 3, 1, "arrays leave out more than 65536 positions (HOLES_MAX)"),
        ('"" = x', 2, 1, "a setting has a key"),
        ('"\\qi" = x', 2, 1, "query expansions stand in values"),
        ('a["\\qi"] = x', 2, 12, "query expansions stand in values"),
    ],
)
def test_inconsistent_settings(body: str, line: int, column: int, message: str) -> None:
    caught = error(body)
    assert (caught.line, caught.column) == (line, column)
    assert message in caught.message


def test_leading_zeros_are_the_same_position() -> None:
    assert read("a[007] = x a[0] = y") == {"a": Array(("y", *[None] * 6, "x"))}


def test_the_hint_names_the_way_out() -> None:
    assert (
        error("a[0] = 1\na[k] = 2").hint
        == 'for a hash table with numbers among its keys, start with a[*] = ""'
    )
