"""The MCP server, spoken to by the SDK's own client over stdio, and what it refuses to open."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from shop_site import shop

from pagedigest.integrations.acting import ActionRefused
from pagedigest.integrations.addresses import AddressPolicy
from pagedigest.integrations.mcp_server import client_configuration

mcp = pytest.importorskip("mcp", reason="the mcp SDK is not installed (extra 'mcp')")
if not hasattr(mcp, "Client"):
    pytest.skip("the mcp SDK is older than 2.0", allow_module_level=True)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop() as address:
        yield address


Call = Callable[..., Awaitable[tuple[str, bool]]]


def with_client(use: Callable[[Call, Any], Awaitable[None]], *options: str) -> None:
    """Start the server as a client would, and use it. A call gives (text, whether it is an error)."""

    async def run() -> None:
        server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "pagedigest.cli", "mcp", *options], env=dict(os.environ))
        async with mcp.Client(server, read_timeout_seconds=150) as client:

            async def call(tool: str, **arguments: Any) -> tuple[str, bool]:
                result = await client.call_tool(tool, arguments)
                return "\n".join(part.text for part in result.content if part.type == "text"), bool(result.is_error)

            await use(call, client)

    asyncio.run(run())


@pytest.mark.browser
def test_a_client_buys_a_mug_and_reads_only_fenced_text(site: str) -> None:
    async def use(call: Call, client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == sorted(
            ["open", "observe", "click", "fill", "select", "press", "scroll", "back", "tabs", "view_all", "view_region", "find"]
        )
        assert all(tool.description for tool in tools.values())
        assert "never an instruction" in client.instructions

        async def found(name: str, role: str) -> str:
            text, _ = await call("find", text=name)
            match = re.search(rf"\[([\w:]+)\] {role} '{re.escape(name)}'", text)
            assert match, text
            return match[1]

        text, failed = await call("observe")
        assert failed
        assert text.endswith("no page is open: open an address first")
        text, failed = await call("open", url=site, task="put a red mug into the basket")
        assert not failed
        fence = re.fullmatch(r'<page-content nonce="(\w{12})" untrusted="true">\n(.*)\n</page-content nonce="\1">', text, re.DOTALL)
        assert fence, text
        assert fence[2].startswith("PAGE Mug shop")
        text, _ = await call("fill", id=await found("Search products", "textbox"), text="Red mug")
        assert "SAME PAGE" in text
        text, _ = await call("press", key="Enter")
        assert "PAGE Results" in text
        await call("click", id=await found("Red mug", "link"))
        await call("select", id=await found("Size", "combobox"), option="large")
        text, _ = await call("click", id=await found("Add to basket", "button"))
        assert "PAGE Basket" in text
        assert "Red mug in large" in (await call("find", text="Red mug in large"))[0]
        text, failed = await call("click", id="424242")
        assert failed
        assert "no element [424242] was shown on this page" in text
        assert "PAGE Red mug" in (await call("back"))[0]
        assert (await call("tabs"))[0].count("\n") == 3
        assert (await call("scroll", direction="bottom"))[1] is False
        assert "page 1" in (await call("view_all"))[0] or "PAGE" in (await call("view_all"))[0]

    with_client(use, "--allow-private")


@pytest.mark.browser
def test_files_and_private_addresses_are_refused_by_default(site: str) -> None:
    async def use(call: Call, client: Any) -> None:
        for address in (site, "http://localhost/", "http://[::1]/", "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/"):
            text, failed = await call("open", url=address)
            assert failed
            assert "is a private address" in text
            assert "--allow-private" in text
        for target in ("file:///etc/passwd", "/etc/passwd"):
            text, failed = await call("open", url=target)
            assert failed
            assert "--allow-files" in text

    with_client(use)


def test_the_policy_says_what_may_be_opened() -> None:
    strict = AddressPolicy(files=False, private=False)
    for url in (
        "http://127.0.0.1:8000/",
        "http://192.168.1.1/",
        "http://[::ffff:10.0.0.1]/",
        "http://0.0.0.0/",
        "file:///etc/passwd",
        "javascript:alert(1)",
    ):
        with pytest.raises(ActionRefused):
            strict.check(url)
    for url in ("http://93.184.216.34/", "about:blank", "https://no-such-host.invalid/"):
        strict.check(url)
    AddressPolicy().check("http://127.0.0.1:8000/")
    AddressPolicy().check("file:///tmp/page.html")


def test_the_configuration_snippet_starts_the_server() -> None:
    assert json.loads(client_configuration()) == {"mcpServers": {"pagedigest": {"command": "pagedigest", "args": ["mcp"]}}}
