"""Presets: whole sections that belong together, by where the nodes are."""

from __future__ import annotations

from overlay.bamboo.config import BambooConfig
from overlay.roster.config import RosterConfig
from overlay.transport import config as transport
from pier_node.config.knobs import ClientSection, SecuritySection

#: Sections that are not named have their defaults, which are the data centre's.
PRESETS: dict[str, dict[str, object]] = {
    "local": {
        "transport": transport.LOCAL,
        "security": SecuritySection(keyring_check_s=1.0),
        "bamboo": BambooConfig(
            neighbour_period_floor_s=0.5,
            neighbour_period_ceiling_s=2.0,
            leaf_period_floor_s=1.0,
            leaf_period_ceiling_s=4.0,
            near_period_floor_s=5.0,
            partition_period_s=10.0,
            alone_period_s=1.0,
            quarantine_s=10.0,
            join_retry_floor_s=0.2,
            join_retry_ceiling_s=2.0,
        ),
        "roster": RosterConfig(period_s=10.0, news_period_s=0.5, review_period_s=1.0),
    },
    "datacentre": {"transport": transport.DEFAULT},
    "internet": {
        "transport": transport.WAN,
        "client": ClientSection(hello_timeout_s=20.0, ping_after_s=30.0, gone_after_s=120.0),
        "bamboo": BambooConfig(
            neighbour_period_floor_s=2.0,
            hop_timeout_floor_s=0.25,
            probe_timeout_floor_s=0.5,
            timeout_ceiling_s=5.0,
            quarantine_s=60.0,
            block_nodes_max=8,
        ),
    },
}
PRESET_DOCS = {
    "local": "all nodes on one machine or in one rack: short timeouts, quick repair",
    "datacentre": "one network, round trips of milliseconds: the defaults",
    "internet": "long and lossy paths, hosts that sleep: patience before despair",
}
DEFAULT_PRESET = "datacentre"
