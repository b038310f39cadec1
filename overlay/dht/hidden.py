"""Loads that nobody sees yet: objects that were put under a load's name wait here until the load is shown.

A publisher puts all objects of a load under its name; owners keep them as they keep others, and show them to nobody.
When every owner has confirmed, two words go to every node: `turn` (this load is about to be seen) and `show`. Between
them, and on a node that heard the first word and not the second, a reader may meet some of the load's rows without
the others: it is told so (`turning`), and so is a reader who began before the load was shown here (`shown_since`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.objects.name import Name

#: For how long it is remembered that something of a namespace was shown: no reader begins earlier and reads later.
SHOWN_S = 600.0


@dataclass(slots=True)
class _Load:
    names: dict[Name, None] = field(default_factory=dict)
    #: When the last of its objects ends by itself.
    until: float = 0.0
    turned: bool = False


class HiddenLoads:
    """What one node holds of loads that are under way."""

    __slots__ = ("_loads", "_shown_at")

    def __init__(self) -> None:
        #: By namespace, then by load.
        self._loads: dict[str, dict[str, _Load]] = {}
        #: By namespace: when something of it was last shown here.
        self._shown_at: dict[str, float] = {}

    def add(self, name: Name, load: str, until: float, now: float) -> None:
        loads = self._loads.get(name.namespace)
        if loads is None or load not in loads:
            self._prune(now)
            loads = self._loads.setdefault(name.namespace, {})
            loads[load] = _Load()
        known = loads[load]
        known.names[name] = None
        known.until = max(known.until, until)

    def turn(self, namespace: str, load: str) -> list[Name]:
        """A load is about to be shown; what of it is here."""
        known = self._loads.get(namespace, {}).get(load)
        if known is None:
            return []
        known.turned = True
        return list(known.names)

    def show(self, namespace: str, load: str, now: float) -> list[Name]:
        """A load is shown; what of it is here."""
        loads = self._loads.get(namespace, {})
        known = loads.pop(load, None)
        if not loads:
            self._loads.pop(namespace, None)
        if known is None:
            return []
        self._shown_at[namespace] = now
        return list(known.names)

    def turning(self, namespace: str, now: float) -> bool:
        """Whether some of a namespace is about to be shown here, or was not shown when it should have been."""
        return any(load.turned and load.until > now for load in self._loads.get(namespace, {}).values())

    def shown_since(self, namespace: str, since: float) -> bool:
        return self._shown_at.get(namespace, since) > since

    def _prune(self, now: float) -> None:
        """Forgets what has ended by itself; asked when a load begins, so there is never more than is stored."""
        self._shown_at = {each: at for each, at in self._shown_at.items() if at > now - SHOWN_S}
        for namespace, loads in list(self._loads.items()):
            kept = {load: known for load, known in loads.items() if known.until > now}
            if kept:
                self._loads[namespace] = kept
            else:
                del self._loads[namespace]
