"""First contact: why a server cannot be reached, in a sentence that says what to do.

gRPC says "failed to connect to all addresses" or "Socket closed" whatever is wrong, often after many seconds. So if a
client has not reached any server yet, and cannot connect, this module checks each address by simple means: does
anybody listen, do both sides use TLS, do they trust each other, is it gRPC at all? A check changes nothing on the other
side: it says hello as any client of HTTP/2 does, and hangs up.

Silence is no answer: a busy server may need more time than a check has. Then there is nothing to say, and the client
goes on trying as if it had reached the server.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from typing import Final, NamedTuple

from coldstore.shared.errors import InvalidInput
from jjq.addresses import split_address
from jjq.limits import CONTACT_SECONDS
from jjq.remote.settings import ClientTls

# What a client of HTTP/2 says first: the preface and an empty frame of settings. The answer is such a frame.
_HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS: Final = 4  # the kind of that frame, in its fourth byte


class Obstacle(NamedTuple):
    """What is wrong with an address, and what to do about it."""

    problem: str
    advice: str


async def obstacle(target: str, tls: ClientTls | None) -> Obstacle | None:
    """What certainly keeps a client from the server at `target`; None if nothing does, or if it is silent."""
    host, port = split_address(target, "server")
    try:
        async with asyncio.timeout(CONTACT_SECONDS):
            if tls is None:
                return await _check_plaintext(target, host, port)
            return await _secure(target, host, port, tls)
    except TimeoutError:
        return None
    except socket.gaierror as error:
        return Obstacle(f"the host of {target} is not known ({error.strerror})", "correct the name")
    except OSError as error:
        if isinstance(error, ConnectionRefusedError) or error.errno in {None, errno.ECONNREFUSED}:
            return Obstacle(
                f"nobody listens on {target}",
                "run `jjq serve`, or name a server that runs (--server or JJQ_SERVER on the command line)",
            )
        return Obstacle(f"{target} cannot be reached ({error.strerror})", "look at the network")


def describe(obstacles: list[Obstacle]) -> str:
    """All of them as one line, each advice once."""
    problems = "; ".join(dict.fromkeys(each.problem for each in obstacles))
    return f"{problems}: {', or '.join(dict.fromkeys(each.advice for each in obstacles))}"


async def _check_plaintext(target: str, host: str, port: int) -> Obstacle | None:
    if await _greets(host, port, None):
        return None
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=anyone, server_hostname=host)
    except ssl.SSLError as error:
        if error.reason is None or "ALERT" not in error.reason:
            return _not_a_server(target)
    except ConnectionError:
        return _not_a_server(target)
    else:
        writer.transport.abort()
    return Obstacle(
        f"{target} speaks TLS, and this client does not",
        "name the authority to trust: tls=jjq.ClientTls(authority=…), or --tls-ca",
    )


async def _secure(target: str, host: str, port: int, tls: ClientTls) -> Obstacle | None:
    context = _context(tls)
    try:
        if await _greets(host, port, context):
            return None
    except ssl.SSLCertVerificationError as error:
        return Obstacle(
            f"the certificate of {target} is not trusted ({error.verify_message})",
            "name the authority that signed it, and the server as its certificate does",
        )
    except (ssl.SSLError, ConnectionResetError):
        pass  # the checks without a certificate, which follow, say which side refused it
    if await _greets(host, port, None):
        return Obstacle(f"{target} does not speak TLS, and this client does", "leave out the TLS settings")
    if not await _shakes_hands(host, port, context):
        return _not_a_server(target)
    if tls.certificate is None:
        return Obstacle(
            f"{target} wants a certificate of its clients (mTLS), and this client shows none",
            "give certificate and key: jjq.ClientTls(authority, certificate, key), or --tls-certificate, --tls-key",
        )
    return Obstacle(
        f"{target} does not accept the certificate {tls.certificate}",
        "use one that is signed by the authority that the server trusts",
    )


def _not_a_server(target: str) -> Obstacle:
    return Obstacle(
        f"{target} takes connections but does not answer as a jjq server does",
        "correct the address, or try again if the server is starting or stopping",
    )


def _context(tls: ClientTls) -> ssl.SSLContext:
    try:
        context = tls.context()
    except (ssl.SSLError, OSError) as error:
        raise InvalidInput(f"the TLS files cannot be used ({error}): give PEM files that fit") from None
    context.set_alpn_protocols(["h2"])
    return context


async def _greets(host: str, port: int, context: ssl.SSLContext | None) -> bool:
    """Whether HTTP/2 is spoken there."""
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=None if context is None else host
    )
    try:
        writer.write(_HELLO)
        answer = await reader.readexactly(9)
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    finally:
        writer.transport.abort()
    return answer[3] == _SETTINGS


async def _shakes_hands(host: str, port: int, context: ssl.SSLContext) -> bool:
    """Whether TLS comes about, or is refused as only a speaker of TLS does."""
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    except ssl.SSLError as error:
        return error.reason is not None and "ALERT" in error.reason
    except ConnectionError:
        return False
    with suppress(ConnectionError):
        writer.transport.abort()
    return True
