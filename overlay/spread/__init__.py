"""Getting one message to many nodes, and their replies back (PIER 3.3.3; docs/decisions/0012)."""
