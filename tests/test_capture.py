"""Capture in a real Chromium: what is opened, what is refused, and that the deadline holds whatever the page does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from region4web.axtree import AXTree
from region4web.browser import BROWSER_VARIABLE, find_browser
from region4web.capture import capture_live, capture_live_async, capture_page
from region4web.errors import BrowserError, CaptureError, CaptureTimeout, HttpError, MissingFile, NotAPage, Unreachable

pytestmark = pytest.mark.browser


class Site(BaseHTTPRequestHandler):
    """A small site, one misbehaviour a path."""

    release = threading.Event()

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/redirect":
            self._answer(302, "", headers={"Location": "/"})
        elif path == "/circle":
            self._answer(302, "", headers={"Location": "/circle"})
        elif path in ("/404", "/500"):
            self._answer(int(path[1:]), "<h1>Something broke</h1>")
        elif path == "/empty-500":
            self._answer(500, "")
        elif path == "/204":
            self._answer(204, "")
        elif path == "/pdf":
            self._answer(200, "%PDF-1.4", kind="application/pdf")
        elif path == "/json":
            self._answer(200, '{"a": 1}', kind="application/json")
        elif path == "/image":
            self._answer(200, "<svg xmlns='http://www.w3.org/2000/svg'></svg>", kind="image/svg+xml")
        elif path == "/download":
            self._answer(200, "a;b", kind="text/csv", headers={"Content-Disposition": 'attachment; filename="table.csv"'})
        elif path == "/silent":
            self.release.wait(20)
        elif path == "/slow-image":
            self._answer(200, "<title>Slow</title><h1>Readable</h1><img src=/silent>")
        elif path == "/endless":
            self._drip()
        elif path == "/busy":
            self._answer(200, "<h1>Busy</h1><script>setTimeout(() => { while (true); }, 50)</script>")
        elif path == "/dialogs":
            self._answer(
                200,
                "<script>alert('Hello'); document.title = confirm('Sure?') ? 'yes' : 'no'; window.onbeforeunload = () => 'x'</script><h1>Quiet</h1>",
            )
        elif path == "/late":
            self._answer(
                200,
                "<div id=app></div><script>onload = () => setTimeout(() => { app.innerHTML = '<button>Late button</button>' }, 200)</script>",
            )
        elif path == "/rows":
            self._answer(200, "<title>Rows</title><ul>" + "".join(f"<li><a href='/r{i}'>Row {i}</a></li>" for i in range(4000)) + "</ul>")
        elif path == "/outer":
            port = self.server.server_address[1]
            inner = f"<iframe src='http://localhost:{port}/inner' style='position:absolute;left:40px;top:30px;border:2px solid;padding:3px'></iframe>"
            self._answer(
                200, f"<title>Outer</title><body style='margin:0'>{inner}<iframe src='/inner' style='position:absolute;top:300px'></iframe>"
            )
        elif path == "/inner":
            self._answer(200, "<body style='margin:0'><button style='position:absolute;left:10px;top:20px'>Inside</button>")
        else:
            self._answer(200, "<title>Home</title><h1>Welcome</h1><a href='/404'>Gone</a>")

    def _answer(self, status: int, body: str, *, kind: str = "text/html; charset=utf-8", headers: dict[str, str] | None = None) -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>Endless</title><h1>First part</h1>" + b" " * 2048)
        self.wfile.flush()
        while not self.release.wait(0.2):
            self.wfile.write(b"<p>more</p>")
            self.wfile.flush()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    Site.release.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Site.release.set()
    server.shutdown()


@pytest.fixture(autouse=True)
def _needs_browser() -> None:
    pytest.importorskip("playwright.async_api", reason="playwright is not installed (extra 'browser')")


def names(snapshot: Any) -> list[str]:
    return [node.name for node in AXTree.from_snapshot(snapshot).nodes if node.name]


def test_a_url_is_captured_with_its_final_address_after_redirects(site: str) -> None:
    snapshot = capture_page(f"{site}/redirect", screenshot=True)
    assert (snapshot.url, snapshot.title, snapshot.viewport) == (f"{site}/", "Home", (1280, 720))
    assert "Welcome" in names(snapshot)
    assert snapshot.screenshot is not None
    assert snapshot.screenshot[:4] == b"\x89PNG"


def test_an_html_file_is_captured_and_a_running_event_loop_does_not_matter(tmp_path: Path) -> None:
    page = tmp_path / "a page.html"
    page.write_text("<title>File</title><h1>Grüße</h1>", encoding="utf-8")

    async def inside_a_loop() -> Any:
        return capture_page(page)

    assert "Grüße" in names(asyncio.run(inside_a_loop()))


@pytest.mark.parametrize(
    ("path", "kind", "said"),
    [
        ("/404", HttpError, "HTTP 404 Not Found"),
        ("/500", HttpError, "HTTP 500"),
        ("/empty-500", HttpError, "error"),
        ("/204", NotAPage, "no page"),
        ("/pdf", NotAPage, "pdf"),
        ("/json", NotAPage, "application/json"),
        ("/image", NotAPage, "image/svg+xml"),
        ("/download", NotAPage, "table.csv"),
        ("/circle", Unreachable, "circle"),
    ],
)
def test_what_is_no_page_is_refused_in_one_line_that_names_it(site: str, path: str, kind: type[CaptureError], said: str) -> None:
    with pytest.raises(kind) as caught:
        capture_page(site + path)
    message = str(caught.value)
    assert message.startswith(site + path)
    assert said in message
    assert "\n" not in message
    assert caught.value.target == site + path


def test_an_http_error_carries_its_status(site: str) -> None:
    with pytest.raises(HttpError) as caught:
        capture_page(f"{site}/404")
    assert caught.value.status == 404


@pytest.mark.parametrize("target", ["http://127.0.0.1:9/", "http://no-such-host.invalid/"])
def test_an_unreachable_host_is_named(target: str) -> None:
    with pytest.raises(Unreachable, match=r"could not be reached \(ERR_"):
        capture_page(target)


def test_a_missing_file_is_named_and_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="no such file") as caught:
        capture_page(tmp_path / "absent.html")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(MissingFile, match="is a folder"):
        capture_page(tmp_path)


@pytest.mark.parametrize("target", ["ftp://host/file", "javascript:alert(1)", "http:///nohost", "chrome://version"])
def test_an_address_of_another_kind_is_a_value_error(target: str) -> None:
    with pytest.raises(ValueError, match=r"neither|no host"):
        capture_page(target)


def test_a_server_that_never_answers_ends_at_the_deadline(site: str) -> None:
    started = time.monotonic()
    with pytest.raises(CaptureTimeout, match="no answer within 2 s"):
        capture_page(f"{site}/silent", timeout_s=2)
    assert time.monotonic() - started < 40


@pytest.mark.parametrize(("path", "heading"), [("/slow-image", "Readable"), ("/endless", "First part")])
def test_a_page_that_never_finishes_loading_is_read_as_it_is(site: str, path: str, heading: str) -> None:
    snapshot = capture_page(site + path, timeout_s=6)
    assert heading in names(snapshot)
    assert any("still loading" in note for note in snapshot.notes)


def test_a_busy_script_ends_at_the_deadline(site: str) -> None:
    started = time.monotonic()
    with pytest.raises(CaptureTimeout, match="busy"):
        capture_page(f"{site}/busy", timeout_s=2)
    assert time.monotonic() - started < 45


def test_dialogs_are_dismissed_and_noted(site: str) -> None:
    snapshot = capture_page(f"{site}/dialogs")
    assert snapshot.notes == ("dialog alert 'Hello' dismissed", "dialog confirm 'Sure?' dismissed")
    assert snapshot.title == "no"


def test_what_scripts_add_after_loading_is_waited_for(site: str) -> None:
    assert "Late button" in names(capture_page(f"{site}/late"))


def test_four_thousand_rows_are_read_with_all_their_boxes(site: str) -> None:
    snapshot = capture_page(f"{site}/rows", timeout_s=60)
    tree = AXTree.from_snapshot(snapshot)
    links = [node for node in tree.nodes if node.role == "link"]
    assert len(links) == 4000
    assert all(node.box is not None and node.visible and node.clickable for node in links)


def test_nodes_that_are_not_ready_in_time_are_derived_from_the_document_and_that_is_said(
    site: str, live_page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_page.goto(f"{site}/rows")
    whole = AXTree.from_snapshot(capture_live(live_page, timeout_s=60))
    monkeypatch.setattr("region4web.capture.NODES_SHARE", 0.0)
    snapshot = capture_live(live_page, timeout_s=60)
    assert snapshot.notes == ("accessibility tree not ready after 0 s; roles and names come from the document (frames: 1)",)
    derived = AXTree.from_snapshot(snapshot)
    assert derived.repairs == ()

    def links(tree: AXTree) -> list[tuple[Any, ...]]:
        return [(node.id, node.name, node.url, node.box) for node in tree.nodes if node.role == "link"]

    assert len(links(derived)) == 4000
    assert links(derived) == links(whole)


def test_frames_of_other_processes_are_part_of_the_tree_and_keep_their_labels(site: str, live_page: Any) -> None:
    live_page.goto(f"{site}/outer")
    first, second = capture_live(live_page), capture_live(live_page)
    tree = AXTree.from_snapshot(first)
    inside = {node.frame: node.box for node in tree.nodes if node.name == "Inside"}
    assert sorted(inside) == ["f1", "f2"]
    assert sorted(box[:2] for box in inside.values() if box) == [(12.0, 322.0), (55.0, 55.0)]
    assert [node.id for node in AXTree.from_snapshot(second).nodes] == [node.id for node in tree.nodes]
    live_page.evaluate("document.querySelectorAll('iframe')[1].contentWindow.location.reload()")
    live_page.wait_for_timeout(500)
    assert sorted({node.frame for node in AXTree.from_snapshot(capture_live(live_page)).nodes}) == ["", *sorted(["f3", _foreign(inside)])]


def _foreign(inside: dict[str, Any]) -> str:
    return next(frame for frame, box in inside.items() if box[0] == 55.0)


def test_boxes_are_css_pixels_of_the_page_whatever_the_zoom_and_the_scrolling(site: str, chromium: Any) -> None:
    context = chromium.new_context(device_scale_factor=2, viewport={"width": 800, "height": 600})
    page = context.new_page()
    page.set_content(
        "<body style='margin:0;height:3000px'><button style='position:absolute;left:50px;top:1000px;width:80px;height:30px'>Here</button>"
    )
    page.evaluate("scrollTo(0, 700)")
    snapshot = capture_live(page)
    context.close()
    assert [node.box for node in AXTree.from_snapshot(snapshot).nodes if node.name == "Here"] == [(50.0, 1000.0, 80.0, 30.0)]


def test_a_live_page_that_hangs_ends_at_the_deadline_and_the_caller_goes_on(site: str, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{site}/busy")
    page.wait_for_timeout(200)
    started = time.monotonic()
    with pytest.raises(CaptureTimeout, match="could not be read within 1 s"):
        capture_live(page, timeout_s=1)
    assert time.monotonic() - started < 30
    context.close()


def test_a_closed_page_is_a_browser_error(chromium: Any) -> None:
    page = chromium.new_page()
    page.close()
    with pytest.raises(BrowserError, match="closed"):
        capture_live(page)


def test_the_async_api_gives_the_same_snapshot(site: str) -> None:
    from playwright.async_api import async_playwright

    from region4web.browser import launch_async

    async def run() -> Any:
        async with async_playwright() as playwright:
            browser = await launch_async(playwright)
            page = await browser.new_page()
            await page.goto(f"{site}/outer")
            snapshot = await capture_live_async(page, screenshot=True)
            await browser.close()
            return snapshot

    # A thread of its own: the module's sync browser keeps a loop running in this one.
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(asyncio.run(run())))
    thread.start()
    thread.join()
    assert [name for name in names(result[0]) if name == "Inside"] == ["Inside", "Inside"]


def test_a_named_browser_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BROWSER_VARIABLE, "/nowhere/chromium")
    with pytest.raises(BrowserError, match=r"REGION4WEB_BROWSER names '/nowhere/chromium'"):
        find_browser()
    with pytest.raises(BrowserError, match="browser names 'no-such-browser'"):
        find_browser("no-such-browser")


def test_a_program_that_is_no_browser_is_reported_in_one_line(tmp_path: Path, site: str) -> None:
    fake = tmp_path / "chrome"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(BrowserError, match="did not start") as caught:
        capture_page(site, browser=fake)
    assert "\n" not in str(caught.value)
