"""Queries across nodes: the executor on every node, the proxy of the asker, completion and the account."""
