"""Scenarios: a small file says what world to simulate, what to do in it, what goes wrong, and what must hold."""

from pier_node.scenario.checks import Check, Verdict, register_check
from pier_node.scenario.form import NODES_MAX, Scenario
from pier_node.scenario.load import load_scenario, with_latencies
from pier_node.scenario.mischief import DRAWN_PREFIX
from pier_node.scenario.parse import ScenarioError, parse_scenario
from pier_node.scenario.runner import Result, run_scenario
from pier_node.scenario.workload import Workload, register_workload

__all__ = [
    "DRAWN_PREFIX",
    "NODES_MAX",
    "Check",
    "Result",
    "Scenario",
    "ScenarioError",
    "Verdict",
    "Workload",
    "load_scenario",
    "parse_scenario",
    "register_check",
    "register_workload",
    "run_scenario",
    "with_latencies",
]
