"""How a command ended, as a number for scripts. A whole answer is 0; everything else has a number of its own, so that
nobody takes a part for the whole because nobody looked."""

from __future__ import annotations

import enum
import sys


class Exit(enum.IntEnum):
    """In the order people meet them; the words are those of `--help`."""

    COMPLETE = 0, "done; of a query: the answer is whole"
    FAILED = 1, "failed: no node to talk to, a query that is none, no right to it, an error"
    USAGE = 2, "wrong usage"
    PARTIAL = 3, "partial: nodes or rows are missing from the answer (0 with --allow-partial)"
    LIMIT = 4, "a limit or a timeout ended it, or forbade it (0 with --allow-partial, if an answer was begun)"
    CANCELLED = 5, "somebody else cancelled the query"
    UNANSWERED = 6, "the query ran and failed"
    UNKNOWN_TABLE = 7, "no node knows a table that the query names (see --allow-unknown)"
    INTERRUPTED = 130, "interrupted by Ctrl-C"

    words: str

    def __new__(cls, number: int, words: str) -> Exit:
        member = int.__new__(cls, number)
        member._value_ = number
        member.words = words
        return member


def exit_codes() -> str:
    """The list, for help."""
    return "exit codes:\n" + "\n".join(f"  {code.value:<4}{code.words}" for code in Exit)


def exit_of(error: BaseException) -> Exit:
    """The code for an error of the client library; FAILED for any other."""
    client = sys.modules.get("pier_node.client")
    if client is None:
        return Exit.FAILED
    kinds = (
        (client.AnswerPartial, Exit.PARTIAL),
        (client.AnswerLimited, Exit.LIMIT),
        (client.AnswerCancelled, Exit.CANCELLED),
        (client.AnswerFailed, Exit.UNANSWERED),
        (client.UnknownTable, Exit.UNKNOWN_TABLE),
        (client.LimitReached, Exit.LIMIT),
    )
    return next((code for kind, code in kinds if isinstance(error, kind)), Exit.FAILED)
