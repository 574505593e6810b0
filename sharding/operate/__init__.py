"""What an operator asks for: plans, moves, drains."""
