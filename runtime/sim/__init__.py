"""The simulated binding of the runtime interface: thousands of nodes in one thread (PIER 3.1.4).

`World` is the way in. `runtime.sim.topology`, `runtime.sim.links` and `runtime.sim.faults` are its menus.
"""

from runtime.sim.compute import ComputeModel
from runtime.sim.counters import Statistics
from runtime.sim.faults import Churn, Faults, jump, pause, skew, slow
from runtime.sim.host import SimHost, SimRuntime
from runtime.sim.links import Fair, Fifo, Links, Unlimited
from runtime.sim.messages import MessageConfig
from runtime.sim.retransmission import Retransmission
from runtime.sim.topology import MatrixError, Topology, king, parse_matrix, star, transit_stub
from runtime.sim.wheel import PendingEventsExceeded
from runtime.sim.world import MessengerFactory, World

__all__ = [
    "Churn",
    "ComputeModel",
    "Fair",
    "Faults",
    "Fifo",
    "Links",
    "MatrixError",
    "MessageConfig",
    "MessengerFactory",
    "PendingEventsExceeded",
    "Retransmission",
    "SimHost",
    "SimRuntime",
    "Statistics",
    "Topology",
    "Unlimited",
    "World",
    "jump",
    "king",
    "parse_matrix",
    "pause",
    "skew",
    "slow",
    "star",
    "transit_stub",
]
