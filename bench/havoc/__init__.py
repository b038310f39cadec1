"""Havoc: node processes that are paused, killed, wiped, cloned and cut from each other while they are asked.

`hosts` are the machines (processes, in network namespaces where those can be had), `faults` what happens to them,
`questions` what is asked and what DuckDB says is right, `run` puts the three together.
"""
