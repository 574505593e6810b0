"""Who serves what: many nodes, with object storage as their only coordinator."""
