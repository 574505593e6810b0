"""Tests of hotstore/checkpoint."""
