"""Randomness and identity, passed in: the system's, or a seeded one that repeats itself."""

from __future__ import annotations

import random
import secrets
import threading
from typing import Protocol


class Chance(Protocol):
    """Port: randomness."""

    def token(self) -> str:
        """A new identity: 32 hexadecimal digits, never handed out before."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1) to spread retries with."""
        ...


class SystemChance:
    """Identities from the operating system's generator."""

    def token(self) -> str:
        return secrets.token_hex(16)

    def jitter(self) -> float:
        return random.random()


class SeededChance:
    """The same seed gives the same run. Ships with the product, for simulation and tests."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def token(self) -> str:
        with self._lock:
            return f"{self._random.getrandbits(128):032x}"

    def jitter(self) -> float:
        with self._lock:
            return self._random.random()
