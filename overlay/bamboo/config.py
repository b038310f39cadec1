"""Every knob of a Bamboo node, with what turning it costs.

Periods are means: each wait is drawn from [P/2, 3P/2), so that nodes started together drift apart. Where a
period is given as a floor and a ceiling, the node chooses between them by the churn it sees: a fixed share
of the mean session time it estimates (see `churn`). The floors bound the traffic under the worst churn, the
ceilings bound how stale a calm ring may be.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BambooConfig:
    #: Leaves on each side. More survive more simultaneous deaths and shorten the last hops; each one has to be
    #: pinged and told of changes.
    leaf_per_side: int = 6
    #: Whether a cell of the routing table prefers the nearer of two nodes. Off only to measure its gain.
    proximity: bool = True
    #: A cell's node gives way only to one whose RTT is below this share of its own: less would make tables
    #: flap with jitter.
    proximity_gain: float = 0.9
    #: Nodes of one address block (IPv4 /24, IPv6 /48) in the routing table; zero: any number. A cap keeps whoever
    #: runs many nodes on one network from filling tables with them; it costs detours where members do share a
    #: network. Leaf sets are not capped: they must be whole for owners to be right.
    block_nodes_max: int = 0
    #: Without maintenance a node only routes: for experiments on a ring built by `static`.
    maintenance: bool = True

    #: Immediate neighbours are pinged when silent for this long. Shorter finds a dead owner before a lookup
    #: does; costs two messages a period and neighbour.
    neighbour_period_floor_s: float = 1.0
    neighbour_period_ceiling_s: float = 10.0
    neighbour_period_share: float = 0.02
    #: Leaf-set push-pull with one random leaf. Shorter heals missed joins sooner; two messages of some 160 bytes. The
    #: floor also holds while the node's own leaf set changes.
    leaf_period_floor_s: float = 4.0
    leaf_period_ceiling_s: float = 15.0
    leaf_period_share: float = 0.03
    #: Any other neighbour is pinged when silent for this long. Longer leaves more dead nodes in the table: each
    #: costs the first message that meets it one timeout, never a wrong delivery.
    ping_period_floor_s: float = 6.0
    ping_period_ceiling_s: float = 90.0
    ping_period_share: float = 0.2
    #: A row from a neighbour: fills holes and probes redundant candidates; and half as often a lookup of a random id
    #: below an own prefix, for holes that no neighbour can fill. Shorter tunes proximity sooner. The period is
    #: a share of the node's age: a table that has been tuned for long gains little.
    near_period_floor_s: float = 15.0
    near_period_ceiling_s: float = 60.0
    near_period_age_share: float = 0.2
    #: Redundant candidates probed a round: the price of proximity, two small messages each.
    near_probes: int = 4
    #: A join for the own id through a node believed down: heals partitions.
    partition_period_s: float = 60.0
    #: The same for a node that has lost everybody.
    alone_period_s: float = 5.0

    #: Timeouts are the peer's RTT + 4 deviations + the slack, within these bounds. Below the floor a stalled
    #: process looks dead; above the ceiling a dead one holds messages up.
    timeout_slack_s: float = 0.03
    hop_timeout_floor_s: float = 0.1
    probe_timeout_floor_s: float = 0.25
    timeout_ceiling_s: float = 5.0
    #: Before anything is known of a peer.
    timeout_unknown_s: float = 1.0
    #: Pings without answer after which a neighbour is taken out of use, and after which it is believed down.
    #: The wait doubles with each.
    probe_attempts_suspect: int = 2
    probe_attempts_max: int = 3
    #: A leaf is believed down no sooner than this after the first ping it left unanswered: a node behind a queue of
    #: seconds is out of use meanwhile, not dead. Longer keeps queries waiting for the dead, shorter buries the busy.
    death_floor_s: float = 6.0
    #: How long hearsay about a node believed down is ignored: as long as others may still list it.
    quarantine_s: float = 30.0

    #: A join that got no answer is tried again at the next gateway, with doubling waits, for ever.
    join_retry_floor_s: float = 1.0
    join_retry_ceiling_s: float = 30.0
    #: Attempts of one lookup or receipted message end to end; the wait is RTT-based and grows by half each time.
    lookup_attempts_max: int = 6
    lookup_timeout_floor_s: float = 0.5
    lookup_timeout_ceiling_s: float = 3.0

    #: What the session estimate starts from, and its highest useful value.
    session_initial_s: float = 600.0
    session_ceiling_s: float = 3_600.0

    @property
    def lease_s(self) -> float:
        """How long a neighbour's answer counts as its word that it has not given this node up. It buries nobody sooner
        after hearing it: with three pings whose waits double, 3.4 s of `death_floor_s` = 6 are left at the least."""
        return self.death_floor_s / 2
