"""Tests of hotstore/queue."""
