"""Tests of hotstore/lifecycle."""
