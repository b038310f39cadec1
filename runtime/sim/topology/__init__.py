"""Where hosts are: the latency between any two of them."""

from runtime.sim.topology.base import Topology
from runtime.sim.topology.king import king
from runtime.sim.topology.matrix import Matrix, MatrixError, parse_matrix
from runtime.sim.topology.star import star
from runtime.sim.topology.transit_stub import transit_stub

__all__ = ["Matrix", "MatrixError", "Topology", "king", "parse_matrix", "star", "transit_stub"]
