"""Partial states from many nodes to one root, again and again: the algorithms of PIER 4.2, Appendices B and C."""
