"""A call of a query made ready to run: read, checked and divided into stages once, however often the same bytes come.

Nothing here depends on the node, so nodes that live in one process, as in the simulator, share it. On a host of its own
a node gets every call once and the cache is only small.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

from query.dataflow.check import operator_problems
from query.engine.aim import targets_of
from query.engine.spec import StageCall, decode_call
from query.engine.stages import Stage, reading_published, shared, stages
from query.engine.trees import Trees
from query.plan_check import plan_problems

#: Calls that are kept, and how large they may be.
KEPT_MAX = 16
KEPT_BYTES_MAX = 64 << 10


class Prepared:
    """What follows from the bytes of a call alone."""

    def __init__(self, call: StageCall) -> None:
        self.call = call
        self.trees = Trees(call.spec.plan)

    @cached_property
    def problem(self) -> str:
        """Why no node can run it; nothing when all can. Asked before anything below."""
        plan = self.call.spec.plan
        for problem in plan_problems(plan):
            return problem.message
        for problem in operator_problems(plan):
            return problem.message
        return ""

    @cached_property
    def stages(self) -> list[Stage]:
        return stages(self.call.spec.plan)

    @cached_property
    def shared(self) -> int:
        """How many of the stages are not the asker's alone."""
        return shared(self.call.spec.plan, self.stages)

    @cached_property
    def reads_published(self) -> bool:
        """Whether nodes show their parts of published tables, and so must be sure which these are."""
        return bool(reading_published(self.call.spec.plan, self.stages))

    @cached_property
    def targets(self) -> dict[str, tuple[int, ...]]:
        """The keys whose owners alone run an opgraph, by its name."""
        return {opgraph.name: targets_of(opgraph) for opgraph in self.call.spec.plan.opgraphs}


def prepared(payload: bytes) -> Prepared:
    """Raises BadCall for bytes that are no call."""
    return _kept(payload) if len(payload) <= KEPT_BYTES_MAX else _made(payload)


def _made(payload: bytes) -> Prepared:
    return Prepared(decode_call(payload))


_kept = lru_cache(maxsize=KEPT_MAX)(_made)
