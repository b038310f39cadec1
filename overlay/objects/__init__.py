"""Soft-state objects of one node (PIER 3.2.1, 3.2.3)."""
