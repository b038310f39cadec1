"""Text to plan: the UFL parser and printer (PIER 3.3.2 and Appendix A; docs/ufl.md is the reference)."""

from ufl.errors import UflError
from ufl.expansion import expand
from ufl.parser import LocatedPlan, parse, parse_located
from ufl.printer import unparse

__all__ = ["LocatedPlan", "UflError", "expand", "parse", "parse_located", "unparse"]
