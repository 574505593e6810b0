"""Tests with a real Spark on this machine. All of one run share one session: a JVM takes seconds to start."""
