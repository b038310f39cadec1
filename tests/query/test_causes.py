"""Causes: numbers that never change hands, names that clients are told, a page that lists them."""

from __future__ import annotations

from pathlib import Path

from query.causes import Cause, added, cause_of, loses_rows

PAGE = Path(__file__).parents[2] / "docs" / "accounts.md"


def test_numbers_are_given_once() -> None:
    assert len({cause.number for cause in Cause}) == len(Cause)
    assert all(cause_of(cause.number) is cause for cause in Cause)


def test_a_cause_of_a_newer_version_loses_rows_and_is_counted_as_unknown() -> None:
    assert cause_of(60_000) is Cause.UNKNOWN
    assert added({60_000: 2}, {60_001: 3}) == {Cause.UNKNOWN.number: 5}
    assert loses_rows({60_000: 1})
    assert not loses_rows({60_000: 0, Cause.UNFIT.number: 3})


def test_the_page_lists_them_all() -> None:
    page = PAGE.read_text()
    for cause in Cause:
        loses = "yes" if cause.loses_rows else "no"
        assert f"| `{cause.name.lower()}` | {loses} | {cause.fault.value} | " in page, cause
