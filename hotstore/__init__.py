"""The recent past: the journal, the hot-hot block, loaded blocks, and every subscriber's place."""
