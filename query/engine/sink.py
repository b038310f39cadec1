"""Where the answer of a query goes: what its proxy calls."""

from __future__ import annotations

from typing import Protocol

from query.batch import Batch
from query.engine.account import Account
from query.engine.messages import Remark


class Sink(Protocol):
    """Where a query's answer goes."""

    def rows(self, batch: Batch) -> bool:
        """Takes rows. False: the reader is behind; `ProxyQuery.ready` when it has caught up."""
        ...

    def progress(self, asked: int, answered: int) -> None: ...

    def remark(self, remark: Remark) -> None: ...

    def finish(self, account: Account) -> None: ...
