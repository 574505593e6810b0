"""Tests of the server: over a fake store and over the real one."""
