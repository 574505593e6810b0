"""Tests of `write` and `writeStream.format("jjq")`."""
