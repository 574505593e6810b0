"""From a position to elements: hot blocks, starting points, lists."""
