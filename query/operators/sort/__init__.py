"""Order: rows sorted, or the first of them."""
