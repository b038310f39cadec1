"""Runs a node from a configuration file: `python -m pier_node CONFIG.toml`. `pier node` does more."""

from __future__ import annotations

import sys

from pier_node.process import main

if len(sys.argv) != 2:
    print("usage: python -m pier_node CONFIG.toml", file=sys.stderr)
    sys.exit(2)
sys.exit(main(sys.argv[1]))
