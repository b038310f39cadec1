"""Literals with every escape, expansions, casts, fields and functions."""

from __future__ import annotations

import pytest

import ufl
from query.plan import QUERY_ID, QUERY_TIME, TEXT_CHARS_MAX, Constant, Field, Function, Setting
from query.plan_problem import PlanError
from query.plan_settings import FUNCTION_DEPTH_MAX


def value(text: str, **expansions: str) -> Setting:
    return ufl.parse(f"%opgraph(g) {{ a = {text} }}", expansions).opgraphs[0].settings["a"]


def error(text: str) -> ufl.UflError:
    with pytest.raises(ufl.UflError) as caught:
        value(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("*", "*"),
        ("-1.5e-3_x", "-1.5e-3_x"),
        ('""', ""),
        ('"a b"', "a b"),
        ('"a\nb"', "a\nb"),
        (r'"\\"', "\\"),
        (r'"\\$"', "\\"),
        (r'"\""', '"'),
        (r'"\"$$"', '"$'),
        (r'"\u00e9"', "é"),
        (r'"\u00E9$1"', "é1"),
        (r'"\u00E9$$"', "é$"),
        (r'"$\u0024x"', "$$x"),
        (r'"\uD83D\uDE00"', "\U0001f600"),
        (r'"\uD83D$\uDE00"', "\U0001f600"),
        ('"\U0001f600 # no comment"', "\U0001f600 # no comment"),
        (r'"\qi"', QUERY_ID),
        (r'"t\qt$5"', f"t{QUERY_TIME}5"),
        (r'"\qt5\qi$$"', f"{QUERY_TIME}5{QUERY_ID}$"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"10"::long', Constant("10", "long")),
        ("10::long", Constant("10", "long")),
        ('"" :: null', Constant("", "null")),
        ('"1"::"decimal(38,0)"', Constant("1", "decimal(38,0)")),
        ("$src", Field("src")),
        ('$"odd name"', Field("odd name")),
        ("$ src", Field("src")),
        ("now()", Function("now")),
        ('"odd f"($a)', Function("odd f", (Field("a"),))),
        (
            'add($a, mul("2"::int, neg($b)))',
            Function(
                "add", (Field("a"), Function("mul", (Constant("2", "int"), Function("neg", (Field("b"),)))))
            ),
        ),
        ("f(g(), h(), $x)", Function("f", (Function("g"), Function("h"), Field("x")))),
    ],
)
def test_expressions(text: str, expected: Setting) -> None:
    assert value(text) == expected


def test_comments_end_with_the_line() -> None:
    plan = ufl.parse("# first\n%opgraph(g) { # second } \n a = b#third\n c = d }\n# last")
    assert plan.opgraphs[0].settings == {"a": "b", "c": "d"}


def test_a_byte_order_mark_and_crlf_are_no_matter() -> None:
    assert ufl.parse("\ufeff%opgraph(g) {\r\n a = b\r\n}\r\n").opgraphs[0].settings == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        (r'"a\n"', 21, r"there is no escape \n", r"write \u000A, or break the line inside the quotes"),
        (
            r'"\x41"',
            20,
            r"there is no escape \x",
            r"the escapes are \\ \" \uXXXX \qt \qi; a backslash itself is \\",
        ),
        (r'"\u00g0"', 20, r"\u needs four hexadecimal digits", r"for example \u00E9"),
        (r'"\uFDD0"', 20, r"\uFDD0 is reserved", r"write \qt"),
        ('"\ufdd1"', 20, "a reserved character (U+FDD0 or U+FDD1)", r"write \qt or \qi"),
        (
            r'"\qx"',
            20,
            r"there is no escape \q",
            r"the escapes are \\ \" \uXXXX \qt \qi; a backslash itself is \\",
        ),
        ('"a', 19, "this quote is never closed", ""),
        ("'a'", 19, 'unexpected character "\'"', 'texts are quoted with "'),
        (
            "a:b",
            20,
            "unexpected character ':'",
            'a cast is written "10"::long; a text with a colon needs quotes',
        ),
        ("f(a)", 21, "an argument must be a column", 'write $a for a column, "a"::string for a constant'),
        ("f($a,)", 24, "expected a value, found ')'", ""),
        ("f($a $b)", 24, "expected ',' or ')' after an argument, found '$'", ""),
        ("f($a", 24, "expected ',' or ')' after an argument, found '}'", ""),
        ('"1"::', 25, "expected a type after '::', found '}'", ""),
        ('"1"::""', 24, "a type has a name", 'for example "10"::long'),
        ("$", 21, "expected the name of a column after '$', found '}'", ""),
        (">=", 19, "expected a value, found '>='", ""),
    ],
)
def test_value_errors(text: str, column: int, message: str, hint: str) -> None:
    caught = error(text)
    assert (caught.line, caught.column) == (1, column)
    assert message in caught.message
    assert caught.hint == hint


