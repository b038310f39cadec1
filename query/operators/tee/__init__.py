"""Tee: one producer, several consumers."""
