"""Tests of coldstore/block."""
