"""What goes wrong between Spark and the nodes, in words for whoever wrote the job."""

from __future__ import annotations


class PierSparkError(Exception):
    """A job cannot be done as it was asked for, or failed on the way; the message says what is left."""


class OptionError(PierSparkError):
    """An option is missing or makes no sense."""
