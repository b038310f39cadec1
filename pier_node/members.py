"""Who belongs to the ring, as clients are told: the roster of this node, and who of it is there this moment."""

from __future__ import annotations

from overlay.roster.book import Kept
from overlay.roster.member import Standing
from overlay.roster.roster import Present, Roster
from overlay.router import Router
from pier_node.protocol.messages import MemberEntry
from pier_node.service import Failure, MembersView, Reply
from runtime.api import Runtime

#: The beginning of an id that is taken for it.
ID_DIGITS_MIN = 6
HERE, ABSENT, UNKNOWN = "here", "absent", "unknown"
_STATES = {Standing.LEFT: "left", Standing.RETIRED: "retired"}
_NOT_JOINED = Failure("unavailable", "this node is not on the ring yet", hint="ask again in a moment")


class Members:
    """Answers about members."""

    def __init__(self, runtime: Runtime, router: Router, roster: Roster) -> None:
        self._runtime = runtime
        self._router = router
        self._roster = roster

    def ask(self, done: Reply[MembersView]) -> None:
        if not self._router.joined:
            done(_NOT_JOINED)
            return

        def found(present: Present) -> None:
            wall = self._runtime.wall()
            entries = [_entry(kept, state_of(kept, present), wall) for kept in present.members]
            done(MembersView(tuple(sorted(entries, key=lambda entry: entry.id))))

        self._roster.present(found)

    def retire(self, who: str, done: Reply[None]) -> None:
        if not self._router.joined:
            done(_NOT_JOINED)
            return

        def told(everybody: bool) -> None:
            hint = "who was not told hears of it from its neighbours; ask pier members again"
            done(None if everybody else Failure("unavailable", "not every node could be told", hint=hint))

        def found(present: Present) -> None:
            meant = [kept for kept in present.members if _is_meant(kept, who)]
            absent = [kept for kept in meant if state_of(kept, present) == ABSENT]
            if len(absent) == 1:
                self._roster.retire(absent[0].member.id, told)
            else:
                done(_refusal(who, meant, absent))

        self._roster.present(found)

    def remarks(self) -> tuple[str, ...]:
        """What the owner of this node should know of other lives of its id."""
        wall = self._runtime.wall()
        return tuple(
            f"another node with this node's id at {twin.address}, last heard {wall - twin.heard:.0f} s ago: a data "
            f"directory was copied; {'it' if twin.later else 'this node'} began later and is put out"
            for twin in self._roster.namesakes.seen.values()
        )


def state_of(kept: Kept, present: Present) -> str:
    standing = kept.member.standing
    if not standing.expected:
        return _STATES[standing]
    if kept.member.id in present.absent:
        return ABSENT
    return HERE if present.whole else UNKNOWN


def _is_meant(kept: Kept, who: str) -> bool:
    member = kept.member
    if not member.standing.expected:
        return False
    by_id = len(who) >= ID_DIGITS_MIN and member.id.hex().startswith(who.lower())
    return by_id or (member.host != "" and member.host == who)


def _refusal(who: str, meant: list[Kept], absent: list[Kept]) -> Failure:
    if not meant:
        return Failure("refused", f"no member {who!r} is expected", hint="pier members lists them")
    if not absent:
        # Also where nobody could say: who is expected is not given up on a guess.
        return Failure(
            "refused", f"{who!r} is on the ring", hint="stop that node first; it then leaves by itself"
        )
    ids = ", ".join(kept.member.id.hex()[:12] for kept in absent[:8])
    return Failure(
        "refused", f"{len(absent)} absent members are called {who!r}", hint=f"name one by its id: {ids}"
    )


def _entry(kept: Kept, state: str, wall: float) -> MemberEntry:
    member = kept.member
    seen_s: float | None = None if member.standing is Standing.HERE else max(0.0, wall - kept.since)
    return MemberEntry(
        member.id.hex(),
        member.address,
        member.host,
        member.version,
        member.certificate,
        member.tables,
        state,
        0.0 if state == HERE else seen_s,
    )
