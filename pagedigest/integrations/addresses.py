"""Which addresses a browser session may open.

Enters: a URL. Leaves: nothing, or an `ActionRefused` that names the setting that would allow it. An agent that reads
untrusted pages must not be led to files or to machines behind the firewall unless its user said so.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from pagedigest.integrations.acting import ActionRefused

__all__ = ["AddressPolicy"]

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
        parts = urlsplit(url)
        scheme = parts.scheme.lower()
        if scheme == "file":
            if not self.files:
                raise ActionRefused(f"{url[:200]}: files may not be opened here; start the server with --allow-files to permit it")
        elif scheme in ("http", "https"):
            if not self.private and (address := _private_address(parts.hostname or "")):
                raise ActionRefused(
                    f"{url[:200]}: {address} is a private address, which may not be opened here; start the server with --allow-private to permit it"
                )
        elif scheme not in ("data", "blob", "about"):
            raise ActionRefused(f"{url[:200]}: only http and https addresses may be opened")


def _private_address(host: str) -> str | None:
    """The first address of `host` that is not public; None when all are, or when the name is unknown."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return None
    for address in sorted(map(str, found)):
        ip = ipaddress.ip_address(address.split("%", 1)[0])
        mapped = getattr(ip, "ipv4_mapped", None)
        if not (mapped or ip).is_global:
            return address
    return None
