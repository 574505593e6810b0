"""Object stores: one narrow port and its implementations over a directory, S3 and memory."""
