"""The driver's word about a load: first every node is asked whether it has its part, then all are told.

`commit` leaves either the whole load visible or none of it; where a node dies in between, the error says exactly which
rows are visible until when. All questions may be asked again: nodes remember what they were told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from pier_node.client import ConnectionLost, PierError, sync
from pier_node.protocol.messages import Published, Verdict
from pyspark_pier import reach
from pyspark_pier.errors import PierSparkError
from pyspark_pier.options import Access, WriteOptions

#: What a node gives rows when the job says nothing (pier_node.engine.publication).
LIFETIME_DEFAULT_S = 600.0
#: Nodes that are asked at the same time.
TOGETHER_MAX = 16
#: How often a node is asked again whose connection broke, and how long to wait between.
ATTEMPTS = 3
PAUSE_S = 0.5


class Settling:
    """One load and the nodes it was staged at. `rows` says how many rows which task left where, as "address task";
    the names of the tasks begin with `run`."""

    def __init__(self, options: WriteOptions, load: str, rows: Mapping[str, int], run: str) -> None:
        self._options = options
        self._load = load
        self._run = run
        self._tasks: dict[str, list[str]] = {}
        self._rows: dict[str, int] = {}
        for place, count in rows.items():
            address, task = place.split(" ", 1)
            self._tasks.setdefault(address, []).append(task)
            self._rows[address] = self._rows.get(address, 0) + count

    def commit(self) -> None:
        checked = self._each(self._tasks, "check")
        lacking = [
            f"{address}: {result if isinstance(result, PierError) else 'staged rows are gone'}"
            for address, result in checked.items()
            if isinstance(result, PierError) or result.rows != self._rows[address] or result.dropped
        ]
        if lacking:
            self.abort(self._tasks)
            raise PierSparkError(
                f"load {self._load} is not whole at {len(lacking)} nodes, so nothing of it was made visible: "
                + "; ".join(lacking)
            )
        told = self._each(self._tasks, "commit")
        problems = [
            f"{address}: {result if isinstance(result, PierError) else f'refused rows: {result.dropped}'}"
            for address, result in told.items()
            if isinstance(result, PierError) or result.refused
        ]
        if problems:
            self._take_back(problems)

    def commit_again(self) -> None:
        """For a load that may have been committed before, maybe at other nodes: what it published there goes."""
        clients = [entry.client for entry in reach.doors(self._options.access)]
        elsewhere: dict[str, list[str]] = {each: [] for each in clients if each not in self._tasks}
        self._each(elsewhere, "withdraw")
        self.commit()

    def _take_back(self, problems: list[str]) -> None:
        """Some nodes did not publish: what the others did is withdrawn, as far as they answer."""
        self.abort(self._tasks)
        withdrawn = self._each(self._tasks, "withdraw")
        left = [address for address, result in withdrawn.items() if isinstance(result, PierError)]
        answers = [result for result in withdrawn.values() if not isinstance(result, PierError)]
        doubtful = sum(result.unconfirmed for result in answers)
        lifetime_s = self._options.lifetime_s or LIFETIME_DEFAULT_S
        rows = sum(self._rows[address] for address in left)
        rest = f"{sum(result.objects for result in answers)} objects of it were taken back"
        if doubtful:
            rest += f"; {doubtful} may be visible for another {lifetime_s:g} s"
        if left:
            rest += f"; up to {rows} rows of {', '.join(left)} may be visible for another {lifetime_s:g} s"
        raise PierSparkError(f"load {self._load} could not be published ({'; '.join(problems)}); {rest}")

    def clear(self) -> None:
        """Takes back what other loads published into this table, at every node."""
        nodes: dict[str, list[str]] = {entry.client: [] for entry in reach.doors(self._options.access)}
        cleared = self._each(nodes, "clear")
        left = [
            f"{address}: {result if isinstance(result, PierError) else f'{result.unconfirmed} objects'}"
            for address, result in cleared.items()
            if isinstance(result, PierError) or result.unconfirmed
        ]
        if left:
            raise PierSparkError(f"load {self._load} is visible, but old rows remain: {'; '.join(left)}")

    def abort(self, addresses: Iterable[str]) -> None:
        """Lets staged rows go, also those that tasks are still sending; a node that does not answer lets them go when
        their lease ends."""
        self._each({address: [self._run] for address in addresses}, "abort", attempts=1)

    def _each(
        self, tasks: Mapping[str, list[str]], verdict: Verdict, attempts: int = ATTEMPTS
    ) -> dict[str, Published | PierError]:
        def ask(address: str) -> Published | PierError:
            return _asked(
                self._options.access,
                address,
                lambda conn: conn.settle(self._load, self._options.table, verdict, tasks[address]),
                attempts,
            )

        if not tasks:
            return {}
        with ThreadPoolExecutor(min(TOGETHER_MAX, len(tasks))) as pool:
            return dict(zip(tasks, pool.map(ask, tasks), strict=True))


def _asked(
    access: Access, address: str, question: Callable[[sync.Connection], Published], attempts: int
) -> Published | PierError:
    """A node's answer, or the error of the last attempt."""
    problem: PierError = ConnectionLost("not asked")
    for attempt in range(attempts):
        if attempt:
            time.sleep(PAUSE_S)
        try:
            with reach.only(access, address) as conn:
                return question(conn)
        except PierError as error:
            problem = error
    return problem
