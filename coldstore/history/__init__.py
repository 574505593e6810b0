"""The list of a queue's blocks."""
