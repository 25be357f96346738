"""Which addresses a browser session may open.

Enters: a URL. Leaves: nothing, or an `ActionRefused` that names the setting that would allow it. An agent that reads
untrusted pages must not be led to files or to machines behind the firewall unless its user said so. Documents are
checked (pages, frames, new tabs, before they are asked for, and again where redirects ended); what a page fetches beside
itself is not, as in any browser: it can be asked for, and read by no page of another origin.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pagedigest.integrations.acting import ActionRefused

__all__ = ["AddressPolicy"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
HARMLESS = frozenset({"about:blank", "about:srcdoc", "chrome-error://chromewebdata/", ""})


@dataclass(frozen=True)
class AddressPolicy:
    """`files`: file:// addresses may be opened; `private`: loopback, link-local and private networks may."""

    files: bool = True
    private: bool = True

    def check(self, url: str) -> None:
        """Raise ActionRefused for an address that may not be opened. A host name is looked up; an unknown one passes."""
        if url in HARMLESS:
            return
        parts = urlsplit(url.replace("\\", "/"))  # as browsers read it
        scheme = parts.scheme.lower()
        if scheme == "file":
            if not self.files:
                raise ActionRefused(f"{url[:200]}: files may not be opened here; --allow-files permits it")
        elif scheme in ("http", "https"):
            if not self.private and (address := _private_address(unquote(parts.hostname or ""))):
                raise ActionRefused(
                    f"{url[:200]}: {address} is a private address, which may not be opened here; --allow-private permits it"
                )
        elif scheme not in ("data", "blob", "about"):
            raise ActionRefused(f"{url[:200]}: only http and https addresses may be opened")


def _private_address(host: str) -> str | None:
    """The first address of `host` that is not public; None when all are, or when the name is unknown."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):  # browsers ask no name server for these
        return name
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return None
    for address in sorted(map(str, found)):
        if any(not ip.is_global or ip.is_multicast for ip in _meant(ipaddress.ip_address(address.split("%", 1)[0]))):
            return address
    return None


def _meant(ip: _Address) -> list[_Address]:
    """The address, and the IPv4 address that it stands for (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    inner: list[_Address] = [each for each in (ip.ipv4_mapped, ip.sixtofour, ip.teredo[1] if ip.teredo else None) if each is not None]
    if ip in NAT64:
        inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return [ip.ipv4_mapped] if ip.ipv4_mapped is not None else [ip, *inner]
