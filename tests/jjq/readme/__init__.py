"""Tests of what the README promises."""
