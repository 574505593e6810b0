"""Following a queue as a stream."""
