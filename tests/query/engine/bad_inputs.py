"""Questions that cannot be answered, or not in full, and the words each gets. `docs/ufl.md` has the same table."""

from __future__ import annotations

from dataclasses import dataclass

SCAN = "%operator(s) { type = scan implementation = Local table = fw }"
RESULT = "%operator(r) { type = result sources[0] = m }"


def query(middle: str, result: str = RESULT) -> str:
    return f"%opgraph(g) {{\n    {SCAN}\n    {middle}\n    {result}\n}}"


@dataclass(frozen=True)
class Bad:
    """A query at fault. `rejected`: before it spreads; `dropped`: rows are left out and counted; `ended`: on the node
    where it went wrong, in the words of the account."""

    what: str
    text: str
    outcome: str
    words: str


RUNAWAY = """%opgraph(g) {
    %operator(s) { type = scan implementation = Local table = fw }
    %operator(m) { type = union sources[0] = s sources[1] = q }
    %operator(t) { type = tee sources[0] = m }
    %operator(more) { type = projection implementation = Generate sources[0] = t columns[dpt] = add($dpt, "1"::long) }
    %operator(q) { type = queue sources[0] = more }
    %operator(r) { type = result sources[0] = t }
}"""

BAD = (
    Bad(
        "a brace that is never closed",
        "%opgraph(g) {\n",
        "rejected",
        "expected '}', found the end of the text",
    ),
    Bad("a text without any opgraph", "hello\n", "rejected", "line 1, column 1"),
    Bad(
        "an unknown operator type",
        query("%operator(m) { type = selektion sources[0] = s }"),
        "rejected",
        "there is no operator type 'selektion'",
    ),
    Bad(
        "an unknown implementation",
        query("%operator(m) { type = join implementation = Magic sources[0] = s }"),
        "rejected",
        "there is no join implementation 'Magic'",
    ),
    Bad(
        "an unknown setting",
        query("%operator(m) { type = dupelim sources[0] = s colums[0] = dpt }"),
        "rejected",
        "'colums'",
    ),
    Bad(
        "a setting of the wrong form",
        query("%operator(m) { type = projection sources[0] = s columns[dpt] = $dpt }"),
        "rejected",
        "setting 'columns': is an array, not a hash table",
    ),
    Bad(
        "a setting that is missing",
        query("%operator(m) { type = projection sources[0] = s }"),
        "rejected",
        "setting 'columns': is required",
    ),
    Bad(
        "an unknown function",
        query("%operator(m) { type = selection sources[0] = s where = is_evil($src) }"),
        "rejected",
        "unknown function 'is_evil'",
    ),
    Bad(
        "too many arguments",
        query("%operator(m) { type = selection sources[0] = s where = is_null($src, $dpt) }"),
        "rejected",
        "was given 2 arguments",
    ),
    Bad(
        "a literal that its type cannot hold",
        query(
            '%operator(m) { type = selection sources[0] = s where = less($dpt, "99999999999999999999"::long) }'
        ),
        "rejected",
        "99999999999999999999",
    ),
    Bad(
        "a literal of a type that does not exist",
        query('%operator(m) { type = selection sources[0] = s where = less($dpt, "1"::lnog) }'),
        "rejected",
        "lnog",
    ),
    Bad(
        "a source that does not exist",
        query("%operator(m) { type = dupelim sources[0] = x }"),
        "rejected",
        "there is no operator 'x' in this opgraph",
    ),
    Bad(
        "a cycle without a queue",
        query(
            "%operator(m) { type = union sources[0] = s sources[1] = d }\n"
            "    %operator(t) { type = tee sources[0] = m }\n"
            "    %operator(d) { type = dupelim sources[0] = t }",
            "%operator(r) { type = result sources[0] = t }",
        ),
        "rejected",
        "cycle without a queue",
    ),
    Bad(
        "rows that go nowhere",
        query("%operator(m) { type = dupelim sources[0] = s }", ""),
        "rejected",
        "nothing takes what 'm' produces",
    ),
    Bad(
        "a text longer than 10 MB",
        "#" + "x" * 10_000_000,
        "rejected",
        "TEXT_BYTES_MAX",
    ),
    Bad(
        "a column that rows do not have",
        query('%operator(m) { type = selection sources[0] = s where = less($port, "1"::long) }'),
        "dropped",
        "no column 'port'",
    ),
    Bad(
        "types that do not go together",
        query('%operator(m) { type = selection sources[0] = s where = less($src, "1"::long) }'),
        "dropped",
        "m: ",
    ),
    Bad(
        "a number too large to compute",
        query(
            "%operator(m) { type = projection implementation = Generate sources[0] = s\n"
            '        columns[x] = multiply($dpt, "9000000000000000000"::long) }'
        ),
        "dropped",
        "no result for this row",
    ),
    Bad("a recursion that never ends", RUNAWAY, "ended", "limit "),
)
#: Not an error: NULL, as in DuckDB.
DIVISION = query(
    "%operator(m) { type = projection implementation = Generate sources[0] = s\n"
    '        columns[x] = divide($dpt, "0"::long) }'
)
