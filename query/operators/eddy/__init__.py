"""Eddies: the order of operators decided while the query runs."""
