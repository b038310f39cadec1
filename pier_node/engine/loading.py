"""One load on its way into the DHT: whole, or not there.

    add(objects)      put at their owners under the load's name, where nobody sees them (`overlay.dht.hidden`)
    end()             when every owner has confirmed: written down, shown everywhere, told to whoever waits
    give_up()         taken back; nobody has seen anything of it

What an owner did not confirm is tried again, for as long as anything of the load is confirmed within the patience; so
what the client hears in the end is true when it hears it. Until then it is told how far things are. One object that an
owner refuses ends the load: it is said which and why.

Invariant: at most `PIECES_UNDER_WAY` pieces of `PIECE_OBJECTS` objects are under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from overlay.dht.messages import NAME_CHARS_MAX, Code
from overlay.dht.operations import PutObject
from overlay.dht.publisher import Publisher
from overlay.loads import Heard, LoadWords
from overlay.objects.name import Name
from pier_node.service import Failure, PublicationResult
from runtime.api import Runtime, Timer

PIECE_OBJECTS = 512
PIECES_UNDER_WAY = 4
#: Between tries of what was not confirmed, and how long nothing at all may be confirmed before the load is given up.
RETRY_S = 1.0
PATIENCE_S = 60.0
#: Between words to the client while it waits.
PROGRESS_S = 1.0
#: How often the ring is told to show a load before its objects are gone through one by one.
SHOW_TRIES = 3
#: Of a key that is named in an error.
KEY_SHOWN_CHARS = 80

#: What may be otherwise a moment later.
_TRANSIENT = frozenset({Code.UNREACHED, Code.LIMIT, Code.BUSY, Code.NOT_MINE})
_REASONS = {
    Code.FULL: "the node that owns its key has no room (overlay store limits)",
    Code.TOO_LARGE: "it is larger than the node that owns its key takes",
    Code.LONG_NAME: f"a part of its name is longer than {NAME_CHARS_MAX} characters",
}


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is: objects and rows so far, and those that their owners have confirmed."""

    objects: int
    confirmed: int
    rows: int
    rows_confirmed: int


class LoadWriter(Protocol):
    """Where the objects of one load are written down before it is shown."""

    def add(self, puts: Sequence[PutObject]) -> None: ...

    def keep(self, done: Callable[[Exception | None], None]) -> None:
        """All of it is there: it outlives a restart from now on."""
        ...

    def discard(self) -> None: ...


Objects: TypeAlias = Sequence[tuple[PutObject, int]]
OnLoaded: TypeAlias = Callable[[PublicationResult | Failure], None]


@dataclass(frozen=True, slots=True)
class LoadHooks:
    """What a load calls."""

    #: These names are part of it from now on.
    use: Callable[[Sequence[Name]], None]
    #: It has come to nothing: these are not part of it any more.
    release: Callable[[list[Name]], None]
    #: It failed before it was ended.
    failed: Callable[[Failure], None] = lambda failure: None
    told: Callable[[LoadProgress], None] | None = None


@dataclass(slots=True)
class _Piece:
    objects: Objects
    taken: Callable[[], None]


@dataclass(slots=True)
class _Counts:
    objects: int = 0
    confirmed: int = 0
    rows: int = 0
    rows_confirmed: int = 0
    hidden: int = 0
    shown: int = 0
    tries: int = 0
    names: list[Name] = field(default_factory=list)


