"""Tests of the translating module."""
