"""Opgraphs at work on one node: operators wired to each other, turns, budgets. See `operator.py`."""
