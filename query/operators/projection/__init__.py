"""Projection: changes the columns of rows."""
