"""From a scenario's tables to the world's parts."""

from __future__ import annotations

from pier_node.scenario.form import (
    FairForm,
    FifoForm,
    KingForm,
    LinksForm,
    MatrixForm,
    StarForm,
    TopologyForm,
    TransitStubForm,
)
from pier_node.scenario.parse import ScenarioError
from runtime.sim import (
    Fair,
    Fifo,
    Links,
    MatrixError,
    Topology,
    Unlimited,
    king,
    parse_matrix,
    star,
    transit_stub,
)


def build_topology(form: TopologyForm, seed: int, latencies: str | None) -> Topology:
    match form:
        case StarForm():
            return star(form.latency_s)
        case TransitStubForm():
            return transit_stub(seed, form.domains, form.routers_per_domain, form.stubs_per_router)
        case KingForm():
            return king(seed, form.sites, form.median_rtt_s)
        case MatrixForm():
            try:
                return parse_matrix((latencies or "").splitlines(), seed)
            except MatrixError as error:
                raise ScenarioError(f"topology.file: {form.file}: {error}") from None


def build_links(form: LinksForm) -> Links:
    match form:
        case FifoForm():
            return Fifo(form.out_bps, form.in_bps, form.queue_s_max)
        case FairForm():
            return Fair(form.out_bps, form.in_bps, form.queue_s_max)
        case _:
            return Unlimited()
