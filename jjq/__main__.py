"""`python -m jjq` is the command `jjq`."""

from __future__ import annotations

from jjq.cli import main

if __name__ == "__main__":
    main()
