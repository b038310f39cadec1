"""The form of a scenario file: every table and key there is, with its default.

A file is TOML converted into these structs; a key that is not here, or has the wrong type, is an error that
names it. Workloads and checks bring the forms of their own tables.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from runtime.sim.faults.pause import PAUSE_S_MAX
from runtime.sim.links import CAPACITY_BPS
from runtime.sim.topology.king import MEDIAN_RTT_S

#: A hundred thousand hosts is what memory was measured for; ten times that is a mistyped number.
NODES_MAX = 1_000_000
#: Faults in one file.
FAULTS_MAX = 256

Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
NotNegative: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)]


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all tables."""


class Kind(Form, frozen=True, tag_field="kind"):
    """Base of tables that come in several kinds, told apart by their `kind`."""


# [topology]


class StarForm(Kind, frozen=True, tag="star"):
    latency_s: Positive = 0.05


class TransitStubForm(Kind, frozen=True, tag="transit-stub"):
    domains: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    routers_per_domain: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    stubs_per_router: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 3


class KingForm(Kind, frozen=True, tag="king"):
    sites: Annotated[int, msgspec.Meta(ge=2, le=2_048)] = 512
    median_rtt_s: Positive = MEDIAN_RTT_S


class MatrixForm(Kind, frozen=True, tag="matrix"):
    """Measured round trips in milliseconds; the path is relative to the scenario file."""

    file: str


TopologyForm: TypeAlias = StarForm | TransitStubForm | KingForm | MatrixForm

# [links]


class UnlimitedForm(Kind, frozen=True, tag="none"):
    pass


class FifoForm(Kind, frozen=True, tag="fifo"):
    out_bps: Positive = CAPACITY_BPS
    in_bps: Positive = CAPACITY_BPS
    queue_s_max: Positive | None = None


class FairForm(Kind, frozen=True, tag="fair"):
    out_bps: Positive = CAPACITY_BPS
    in_bps: Positive = CAPACITY_BPS
    queue_s_max: Positive | None = None


LinksForm: TypeAlias = UnlimitedForm | FifoForm | FairForm

# [network]


class NetworkForm(Form, frozen=True):
    level: Literal["message", "packet"] = "message"
    #: Encode and decode every message at message level; must not change the trace.
    serialise: bool = False
    header_bytes: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 60
    give_up_s: Positive = 5.0
    #: What a long computation is charged, times the factor.
    compute_s: NotNegative = 0.01
    fudge_factor: Positive = 1.0


# [[faults]]


class FaultForm(Kind, frozen=True):
    """All faults begin at `at_s`; those with `until_s` end there, or with the load."""

    at_s: NotNegative = 0.0


class ChosenForm(FaultForm, frozen=True):
    """A fault of some hosts: `count` of them or a `fraction`, drawn at random among those alive, never one of
    the first `spare`."""

    count: Count | None = None
    fraction: Rate | None = None
    spare: Annotated[int, msgspec.Meta(ge=0)] = 1


class CrashForm(ChosenForm, frozen=True, tag="crash"):
    restart_after_s: NotNegative | None = None


class ChurnForm(FaultForm, frozen=True, tag="churn"):
    until_s: Positive | None = None
    session_mean_s: Positive | None = None
    session_median_s: Positive | None = None
    replace_s_max: NotNegative = 1.0
    spare: Annotated[int, msgspec.Meta(ge=0)] = 1


class LossForm(FaultForm, frozen=True, kw_only=True, tag="loss"):
    until_s: Positive | None = None
    rate: Rate


class DuplicationForm(FaultForm, frozen=True, kw_only=True, tag="duplication"):
    until_s: Positive | None = None
    rate: Rate


class ReorderingForm(FaultForm, frozen=True, kw_only=True, tag="reordering"):
    until_s: Positive | None = None
    rate: Rate
    delay_s_max: NotNegative = 0.1


class PartitionForm(ChosenForm, frozen=True, tag="partition"):
    """Cuts the chosen hosts off from the rest; with `one_way` they can still hear, but not be heard."""

    until_s: Positive | None = None
    one_way: bool = False


class PairsForm(FaultForm, frozen=True, kw_only=True, tag="pairs"):
    """Cuts a share of all pairs of hosts, each drawn by itself; with `one_way` the first of each is not heard by the
    second. On PlanetLab 0.023 of the pairs at times."""

    until_s: Positive | None = None
    fraction: Rate
    one_way: bool = False


class SlowForm(ChosenForm, frozen=True, tag="slow"):
    until_s: Positive | None = None
    factor: Positive = 10.0
    lag_s: NotNegative = 0.5


class SkewForm(ChosenForm, frozen=True, tag="skew"):
    """Each chosen host's wall clock is off by up to `offset_s_max` and its rate by up to `drift_max`, either way."""

    offset_s_max: NotNegative = 10.0
    drift_max: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.001


class PauseForm(ChosenForm, frozen=True, tag="pause"):
    """The chosen hosts do nothing for `for_s`, and then everything that fell due meanwhile."""

    for_s: Annotated[float, msgspec.Meta(gt=0, le=PAUSE_S_MAX)] = 5.0


class StallForm(ChosenForm, frozen=True, tag="stall"):
    """The loops of the chosen hosts are busy again and again: for up to `busy_s_max` each time, `every_s` apart on
    average."""

    until_s: Positive | None = None
    busy_s_max: Annotated[float, msgspec.Meta(gt=0, le=PAUSE_S_MAX)] = 2.0
    every_s: Positive = 5.0


class JumpForm(ChosenForm, frozen=True, tag="jump"):
    """The clocks of the chosen hosts leap ahead by up to `ahead_s_max`, and their wall clocks by up to `wall_s_max`
    more, either way."""

    ahead_s_max: NotNegative = 10.0
    wall_s_max: NotNegative = 60.0


class RandomForm(FaultForm, frozen=True, tag="random"):
    """Faults of every other kind, drawn one after the other, `every_s` apart on average."""

    until_s: Positive | None = None
    every_s: Positive = 30.0
    spare: Annotated[int, msgspec.Meta(ge=0)] = 1


AnyFault: TypeAlias = (
    CrashForm
    | ChurnForm
    | LossForm
    | DuplicationForm
    | ReorderingForm
    | PartitionForm
    | PairsForm
    | SlowForm
    | SkewForm
    | PauseForm
    | StallForm
    | JumpForm
    | RandomForm
)

# The whole file


class Scenario(Form, frozen=True, kw_only=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    nodes: Count
    #: The load runs this long; then nothing new begins, and what is under way has `drain_s` to end.
    duration_s: Positive
    drain_s: NotNegative = 10.0
    #: Nodes do not start all at once: the first begins at 0, the last at `arrival_s`.
    arrival_s: NotNegative = 1.0
    topology: TopologyForm = msgspec.field(default_factory=StarForm)
    links: LinksForm = msgspec.field(default_factory=UnlimitedForm)
    network: NetworkForm = msgspec.field(default_factory=NetworkForm)
    #: `kind` and what that workload's own form says.
    workload: dict[str, Any]
    faults: Annotated[tuple[AnyFault, ...], msgspec.Meta(max_length=FAULTS_MAX)] = ()
    #: Each with a `kind` and what that check's own form says.
    checks: tuple[dict[str, Any], ...] = ()
