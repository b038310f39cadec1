"""Secondary indexes over published tables: entries of (key, where the row lies), in order or by hash (PIER 3.3.3)."""
