"""Expressions over batches: compiled once per schema, run on whole columns. See `compiler.py`."""

from query.expr.compiler import Compiled, Context, ExprCache, compile_expression, literal
from query.expr.errors import BadLiteral, EvalError, ExprError, MissingColumn, TypeClash, UnknownFunction
from query.expr.registry import FunctionSpec, functions

__all__ = [
    "BadLiteral",
    "Compiled",
    "Context",
    "EvalError",
    "ExprCache",
    "ExprError",
    "FunctionSpec",
    "MissingColumn",
    "TypeClash",
    "UnknownFunction",
    "compile_expression",
    "functions",
    "literal",
]
