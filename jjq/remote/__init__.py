"""A `Store` that is somewhere else: the gRPC client that everything else builds on."""
