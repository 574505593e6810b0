"""The relational view of positions, in DuckDB."""
