"""Tests of hotstore/catalog."""
