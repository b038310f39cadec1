"""Schemas on the wire: each has a short name derived from its content, and travels once a peer (docs/decisions/0010).

A batch names its schema (table, column names, types) by 8 bytes. Messages are lost, reordered, and peers
restart, so the rule is: the schema rides inside each message until the transport has confirmed one
message that carried it; a receiver that does not know a name (it restarted, or forgot) keeps the message,
asks, and is sent the schema. So no batch is undecodable for good, and a schema costs its bytes once a peer
in the common case. Both ends are machines: the caller moves the messages.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa

from query.batch import Batch, SchemaId, UnsupportedType, parse_type, schema_id, type_name
from query.batch.types import NESTING_MAX, is_canonical
from query.wire.limits import COLUMNS_MAX, SCHEMA_BYTES_MAX, BatchTooLarge, WireError

ID_BYTES = 8
#: Schemas remembered for one peer, on each side. A query's opgraphs exchange a handful.
PEER_SCHEMAS_MAX = 256
#: Messages and their bytes kept for one peer while their schema is asked for.
HELD_MESSAGES_MAX = 64
HELD_BYTES_MAX = 1 << 20
#: Descriptions of local schemas kept ready; as many as a process interns lively.
DESCRIBED_MAX = 4_096


class WireSchema(NamedTuple):
    """A table's schema with its name on the wire."""

    id: bytes
    table: str
    schema: pa.Schema
    number: SchemaId
    #: What travels; `read_schema` turns it back.
    description: bytes


def _describe_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return ["list", _describe_type(kind.value_type)]
    if pa.types.is_struct(kind):
        return ["struct", [[f.name, _describe_type(f.type)] for f in kind]]
    return type_name(kind)


_described: OrderedDict[tuple[str, SchemaId], WireSchema] = OrderedDict()


def describe(batch: Batch) -> WireSchema:
    """The wire schema of a local batch; computed once for each table and schema."""
    key = (batch.table, batch.schema_id)
    known = _described.get(key)
    if known is None:
        known = _described[key] = _describe(batch.table, batch.schema, batch.schema_id)
        if len(_described) > DESCRIBED_MAX:
            _described.popitem(last=False)
    return known


def _describe(table: str, schema: pa.Schema, number: SchemaId) -> WireSchema:
    odd = [f.name for f in schema if not is_canonical(f.type)]
    if odd:
        raise UnsupportedType(f"column {odd[0]!r} does not have a canonical type: use query.batch.from_arrow")
    description = msgspec.msgpack.encode([table, [[f.name, _describe_type(f.type)] for f in schema]])
    if len(schema) > COLUMNS_MAX or len(description) > SCHEMA_BYTES_MAX:
        raise BatchTooLarge(f"more than {COLUMNS_MAX} columns or {SCHEMA_BYTES_MAX} bytes of names")
    return WireSchema(_name(description), table, schema, number, description)


def _name(description: bytes) -> bytes:
    return blake2b(description, digest_size=ID_BYTES).digest()


def read_schema(description: bytes) -> WireSchema:
    """A schema from a peer; raises WireError."""
    if len(description) > SCHEMA_BYTES_MAX:
        raise WireError(f"schema of more than {SCHEMA_BYTES_MAX} bytes")
    try:
        table, columns = _decoder.decode(description)
        schema = pa.schema([_read_field(c, 0) for c in columns])
    except WireError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"malformed schema: {error}") from None
    return WireSchema(_name(description), table, schema, schema_id(schema), description)


_Columns = Annotated[list[tuple[str, Any]], msgspec.Meta(max_length=COLUMNS_MAX)]
_decoder = msgspec.msgpack.Decoder(tuple[str, _Columns])


def _read_field(column: Any, depth: int) -> pa.Field:
    name, kind = column
    if not isinstance(name, str):
        raise WireError("malformed column name")
    return pa.field(name, _read_type(kind, depth))


