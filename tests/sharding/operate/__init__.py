"""Tests of sharding/operate."""
