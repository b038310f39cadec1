"""The fault menu.

What the network does, consulted for every message and datagram (`Faults`):
  loss         each packet is lost with a probability, everywhere or to and from some hosts
  duplication  a datagram arrives twice (packet level: a transport hides it at message level)
  reordering   a packet is held back, so that later ones overtake it
  partition    hosts that cannot reach each other, both ways or one way

What befalls a host:
  crash        `World.crash`, `World.restart`
  pause        nothing runs for a while, then everything that fell due meanwhile
  slow         computations take longer, and everything that arrives is handled late
  skew         its clock runs ahead, behind, or at another rate
  jump         its clock leaps
  churn        hosts come and go for good, with sessions of random length
"""

from runtime.sim.faults.churn import Churn
from runtime.sim.faults.duplication import Duplication
from runtime.sim.faults.jump import jump
from runtime.sim.faults.loss import Loss
from runtime.sim.faults.network import Faults
from runtime.sim.faults.partition import Partitions
from runtime.sim.faults.pause import pause
from runtime.sim.faults.reordering import Reordering
from runtime.sim.faults.skew import skew
from runtime.sim.faults.slow import slow

__all__ = [
    "Churn",
    "Duplication",
    "Faults",
    "Loss",
    "Partitions",
    "Reordering",
    "jump",
    "pause",
    "skew",
    "slow",
]
