"""What an account calls complete."""

from __future__ import annotations

import pytest

from overlay.spread.account import Account as Coverage
from query.causes import Cause
from query.engine.account import settled
from query.engine.spec import Report


@pytest.mark.parametrize(
    ("causes", "ended"),
    [
        ({}, "complete"),
        ({Cause.UNFIT: 3}, "complete"),
        ({Cause.UNFIT: 3, Cause.NOT_STORED: 6}, "partial"),
    ],
)
def test_rows_that_no_node_took_make_an_answer_partial(causes: dict[Cause, int], ended: str) -> None:
    report = Report(answered=2, causes={cause.number: rows for cause, rows in causes.items()})
    account = settled("q", Coverage(received=2), report, (), 10, 0.1, "complete")
    assert (account.asked, account.answered, account.ended) == (2, 2, ended)


@pytest.mark.parametrize(
    ("sent", "holders", "sated", "ended"),
    [
        (8, 3, 0, "complete"),
        (9, 3, 1, "complete"),
        (9, 3, 0, "partial"),
        (8, 2, 0, "complete"),
        (9, 2, 0, "partial"),
    ],
)
def test_batches_that_were_put_and_not_taken_make_an_answer_partial(
    sent: int, holders: int, sated: int, ended: str
) -> None:
    """Not those that nobody wanted any more, nor a node that got no rows."""
    report = Report(answered=2, sent=sent, received=8, holders=holders, sated=sated)
    account = settled("q", Coverage(received=2), report, (), 10, 0.1, "complete", owners=3)
    assert (account.ended, bool(account.errors)) == (ended, ended == "partial")
