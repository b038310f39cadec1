"""SQL to plan: parse, bind, lower (docs/decisions/0013; docs/sql.md is the reference).

    compile_sql(text, query_id, time_s, tables)     text to a plan of opgraphs; raises UflError
    explain_sql(...)                                the same, as something to read
    tables_named(text)                              the tables whose facts it should be given

Three steps, each a module with one object: the sqlglot dialect `pier` reads the text (`dialect.py`), the binder says
what it means (`binder.py`: algebra over columns with names of their own), lowering says how it is computed by many
nodes (`lowering.py`). Nothing is guessed: a clause that is not understood is refused with its place in the text.
"""

from ufl.sql.compiler import Compiled, TooLarge, compile_sql, require_short, tables_named
from ufl.sql.continuous import Repetition
from ufl.sql.explain import explain_sql
from ufl.sql.steps import STEPS_MAX
from ufl.sql.tables import TableInfo

__all__ = [
    "STEPS_MAX",
    "Compiled",
    "Repetition",
    "TableInfo",
    "TooLarge",
    "compile_sql",
    "explain_sql",
    "require_short",
    "tables_named",
]
