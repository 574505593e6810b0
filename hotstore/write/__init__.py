"""From a push to its receipt: admission, group commit, producers."""
