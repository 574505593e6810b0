"""Tests of sharding/documents."""
