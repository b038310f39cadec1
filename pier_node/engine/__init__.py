"""The query engine as clients meet it: questions in text become plans, rows go back, tables are published."""
