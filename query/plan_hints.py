"""'Did you mean': the nearest known word to one that a query author got wrong.

Called only on the way to an error message, by the plan checks, the UFL parser and the operators.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

#: difflib compares every pair of characters, so neither long words nor endless lists may reach it.
WORD_CHARS_MAX = 64
CHOICES_MAX = 1_024


def nearest(word: str, choices: Iterable[str]) -> str:
    """The choice that looks most like `word`, ignoring case; empty if none comes near."""
    if len(word) > WORD_CHARS_MAX:
        return ""
    short = (choice for choice in choices if len(choice) <= WORD_CHARS_MAX)
    by_lower = {choice.lower(): choice for choice in islice(short, CHOICES_MAX)}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else ""


def did_you_mean(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """A hint that names the nearest choice, or `otherwise` if none comes near."""
    choice = nearest(word, choices)
    return f"did you mean {quoted(choice)}?" if choice else otherwise


def quoted(text: str) -> str:
    """`text` as it may stand in a message: one short line without control characters."""
    return repr(text if len(text) <= WORD_CHARS_MAX else text[: WORD_CHARS_MAX - 1] + "…")
