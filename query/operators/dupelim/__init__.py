"""Duplicate elimination."""
