"""Which node answers a request."""
