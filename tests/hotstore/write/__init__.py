"""Tests of hotstore/write."""
