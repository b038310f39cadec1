"""The shipped transport for packet-level scenarios: sealed, as between real nodes, under a key from the seed."""

from __future__ import annotations

from overlay.transport import Keyring, MessageHost, open_messenger
from overlay.transport.keyring import KEY_BYTES, Key
from runtime.message import Codec
from runtime.rng import Rng
from runtime.sim import MessengerFactory, SimRuntime, World


def sealed_transport(seed: int) -> MessengerFactory:
    # A simulated cluster has nothing to hide, and its runs must repeat.
    secret = Rng.from_label(seed, "cluster key").randbytes(KEY_BYTES)
    keyring = Keyring((Key(secret, made_s=0),))

    def open_sealed(runtime: SimRuntime, codec: Codec) -> MessageHost:
        return open_messenger(runtime, codec, keyring=keyring)

    return open_sealed


def caught_exceptions(world: World) -> int:
    """Exceptions of node code that transports survived, as they must on a real host; in a simulation they are
    failures. At message level exceptions end the run by themselves."""
    messengers = (host.messenger for host in world.hosts)
    return sum(each.statistics().crashes for each in messengers if isinstance(each, MessageHost))
