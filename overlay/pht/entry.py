"""What lies under a label: entries, and whether the label is a leaf.

    state            of a label: `I` and the label down to which it was split (internal), or `M` (being merged)
    e.<id>           an entry: its key and value; the id tells entries apart, whatever their keys

A label without state is a leaf, or below one. Readers take entries wherever they find them, also under labels that have
been split meanwhile, and look below internal and merging ones; so writers need no locks, and whoever owns an entry
moves it to its leaf when it next looks after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, PutObject
from overlay.objects.name import Name
from overlay.pht.label import BITS, ROOT, Label, label_of, place_of

STATE = "state"
_ENTRY = "e."
_INTERNAL, _MERGING = b"I", b"M"
_pairs = msgspec.msgpack.Decoder(tuple[bytes, bytes])


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with what it stands for."""

    key: bytes
    id: str
    value: bytes

    @property
    def place(self) -> int:
        return place_of(self.key)


@dataclass(frozen=True, slots=True)
class Found:
    """A label as it was read. `known` is whether its owner answered."""

    label: Label
    known: bool = True
    internal: bool = False
    merging: bool = False
    #: For an internal label: down to which it was split at once, because all its keys began so.
    target: Label = ROOT
    #: How long the state will live without renewal.
    state_s: float = 0.0
    entries: tuple[Entry, ...] = ()
    #: Whether that is everything that there is, and its owner is sure of it.
    all: bool = True

    @property
    def opened(self) -> bool:
        """Whether there may be entries below."""
        return self.internal or self.merging


def get_label(namespace: str, label: Label, state_only: bool = False) -> GetObject:
    return GetObject(namespace, label.text, STATE if state_only else None)


def put_entry(namespace: str, label: Label, entry: Entry, lifetime_s: float, copies: int) -> PutObject:
    name = entry_name(namespace, label, entry)
    return PutObject(name, msgspec.msgpack.encode((entry.key, entry.value)), lifetime_s, copies=copies)


def entry_name(namespace: str, label: Label, entry: Entry) -> Name:
    return Name(namespace, label.text, _ENTRY + entry.id)


def put_internal(namespace: str, label: Label, target: Label, lifetime_s: float, copies: int) -> PutObject:
    value = _INTERNAL + target.text.encode()
    return PutObject(state_name(namespace, label), value, lifetime_s, copies=copies)


def put_merging(namespace: str, label: Label, lifetime_s: float, copies: int) -> PutObject:
    return PutObject(state_name(namespace, label), _MERGING, lifetime_s, copies=copies)


def state_name(namespace: str, label: Label) -> Name:
    return Name(namespace, label.text, STATE)


def read(label: Label, got: Got) -> Found:
    """What a get says of a label; objects that nobody of us wrote are left out."""
    entries: list[Entry] = []
    state, state_s = b"", 0.0
    for found in got.objects:
        if found.name.suffix == STATE:
            state, state_s = found.value, found.lifetime_s
        elif found.name.suffix.startswith(_ENTRY):
            try:
                key, value = _pairs.decode(found.value)
            except msgspec.MsgspecError:
                continue
            entries.append(Entry(key, found.name.suffix[len(_ENTRY) :], value))
    target = label_of(state[1:].decode(errors="replace")) or label
    return Found(
        label,
        known=got.code in (Code.OK, Code.LIMIT),
        internal=state[:1] == _INTERNAL and label.length < BITS,
        merging=state[:1] == _MERGING,
        target=target if label.holds(target) else label,
        state_s=state_s,
        entries=tuple(entries),
        all=got.code is Code.OK and got.settled,
    )
