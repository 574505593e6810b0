"""Crash and fault harness: clients write histories, nemeses do harm, a checker judges. See docs/faults.md."""
