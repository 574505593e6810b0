"""Tests of coldstore/queue."""
