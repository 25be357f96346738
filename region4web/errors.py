"""Everything region4web raises on purpose.

    Region4WebError
    ├── SnapshotError (ValueError)    a snapshot, tree text or observation that cannot be read as a tree
    ├── LabelError (ValueError)       a label file that does not fit its page
    ├── WeightsError                  a weights folder that is missing, incomplete or damaged
    ├── ElementGone (LookupError)     an element id that names nothing on the live page any more
    ├── MissingExtraError             an optional dependency that the call needs is not installed
    ├── LanguageModelError            a language model that could not be loaded or did not answer
    └── CaptureError                  a page that could not be captured
        ├── CaptureTimeout            the deadline passed
        ├── Unreachable               no connection, name not found, refused
        ├── MissingFile (FileNotFoundError)  the file that was named does not exist
        ├── HttpError                 the server answered 4xx or 5xx
        ├── NotAPage                  a download, or content that is not HTML
        └── BrowserError              no browser, or the browser died

A caller's mistake that is not about a file's content is a plain ValueError with the value in it.
"""

from __future__ import annotations

__all__ = [
    "BrowserError",
    "CaptureError",
    "CaptureTimeout",
    "ElementGone",
    "HttpError",
    "LabelError",
    "LanguageModelError",
    "MissingExtraError",
    "MissingFile",
    "NotAPage",
    "Region4WebError",
    "SnapshotError",
    "Unreachable",
    "WeightsError",
]


class Region4WebError(Exception):
    """Base of all errors that this package raises on purpose."""


class SnapshotError(Region4WebError, ValueError):
    """A snapshot, an observation or a tree text cannot be read as an accessibility tree."""


class LabelError(Region4WebError, ValueError):
    """A label file does not have the documented form or does not fit its page."""


class WeightsError(Region4WebError):
    """A weights folder is missing, incomplete or damaged."""


class ElementGone(Region4WebError, LookupError):
    """An element is no longer on the live page: removed, replaced, or its document was left."""


class MissingExtraError(Region4WebError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class LanguageModelError(Region4WebError):
    """A language model could not be loaded, or did not give a usable answer."""


class CaptureError(Region4WebError):
    """A page could not be captured. `target` is the URL or file that was asked for."""

    def __init__(self, message: str, *, target: str = "") -> None:
        super().__init__(message)
        self.target = target


class CaptureTimeout(CaptureError):
    """The page was not ready to be read before the deadline."""


class Unreachable(CaptureError):
    """The host could not be reached: unknown name, refused, reset, no network."""


class MissingFile(CaptureError, FileNotFoundError):
    """The .html file that was asked for does not exist, or is a folder."""


class HttpError(CaptureError):
    """The server answered with an error status. `status` is the HTTP status code."""

    def __init__(self, message: str, *, target: str = "", status: int = 0) -> None:
        super().__init__(message, target=target)
        self.status = status


class NotAPage(CaptureError):
    """The address holds a download or content other than HTML."""


class BrowserError(CaptureError):
    """No usable browser was found, or it died during the capture."""
