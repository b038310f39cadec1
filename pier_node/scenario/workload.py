"""What a workload is, and the register of them.

A workload puts nodes on hosts, gives them work, and says what came of it. It stands outside the nodes and sees
all of them, so it can check what no node could. One file in `pier_node/scenario/workloads` for each, named like
its kind; it is imported when a scenario asks for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Generic, TypeVar

from pier_node.scenario.form import Form
from pier_node.scenario.parse import ScenarioError
from runtime.message import Message
from runtime.sim import SimHost, World

F = TypeVar("F", bound=Form)
W = TypeVar("W", bound="type[Workload[Any]]")
_PACKAGE = "pier_node.scenario.workloads"
_workloads: dict[str, type[Workload[Any]]] = {}


class Workload(ABC, Generic[F]):
    """The runner calls, in this order: `build` for each host, `start`, and after the duration `stop`; after the
    drain time `figures` and `check`. Hosts that restart or join later are handed to `build` when they do."""

    #: The form of the scenario's [workload] table, without `kind`.
    form: ClassVar[type[Form]] = Form
    #: Every message type that nodes of this workload exchange.
    messages: ClassVar[Sequence[type[Message]]]

    def __init__(self, world: World, form: F) -> None:
        self.world = world
        self.form_values = form

    @abstractmethod
    def build(self, host: SimHost) -> None:
        """Puts a node on the host, and nothing else: `host.runtime` and `host.messenger` are fresh."""

    def start(self) -> None:
        """Every node is built; the load begins."""

    def stop(self) -> None:
        """No new work from here on."""

    def figures(self) -> Mapping[str, Any]:
        """What was measured: names to numbers, texts, lists. The same for the same seed."""
        return {}

    def check(self) -> list[str]:
        """What must hold in every run, whatever the scenario's own checks: one line for each thing that does not."""
        return []


def register_workload(kind: str) -> Callable[[W], W]:
    """Class decorator: scenarios may say `kind = "..."` in [workload]."""

    def register(workload: W) -> W:
        assert kind not in _workloads, f"two workloads are called {kind}"
        _workloads[kind] = workload
        return workload

    return register


def find_workload(kind: str) -> type[Workload[Any]]:
    name = kind.replace("-", "_")
    if kind not in _workloads and name.isidentifier() and find_spec(f"{_PACKAGE}.{name}") is not None:
        import_module(f"{_PACKAGE}.{name}")
    if kind not in _workloads:
        raise ScenarioError(f"workload.kind: there is no workload {kind!r}")
    return _workloads[kind]
