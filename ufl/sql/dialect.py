"""The sqlglot dialect `pier`: DuckDB's SQL, functions by the engine's names, and the clauses of continuous queries.

    SELECT src, count(*) FROM fw GROUP BY src EVERY INTERVAL '5' SECOND RANGE '1 minute' FOR '1 hour'
    SELECT window_end, count(*) FROM TUMBLE(TABLE fw, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_end

sqlglot knows a function as a class of its own and renames arguments on the way; here a call stays the call that was
written, because the engine's registry (`query.expr.registry`) decides what functions there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser

#: Functions whose arguments are not a plain list: `CAST(x AS t)`, `EXTRACT(hour FROM x)` and the like.
_SPECIAL = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")
#: The clauses behind a query that make it continuous (docs/decisions/0013).
_CLAUSES = {"EVERY": "every", "RANGE": "range", "FOR": "duration", "STRATEGY": "strategy"}
#: Functions in FROM whose first arguments are a table and a column of it.
_WINDOWS = ("TUMBLE", "HOP")


class Continuous(exp.Expression):
    """A query and how it is to be repeated: `every` so often, over a `range` of time, for a `duration`, by a
    `strategy`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, **dict.fromkeys(_CLAUSES.values(), False)}


def _window(name: str) -> Callable[[PierParser], exp.Expr]:
    def parse(self: PierParser) -> exp.Expr:
        """`TABLE fw, DESCRIPTOR(ts), '1 minute'`, the two words being optional."""
        self._match(TokenType.TABLE)
        table = exp.Table(this=self._parse_id_var())
        self._match(TokenType.COMMA)
        described = self._curr and self._curr.text.upper() == "DESCRIPTOR"
        if described:
            self._advance()
            self._match_l_paren()
        column = exp.Column(this=self._parse_id_var())
        if described:
            self._match_r_paren()
        lengths = []
        while self._match(TokenType.COMMA):
            lengths.append(self._parse_interval() or self._parse_string())
        if not table.this or not column.this or None in lengths:
            self.raise_error(f"{name} takes a table, a column of times and lengths such as '1 minute'")
        return exp.Anonymous(this=name, expressions=[table, column, *lengths])

    return parse


class PierParser(DuckDBParser):
    """DuckDB's parser, without its own table of functions."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{name: parse for name, parse in DuckDBParser.FUNCTION_PARSERS.items() if name in _SPECIAL},
        **{name: _window(name) for name in _WINDOWS},
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
            length = self._parse_string() if name == "strategy" else self._parse_length()
            if length is None:
                self.raise_error("a text or an INTERVAL was expected")
                break
            clauses[name] = length
        return Continuous(this=statement, **clauses) if clauses and statement is not None else statement

    def _parse_join(self, *args: Any, **options: Any) -> Any:
        """A JOIN without a condition is a slip, and the tree would not show it: it would be a comma."""
        comma = bool(self._curr) and self._curr.token_type is TokenType.COMMA
        join = super()._parse_join(*args, **options)
        if not isinstance(join, exp.Join) or comma or join.method or join.kind.upper() == "CROSS":
            return join
        if not join.args.get("on") and not join.args.get("using"):
            self.raise_error("JOIN needs ON or USING, or is a CROSS JOIN")
        return join

    def _parse_length(self) -> exp.Expr | None:
        return self._parse_string() or self._parse_interval()

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        if self._at_clause():
            return None
        if self._curr and self._curr.token_type is TokenType.VAR and self._curr.text.upper() == "EVERY":
            # As a name of a table it must be written AS every: more often its length was forgotten.
            self.raise_error("EVERY takes a length of time, as '5 seconds'")
        return super()._parse_table_alias(alias_tokens)

    def _parse_disjunction(self) -> exp.Expr | None:
        """Behind GROUP BY ALL a column might follow."""
        return None if self._at_clause() else super()._parse_disjunction()

    def _parse_alias(self, this: Any, explicit: bool = False) -> Any:
        return this if self._at_clause() else super()._parse_alias(this, explicit)

    def _at_clause(self) -> bool:
        """Whether a clause of a continuous query begins here: its word is otherwise an ordinary name."""
        return bool(
            self._curr
            and self._curr.text.upper() in _CLAUSES
            and self._next
            and self._next.token_type in (TokenType.INTERVAL, TokenType.STRING)
        )


class Pier(DuckDB):
    """`sqlglot.parse_one(text, dialect="pier")`."""

    Parser = PierParser