def test_half_a_surrogate_pair_is_refused() -> None:
    assert "half of a surrogate pair" in error(r'"x\uD83D y"').message
    assert "not valid Unicode" in error('"\ud83d"').message


def test_expansions_may_be_given_at_parsing_or_later() -> None:
    text = r'%opgraph(g) { a = "\qi/\qt" }'
    plan = ufl.parse(text)
    assert ufl.unparse(plan) == '%opgraph(g) {\n    a = "\\qi/\\qt"\n}\n'
    assert ufl.expand(plan, "f00", 12).opgraphs[0].settings == {"a": "f00/12"}
    assert ufl.parse(text, {"qi": "f00", "qt": "12"}) == ufl.expand(plan, "f00", 12)
    assert ufl.parse(text, {"qi": "f00"}).opgraphs[0].settings == {"a": f"f00/{QUERY_TIME}"}


def test_expansions_reach_into_every_expression() -> None:
    assert value(r'f($"c\qi", "\qt"::long, "g\qi"())', qi="7", qt="9") == Function(
        "f", (Field("c7"), Constant("9", "long"), Function("g7"))
    )


def test_expansions_are_bounded() -> None:
    assert "(EXPANSIONS_MAX)" in error('"' + r"\qi" * 10_001 + '"').message
    with pytest.raises(ValueError, match="EXPANSION_CHARS_MAX"):
        value(r'"\qi"', qi="x" * 65)
    with pytest.raises(ValueError, match="no query expansion"):
        value("x", qz="x")
    long = "x" * (TEXT_CHARS_MAX - 1) + QUERY_ID
    with pytest.raises(PlanError, match="TEXT_CHARS_MAX"):
        ufl.expand(
            ufl.parse(ufl.unparse(ufl.parse(f'%opgraph(g) {{ a = "{long[:-1]}\\qi" }}'))), "long id", 1
        )


def test_depth_is_bounded_without_recursion() -> None:
    def nested(depth: int) -> str:
        return "f(" * depth + "$x" + ")" * depth

    deepest = ufl.parse(f"%opgraph(g) {{ a = {nested(FUNCTION_DEPTH_MAX)} }}")
    assert ufl.parse(ufl.unparse(deepest)) == deepest
    for depth in (FUNCTION_DEPTH_MAX + 1, 1_000_000):
        caught = error(nested(depth))
        assert "FUNCTION_DEPTH_MAX" in caught.message
        assert caught.column == 19 + 2 * FUNCTION_DEPTH_MAX


def test_huge_literals_are_refused() -> None:
    assert value('"' + "x" * TEXT_CHARS_MAX + '"') == "x" * TEXT_CHARS_MAX
    assert "TEXT_CHARS_MAX" in error('"' + "x" * (TEXT_CHARS_MAX + 1) + '"').message
    assert "TEXT_CHARS_MAX" in error("x" * (TEXT_CHARS_MAX + 1)).message


def test_arguments_are_bounded() -> None:
    assert "ARGUMENTS_MAX" in error("f(" + "$x," * 4_096 + "$x)").message
