"""Reading blocks and the tail as a table."""
