"""Tests of the cold store."""
