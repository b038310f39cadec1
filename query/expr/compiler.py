"""Expression to compiled tree, once per schema; what operators call.

`compile_expression(expression, schema)` resolves columns, checks types, prepares literals and folds
constants. An operator keeps an `ExprCache`, which compiles when a schema is new and otherwise costs one
look-up by number.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch import Batch, SchemaId
from query.batch.types import NULL, STRING, TIMESTAMP_UTC, canonical_type, parse_type, type_name, type_names
from query.expr import functions as _functions
from query.expr.casts import cast
from query.expr.errors import BadLiteral, EvalError, ExprError, MissingColumn, shown, suggestion
from query.expr.nodes import FAULTS, Bad, Call, Column, Frame, Literal, Node, Now, Value, spread
from query.expr.registry import bind, lookup
from query.plan import Constant, Expression, Field

assert _functions.LOADED

#: Deeper trees are no query a person wrote, and recursion must end well before Python's own limit.
DEPTH_MAX = 100
#: Nodes of one expression; long IN lists and generated CASEs stay within.
NODES_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Context:
    """What evaluation needs from outside the batch."""

    #: Microseconds since 1970, UTC: the result of `now()`.
    now_us: int

    def now(self) -> pa.Scalar:
        return pa.scalar(self.now_us, TIMESTAMP_UTC)


class Compiled:
    """An expression bound to one schema. `type` is the type of its result."""

    __slots__ = ("_root", "_schema", "type")

    def __init__(self, root: Node, schema: pa.Schema) -> None:
        self._root = root
        self._schema = schema
        self.type = root.type

    @property
    def constant(self) -> pa.Scalar | None:
        """The result, when it does not depend on the batch."""
        return self._root.constant

    @property
    def column(self) -> int | None:
        """The column's index, when the expression is just a column."""
        return self._root.index if isinstance(self._root, Column) else None

    def __call__(self, data: pa.RecordBatch, context: Context | None = None) -> pa.Array:
        """The result for every row; raises EvalError if any row has none."""
        try:
            return spread(self._root.run(_frame(data, context)), data.num_rows)
        except FAULTS as fault:
            raise EvalError(str(fault)) from fault

    def evaluate(
        self, data: pa.RecordBatch, context: Context | None = None
    ) -> tuple[pa.Array, pa.Array | None]:
        """The result, and the mask of the rows that have none (NULL in the result); None when all have one."""
        frame = _frame(data, context)
        try:
            return spread(self._root.run(frame), data.num_rows), None
        except FAULTS:
            value, bad = self._root.careful(frame)
        return _report(value, bad, data.num_rows)


def _frame(data: pa.RecordBatch, context: Context | None) -> Frame:
    return Frame(data, None if context is None else context.now())


def _report(value: Value, bad: Bad, rows: int) -> tuple[pa.Array, pa.Array | None]:
    whole = spread(value, rows)
    if bad is None or not np.any(bad):
        return whole, None
    mask = pa.array(bad)
    return pc.if_else(mask, pa.scalar(None, whole.type), whole), mask


def compile_expression(expression: Expression, schema: pa.Schema) -> Compiled:
    """Raises ExprError (see `errors.py` for its kinds) when the expression does not fit the schema."""
    return Compiled(_Builder(schema).build(expression, 0), schema)


class _Builder:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._nodes = 0

    def build(self, expression: Expression, depth: int) -> Node:
        self._nodes += 1
        if depth > DEPTH_MAX:
            raise ExprError(f"expression nested deeper than {DEPTH_MAX}")
        if self._nodes > NODES_MAX:
            raise ExprError(f"expression of more than {NODES_MAX} parts")
        if isinstance(expression, Constant):
            return Literal(literal(expression))
        if isinstance(expression, Field):
            return self._column(expression.name)
        lookup(expression.name)
        return fold(bind(expression.name, [self.build(arg, depth + 1) for arg in expression.args]))

    def _column(self, name: str) -> Node:
        places = self._schema.get_all_field_indices(name)
        if not places:
            known = self._schema.names
            raise MissingColumn(f"no column {shown(name)}{suggestion(name, known)}", name, known)
        if len(places) > 1:
            raise MissingColumn(f"column {shown(name)} occurs {len(places)} times")
        kind = self._schema.field(places[0]).type
        try:
            canonical = canonical_type(kind)
        except ValueError as unsupported:
            raise ExprError(str(unsupported)) from None
        if canonical != kind:
            raise ExprError(f"column {shown(name)} has type {kind}, which batches carry as {canonical}")
        return Column(places[0], kind)


_EMPTY = Frame(pa.RecordBatch.from_arrays([], names=[]), None)


def fold(node: Node) -> Node:
    """A call of constants as its result; one that fails stays, so that it fails only where it is reached."""
    if isinstance(node, Literal | Column | Now) or not _all_constant(node):
        return node
    try:
        value = node.run(_EMPTY)
    except FAULTS:
        return node
    return Literal(value) if isinstance(value, pa.Scalar) else node


def _all_constant(node: Node) -> bool:
    return isinstance(node, Call) and all(a.constant is not None for a in node.args)


def literal(constant: Constant) -> pa.Scalar:
    """The value of a literal; raises BadLiteral."""
    kind = parse_type(constant.type)
    if kind is None:
        raise BadLiteral(
            f"unknown type {shown(constant.type)}{suggestion(constant.type.lower(), type_names())}"
        )
    if kind == NULL:
        return pa.scalar(None)
    try:
        node = cast(Literal(pa.scalar(constant.text, STRING)), kind)
    except ExprError:
        raise BadLiteral(f"type {type_name(kind)} has no literals") from None
    if node.constant is None:
        raise BadLiteral(f"{shown(constant.text)} is not a {type_name(kind)}")
    return node.constant


#: Schemas an operator meets at once; the tables of one query rarely have more than a few versions.
CACHE_SCHEMAS_MAX = 64


class ExprCache:
    """One expression of one operator, compiled for each schema that arrives; failures are remembered too."""

    __slots__ = ("_known", "expression", "schemas_max")

    def __init__(self, expression: Expression, schemas_max: int = CACHE_SCHEMAS_MAX) -> None:
        self.expression = expression
        self.schemas_max = schemas_max
        self._known: OrderedDict[SchemaId, Compiled | ExprError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, batch: Batch) -> Compiled:
        """The expression for the batch's schema; raises ExprError, the same each time for one schema."""
        number = batch.schema_id
        found = self._known.get(number)
        if found is None:
            found = self._compile(batch.schema)
            self._known[number] = found
            if len(self._known) > self.schemas_max:
                self._known.popitem(last=False)
        if isinstance(found, ExprError):
            raise found.with_traceback(None)
        return found

    def _compile(self, schema: pa.Schema) -> Compiled | ExprError:
        try:
            return compile_expression(self.expression, schema)
        except ExprError as error:
            return error
