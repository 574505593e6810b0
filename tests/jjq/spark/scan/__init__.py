"""Tests of jjq/spark/scan."""
