"""Tests of the object stores: one contract for all, then what is particular to each."""
