"""Tests of sharding/journal."""
