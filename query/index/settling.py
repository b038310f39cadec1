"""Parts of indexes that were lost with their owner are whole again when all nodes have indexed all rows that they own.

The heir of such a part waits until published rows are back (`overlay.dht.doubts`), asks every node in one spread to
bring the entries of its own rows up to date, and takes the part for settled when all have answered. A node that is not
sure of its rows yet, because it is an heir itself, does not answer for them: then it is asked again. Where no node
knows of any index (`overlay.dht.recall`), there is nothing to settle and nobody is asked.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.dht.standing import Standing
from overlay.dht.verbs import Dht
from overlay.spread.account import Account
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from runtime.api import Runtime, Timer

TOPIC = "index-settle"
#: Between published rows being back and the first question: other parts come back at about the same time.
FIRST_S = 0.1
#: For each node there is, so much longer: what comes meanwhile is settled with it.
PER_NODE_S = 0.05
#: After a try that failed, twice as long each time.
AGAIN_S = 2.0
AGAIN_S_MAX = 60.0
#: How long a node waits to be sure of its rows before it says that it is not.
SURE_S = 5.0


class Settling:
    """This node's part in making indexes whole: as an heir, and as one that feeds them."""

    def __init__(
        self,
        runtime: Runtime,
        dht: Dht,
        spread: Spread,
        bring_up_to_date: Callable[[Callable[[bool], None]], None],
        knows_any: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._dht = dht
        self._spread = spread
        self._bring_up_to_date = bring_up_to_date
        self._timer: Timer | None = None
        self._out = False
        self._again_s = AGAIN_S
        self.asked = self.failed = 0
        dht.doubts.made = knows_any
        dht.doubts.ended.append(lambda: self._arm(FIRST_S))
        spread.on_arrival(TOPIC, self._arrived)

    def _arm(self, after_s: float) -> None:
        if self._timer is None and not self._out and self._dht.doubts.unsettled():
            after_s += PER_NODE_S * self._spread.about_nodes()
            self._timer = self._runtime.call_later(after_s, self._ask, None)

    def _ask(self, _: None) -> None:
        self._timer = None
        pieces = self._dht.doubts.unsettled()
        if not pieces:
            return
        self._out = True
        self.asked += 1

        def done(reply: bytes | None, account: Account) -> None:
            self._out = False
            if account.complete:
                self._dht.doubts.settled(list(pieces))
                self._again_s = AGAIN_S
            else:
                self.failed += 1
                self._again_s = min(AGAIN_S_MAX, 2.0 * self._again_s)
            self._arm(self._again_s)

        self._spread.start(TOPIC, b"", done)

    def _arrived(self, branch: Branch) -> None:
        def answer(ok: bool) -> None:
            if ok:
                branch.reply()
            else:
                branch.fail()

        def stood(standing: Standing) -> None:
            if standing.whole:
                self._bring_up_to_date(answer)
            else:
                branch.fail()

        self._dht.stand(stood, SURE_S)
