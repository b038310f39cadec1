"""Puts: rows into the DHT, to a node, into a filter."""
