"""Text queues: the format, one file, several processes, the bridge and the command line."""
