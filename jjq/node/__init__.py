"""A node: settings, logs, and the objects that a server is made of."""
