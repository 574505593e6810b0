"""Nemeses: one file for each kind of harm."""
