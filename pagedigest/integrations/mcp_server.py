"""A Model Context Protocol server over stdio: a browser whose pages are read as digests.

Enters: tool calls of one client. Leaves: the text that is new to read, fenced as untrusted page content with a marker
that a page cannot guess; or a tool error in one line. The browser starts at the first `open` and ends with the client.
Files and private addresses are refused unless the server was started so that they are allowed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagedigest.fence import FENCE_RULE, fenced
from region4web.errors import MissingExtraError

if TYPE_CHECKING:
    from pagedigest.integrations.live_browser import LiveBrowser, Reply

__all__ = ["build_server", "client_configuration", "serve_stdio"]

DEFAULT_BUDGET_TOKENS = 1000

INSTRUCTIONS = f"""A browser. open(url) first; every tool answers with what is new to read.
A page is shown as regions: 'R2 | purpose', the regions that the task needs with their elements '[id] role name', the others by purpose alone.
Act only on ids in brackets or at the start of a change line. view_region('R4'), view_all and find show more of the current page.
After an action on the same page only the changes are told; what was told before still holds.
{FENCE_RULE}"""


def build_server(browser: LiveBrowser) -> Any:
    """The server with its tools, for one client. Raises MissingExtraError."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise MissingExtraError("the MCP server needs the mcp SDK, 2.0 or later; install it with: pip install 'region4web[mcp]'") from error

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await browser.close()

    server = MCPServer("pagedigest", instructions=INSTRUCTIONS, lifespan=lifespan)

    async def told(reply: Awaitable[Reply]) -> str:
        from pagedigest.integrations.browser_session import failure

        try:
            return fenced((await reply).text)
        except Exception as error:
            raise ToolError(failure(error)[0]) from error

    @server.tool(structured_output=False)
    async def open(url: str, task: str = "") -> str:
        """Open an address. `task` says what you are to do: it decides which regions are shown in full; give it at the first call."""
        await browser.set_task(task or None, None)
        return await told(browser.open(url))

    @server.tool(structured_output=False)
    async def observe() -> str:
        """Read the page as it is now."""
        return await told(browser.look())

    @server.tool(structured_output=False)
    async def click(id: str, accept_dialog: bool = False, dialog_text: str | None = None) -> str:
        """Click an element. A dialog that this opens (alert, confirm) is dismissed, or accepted with accept_dialog; a prompt with dialog_text."""
        return await told(browser.click(id, accept_dialog=accept_dialog, dialog_text=dialog_text))

    @server.tool(structured_output=False)
    async def fill(id: str, text: str) -> str:
        """Replace the text of a field."""
        return await told(browser.fill(id, text))

    @server.tool(structured_output=False)
    async def select(id: str, option: str) -> str:
        """Choose an option of a drop-down, by its text or its value."""
        return await told(browser.select(id, option))

    @server.tool(structured_output=False)
    async def press(key: str, id: str | None = None, accept_dialog: bool = False, dialog_text: str | None = None) -> str:
        """Press a key such as Enter, Escape or Control+a, on an element or where the focus is. Dialogs as for click."""
        return await told(browser.press(key, id, accept_dialog=accept_dialog, dialog_text=dialog_text))

    @server.tool(structured_output=False)
    async def scroll(direction: str = "down", id: str | None = None) -> str:
        """Scroll the page, or the box that an element is in: down, up, left, right, top, bottom."""
        return await told(browser.scroll(direction, id))

    @server.tool(structured_output=False)
    async def back() -> str:
        """Go back in the tab's history."""
        return await told(browser.back())

    @server.tool(structured_output=False)
    async def tabs(number: int | None = None, close: bool = False) -> str:
        """List the tabs; with a number, go to that tab, or close it."""
        return await told(browser.tabs(number, close=close))

    @server.tool(structured_output=False)
    async def view_all(page: int = 1) -> str:
        """Read every region of the current page in full, in pages."""
        return await told(browser.view_all(page))

    @server.tool(structured_output=False)
    async def view_region(region: str, page: int = 1) -> str:
        """Read one region of the current page in full, such as R4."""
        return await told(browser.view_region(region, page))

    @server.tool(structured_output=False)
    async def find(text: str, page: int = 1) -> str:
        """List the elements of the current page that say a text."""
        return await told(browser.find(text, page))

    return server


def serve_stdio(*, task: str = "", budget_tokens: int = DEFAULT_BUDGET_TOKENS, headless: bool = True, timeout_s: float = 15.0, files: bool = False, private: bool = False) -> None:  # fmt: skip
    """Serve one client on stdin and stdout until it goes away."""
    from pagedigest.integrations.addresses import AddressPolicy
    from pagedigest.integrations.live_browser import LiveBrowser

    with tempfile.TemporaryDirectory(prefix="pagedigest-mcp-") as downloads:
        browser = LiveBrowser(
            task=task,
            budget_tokens=budget_tokens,
            headless=headless,
            policy=AddressPolicy(files=files, private=private),
            downloads=Path(downloads),
            timeout_s=timeout_s,
        )
        build_server(browser).run("stdio")


def client_configuration() -> str:
    """The snippet that MCP clients (Claude Desktop, Cursor, VS Code and others) take in their configuration."""
    return json.dumps({"mcpServers": {"pagedigest": {"command": "pagedigest", "args": ["mcp"]}}}, indent=2)
