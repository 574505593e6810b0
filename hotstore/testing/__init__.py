"""Implementations of ports for tests."""
