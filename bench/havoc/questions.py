"""What is asked while things go wrong, and what the right answer is: DuckDB's, over the same rows.

An answer that calls itself complete equals DuckDB's; only rows of a host that left in good order, whom nobody expects,
may be in it or not. Any other may lack rows, but has none twice and none that are not there: what it does have is a
part of DuckDB's rows, or counts that are no larger; unless it says itself that something may be in it twice, as an
epoch does whose tree was torn.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

#: Rows of the published table and of the small one it is joined with; rows of each host's own table.
PUBLISHED, GROUPS, OWN = 600, 24, 50
#: Values that the ordered index is asked about span this much.
SPAN = 40


class Judgement(enum.Enum):
    RIGHT = "complete and right"
    SHORT = "not complete, and says so"
    #: Complete, and not what DuckDB says.
    WRONG = "complete and wrong"
    #: Rows twice, or rows that nobody has; whatever it calls itself.
    DOUBLED = "rows that are not there"


@dataclass(frozen=True, slots=True)
class Question:
    """`counts` names the columns that may be smaller in an answer that is not complete; without any, rows are compared
    as they are."""

    name: str
    sql: str
    counts: tuple[str, ...] = ()
    continuous: bool = False


def published() -> pa.Table:
    numbers = range(PUBLISHED)
    return pa.table(
        {
            "k": [f"k{n}" for n in numbers],
            "g": [n % GROUPS for n in numbers],
            "v": [n * 7 % PUBLISHED for n in numbers],
            "h": [f"h{n % 50}" for n in numbers],
        }
    )


def groups() -> pa.Table:
    return pa.table({"g": list(range(GROUPS)), "word": [f"w{n}" for n in range(GROUPS)]})


def own_rows(host: str) -> pa.Table:
    return pa.table({"host": [host] * OWN, "n": list(range(OWN))})


def draw(rng: random.Random) -> Question:
    """One question of every kind there is, with values of its own."""
    low = rng.randrange(PUBLISHED - SPAN)
    return rng.choice(
        (
            Question("own", "SELECT host, count(*) AS n, sum(n) AS s FROM fw GROUP BY host", ("n", "s")),
            Question("count", "SELECT count(*) AS n, sum(v) AS s FROM pub", ("n", "s")),
            Question("rows", f"SELECT k, v FROM pub WHERE g = {rng.randrange(GROUPS)}"),
            Question("group", "SELECT g, count(*) AS n FROM pub GROUP BY g", ("n",)),
            Question(
                "join",
                "SELECT d.word, count(*) AS n FROM pub p JOIN dim d ON p.g = d.g GROUP BY d.word",
                ("n",),
            ),
            Question("key", f"SELECT k, v FROM pub WHERE k = 'k{rng.randrange(PUBLISHED)}'"),
            Question("ordered", f"SELECT k, v FROM pub WHERE v BETWEEN {low} AND {low + SPAN}"),
            Question("hashed", f"SELECT k, h FROM pub WHERE h = 'h{rng.randrange(50)}'"),
        )
    )


#: Asked by a client each, all the time.
CONTINUOUS = (
    Question("live count", "SELECT count(*) AS n FROM pub EVERY '1 second'", ("n",), continuous=True),
    Question(
        "live own",
        "SELECT host, count(*) AS n FROM fw GROUP BY host EVERY '1 second'",
        ("n",),
        continuous=True,
    ),
)


@dataclass(slots=True)
class Truth:
    """DuckDB, with every row that there should be."""

    hosts: Sequence[str]
    _connection: duckdb.DuckDBPyConnection = field(default_factory=lambda: duckdb.connect(":memory:"))
    _known: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._connection.register("pub", published())
        self._connection.register("dim", groups())
        self._connection.register("fw", pa.concat_tables([own_rows(host) for host in self.hosts]))

    def rows(self, question: Question) -> list[tuple[object, ...]]:
        text = question.sql.partition(" EVERY ")[0]
        if text not in self._known:
            self._known[text] = self._connection.execute(text).fetchall()
        return self._known[text]

    def judge(
        self,
        question: Question,
        rows: list[dict[str, object]],
        ended: str,
        left: Collection[str] = (),
        doubled: bool = False,
    ) -> Judgement:
        """`left` are hosts that nobody expected while it was asked; `doubled`: the answer says that it may be."""
        right, got = self.rows(question), [tuple(row.values()) for row in rows]
        if ended == "complete":
            right = [row for row in right if row[0] not in left or row in got]
            return Judgement.RIGHT if Counter(got) == Counter(right) else Judgement.WRONG
        if doubled:
            return Judgement.SHORT
        if not question.counts:
            return Judgement.DOUBLED if Counter(got) - Counter(right) else Judgement.SHORT
        return Judgement.SHORT if self._no_more_than(question, rows) else Judgement.DOUBLED

    def _no_more_than(self, question: Question, rows: list[dict[str, object]]) -> bool:
        """Whether each group is there once at most, and its counts are no larger than they should be."""
        if not rows:
            return True
        names = list(rows[0])
        keys = [name for name in names if name not in question.counts]
        right = {}
        for values in self.rows(question):
            row = dict(zip(names, values, strict=True))
            right[tuple(row[key] for key in keys)] = row
        seen = set()
        for row in rows:
            group = tuple(row[key] for key in keys)
            if group in seen or group not in right:
                return False
            seen.add(group)
            for name in question.counts:
                value, most = row[name], right[group][name]
                if value is not None and int(str(value)) > int(str(most)):
                    return False
        return True
