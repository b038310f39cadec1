"""Many ends into one: the results of a batch in the order asked, and the pages of a get in one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from overlay.dht.messages import Answer, Code, Want
from overlay.dht.operations import GetObject, Got, GotObject, to_want
from overlay.dht.requests import ITEM_BYTES, Entry
from overlay.objects.name import Name
from runtime.api import Runtime

R = TypeVar("R")
#: What one get may collect over its pages; more ends with LIMIT and what there is.
GET_BYTES_MAX = 64 << 20


class Batch(Generic[R]):
    """Waits for one result per position; `each` hears of every one as it comes."""

    __slots__ = (
        "_done",
        "_each",
        "_left",
        "_results",
    )

    def __init__(
        self,
        runtime: Runtime,
        count: int,
        done: Callable[[list[R]], None] | None,
        each: Callable[[int, R], None] | None = None,
    ) -> None:
        self._each = each
        self._results: list[R | None] = [None] * count
        self._left = count
        self._done = done
        if count == 0:
            runtime.call_later(0.0, self._finish, None)

    def put(self, position: int, result: R) -> None:
        self._results[position] = result
        self._left -= 1
        if self._each is not None:
            self._each(position, result)
        if self._left == 0:
            self._finish(None)

    def slot(self, position: int) -> Callable[[R], None]:
        return partial(self.put, position)

    def _finish(self, _: None) -> None:
        if self._done is not None:
            self._done([result for result in self._results if result is not None])


class Reading:
    """One get over as many pages as it takes."""

    __slots__ = ("_done", "_get", "_objects", "_settled", "_size", "_submit", "_sure", "_want")

    def __init__(
        self, get: GetObject, submit: Callable[[Sequence[Entry]], None], done: Callable[[Got], None]
    ):
        self._get = get
        self._submit = submit
        self._done = done
        self._want = to_want(get)
        self._objects: list[GotObject] = []
        self._sure = self._settled = True
        self._size = 0

    def entry(self) -> Entry:
        return Entry(self._want, ITEM_BYTES, self._ended, to=self._get.target.address)

    def _ended(self, code: Code, answer: Any) -> None:
        if code is not Code.OK or not isinstance(answer, Answer):
            self._done(Got(code, tuple(self._objects)))
            return
        self._sure = self._sure and answer.sure
        self._settled = self._settled and answer.settled
        namespace, key = self._get.namespace, self._get.key
        for found in answer.found:
            self._size += len(found.value)
            name = Name(namespace, key, found.suffix)
            self._objects.append(GotObject(name, found.value, found.lifetime_ms / 1000, found.age_ms / 1000))
        if not answer.more:
            self._done(Got(Code.OK, tuple(self._objects), self._sure, self._settled))
        elif self._size > GET_BYTES_MAX:
            self._done(Got(Code.LIMIT, tuple(self._objects)))
        else:
            want = self._want
            after = answer.found[-1].suffix if answer.found else want.after
            self._want = Want(want.id, namespace, key, want.suffix, after)
            self._submit([self.entry()])
