"""Tests of coldstore/layout."""
