"""What must not get out: passwords, API keys, files of others, pages of machines behind the firewall.

Passwords go through a real Chromium into every text that is made of a page; a key goes to a real server on this machine,
and every file that was written is searched for it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from openai_server import OpenAIServer, Reply

from pagedigest.defence import Defended
from pagedigest.integrations.acting import ActionRefused
from pagedigest.integrations.addresses import AddressPolicy
from pagedigest.modules.full_tree import FullTree
from pagedigest.observation import Action
from pagedigest.selection import All
from pagedigest.session import PageDigest
from pagedigest.store import PageStore
from pagedigest.tokens import UpperEstimateCounter
from region4web.abstraction import RoleNameAbstractor
from region4web.abstraction_cache import Cached
from region4web.axtree import AXTree
from region4web.capture import capture_live
from region4web.generative import LanguageModelAbstractor
from region4web.openai_model import OpenAIModel
from region4web.segmenters import Landmarks
from region4web.snapshot import save_snapshot

SECRETS = ("hunter2-correct-horse", "s3cret!")
KEY = "sk-live-0123456789abcdef0123456789abcdef"

LOGIN = """<!doctype html><title>Sign in</title><main><h1>Sign in</h1><form>
<label>Password <input type=password id=a value="hunter2-correct-horse"></label>
<label>Again <input type=password id=b></label>
<input type=password id=c aria-hidden=true value="hunter2-correct-horse">
<input aria-label=Styled style="-webkit-text-security:disc" value="s3cret!">
<iframe srcdoc="<input type=password aria-label=Framed value='s3cret!'>"></iframe><div id=host></div>
<button>Go</button></form></main><script>host.attachShadow({mode:'closed'}).innerHTML="<input type=password aria-label=Shadowed value='s3cret!'>"</script>"""


def file_texts(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in folder.rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            yield path, (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")


@pytest.mark.browser
def test_neither_the_value_nor_the_length_of_a_password_is_in_anything_that_is_made_of_the_page(live_page: Any, tmp_path: Path) -> None:
    live_page.set_content(LOGIN)
    store = PageStore(tmp_path / "pages.sqlite")
    abstractor = Cached(RoleNameAbstractor(), tmp_path / "cache" / "abstractions.sqlite")
    digest = PageDigest(Landmarks(), abstractor, All(), counter=UpperEstimateCounter(), store=store).start("sign in")
    full = Defended(FullTree()).start("sign in")
    said: list[str] = []
    fields: list[list[Any]] = []
    for step, typed in enumerate(("", "s", "s3cret!", "hunter2-correct-horse")):
        live_page.fill("#b", typed)
        snapshot = capture_live(live_page)
        save_snapshot(snapshot, tmp_path / f"page-{step}.json.gz")
        tree = AXTree.from_snapshot(snapshot)
        fields.append([node.value for node in tree.nodes if node.name == "Again" and node.role == "textbox"])
        for action in (None, Action("view_all()"), Action("find('Password')")):
            seen = digest.observe(tree, last_action=action)
            said += [seen.text, repr(seen.trace)]
        said.append(full.observe(tree).text)
    store.export(tmp_path / "pages.jsonl")
    store.close()
    abstractor.close()
    assert len([path for path, _ in file_texts(tmp_path)]) >= 7
    for text in (*said, *(text for _, text in file_texts(tmp_path))):
        assert not [secret for secret in SECRETS if secret in text]
        assert not [n for n in (7, 21) if "\u2022" * n in text and "\u2022" * (n + 1) not in text], "the mask is as long as the password"
        assert not [n for n in (7, 21) if "*" * n in text]
    assert fields[1] == fields[2] == fields[3]
    assert len(fields[1]) == 1


@pytest.mark.browser
def test_a_password_that_is_shown_as_text_is_text_and_hidden_again_it_is_masked_again(live_page: Any) -> None:
    live_page.set_content("<input id=p type=password aria-label=Password value=hunter2-correct-horse>")
    session = PageDigest(Landmarks(), RoleNameAbstractor(), All(), counter=UpperEstimateCounter()).start("sign in")
    texts = []
    for kind in ("password", "text", "password"):
        live_page.evaluate("kind => { p.type = kind }", kind)
        texts.append(session.observe(AXTree.from_snapshot(capture_live(live_page))).text)
    assert [SECRETS[0] in text for text in texts] == [False, True, False]


def test_no_key_is_in_errors_logs_reprs_recordings_or_reports(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    faults = [
        Reply(status=401, body=json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}})),
        Reply(status=400, body=json.dumps({"error": {"message": f"bad request with {KEY}"}})),
        Reply(status=500, body=f"trace: Authorization: Bearer {KEY}"),
        Reply(body=f'{{"no": "choices", "key": "{KEY}"'),
    ]
    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for fault in faults:
            with OpenAIServer(lambda _, fault=fault: fault) as server:
                model = OpenAIModel("small", server.url, KEY, max_retries=0)
                said.append(repr(model))
                try:
                    said += [repr(completion) for completion in model.complete(["hello"], max_tokens=5)]
                except Exception as error:
                    said += [str(error), repr(error), repr(error.__cause__), repr(error.__context__ and error.__suppress_context__)]
                assert server.keys[0] == f"Bearer {KEY}", "the server did get the key"
    assert not [text for text in said if KEY in text]
    assert KEY not in caplog.text


def test_the_commands_write_no_key_anywhere(tmp_path: Path) -> None:
    tree = "RootWebArea 'Shop', url='http://shop.test/'\n\t[2] main ''\n\t\t[3] heading 'Mugs'\n\t\t[4] button 'Buy'"
    steps = tmp_path / "steps.jsonl"
    step = {"source": "t", "episode": "e", "step": 0, "task": "Buy the mug", "observation": tree, "action": "click('4')", "target": "4", "url": "http://shop.test/"}  # fmt: skip
    steps.write_text(json.dumps(step) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    environment = {
        **os.environ,
        "OPENAI_API_KEY": KEY,
        "REGION4WEB_DEBUG": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "OPENAI_LOG": "debug",
    }
    for reply in (lambda _: '{"regions": [0]}', lambda _: Reply(status=401, body=json.dumps({"error": {"message": f"wrong key {KEY}"}}))):
        with OpenAIServer(reply) as server:
            command = [sys.executable, "-m", "pagedigest.cli", "replay", str(steps), "--modules", "focus_agent", "--model", f"openai:small@{server.url}", "--record", str(tmp_path / "answers.jsonl"), "--csv", str(out / "steps.csv")]  # fmt: skip
            out.mkdir(exist_ok=True)
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert server.keys == [] or server.keys[0].endswith(KEY)
        assert KEY not in done.stdout + done.stderr
        (tmp_path / "answers.jsonl").unlink(missing_ok=True)
    assert not [path for path, text in file_texts(tmp_path) if KEY in text]


def test_the_abstractor_that_asks_a_server_keeps_the_key_out_of_its_cache(tmp_path: Path) -> None:
    from tests.builders import node, snapshot

    partition = Landmarks().segment(AXTree.from_snapshot(snapshot(node(1, "RootWebArea", "Shop", [2]), node(2, "button", "Buy"))))
    with OpenAIServer(lambda _: '{"purpose": "Page frame", "state": "Buy"}') as server:
        model = OpenAIModel("small", server.url, KEY, max_retries=0)
        cached = Cached(LanguageModelAbstractor(model, RoleNameAbstractor(), name="openai:small"), tmp_path / "a.sqlite")
        assert cached.abstract(partition)[0].purpose == "Page frame"
        cached.close()
    assert not [path for path, text in file_texts(tmp_path) if KEY in text]
    assert stat.S_IMODE((tmp_path / "a.sqlite").stat().st_mode) == 0o600


STRICT = AddressPolicy(files=False, private=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0/",
        "http://10.1.2.3/", "http://172.16.0.1/", "http://192.168.0.1/", "http://169.254.169.254/latest/meta-data/", "http://100.64.0.1/",
        "http://[::1]/", "http://[::]/", "http://[fe80::1]/", "http://[fd00::1]/", "http://[::ffff:127.0.0.1]/", "http://[2002:7f00:1::]/",
        "http://[64:ff9b::7f00:1]/", "http://224.0.0.1/", "http://localhost/", "http://LOCALHOST./", "http://127%2e0%2e0%2e1/",
        "http://user:pass@127.0.0.1:8000/", "http://127.0.0.1\\@example.com/", "HTTP://127.0.0.1/", "https://127.0.0.1/",
        "file:///etc/passwd", "FILE:///etc/passwd", "ftp://example.com/", "javascript:alert(1)", "chrome://settings", "view-source:http://127.0.0.1/",
    ],
)  # fmt: skip
def test_files_and_private_addresses_are_refused_however_they_are_written(url: str) -> None:
    with pytest.raises(ActionRefused, match=r"may not be opened|may be opened") as caught:
        STRICT.check(url)
    assert "\n" not in str(caught.value)


def test_a_name_that_resolves_to_a_private_address_is_refused_and_a_public_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"rebind.example": ["93.184.216.34", "10.0.0.7"], "public.example": ["93.184.216.34", "2606:2800:220:1::1"]}
    monkeypatch.setattr("socket.getaddrinfo", lambda host, _: [(0, 0, 0, "", (address, 0)) for address in answers[host]])
    with pytest.raises(ActionRefused, match=r"10\.0\.0\.7 is a private address"):
        STRICT.check("https://rebind.example/x")
    STRICT.check("https://public.example/x")


class _Inner(BaseHTTPRequestHandler):
    """`/framed` holds a frame that is redirected to `/inner`; `/later` goes there by itself."""

    def do_GET(self) -> None:
        pages = {
            "/framed": "<title>Outer</title><h1>Outside</h1><iframe src=/to-inner></iframe>",
            "/later": "<title>Later</title><h1>Outside</h1><script>setTimeout(() => location.href = '/to-inner', 300)</script>",
            "/inner": "<title>Inner</title><h1>Router password 1234</h1>",
        }
        redirect = self.path == "/to-inner"
        body = pages.get(self.path, "").encode()
        self.send_response(302 if redirect else 200)
        if redirect:
            self.send_header("Location", "/inner")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/framed", "/later"])
def test_what_a_redirected_frame_or_a_late_redirect_leads_to_is_not_read(path: str, tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="playwright is not installed (extra 'browser')")
    from pagedigest.integrations.live_browser import LiveBrowser

    class NotInner(AddressPolicy):
        """Stands for private addresses: a test has no public one that could lead to them."""

        def check(self, url: str) -> None:
            if url.endswith("/inner"):
                raise ActionRefused(f"{url}: may not be opened")

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Inner)
    Thread(target=server.serve_forever, daemon=True).start()

    address = f"http://127.0.0.1:{server.server_address[1]}{path}"

    async def run() -> str:
        browser = LiveBrowser(policy=NotInner(files=False, private=False), downloads=tmp_path)
        try:
            texts = []
            for read in (lambda: browser.open(address), browser.look, browser.view_all, browser.look, browser.view_all):
                try:
                    texts.append((await read()).text)
                except ActionRefused as error:
                    texts.append(str(error))
                await asyncio.sleep(0.4)
            return "\n".join(texts)
        finally:
            await browser.close()

    texts: list[str] = []
    thread = Thread(target=lambda: texts.append(asyncio.run(run())))  # the module's sync browser keeps a loop running in this one
    thread.start()
    thread.join()
    server.shutdown()
    (text,) = texts
    assert "may not be opened" in text
    assert "Router" not in text
    assert "1234" not in text


@pytest.mark.browser
def test_a_session_of_the_command_line_opens_no_file_and_no_private_address_unless_allowed(tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="playwright is not installed (extra 'browser')")
    page = tmp_path / "page.html"
    page.write_text("<title>Own</title><button>Buy</button>", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PAGEDIGEST_ALLOW")}
    environment["PAGEDIGEST_SESSIONS"] = str(tmp_path / "s")

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "pagedigest.cli", *arguments], env=environment, capture_output=True, text=True, timeout=150, check=False
        )
        return done.returncode, done.stdout + done.stderr

    try:
        for target, flag in ((str(page), "--allow-files"), ("http://127.0.0.1:9/", "--allow-private")):
            status, line = run("open", target)
            assert (status, line.count("\n")) == (2, 1), line
            assert flag in line
        status, text = run("open", str(page), "--allow-files", "--fence")
        assert status == 0, text
        assert text.startswith("<page-content nonce=")
        assert "button 'Buy'" in text
        assert run("open", "http://127.0.0.1:9/")[0] == 2
    finally:
        run("close")


def test_the_folders_of_sessions_and_of_the_cache_are_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pagedigest.integrations.browser_session import sessions_folder
    from tests.builders import node, snapshot

    monkeypatch.setenv("PAGEDIGEST_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        assert stat.S_IMODE(sessions_folder().stat().st_mode) == 0o700
        cached = Cached(RoleNameAbstractor())
        cached.abstract(Landmarks().segment(AXTree.from_snapshot(snapshot(node(1, "RootWebArea", "Shop", [2]), node(2, "button", "Buy")))))
        cached.close()
        store = PageStore(tmp_path / "pages.sqlite")
        store.close()
    finally:
        os.umask(before)
    for path in (cached.path, tmp_path / "pages.sqlite"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE(cached.path.parent.stat().st_mode) == 0o700
