"""The kinds of work that systems are compared by."""
