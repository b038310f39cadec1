"""Objects, their nesting, names and references; errors as an author sees them."""

from __future__ import annotations

import pytest

import ufl
from query.plan import Constant, Field, Operator, Opgraph, Plan, Predicate
from query.plan_problem import Place, Problem

GRAPH = """%opgraph(g) {
    duration = 60
    %operator(read) { type = SCAN implementation = DHT }
    %operator(pick) {
        type = selection
        sources[0] = read
        %predicate(p) { type = atomic op = >= leftexpression = $dpt rightexpression = "10"::long }
    }
}
"""


def error(text: str) -> ufl.UflError:
    with pytest.raises(ufl.UflError) as caught:
        ufl.parse(text)
    return caught.value


def test_a_whole_query() -> None:
    port = Predicate("p", "atomic", ">=", Field("dpt"), Constant("10", "long"))
    assert ufl.parse(GRAPH) == Plan(
        (
            Opgraph(
                "g",
                {"duration": "60"},
                (
                    Operator("read", "scan", "DHT"),
                    Operator("pick", "selection", sources=("read",), predicates=(port,)),
                ),
            ),
        )
    )


def test_canonical_text() -> None:
    assert ufl.unparse(ufl.parse(GRAPH)) == (
        "%opgraph(g) {\n"
        "    duration = 60\n"
        "\n"
        "    %operator(read) {\n"
        "        type = scan\n"
        "        implementation = DHT\n"
        "    }\n"
        "\n"
        "    %operator(pick) {\n"
        "        type = selection\n"
        "        sources[0] = read\n"
        "\n"
        "        %predicate(p) {\n"
        "            type = atomic\n"
        "            leftexpression = $dpt\n"
        '            op = ">="\n'
        '            rightexpression = "10"::long\n'
        "        }\n"
        "    }\n"
        "}\n"
    )


def _op(text: str) -> str:
    return ufl.parse(GRAPH.replace(">=", text)).opgraphs[0].operators[1].predicates[0].op


@pytest.mark.parametrize(
    ("word", "symbol"),
    [
        ("equals", "="),
        ("notequals", "!="),
        ("greaterthan", ">"),
        ("greaterthanequals", ">="),
        ("lessthan", "<"),
        ("LessThanEquals", "<="),
    ],
)
def test_comparisons_by_word_symbol_and_in_quotes(word: str, symbol: str) -> None:
    assert _op(word) == _op(symbol) == _op(f'"{symbol}"') == symbol


def _predicates(body: str) -> tuple[Predicate, ...]:
    text = f"%opgraph(g) {{ %operator(s) {{ type = selection {body} }} }}"
    return ufl.parse(text).opgraphs[0].operators[0].predicates


ATOM = "%predicate({}) {{ type = atomic op = equals leftexpression = $x rightexpression = $y }}"


def test_members_by_name_and_by_nesting_are_the_same() -> None:
    a, b = ATOM.format("a"), ATOM.format("b")
    named = _predicates("%predicate(both) { type = AND predicates[] = a predicates[] = b } " + a + b)
    nested = _predicates("%predicate(both) { type = and " + a + b + "}")
    mixed = _predicates("%predicate(both) { type = and " + b + "predicates = a }" + a)
    assert named == nested
    assert [predicate.name for predicate in nested] == ["both", "a", "b"]
    assert mixed[0].members == ("a", "b")


def test_predicates_nest_in_any_depth_up_to_the_bound() -> None:
    def nested(depth: int) -> str:
        opened = "".join(f"%predicate(p{number}) {{ type = and " for number in range(depth - 1))
        return opened + ATOM.format("x") + "}" * (depth - 1)

    assert len(_predicates(nested(128))) == 128
    for depth in (129, 100_000):
        with pytest.raises(ufl.UflError, match="PREDICATE_DEPTH_MAX"):
            _predicates(nested(depth))


def test_one_source_needs_no_array() -> None:
    assert ufl.parse(GRAPH.replace("sources[0]", "sources")) == ufl.parse(GRAPH)


