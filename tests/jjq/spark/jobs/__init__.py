"""Pipeline jobs on a real Spark."""
