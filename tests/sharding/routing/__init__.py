"""Tests of sharding/routing."""
