"""The state of one queue in memory: tail, subscribers, registry."""
