"""Firewall logs of any dialect to one table: detect, parse, generate. See docs/logs.md."""

from pier_node.logs.detect import Detected, detect
from pier_node.logs.dialects import DIALECTS
from pier_node.logs.events import FIREWALL_SCHEMA
from pier_node.logs.generate import Workload, generate, generate_events
from pier_node.logs.parser import Parser, Statistics, Unparsed
from pier_node.logs.printing import conform, print_events

__all__ = [
    "DIALECTS",
    "FIREWALL_SCHEMA",
    "Detected",
    "Parser",
    "Statistics",
    "Unparsed",
    "Workload",
    "conform",
    "detect",
    "generate",
    "generate_events",
    "print_events",
]
