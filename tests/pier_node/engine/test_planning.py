"""Texts are planned beside the loop: in turn by client, short ones in threads, others in a process, within bounds."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from pier_node.engine import planning
from pier_node.engine.compilers import Job, Question, Text, named, planned
from pier_node.engine.planning import BESIDE_CHARS_MAX, BESIDE_CLIENT_MAX, Planning
from pier_node.service import Failure
from runtime.api import OutOfMemory, OutOfTime
from ufl.sql import TableInfo
from ufl.sql.compiler import TEXT_CHARS_MAX


class World:
    """A runtime whose computations wait until they are let go."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.beside: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.apart: list[tuple[Callable[[Any], Any], Any, float, Callable[[Any], None]]] = []

    def now(self) -> float:
        return self.now_s

    def compute(self, fn: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.beside.append((fn, done))

    def compute_apart(
        self, fn: Callable[[Any], Any], argument: Any, time_s: float, memory: int, done: Callable[[Any], None]
    ) -> None:
        self.apart.append((fn, argument, time_s, done))

    def go_beside(self) -> None:
        fn, done = self.beside.pop(0)
        try:
            result = fn()
        except Exception as error:
            result = error
        done(result)


def job(text: str) -> Job:
    return Job("sql", Text(text, "q", 0, {"t": TableInfo({"x": pa.int64()}, ("source",))}))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def planner(world: World) -> Planning:
    return Planning(world)  # type: ignore[arg-type]


def test_a_short_text_is_planned_in_a_thread(world: World, planner: Planning) -> None:
    said: list[Any] = []
    planner.plan("a", planned, job("SELECT x FROM t"), 9.0, said.append)
    assert not said, "never on the loop"
    world.go_beside()
    assert isinstance(said[0], Question) and not world.apart


def test_a_text_that_is_too_long_is_refused_before_anything_reads_it(world: World, planner: Planning) -> None:
    said: list[Any] = []
    planner.plan("a", named, job("x" * (TEXT_CHARS_MAX + 1)), 9.0, said.append)
    assert isinstance(said[0], Failure) and said[0].kind == "syntax" and "longer than" in said[0].message
    assert not world.beside and not world.apart


def test_a_long_text_is_planned_apart_within_what_is_left_of_its_time(
    world: World, planner: Planning
) -> None:
    said: list[Any] = []
    planner.plan("a", planned, job("SELECT x FROM t" + " " * BESIDE_CHARS_MAX), 2.5, said.append)
    fn, argument, time_s, done = world.apart.pop()
    assert time_s == 2.5 and not world.beside
    # As the other process gets it and gives it back.
    fn, argument = pickle.loads(pickle.dumps((fn, argument)))
    made = pickle.loads(pickle.dumps(fn(argument)))
    assert made == planned(argument)
    done(made)
    assert said == [made]


def test_a_short_text_that_means_much_goes_on_apart(world: World, planner: Planning) -> None:
    letters = "abcdefghijklmnopqrs"
    doubled = ", ".join(f"{one} + {one} AS {two}" for one, two in pairwise(letters))
    said: list[Any] = []
    planner.plan("a", planned, job(f"SELECT x AS a, {doubled} FROM t"), 9.0, said.append)
    world.go_beside()
    assert not said and len(world.apart) == 1
    fn, argument, _, done = world.apart.pop()
    done(fn(argument))
    assert isinstance(said[0], Failure) and said[0].kind == "limit" and "steps" in said[0].message


@pytest.mark.parametrize("error", [OutOfTime("too long"), OutOfMemory("too much")])
def test_what_is_given_up_is_told(world: World, planner: Planning, error: Exception) -> None:
    said: list[Any] = []
    planner.plan("a", planned, job("SELECT x FROM t" + " " * BESIDE_CHARS_MAX), 9.0, said.append)
    world.apart.pop()[3](error)
    assert isinstance(said[0], Failure) and said[0].kind == "limit" and str(error) in said[0].message


def test_clients_take_turns_and_may_not_take_all_places(world: World, planner: Planning) -> None:
    said: list[tuple[str, Any]] = []

    def ask(client: str) -> None:
        planner.plan(client, planned, job("SELECT x FROM t"), 9.0, lambda made: said.append((client, made)))

    for _ in range(planning.BESIDE_AT_ONCE + BESIDE_CLIENT_MAX + 5):
        ask("greedy")
    assert len(said) == 5 and all(isinstance(made, Failure) for _, made in said)
    ask("modest")
    assert len(world.beside) == planning.BESIDE_AT_ONCE
    del said[:]
    for _ in range(4):
        world.go_beside()
    assert "modest" in [client for client, _ in said], "not behind all that was there before it"


def test_a_time_that_is_over_is_told_and_nothing_planned(world: World, planner: Planning) -> None:
    said: list[Any] = []
    large = job("SELECT x FROM t" + " " * BESIDE_CHARS_MAX)
    planner.plan("a", planned, large, 9.0, said.append)
    planner.plan("a", planned, large, 1.0, said.append)
    world.now_s = 2.0
    world.apart.pop()[3](OutOfTime("too long"))
    assert [made.kind for made in said] == ["limit", "limit"] and "time was over" in said[1].message
    assert not world.apart
