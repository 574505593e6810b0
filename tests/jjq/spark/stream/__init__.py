"""Tests of `readStream.format("jjq")`."""
