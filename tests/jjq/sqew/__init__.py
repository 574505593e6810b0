"""Sqew's interface: its own tests, redone from outside, and what jjq adds."""
