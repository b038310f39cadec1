"""Group-by: aggregates of groups of rows."""
