"""The journal on object storage."""
