"""Writing rows to a queue."""
