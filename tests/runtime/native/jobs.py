"""Computations for a process of their own, which finds them by the name of this module."""

from __future__ import annotations

import os


def pid(number: int) -> tuple[int, int]:
    return number, os.getpid()


def forever(_: int) -> int:
    while True:
        pass


def large(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


def death(status: int) -> int:
    os._exit(status)


def wrong(_: int) -> int:
    print("this is no result")
    return 1 // 0
