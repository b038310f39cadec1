"""Result: rows for whoever asked."""