def test_cycles_are_for_the_executor_to_judge() -> None:
    plan = ufl.parse(GRAPH.replace("implementation = DHT", "sources[0] = pick"))
    assert plan.opgraphs[0].operators[0].sources == ("pick",)


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message", "hint"),
    [
        ("SCAN", "scna", 3, 30, "there is no operator type 'scna'", "did you mean 'scan'?"),
        ("type = SCAN", "Type = scan", 3, 15, "the operator 'read' has no type", "write type, not Type"),
        ("type = SCAN", "", 3, 15, "the operator 'read' has no type", "the types are cache, dupelim"),
        ("%opgraph", "%opgraf", 1, 2, "there is no object type 'opgraf'", "did you mean 'opgraph'?"),
        ("%opgraph", "%zzz", 1, 2, "there is no object type 'zzz'", "the objects are"),
        ("%opgraph", "%operator", 1, 2, "an operator cannot stand at the top of a query", "in an opgraph"),
        ("%operator(read)", "%opgraph(read)", 3, 6, "an opgraph cannot stand in an opgraph", "at the top"),
        (
            "%operator(read)",
            "%predicate(read)",
            3,
            6,
            "a predicate cannot stand in an opgraph",
            "in an operator",
        ),
        ("%predicate(p)", "%operator(p)", 7, 10, "an operator cannot stand in an operator", "in an opgraph"),
        ("= read", "= raed", 6, 22, "there is no operator 'raed' in this opgraph", "did you mean 'read'?"),
        ("= read", "= $read", 6, 22, "sources is an array of names", "sources[0] = name"),
        ("sources[0]", "sources[1]", 6, 9, "sources leaves out position 0", "write sources[]"),
        ("(pick)", "(read)", 4, 15, "there is already an operator 'read' here", "own name"),
        ("(read)", '("")', 3, 15, "the operator has no name", ""),
        ("(read)", "()", 3, 15, "expected the name of the operator, found ')'", ""),
        ("(read)", " read", 3, 15, "expected '(' and a name after %operator, found 'read'", ""),
        ("(g) {", "(g)", 2, 5, "expected '{' to open the opgraph, found 'duration'", ""),
        ("duration = 60", "duration 60", 2, 14, "expected '=' after 'duration', found '60'", ""),
        ("duration = 60", "duration[1 = 60", 2, 16, "expected ']' after the index, found '='", ""),
        ("duration = 60", ", duration = 60", 2, 5, "expected a setting, an object or '}', found ','", ""),
        (
            "type = atomic",
            "type = atom",
            7,
            32,
            "there is no predicate type 'atom'",
            "did you mean 'atomic'?",
        ),
        ("type = atomic", "", 7, 20, "the predicate 'p' has no type", "type = atomic, and, or or"),
        ("op = >=", "", 7, 20, "the atomic predicate 'p' has no op", 'op = "="'),
        (">=", "greatrthan", 7, 44, "there is no comparison 'greatrthan'", "did you mean 'greaterthan'?"),
        (">=", "~", 7, 44, "unexpected character '~'", "outside quotes"),
        ("leftexpression = $dpt", "", 7, 20, "the atomic predicate 'p' has no leftexpression", "$src"),
        ("$dpt", "dpt", 7, 64, "leftexpression must be an expression", "write $dpt for a column"),
        ("leftexpression =", "leftexpresion =", 7, 47, "a predicate has no setting", "'leftexpression'?"),
        ("leftexpression =", "leftexpression[0] =", 7, 47, "leftexpression is one expression", "= $column"),
        ("op = >=", "op = >= predicates[] = p", 7, 47, "the atomic predicate 'p' holds other", "combine"),
        ("60", '"60', 7, 90, "this quote is never closed", "starts on line 2 spans lines"),
        (
            "}\n}\n",
            "}\n",
            9,
            1,
            "expected '}', found the end of the text",
            "opgraph 'g' of line 1 is still open",
        ),
        ("}\n}\n", "}\n}}\n", 9, 2, "this '}' closes nothing", ""),
        ("}\n}\n", "}\n} x\n", 9, 3, "expected an object, found 'x'", "%opgraph(name)"),
    ],
)
def test_errors_point_at_the_fault(
    old: str, new: str, line: int, column: int, message: str, hint: str
) -> None:
    assert old in GRAPH
    caught = error(GRAPH.replace(old, new, 1))
    assert (caught.line, caught.column) == (line, column)
    assert message in caught.message
    assert hint in caught.hint


def test_operators_of_other_opgraphs_are_no_sources() -> None:
    caught = error(GRAPH + "%opgraph(h) { %operator(o) { type = union sources[] = read } }")
    assert "opgraphs meet in a namespace" in caught.hint


def test_an_empty_text_is_no_query() -> None:
    assert error("").message == error("# nothing\n").message == "the query is empty"


def test_how_an_error_prints() -> None:
    assert str(error(GRAPH.replace("SCAN", "scna"))) == (
        "line 3, column 30: there is no operator type 'scna'\n"
        "   3 |     %operator(read) { type = scna implementation = DHT }\n"
        "     |                              ^^^^\n"
        "hint: did you mean 'scan'?"
    )


def test_a_missing_quote_is_suspected_where_a_text_spans_lines() -> None:
    caught = error('%opgraph(g) {\n a = "x\n b = "y"\n}')
    assert caught.hint == "the text in quotes that starts on line 2 spans lines: is a closing quote missing?"


def test_tabs_align_and_nothing_reaches_the_terminal_raw() -> None:
    shown = str(error('%opgraph(g) {\n\ta = "\x1b[2J" ~ }')).split("\n")
    assert shown[1] == '   2 | \ta = "\N{REPLACEMENT CHARACTER}[2J" ~ }'
    assert shown[2] == "     | \t" + " " * 11 + "^"


def test_long_lines_are_cut_around_the_caret() -> None:
    shown = str(error("%opgraph(g) { a = " + "x" * 5_000 + " ~ b = " + "y" * 5_000)).split("\n")
    assert all(len(line) < 120 for line in shown)
    assert shown[1].index("~") == shown[2].index("^")


def test_problems_found_later_still_point_at_the_text() -> None:
    located = ufl.parse_located(GRAPH)
    place = Place(0).in_operator(0).at("implementation")
    caught = located.error(Problem(place, "there is no scan implementation 'DHT'", "did you mean …"))
    assert (caught.line, caught.column) == (3, 52)
    caught = located.error(Problem(Place(0).at("duration", at_key=True), "unknown setting"))
    assert (caught.line, caught.column) == (2, 5)
    caught = located.error(Problem(Place(0).in_operator(1).in_predicate(0), "unknown"))
    assert (caught.line, caught.column) == (7, 20)
