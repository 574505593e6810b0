"""What happens to a queue over time: replay at the start, seal, checkpoint, departure, maintenance."""
