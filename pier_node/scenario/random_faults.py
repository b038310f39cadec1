"""Faults drawn from the whole menu: one after the other at random times, each with random but bounded strength.

The bounds are what a ring has to come through: not everybody dies at once, partitions heal, hosts that crash come
back. What is drawn follows from the seed, and how often each kind was drawn is counted.
"""

from __future__ import annotations

from collections.abc import Callable

from pier_node.scenario.form import (
    AnyFault,
    ChurnForm,
    CrashForm,
    DuplicationForm,
    JumpForm,
    LossForm,
    PairsForm,
    PartitionForm,
    PauseForm,
    ReorderingForm,
    SkewForm,
    SlowForm,
    StallForm,
)
from runtime.rng import Rng

#: How long a fault lasts that ends.
LASTS_S = (10.0, 180.0)
#: Hosts struck at once, as shares of those alive.
CRASH_SHARE = (0.01, 0.15)
PARTITION_SHARE = (0.02, 0.5)
PAIRS_SHARE = (0.0, 0.03)
SLOW_SHARE = (0.01, 0.1)
SKEW_SHARE = (0.05, 0.5)
PAUSE_SHARE = (0.01, 0.15)
STALL_SHARE = (0.01, 0.1)
JUMP_SHARE = (0.01, 0.2)
#: A long collection, a stopped process, a machine that was moved.
PAUSE_S = (1.0, 30.0)
BUSY_S = (0.3, 4.0)
RESTART_S = (0.5, 120.0)
SESSION_MEAN_S = (120.0, 1_800.0)
LOSS_MAX = 0.2
DUPLICATION_MAX = 0.3
REORDERING_MAX = 0.5


def _lasting(rng: Rng, now_s: float) -> float:
    return now_s + rng.uniform(*LASTS_S)


def _crash(rng: Rng, now_s: float, spare: int) -> AnyFault:
    restart_s = rng.uniform(*RESTART_S)
    return CrashForm(fraction=rng.uniform(*CRASH_SHARE), restart_after_s=restart_s, spare=spare)


def _churn(rng: Rng, now_s: float, spare: int) -> AnyFault:
    mean_s = rng.uniform(*SESSION_MEAN_S)
    return ChurnForm(until_s=_lasting(rng, now_s), session_mean_s=mean_s, replace_s_max=30.0, spare=spare)


def _loss(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return LossForm(rate=rng.uniform(0.0, LOSS_MAX), until_s=_lasting(rng, now_s))


def _duplication(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return DuplicationForm(rate=rng.uniform(0.0, DUPLICATION_MAX), until_s=_lasting(rng, now_s))


def _reordering(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return ReorderingForm(
        rate=rng.uniform(0.0, REORDERING_MAX), delay_s_max=0.5, until_s=_lasting(rng, now_s)
    )


def _partition(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return PartitionForm(
        fraction=rng.uniform(*PARTITION_SHARE),
        until_s=_lasting(rng, now_s),
        one_way=rng.random() < 0.3,
        spare=spare,
    )


def _pairs(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return PairsForm(
        fraction=rng.uniform(*PAIRS_SHARE), until_s=_lasting(rng, now_s), one_way=rng.random() < 0.3
    )


def _slow(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return SlowForm(
        fraction=rng.uniform(*SLOW_SHARE),
        until_s=_lasting(rng, now_s),
        lag_s=rng.uniform(0.0, 1.0),
        spare=spare,
    )


def _skew(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return SkewForm(fraction=rng.uniform(*SKEW_SHARE), offset_s_max=60.0, drift_max=0.001, spare=spare)


def _pause(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return PauseForm(fraction=rng.uniform(*PAUSE_SHARE), for_s=rng.uniform(*PAUSE_S), spare=spare)


def _stall(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return StallForm(
        fraction=rng.uniform(*STALL_SHARE),
        until_s=_lasting(rng, now_s),
        busy_s_max=rng.uniform(*BUSY_S),
        every_s=rng.uniform(1.0, 10.0),
        spare=spare,
    )


def _jump(rng: Rng, now_s: float, spare: int) -> AnyFault:
    return JumpForm(fraction=rng.uniform(*JUMP_SHARE), ahead_s_max=30.0, wall_s_max=3_600.0, spare=spare)


#: Every kind of fault there is.
MENU: dict[str, Callable[[Rng, float, int], AnyFault]] = {
    "crash": _crash,
    "churn": _churn,
    "loss": _loss,
    "duplication": _duplication,
    "reordering": _reordering,
    "partition": _partition,
    "pairs": _pairs,
    "slow": _slow,
    "skew": _skew,
    "pause": _pause,
    "stall": _stall,
    "jump": _jump,
}


def draw(rng: Rng, now_s: float, spare: int) -> tuple[str, AnyFault]:
    """One fault that begins now, and its kind."""
    kind = rng.choice(list(MENU))
    return kind, MENU[kind](rng, now_s, spare)
