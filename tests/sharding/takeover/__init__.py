"""Tests of sharding/takeover."""
