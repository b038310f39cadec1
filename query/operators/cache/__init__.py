"""Caches: rows kept while the query runs."""
