"""Metrics, health and readiness over HTTP, for whoever looks after a node."""