class Loading:
    """A load from its first object until it is shown or given up."""

    def __init__(
        self,
        runtime: Runtime,
        publisher: Publisher,
        words: LoadWords,
        table: str,
        mark: str,
        writer: LoadWriter | None,
        hooks: LoadHooks,
        *,
        stubborn: bool = False,
    ) -> None:
        """`mark` is its name among the loads of the table. A stubborn load was there before: it takes over what is
        left of it, and never gives up."""
        self._runtime = runtime
        self._publisher = publisher
        self._words = words
        self._table = table
        self._mark = mark
        self._writer = writer
        self._hooks = hooks
        self._stubborn = stubborn
        self._waiting: deque[_Piece] = deque()
        self._under_way = 0
        self._counts = _Counts()
        self._last_confirmed_s = runtime.now()
        self._done: OnLoaded | None = None
        self._failure: Failure | None = None
        self._over = False
        self._last: Sequence[PutObject] = ()
        self._timer: Timer | None = None

    @property
    def names(self) -> list[Name]:
        return self._counts.names

    def add(self, objects: Objects, taken: Callable[[], None] = lambda: None) -> None:
        """Objects with the number of their rows; `taken` when all of these are confirmed."""
        if self._over:
            return
        counts = self._counts
        if not self._under_way and not self._waiting:
            # Patience is for owners; a client may take its time between two batches.
            self._last_confirmed_s = self._runtime.now()
        if self._publisher.room < len(objects):
            self._fail(Failure("limit", "this node keeps as many objects alive as it can (PUBLISHED_MAX)"))
            return
        marked = [(self._marked(put), rows) for put, rows in objects]
        if not self._write([put for put, _ in marked]):
            return
        counts.objects += len(marked)
        counts.rows += sum(rows for _, rows in marked)
        counts.hidden += sum(1 for put, _ in marked if put.load)
        self._use([put.name for put, _ in marked])
        pieces = [marked[at : at + PIECE_OBJECTS] for at in range(0, len(marked), PIECE_OBJECTS)] or [[]]
        left = len(pieces)

        def one() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                taken()

        self._waiting.extend(_Piece(piece, one) for piece in pieces)
        self._arm()
        self._next()

    def end(self, last: Sequence[PutObject], done: OnLoaded) -> None:
        """No more objects come; `last` are put when all others are there, and are never hidden."""
        self._done, self._last = done, last
        if self._failure is not None:
            self._runtime.call_later(0.0, done, self._failure)
        else:
            self._arm()
            self._next()

    def give_up(self) -> None:
        """Nobody wants it any more."""
        if not self._over:
            self._take_back()

    # --- putting -----------------------------------------------------------------------------------------------

    def _marked(self, put: PutObject) -> PutObject:
        """What is published and seen already stays so."""
        return put if self._publisher.shows(put.name) else replace(put, load=self._mark)

    def _use(self, names: list[Name]) -> None:
        self._counts.names += names
        self._hooks.use(names)

    def _write(self, puts: Sequence[PutObject]) -> bool:
        if self._writer is None:
            return True
        try:
            self._writer.add(puts)
        except OSError as error:
            self._fail(_not_written(error))
            return False
        return True

    def _next(self) -> None:
        while self._waiting and self._under_way < PIECES_UNDER_WAY and not self._over:
            self._put(self._waiting.popleft())
        if self._done is not None and not self._waiting and not self._under_way and not self._over:
            self._over = True
            self._keep(self._done)

    def _put(self, piece: _Piece) -> None:
        self._under_way += 1

        def stored(codes: list[Code]) -> None:
            self._under_way -= 1
            if not self._over:
                self._stored(piece, codes)
                self._next()

        self._publisher.publish([put for put, _ in piece.objects], stored, adopt=self._stubborn)

    def _stored(self, piece: _Piece, codes: list[Code]) -> None:
        counts = self._counts
        again = []
        for (put, rows), code in zip(piece.objects, codes, strict=True):
            if code is Code.OK:
                counts.confirmed += 1
                counts.rows_confirmed += rows
            elif code in _TRANSIENT or self._stubborn:
                again.append((put, rows))
            else:
                self._fail(_refused(put, code))
                return
        if len(again) < len(piece.objects):
            self._last_confirmed_s = self._runtime.now()
        if not again:
            piece.taken()
        elif self._runtime.now() - self._last_confirmed_s > PATIENCE_S and not self._stubborn:
            left = counts.rows - counts.rows_confirmed
            text = f"{left} of {counts.rows} rows could not be confirmed: no owner of their keys answered"
            self._fail(Failure("unavailable", f"nothing was published: {text}", hint="publish again later"))
        else:
            self._under_way += 1
            self._runtime.call_later(RETRY_S, self._again, _Piece(again, piece.taken))

    def _again(self, piece: _Piece) -> None:
        self._under_way -= 1
        if not self._over:
            self._waiting.appendleft(piece)
            self._next()

    # --- showing -----------------------------------------------------------------------------------------------

    def _keep(self, done: OnLoaded) -> None:
        """Everything is there: the dictionary is told, it is written down, then the ring shows it."""

        def written(error: Exception | None) -> None:
            if error is not None:
                self._over = False
                self._fail(_not_written(error))
            else:
                self._show(done)

        def stored(codes: list[Code]) -> None:
            if self._writer is None:
                self._show(done)
            else:
                self._writer.keep(written)

        self._use([put.name for put in self._last])
        if self._writer is not None:
            try:
                self._writer.add(self._last)
            except OSError as error:
                written(error)
                return
        self._publisher.publish(self._last, stored)

    def _show(self, done: OnLoaded) -> None:
        counts = self._counts
        self._publisher.show(counts.names)
        if counts.hidden == 0:
            self._finish(done, 0)
            return

        def told(result: Heard) -> None:
            counts.shown += result.objects
            counts.tries += 1
            if self._stubborn or (counts.shown >= counts.hidden and result.everybody):
                # Of one that was there before, most was seen all the time; renewals show what one word did not.
                self._finish(done, 0)
            elif counts.tries < SHOW_TRIES:
                self._runtime.call_later(RETRY_S, lambda _: self._show(done), None)
            else:
                self._publisher.renew(counts.names, lambda confirmed: renewed(confirmed))

        def renewed(confirmed: int) -> None:
            self._finish(done, len(counts.names) - confirmed)

        self._words.show(self._table, self._mark, told)

    def _finish(self, done: OnLoaded, unconfirmed: int) -> None:
        self._stop()
        done(PublicationResult(self._counts.rows, self._counts.objects, unconfirmed=unconfirmed))

    # --- the end, and words on the way -------------------------------------------------------------------------

    def _fail(self, failure: Failure) -> None:
        if self._over:
            return
        self._failure = failure
        self._take_back()
        (self._done or self._hooks.failed)(failure)

    def _take_back(self) -> None:
        self._over = True
        self._stop()
        self._waiting.clear()
        if self._writer is not None:
            self._writer.discard()
        self._hooks.release(self._counts.names)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._hooks.told is not None and self._timer is None:
            self._timer = self._runtime.call_later(PROGRESS_S, self._tell, None)

    def _tell(self, _: None) -> None:
        self._timer = None
        counts = self._counts
        if self._hooks.told is not None:
            self._hooks.told(
                LoadProgress(counts.objects, counts.confirmed, counts.rows, counts.rows_confirmed)
            )
        self._arm()


def _refused(put: PutObject, code: Code) -> Failure:
    reason = _REASONS.get(code, code.name)
    key = put.name.key[:KEY_SHOWN_CHARS]
    kind = "limit" if code is Code.FULL else "refused"
    return Failure(kind, f"nothing was published: a row with key {key!r} was refused ({code.name}): {reason}")


def _not_written(error: Exception) -> Failure:
    return Failure("unavailable", f"nothing was published: this node cannot write it down: {error}")
