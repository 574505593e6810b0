"""Tests of hotstore/read."""
