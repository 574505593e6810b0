"""The console in a real browser, against real servers with real data.

All of these tests are one group of xdist, with one browser; none is a coroutine (tests/servers/browser.py says why).
`python -m tests.jjq.console.browser.pictures` makes the pictures of the documentation.
"""
