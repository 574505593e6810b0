"""Real servers for tests, on free loopback ports: SeaweedFS, moto, and a proxy that injects faults.

`fixtures.py` has the pytest fixtures, which `tests/conftest.py` exports to every test.
"""
