"""Web$hell: pages as addressable objects, kept and read on demand (arXiv 2610.13416)."""

from pagedigest.modules.webshell.contract import ActionObject, CompiledPage, Fact, Field, TableObject, TextObject
from pagedigest.modules.webshell.from_axtree import compile_axtree
from pagedigest.modules.webshell.from_html import compile_html
from pagedigest.modules.webshell.module import WebShell, WebShellSession

__all__ = [
    "ActionObject",
    "CompiledPage",
    "Fact",
    "Field",
    "TableObject",
    "TextObject",
    "WebShell",
    "WebShellSession",
    "compile_axtree",
    "compile_html",
]
