"""One queue in the cold store: commit, merge, sweep, verify, bulk import."""
