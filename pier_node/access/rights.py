"""Judges what a client wants to do: None when it may, a refusal that names the role it would take otherwise."""

from __future__ import annotations

from pier_node.access.clients import Client
from pier_node.access.rates import Share
from pier_node.protocol import messages as m
from pier_node.protocol.server import OPENING
from pier_node.service import Failure
from query.plan import Constant, Plan
from runtime.message import Message


def judged(client: Client, share: Share, event: Message, now_s: float) -> Failure | None:
    """A message that opens a request: within the client's rates and rights? A query that may run counts as one
    of the client's until `Share.query_ended`."""
    assert isinstance(event, OPENING)
    knob = share.request(now_s)
    if knob is not None:
        return Failure("limit", f"too many requests of this client ({knob})", hint="ask more slowly")
    refused = _right(client, event)
    if refused is not None:
        share.rights_refused += 1
        return refused
    knob = share.query() if isinstance(event, m.Ask | m.ReadLog) else None
    if knob is not None:
        return Failure(
            "limit", f"too many queries of this client at once ({knob})", hint="wait for one to end"
        )
    return None


def _right(client: Client, event: Message) -> Failure | None:
    match event:
        case m.Publish() | m.Settle() | m.Unpublish():
            return may_publish(client, event.table)
        case m.PutObject():
            return may_publish(client, event.namespace)
        case m.Call(what="status" | "ring" | "whole-ring" | "members"):
            return None
        case m.Call(what="retire"):
            return may_administer(client, "retire members")
    return may_ask(client)


def may_administer(client: Client, what: str) -> Failure | None:
    return None if client.administers else _refused(client, what, "the role administer")


def may_ask(client: Client) -> Failure | None:
    return None if client.asks else _refused(client, "ask", "the role ask")


def may_publish(client: Client, namespace: str) -> Failure | None:
    if client.publishes_into(namespace):
        return None
    return _refused(
        client, f"publish into {namespace!r}", f"the role publish with a namespace like {namespace}"
    )


def may_run(client: Client, plan: Plan, query_id: str) -> Failure | None:
    """A query may always put into namespaces of its own, whose names carry its id; others are publications."""
    for opgraph in plan.opgraphs:
        for operator in opgraph.operators:
            given = operator.settings.get("ns")
            namespace = given.text if isinstance(given, Constant) else given
            if operator.type == "put" and isinstance(namespace, str) and query_id not in namespace:
                refused = may_publish(client, namespace)
                if refused is not None:
                    return refused
    return None


def _refused(client: Client, what: str, needs: str) -> Failure:
    return Failure(
        "refused",
        f"the token {client.name!r} does not allow to {what}",
        hint=f"it takes a token with {needs}",
    )
