"""Tests of the client: the verbs, producers, subscriptions, replays, and the blocking face."""
