"""Scans: where rows come from."""
