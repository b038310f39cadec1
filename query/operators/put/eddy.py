"""Put, Eddy: returns rows to the eddy they came from (PIER Table 3.3). See `query.operators.eddy.basic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from query import plan
from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.plan_hints import did_you_mean, quoted


@register
class PutEddy(Operator):
    """Hands rows back to an eddy."""

    TYPE = "put"
    IMPLEMENTATION = "Eddy"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (Option("eddy", "text", "the eddy of the same opgraph", required=True),)

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        eddies = [operator.name for operator in opgraph.operators if operator.type.lower() == "eddy"]
        if options["eddy"] not in eddies:
            message = f"there is no eddy {quoted(options['eddy'])} in this opgraph"
            raise SettingError("eddy", message, did_you_mean(options["eddy"], eddies))

    @classmethod
    def returns_to(cls, options: Mapping[str, Any]) -> str | None:
        name: str = options["eddy"]
        return name

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.emit(batch, tag)
