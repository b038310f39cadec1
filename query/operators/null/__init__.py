"""Null: placeholders."""
