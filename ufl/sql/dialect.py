"""The sqlglot dialect `pier`: DuckDB's SQL, functions by the engine's names, and the clauses of continuous queries.

    SELECT src, count(*) FROM fw GROUP BY src EVERY INTERVAL '5' SECOND RANGE INTERVAL '1' MINUTE FOR INTERVAL '1' HOUR

sqlglot knows a function as a class of its own and renames arguments on the way; here a call stays the call that was
written, because the engine's registry (`query.expr.registry`) decides what functions there are.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser

#: Functions whose arguments are not a plain list: `CAST(x AS t)`, `EXTRACT(hour FROM x)` and the like.
_SPECIAL = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
#: The clauses behind a query that make it continuous (DESIGN D9).
_CLAUSES = {"EVERY": "every", "RANGE": "range", "FOR": "duration"}


class Continuous(exp.Expression):
    """A query and how it is to be repeated: `every` so often, over a `range` of time, for a `duration`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "every": False, "range": False, "duration": False}


class PierParser(DuckDBParser):
    """DuckDB's parser, without its own table of functions."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in DuckDBParser.FUNCTION_PARSERS.items() if name in _SPECIAL
    }
    QUERY_MODIFIER_PARSERS: ClassVar[dict[Any, Any]] = {
        token: parse
        for token, parse in DuckDBParser.QUERY_MODIFIER_PARSERS.items()
        if token not in (TokenType.FOR, TokenType.LOCK)
    }

    def _parse_statement(self) -> exp.Expr | None:
        statement = super()._parse_statement()
        clauses: dict[str, exp.Expr] = {}
        while statement is not None and self._at_clause():
            name = _CLAUSES[self._curr.text.upper()]
            if name in clauses:
                self.raise_error(f"{self._curr.text.upper()} is given twice")
            self._advance()
            interval = self._parse_interval()
            if interval is None:
                self.raise_error("an INTERVAL was expected")
                break
            clauses[name] = interval
        return Continuous(this=statement, **clauses) if clauses and statement is not None else statement

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        return None if self._at_clause() else super()._parse_table_alias(alias_tokens)

    def _parse_alias(self, this: Any, explicit: bool = False) -> Any:
        return this if self._at_clause() else super()._parse_alias(this, explicit)

    def _at_clause(self) -> bool:
        """Whether a clause of a continuous query begins here: its word is otherwise an ordinary name."""
        return bool(
            self._curr
            and self._curr.text.upper() in _CLAUSES
            and self._next
            and self._next.token_type is TokenType.INTERVAL
        )


class Pier(DuckDB):
    """`sqlglot.parse_one(text, dialect="pier")`."""

    Parser = PierParser
