"""Rows kept for others: what a query holds at one node and hands out by number, to whoever found that it is wanted
(PIER 4.3.2, the symmetric semi-join: both sides are joined as (key, where, number), then fetched in parallel).

A node asks each holder once per batch, all holders at the same time. A question that is not answered in time is asked
again; answers come in pieces that fit a message, and pieces that come twice are told apart by their numbers. Rows stay
until the asker of the query says that it is over, since a node may be done with its own part while others still fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from query.batch import Batch
from query.engine.messages import KeptRows, WantRows
from query.keys import RowStore
from query.keys.table import Ids
from query.wire import SchemaReceiver, WireError, decode, encode, split
from runtime.api import Address, Messenger, Runtime, Timer

#: How long an answer is waited for before the question is put again, and how often it is put in all.
ANSWER_S = 10.0
ATTEMPTS_MAX = 4
#: Rows of one question: numbers are eight bytes each.
WANTED_ROWS_MAX = 65_536
#: Pieces of one answer: its rows one by one, were they that large.
PIECES_MAX = WANTED_ROWS_MAX

#: Gets the rows asked for, in the order of the numbers, or None when they cannot be had.
OnRows = Callable[[list[Batch] | None], None]


@dataclass(slots=True)
class _Asked:
    """A question on its way."""

    to: Address
    message: WantRows
    done: OnRows
    timer: Timer
    attempts: int = 1
    pieces: dict[int, Batch] = field(default_factory=dict)


class KeptService:
    """Keeps rows of this node and fetches those of others (service "kept")."""

    def __init__(self, runtime: Runtime, messenger: Messenger, me: Address) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._me = me
        self._stores: dict[tuple[str, str], RowStore] = {}
        self._timers: dict[str, Timer] = {}
        self._asked: dict[int, _Asked] = {}
        self._questions = runtime.rng("query/kept").getrandbits(31)
        #: Answers to no question, and questions that were given up.
        self.strays = self.unanswered = 0
        messenger.on(WantRows, self._wanted)
        messenger.on(KeptRows, self._got)

    # -- holding

    def keep(self, query: str, channel: str, lifetime_s: float) -> RowStore:
        """Where a query's rows are held until it is over, at most so long."""
        if query not in self._timers:
            self._timers[query] = self._runtime.call_later(lifetime_s, self.release, query)
        return self._stores.setdefault((query, channel), RowStore())

    def release(self, query: str) -> None:
        """The query is over everywhere."""
        timer = self._timers.pop(query, None)
        if timer is not None:
            timer.cancel()
            for key in [key for key in self._stores if key[0] == query]:
                del self._stores[key]

    @property
    def held(self) -> int:
        return len(self._stores)

    def _wanted(self, sender: Address, message: WantRows) -> None:
        pieces = self._pieces(message)
        for number, piece in enumerate(pieces):
            self._messenger.send(sender, KeptRows(message.question, number, len(pieces), piece))
        if not pieces:
            self._messenger.send(sender, KeptRows(message.question, 0, 0, b""))

    def _pieces(self, message: WantRows) -> list[bytes]:
        """The rows as they travel, in order; none when they are not here."""
        store = self._stores.get((message.query, message.channel))
        if store is None or len(message.rows) % 8:
            return []
        wanted = np.frombuffer(message.rows, dtype="<i8").astype(np.int64)
        if len(wanted) == 0 or wanted.min() < 0 or wanted.max() >= store.rows:
            return []
        return [
            encode(part, inline_schema=True) for batch in in_order(store, wanted) for part in split(batch)
        ]

    # -- fetching

    def fetch(self, query: str, channel: str, holder: Address, rows: Ids, done: OnRows) -> None:
        """Rows of a holder by number; `done` is called later, once."""
        self._questions += 1
        question = self._questions
        message = WantRows(query, channel, question, rows.astype("<i8").tobytes())
        timer = self._runtime.call_later(ANSWER_S, self._late, question)
        self._asked[question] = _Asked(holder, message, done, timer)
        self._send(question)

    def _send(self, question: int) -> None:
        asked = self._asked[question]
        if asked.to == self._me:
            self._runtime.call_later(0.0, self._ask_here, question)
        else:
            self._messenger.send(asked.to, asked.message)

    def _ask_here(self, question: int) -> None:
        asked = self._asked.get(question)
        if asked is not None:
            pieces = self._pieces(asked.message)
            for number, piece in enumerate(pieces):
                self._got(self._me, KeptRows(question, number, len(pieces), piece))
            if not pieces:
                self._end(question, None)

    def _late(self, question: int) -> None:
        asked = self._asked.get(question)
        if asked is None:
            return
        if asked.attempts >= ATTEMPTS_MAX:
            self.unanswered += 1
            self._end(question, None)
            return
        asked.attempts += 1
        asked.timer = self._runtime.call_later(ANSWER_S, self._late, question)
        self._send(question)

    def _got(self, sender: Address, message: KeptRows) -> None:
        asked = self._asked.get(message.question)
        if asked is None or sender != asked.to:
            self.strays += 1
            return
        if message.piece >= message.pieces or message.pieces > PIECES_MAX:
            self._end(message.question, None)
            return
        try:
            batch = decode(message.payload, SchemaReceiver())
        except WireError:
            batch = None
        if not isinstance(batch, Batch):
            self._end(message.question, None)
            return
        asked.pieces[message.piece] = batch
        if len(asked.pieces) == message.pieces:
            self._end(message.question, [asked.pieces[number] for number in sorted(asked.pieces)])

    def _end(self, question: int, batches: list[Batch] | None) -> None:
        asked = self._asked.pop(question, None)
        if asked is not None:
            asked.timer.cancel()
            asked.done(batches)


def in_order(store: RowStore, rows: Ids) -> list[Batch]:
    """Rows by number as batches that follow each other; of one schema it is one batch."""
    parts = list(store.fetch(rows))
    if len(parts) == 1:
        return [parts[0][1]]
    whole: list[tuple[int, Batch]] = []
    for places, batch in parts:
        assert places is not None, "several parts say their places"
        breaks = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
        for start, end in pairwise(breaks):
            whole.append((int(places[start]), batch.slice(start, end - start)))
    return [batch for _, batch in sorted(whole, key=lambda pair: pair[0])]