def _read_type(kind: Any, depth: int) -> pa.DataType:
    if depth > NESTING_MAX:
        raise WireError("types nested too deeply")
    if isinstance(kind, str):
        found = parse_type(kind)
        if found is None:
            raise WireError("unknown type")
        return found
    what, inner = kind
    if what == "list":
        return pa.list_(_read_type(inner, depth + 1))
    if what == "struct" and isinstance(inner, list) and len(inner) <= COLUMNS_MAX:
        return pa.struct([_read_field(f, depth + 1) for f in inner])
    raise WireError("unknown type")


class SchemaSender:
    """What one peer is known to know. Call `delivered` when the transport confirms a message."""

    __slots__ = ("_known", "schemas_max")

    def __init__(self, schemas_max: int = PEER_SCHEMAS_MAX) -> None:
        self.schemas_max = schemas_max
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def must_inline(self, schema: WireSchema) -> bool:
        """Whether the next message must carry the schema; the argument of `encode`."""
        if schema.id in self._known:
            self._known.move_to_end(schema.id)
            return False
        return True

    def delivered(self, schema: WireSchema) -> None:
        """The peer confirmed a message that carried the schema."""
        self._known[schema.id] = None
        self._known.move_to_end(schema.id)
        if len(self._known) > self.schemas_max:
            self._known.popitem(last=False)

    def asked(self, wire_id: bytes) -> None:
        """The peer asked for a schema: it does not know it (any more)."""
        self._known.pop(wire_id, None)

    def reset(self) -> None:
        """The peer restarted."""
        self._known.clear()


@dataclass(frozen=True, slots=True)
class MissingSchema:
    """A message whose schema is not known yet. Ask the sender for `id`; `message` is decodable then."""

    id: bytes
    message: bytes


class SchemaReceiver:
    """The schemas one peer has sent, and its messages that wait for one.

    One for each peer: names are hashes, and a peer that forges them must only harm itself.
    """

    __slots__ = ("_held", "_held_bytes", "_schemas", "dropped_messages", "schemas_max")

    def __init__(self, schemas_max: int = PEER_SCHEMAS_MAX) -> None:
        self.schemas_max = schemas_max
        self.dropped_messages = 0
        self._schemas: OrderedDict[bytes, WireSchema] = OrderedDict()
        self._held: deque[MissingSchema] = deque()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._schemas)

    @property
    def held_messages(self) -> int:
        return len(self._held)

    def get(self, wire_id: bytes) -> WireSchema | None:
        found = self._schemas.get(wire_id)
        if found is not None:
            self._schemas.move_to_end(wire_id)
        return found

    def learn(self, description: bytes, expected: bytes | None = None) -> WireSchema:
        """Remembers a schema that came inline or as an answer; raises WireError."""
        if expected is not None:
            known = self._schemas.get(expected)
            if known is not None and known.description == description:
                self._schemas.move_to_end(expected)
                return known
        schema = read_schema(description)
        if expected is not None and schema.id != expected:
            raise WireError("schema does not match its name")
        self._schemas[schema.id] = schema
        self._schemas.move_to_end(schema.id)
        if len(self._schemas) > self.schemas_max:
            self._schemas.popitem(last=False)
        return schema

    def hold(self, missing: MissingSchema) -> bool:
        """Keeps a message until its schema comes. True: ask for it now, no request is under way for it."""
        first = all(h.id != missing.id for h in self._held)
        self._held.append(missing)
        self._held_bytes += len(missing.message)
        while len(self._held) > HELD_MESSAGES_MAX or self._held_bytes > HELD_BYTES_MAX:
            self._held_bytes -= len(self._held.popleft().message)
            self.dropped_messages += 1
        return first

    def asking(self) -> tuple[bytes, ...]:
        """The names of schemas that held messages wait for, oldest first: what to ask for again."""
        return tuple(dict.fromkeys(h.id for h in self._held))

    def answered(self, description: bytes) -> list[bytes]:
        """The sender's answer; returns the messages that can be decoded now, in order. Raises WireError."""
        schema = self.learn(description)
        ready = [h.message for h in self._held if h.id == schema.id]
        self._held = deque(h for h in self._held if h.id != schema.id)
        self._held_bytes = sum(len(h.message) for h in self._held)
        return ready
