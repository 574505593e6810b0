"""Tests of the implementations for tests."""
