"""What a user names as a page: a web address, an HTML file, a saved snapshot.

Enters: the text from a command line. Leaves: a `Snapshot`. Says of a wrong input what it is and how to mend it; the
browser is started only for addresses and HTML files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from region4web.errors import SnapshotError
from region4web.snapshot import Snapshot, load_snapshot

__all__ = ["InputKind", "input_kind", "read_page"]

InputKind = Literal["address", "html", "snapshot"]

HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
SNAPSHOT_SUFFIXES = frozenset({".json", ".gz"})
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?(/.*)?|localhost(:\d+)?(/.*)?")


def input_kind(text: str) -> InputKind:
    """What `text` names. Raises ValueError when it is none of the three, FileNotFoundError when there is no such file."""
    if not text.strip():
        raise ValueError(f"{text!r} names no page; give a web address, an .html file or a snapshot")
    if text.lower().startswith(("http://", "https://")):
        return "address"
    path = Path(text)
    try:
        is_folder, is_file = path.is_dir(), path.exists()
    except (OSError, ValueError) as error:
        raise ValueError(f"{text[:80]!r} is no file name ({error}); give a web address, an .html file or a snapshot") from error
    if is_folder:
        raise ValueError(f"{text}: a folder; name a file in it")
    if not is_file:
        scheme = _SCHEME.match(text)
        if scheme and len(scheme[1]) > 1 and not _HOST.fullmatch(text):
            raise ValueError(f"{text[:80]}: addresses start with http:// or https://; give a local page by its path")
        hint = (
            f"; for the web page write https://{text}"
            if _HOST.fullmatch(text) and path.suffix not in HTML_SUFFIXES | SNAPSHOT_SUFFIXES
            else ""
        )
        raise FileNotFoundError(f"{text[:200]}: no such file{hint}")
    if path.suffix.lower() in HTML_SUFFIXES:
        return "html"
    if path.suffix.lower() in SNAPSHOT_SUFFIXES:
        return "snapshot"
    raise ValueError(f"{text}: a page is an .html file or a snapshot (.json, .json.gz), found {path.suffix or 'no suffix'}")


def read_page(text: str, *, timeout_s: float = 15.0, screenshot: bool = False) -> Snapshot:
    """The page that `text` names. `screenshot` asks for a picture of a page that the browser renders.

    Raises ValueError or FileNotFoundError (see `input_kind`), SnapshotError, CaptureError, MissingExtraError.
    """
    kind = input_kind(text)
    if kind != "address" and Path(text).stat().st_size == 0:
        raise SnapshotError(f"{text}: empty file")
    if kind == "snapshot":
        return load_snapshot(text)
    from region4web.capture import capture_page

    return capture_page(text, timeout_s=timeout_s, screenshot=screenshot)
