"""Joins: pairs of rows that belong together."""
