"""What passes along an edge of an opgraph: probes down, batches and signals up (PIER 3.3.4).

Control is pulled and data is pushed. A consumer asks with a probe; whatever answers it carries the probe's
tag, so that nested probes may be answered in any order. A push answers with a `Flow`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from query.batch import Batch


class ProbeKind(enum.Enum):
    """What a probe asks for."""

    #: All data present at this node now; ends with end-of-probe.
    SET = "set"
    #: New data as it becomes available; what exists already is not retrieved.
    STREAM = "stream"
    #: As SET, limited to the rows whose columns equal one of the rows of `keys`.
    SET_PREDICATE = "set-predicate"


@dataclass(frozen=True, slots=True)
class Probe:
    """A request for data. `keys` is a batch of the wanted combinations, its columns named as the source's."""

    kind: ProbeKind
    tag: int
    keys: Batch | None = None


class Flow(enum.Enum):
    """What a consumer says when a batch is pushed to it. The batch is taken in every case."""

    #: Push on.
    MORE = "more"
    #: Hold further batches until `resume`.
    PAUSE = "pause"
    #: No more batches of this tag are wanted, ever.
    DONE = "done"


def least(flows: list[Flow]) -> Flow:
    """What several consumers say together: any pause pauses, all done is done."""
    if Flow.PAUSE in flows:
        return Flow.PAUSE
    return Flow.DONE if flows and all(flow is Flow.DONE for flow in flows) else Flow.MORE
