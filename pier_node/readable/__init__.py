"""What queries may name by themselves: files and databases that the node's owner opened to them (scan CSV, Parquet,
JDBC).

Sources that the owner registered as tables are in `pier_node.sources`.
"""
