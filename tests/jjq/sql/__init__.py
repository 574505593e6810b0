"""SQL over queues: what a query may say, what it sees, and what it cannot do."""
