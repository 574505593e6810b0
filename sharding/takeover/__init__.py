"""How a node gains and loses queues."""
