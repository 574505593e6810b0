"""The documents of a cluster on object storage."""
