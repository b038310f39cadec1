"""Judges what a client wants to do: None when it may, a refusal that names the role it would take otherwise."""

from __future__ import annotations

from pier_node.access.clients import Client
from pier_node.access.rates import Hold, Share
from pier_node.protocol import messages as m
from pier_node.protocol.server import OPENING
from pier_node.service import FORBIDDEN, Failure
from query.dataflow.normal import read_by, written_by
from query.plan import Plan
from runtime.message import Message


def judged(client: Client, share: Share, event: Message, now_s: float) -> Failure | None:
    """A message that opens a request: within the client's rates and rights? What it holds (`holds`) counts as the
    client's until it is given back."""
    assert isinstance(event, OPENING)
    knob = share.request(now_s)
    if knob is not None:
        return Failure("limit", f"too many requests of this client ({knob})", hint="ask more slowly")
    refused = _right(client, event)
    if refused is not None:
        return refused
    hold = holds(event)
    words = None if hold is None else share.take(hold)
    return None if words is None else Failure("limit", words, hint="wait for one to end")


def holds(event: Message) -> Hold | None:
    """What a request holds of the node as long as it is open."""
    match event:
        case m.Ask() | m.ReadLog():
            return Hold.QUERIES
        case m.Publish():
            return Hold.PUBLICATIONS
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
    """Judged by what the operators' own classes say they write, with the options they will have. A query may put into
    namespaces of its own, which carry its id and which it reads itself; all others are publications."""
    read = set(read_by(plan))
    for namespace in written_by(plan):
        own = query_id in namespace and namespace in read
        refused = None if own else may_publish(client, namespace)
        if refused is not None:
            return refused
    return None


def may_cancel(client: Client, owner: str, query: str) -> Failure | None:
    """`owner` is the name of the token that asked it, empty when nobody here knows."""
    if client.administers or (client.name and owner == client.name):
        return None
    return Failure(
        FORBIDDEN,
        f"no query {query} of yours runs here",
        hint="the role administer cancels those of others; pier queries lists them",
    )


def _refused(client: Client, what: str, needs: str) -> Failure:
    return Failure(
        FORBIDDEN,
        f"the token {client.name!r} does not allow to {what}",
        hint=f"it takes a token with {needs}",
    )
