"""The judge of bench/havoc: what it calls right, short, wrong and doubled."""

from __future__ import annotations

import pytest

from bench.havoc.questions import GROUPS, OWN, PUBLISHED, Judgement, Question, Truth

TRUTH = Truth(["n1", "n2"])
COUNT = Question("count", "SELECT count(*) AS n FROM pub", ("n",))
OWN_ROWS = Question("own", "SELECT host, count(*) AS n FROM fw GROUP BY host EVERY '1 second'", ("n",))
ROWS = Question("rows", "SELECT k, v FROM pub WHERE k = 'k3'")


@pytest.mark.parametrize(
    ("question", "rows", "ended", "judgement"),
    [
        (COUNT, [{"n": PUBLISHED}], "complete", Judgement.RIGHT),
        (COUNT, [{"n": PUBLISHED - 1}], "complete", Judgement.WRONG),
        (COUNT, [], "complete", Judgement.WRONG),
        (COUNT, [{"n": PUBLISHED - 1}], "partial", Judgement.SHORT),
        (COUNT, [], "limit", Judgement.SHORT),
        (COUNT, [{"n": PUBLISHED + 1}], "partial", Judgement.DOUBLED),
        (OWN_ROWS, [{"host": "n1", "n": OWN}, {"host": "n2", "n": OWN}], "complete", Judgement.RIGHT),
        (OWN_ROWS, [{"host": "n1", "n": OWN}], "complete", Judgement.WRONG),
        (OWN_ROWS, [{"host": "n1", "n": OWN}], "partial", Judgement.SHORT),
        (OWN_ROWS, [{"host": "n1", "n": OWN}] * 2, "partial", Judgement.DOUBLED),
        (OWN_ROWS, [{"host": "n9", "n": OWN}], "partial", Judgement.DOUBLED),
        (ROWS, [{"k": "k3", "v": 21}], "complete", Judgement.RIGHT),
        (ROWS, [{"k": "k3", "v": 21}] * 2, "complete", Judgement.WRONG),
        (ROWS, [{"k": "k3", "v": 21}] * 2, "partial", Judgement.DOUBLED),
        (ROWS, [{"k": "k3", "v": 22}], "partial", Judgement.DOUBLED),
        (ROWS, [], "partial", Judgement.SHORT),
    ],
)
def test_answers_are_judged(
    question: Question, rows: list[dict[str, object]], ended: str, judgement: Judgement
) -> None:
    assert TRUTH.judge(question, rows, ended) is judgement


def test_rows_of_a_host_that_left_may_be_missing_and_no_others() -> None:
    both, one = [{"host": "n1", "n": OWN}, {"host": "n2", "n": OWN}], [{"host": "n1", "n": OWN}]
    assert TRUTH.judge(OWN_ROWS, one, "complete", left=["n2"]) is Judgement.RIGHT
    assert TRUTH.judge(OWN_ROWS, both, "complete", left=["n2"]) is Judgement.RIGHT
    assert TRUTH.judge(OWN_ROWS, one, "complete", left=["n1"]) is Judgement.WRONG


def test_what_says_that_it_may_be_doubled_is_no_lie_unless_it_is_called_complete() -> None:
    twice = [{"n": 2 * PUBLISHED}]
    assert TRUTH.judge(COUNT, twice, "partial", doubled=True) is Judgement.SHORT
    assert TRUTH.judge(COUNT, twice, "complete", doubled=True) is Judgement.WRONG


def test_every_group_has_rows() -> None:
    assert len(TRUTH.rows(Question("g", "SELECT g FROM pub GROUP BY g"))) == GROUPS
