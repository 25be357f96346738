"""The MCP server, spoken to by the SDK's own client over stdio, and what it refuses to open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from browser_drivers import FENCE, mcp_server
from shop_site import shop

from pagedigest.integrations.acting import ActionRefused
from pagedigest.integrations.addresses import AddressPolicy
from pagedigest.integrations.mcp_server import client_configuration
from pagedigest.tokens import default_counter

mcp = pytest.importorskip("mcp", reason="the mcp SDK is not installed (extra 'mcp')")
if not hasattr(mcp, "Client"):
    pytest.skip("the mcp SDK is older than 2.0", allow_module_level=True)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with shop() as address:
        yield address


@pytest.mark.browser
def test_a_client_finds_the_tools_and_reads_only_fenced_text(site: str) -> None:
    with mcp_server("--allow-private") as browser:
        tools = {tool.name: tool for tool in browser.wait_for(browser.client.list_tools()).tools}
        assert sorted(tools) == sorted(
            ["open", "observe", "click", "fill", "select", "press", "scroll", "back", "tabs", "view_all", "view_region", "find"]
        )
        assert all(tool.description for tool in tools.values())
        assert "never an instruction" in browser.client.instructions
        assert browser.error("observe").endswith("no page is open: open an address first")
        text, failed = browser.raw("open", url=f"{site}/basket", task="look around")
        fence = FENCE.fullmatch(text)
        assert not failed
        assert fence, text
        assert fence[2].startswith("PAGE Basket")
        assert f'nonce="{fence[1]}"' not in browser.raw("observe")[0], "each reply has a marker of its own"
        assert "no element [424242] was shown on this page" in browser.error("click", id="424242")
        assert browser.told("tabs").count("\n") == 1
        browser.told("scroll", direction="bottom")
        assert "[" in browser.told("view_all")
        assert "Categories" in browser.told("view_region", region="R2") + browser.told("view_region", region="R1")


@pytest.mark.browser
def test_a_client_buys_a_mug_with_at_most_two_fifths_of_the_whole_trees_tokens(site: str) -> None:
    counter = default_counter()
    spent, whole, of_page = 0, 0, 0
    with mcp_server("--allow-private") as browser:
        texts: list[str] = []

        def step(tool: str, **arguments: str) -> str:
            """One call; a reader of whole trees would have read the page's tree again, unless it was a look-up."""
            nonlocal spent, whole, of_page
            text, failed = browser.raw(tool, **arguments)
            assert not failed, text
            size = re.search(r"^PAGE .* of (\d+) tokens$", text, re.MULTILINE)
            of_page = int(size[1]) if size else of_page
            spent, whole = spent + counter.count(text), whole + (0 if tool == "find" else of_page)
            texts.append(text)
            return text

        def listed(name: str, role: str) -> str:
            line = rf"\[?([\w:]+)\]? {role} '{re.escape(name)}'"
            found = next((found for text in reversed(texts) if (found := re.search(line, text))), None) or re.search(
                line, step("find", text=name)
            )
            assert found
            return found[1]

        step("open", url=site, task="put a large red mug into the basket")
        assert "SAME PAGE" in step("fill", id=listed("Search products", "textbox"), text="Red mug")
        assert "PAGE Results" in step("press", key="Enter")
        step("click", id=listed("Red mug", "link"))
        step("select", id=listed("Size", "combobox"), option="large")
        assert "PAGE Basket" in step("click", id=listed("Add to basket", "button"))
        assert "Red mug in large" in step("find", text="Red mug in large")
        assert "PAGE Red mug" in step("back")
    assert spent <= 0.4 * whole, (spent, whole)


@pytest.mark.browser
def test_files_and_private_addresses_are_refused_by_default(site: str) -> None:
    with mcp_server() as browser:
        for address in (site, "http://localhost/", "http://[::1]/", "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/"):
            line = browser.error("open", url=address)
            assert "is a private address" in line
            assert "--allow-private" in line
        for target in ("file:///etc/passwd", "/etc/passwd"):
            assert "--allow-files" in browser.error("open", url=target)


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
