"""The journal: its port, its format, and its implementation on a disk."""
