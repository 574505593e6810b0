"""Tests of coldstore/history."""
