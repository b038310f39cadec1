"""Selection: keeps the rows a predicate holds for."""
