"""The client: the verbs, once, for asyncio and for blocking programs."""
