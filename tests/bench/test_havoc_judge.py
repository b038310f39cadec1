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


def test_every_group_has_rows() -> None:
    assert len(TRUTH.rows(Question("g", "SELECT g FROM pub GROUP BY g"))) == GROUPS
