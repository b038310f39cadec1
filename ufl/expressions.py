"""Tokens to one value: plain text, a typed constant, a field or a function of those.

Functions nest on a list of open calls and not on Python's stack, so depth costs memory that is bounded
by FUNCTION_DEPTH_MAX, and never a RecursionError.
"""

from __future__ import annotations

from query.plan import ARGUMENTS_MAX, Constant, Expression, Field, Function, Value
from query.plan_hints import WORD_CHARS_MAX
from query.plan_settings import FUNCTION_DEPTH_MAX
from ufl.lexer import COMPARE, MARK, Lexer
from ufl.literals import encode, is_text_string


class _Call:
    """A function whose arguments are still being read."""

    __slots__ = ("args", "name", "start")

    def __init__(self, name: str, start: int) -> None:
        self.name = name
        self.start = start
        self.args: list[Expression] = []


def read_value(lexer: Lexer, compare_allowed: bool = False) -> Value:
    """Read one value. A bare comparison sign such as `>=` counts as text where it is allowed."""
    if compare_allowed and lexer.kind == COMPARE:
        sign = lexer.text
        lexer.budget.spend_node(lexer.start)
        lexer.advance()
        return sign
    calls: list[_Call] = []
    value = _read_operand(lexer, calls)
    while calls:
        if value is not None:
            value = _close_argument(lexer, calls, value)
        else:
            value = _read_operand(lexer, calls)
    assert value is not None, "an operand is either a value or an open call"
    return value


def _close_argument(lexer: Lexer, calls: list[_Call], argument: Value) -> Function | None:
    """Add an argument to the innermost call; return the function if that was the last."""
    call = calls[-1]
    assert not isinstance(argument, str), "_read_operand lets no plain text into a call"
    if len(call.args) == ARGUMENTS_MAX:
        message = f"a function has more than {ARGUMENTS_MAX} arguments (ARGUMENTS_MAX)"
        raise lexer.source.error(message, call.start)
    call.args.append(argument)
    if lexer.take_mark(","):
        return None
    if not lexer.take_mark(")"):
        raise lexer.unexpected("',' or ')' after an argument")
    calls.pop()
    return Function(call.name, tuple(call.args))


def _read_operand(lexer: Lexer, calls: list[_Call]) -> Value | None:
    """Read a value up to where an argument list starts; None means that a call was opened."""
    start = lexer.start
    lexer.budget.spend_node(start)
    if lexer.take_mark("$"):
        return Field(lexer.take_text("the name of a column after '$'"))
    text = lexer.take_text("a value")
    if lexer.kind == MARK:
        if lexer.text == "::":
            lexer.advance()
            return Constant(text, _read_type(lexer))
        if lexer.text == "(":
            return _open_call(lexer, calls, text, start)
    if calls:
        message = "an argument must be a column, a constant with its type or a function"
        raise lexer.source.error(message, start, hint=expression_hint(text))
    return text


def _read_type(lexer: Lexer) -> str:
    start = lexer.start
    name = lexer.take_text("a type after '::'")
    if not name:
        raise lexer.source.error("a type has a name", start, hint='for example "10"::long')
    return name


def _open_call(lexer: Lexer, calls: list[_Call], name: str, start: int) -> Function | None:
    lexer.advance()
    if len(calls) == FUNCTION_DEPTH_MAX:
        message = f"functions nest deeper than {FUNCTION_DEPTH_MAX} (FUNCTION_DEPTH_MAX)"
        raise lexer.source.error(message, start)
    if lexer.take_mark(")"):
        return Function(name, ())
    calls.append(_Call(name, start))
    return None


def expression_hint(text: str) -> str:
    """What an author who wrote plain text may have meant."""
    name = text if is_text_string(text) else encode(text)
    if len(text) > WORD_CHARS_MAX:
        return ""
    return f"write ${name} for a column, {encode(text)}::string for a constant"
