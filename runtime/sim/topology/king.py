"""Latency matrices like those measured by King between name servers of the Internet.

What such a matrix has, and this generator reproduces: clusters (continents, and regions within them), access
links that put some hosts far from everybody, a heavy tail, and detours that break the triangle inequality.
The median round trip is the published one of the King data set (1,740 name servers): 159 ms.
"""

from __future__ import annotations

import math
from array import array

from runtime.rng import Rng
from runtime.sim.topology.matrix import FLOOR_S, SITES_MAX, Matrix

MEDIAN_RTT_S = 0.159
#: Share of the sites, and place on a plane whose unit is one-way milliseconds: North America east and west,
#: Europe, East Asia, Australia, South America.
CONTINENTS = (
    (0.30, 0.0, 0.0),
    (0.20, -35.0, 0.0),
    (0.28, 45.0, 10.0),
    (0.14, -95.0, 15.0),
    (0.04, -100.0, -60.0),
    (0.04, 10.0, -65.0),
)
#: Spread of regions about their continent and of sites about their region, in milliseconds.
REGION_SPREAD_MS = 9.0
SITE_SPREAD_MS = 2.0
REGIONS_PER_CONTINENT = 6
#: The access link: Pareto, so that a few sites are slow to reach from everywhere.
ACCESS_MS = 2.5
ACCESS_SHAPE = 1.6
ACCESS_MAX_MS = 250.0
#: Spread (of the logarithm) of a pair's path about the geography, and the chance and factor of a detour.
PATH_SPREAD = 0.18
DETOUR_CHANCE = 0.04
DETOUR_FACTOR = 1.9


def king(seed: int, sites: int = 512, median_rtt_s: float = MEDIAN_RTT_S) -> Matrix:
    """A symmetric matrix of `sites`, scaled so that its median round trip is `median_rtt_s`."""
    if not 2 <= sites <= SITES_MAX:
        raise ValueError(f"sites = {sites}: must be in 2 ... {SITES_MAX}")
    rng = Rng.from_label(seed, "king")
    places = _places(rng, sites)
    rows = [array("f", bytes(4 * sites)) for _ in range(sites)]
    for a in range(sites):
        ax, ay, a_access = places[a]
        row = rows[a]
        for b in range(a):
            bx, by, b_access = places[b]
            path = math.hypot(ax - bx, ay - by) * math.exp(rng.gauss(0.0, PATH_SPREAD))
            if rng.random() < DETOUR_CHANCE:
                path *= DETOUR_FACTOR
            row[b] = rows[b][a] = path + a_access + b_access
    unscaled = Matrix(rows, seed).median_rtt_s()
    scale = median_rtt_s / unscaled
    return Matrix([array("f", (max(value * scale, FLOOR_S) for value in row)) for row in rows], seed)


def _places(rng: Rng, sites: int) -> list[tuple[float, float, float]]:
    """x, y and access delay of each site."""
    regions = [
        [
            (rng.gauss(x, REGION_SPREAD_MS), rng.gauss(y, REGION_SPREAD_MS))
            for _ in range(REGIONS_PER_CONTINENT)
        ]
        for _, x, y in CONTINENTS
    ]
    places = []
    for _ in range(sites):
        x, y = rng.choice(regions[_continent(rng.random())])
        access = min(ACCESS_MS * (1.0 - rng.random()) ** (-1.0 / ACCESS_SHAPE), ACCESS_MAX_MS)
        places.append((rng.gauss(x, SITE_SPREAD_MS), rng.gauss(y, SITE_SPREAD_MS), access))
    return places


def _continent(drawn: float) -> int:
    for number, (share, _, _) in enumerate(CONTINENTS):
        drawn -= share
        if drawn < 0.0:
            return number
    return 0
