"""Where requests go to: a URL, and the server's address. The name is looked up once, beforehand."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

from isolane.errors import MeasurementError, NotSupported, SpecError

_PORT = 80
_ACCEPTED = "http://HOST[:PORT][/PATH]"


@dataclass(frozen=True)
class Url:
    """A server and one of its objects."""

    host: str
    """Of the header ``Host``: with brackets about an IPv6 address, and the port if it was given."""
    name: str
    """Name or address of the server."""
    port: int
    path: str
    """With the query; never empty."""

    def __str__(self) -> str:
        """Return it as it is written."""
        return f"http://{self.host}{self.path}"


def read_url(text: str) -> Url:
    """Read a URL.

    Raises
    ------
    SpecError
        If it is none, or not one of HTTP.
    NotSupported
        If it is one of HTTPS.
    """
    parts = _split(text)
    if parts.scheme == "https":
        raise NotSupported(f"{text}: requests over TLS are not supported; accepted: {_ACCEPTED}")
    if parts.scheme != "http" or not parts.hostname or parts.username is not None:
        raise SpecError(f"{text!r} is not the URL of a web server; accepted: {_ACCEPTED}")
    try:
        port = _PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise SpecError(f"{text}: there is no such port; accepted: 1 to 65535")
    # What may stand in a request line stays; the rest, a line's end above all, is written as %XX.
    path = quote(parts.path or "/", safe="/:@!$&'()*+,;=~%-._")
    query = quote(parts.query, safe="/?:@!$&'()*+,;=~%-._")
    return Url(parts.netloc, parts.hostname, port, f"{path}?{query}" if query else path)


def _split(text: str) -> SplitResult:
    # The standard library takes some control characters out, and others as they are.
    if not text.isascii() or not text.isprintable() or " " in text:
        raise SpecError(f"{text!r} is not the URL of a web server; accepted: {_ACCEPTED}")
    try:
        return urlsplit(text)
    except ValueError as error:
        raise SpecError(f"{text!r}: {error}; accepted: {_ACCEPTED}") from None


def server_of(url: Url) -> str:
    """Return the server's address and port, such as ``192.0.2.1:80`` or ``[2001:db8::1]:80``.

    Raises
    ------
    MeasurementError
        If the name has no address.
    """
    try:
        found = socket.getaddrinfo(url.name, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise MeasurementError(f"{url.name}: {_told(error)}") from None
    told = found[0][4]
    address = ipaddress.ip_address(str(told[0]).partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if told[-1]:  # the zone's number
            raise SpecError(f"{url.name}: an address that needs a zone; accepted: a global one")
        return f"[{address}]:{url.port}"
    return f"{address}:{url.port}"


def _told(error: OSError | UnicodeError) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return text or "not a name that can be looked up"
