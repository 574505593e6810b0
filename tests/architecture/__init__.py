"""Rules about the tree itself, each with a test that it can fail."""
