"""Names and documents on object storage."""
