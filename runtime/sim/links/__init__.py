"""How hosts share the capacity of their access links: not at all, first come first served, or fairly."""

from runtime.sim.links.base import CAPACITY_BPS, Links, Port
from runtime.sim.links.fair import Fair
from runtime.sim.links.fifo import Fifo
from runtime.sim.links.unlimited import Unlimited

__all__ = ["CAPACITY_BPS", "Fair", "Fifo", "Links", "Port", "Unlimited"]
