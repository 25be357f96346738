"""Crawling against a small site on this machine: robots.txt, pauses, retries, sitemaps, and going on after an interruption."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from region4web.errors import BrowserError, HttpError, NotAPage, Unreachable
from region4web.snapshot import Snapshot, load_snapshot
from training import crawl
from training.crawl import HostCrawler, Politeness, capture_name, known_outcomes, main, tranco_hosts, urls_by_host

QUICK = Politeness(delay_s=0.0, retries=2)


class Site:
    """Serves `files`; counts what was asked for."""

    def __init__(self, files: dict[str, tuple[int, str]]) -> None:
        self.files, self.asked = files, Counter[str]()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path] += 1
                status, body = site.files.get(self.path, (404, "nothing here"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site({"/robots.txt": (200, "User-agent: *\nDisallow: /private\nCrawl-delay: 7\n")})
    yield served
    served.server.shutdown()
    served.server.server_close()


def page(url: str) -> Snapshot:
    """A page with one heading that says its address."""
    root = {"nodeId": "1", "role": {"value": "RootWebArea"}, "name": {"value": url}, "childIds": ["2"], "backendDOMNodeId": 1}
    heading = {"nodeId": "2", "parentId": "1", "role": {"value": "heading"}, "name": {"value": url}, "childIds": [], "backendDOMNodeId": 2}
    return Snapshot(url, url, (1280, 720), (root, heading))


def test_robots_txt_is_obeyed_and_what_it_forbids_is_never_opened(site: Site, tmp_path: Path) -> None:
    opened: list[str] = []

    def capture(url: str) -> Snapshot:
        opened.append(url)
        return page(url)

    outcomes = HostCrawler(capture, tmp_path, QUICK, sleep=lambda _: None).crawl(site.host, [site.url("/a"), site.url("/private/b")])
    assert [outcome.result for outcome in outcomes] == ["captured", "disallowed"]
    assert opened == [site.url("/a")]
    assert load_snapshot(tmp_path / "captures" / f"{capture_name(site.url('/a'))}.json.gz").url == site.url("/a")


def test_between_two_pages_of_a_host_lies_the_pause_that_robots_txt_asks_for(site: Site, tmp_path: Path) -> None:
    pauses: list[float] = []
    HostCrawler(page, tmp_path, Politeness(delay_s=2.0), sleep=pauses.append).crawl(site.host, [site.url("/a"), site.url("/b")])
    assert len(pauses) == 1
    assert 6.5 < pauses[0] <= 7.0


def test_a_temporary_failure_is_tried_again_with_growing_pauses(site: Site, tmp_path: Path) -> None:
    failures: list[Exception] = [Unreachable("reset"), HttpError("busy", status=503)]
    pauses: list[float] = []

    def capture(url: str) -> Snapshot:
        if failures:
            raise failures.pop(0)
        return page(url)

    (outcome,) = HostCrawler(capture, tmp_path, QUICK, sleep=pauses.append).crawl(site.host, [site.url("/a")])
    assert (outcome.result, outcome.attempts) == ("captured", 3)
    assert [round(pause) for pause in pauses] == [14, 28]


@pytest.mark.parametrize(("error", "result", "attempts"), [
    (HttpError("gone", status=404), "failed", 1),
    (NotAPage("a download"), "failed", 1),
    (HttpError("busy", status=429), "later", 3),
    (BrowserError("died"), "later", 3),
])  # fmt: skip
def test_lasting_failures_are_final_and_temporary_ones_left_for_the_next_run(
    site: Site, tmp_path: Path, error: Exception, result: str, attempts: int
) -> None:
    def capture(url: str) -> Snapshot:
        raise error

    (outcome,) = HostCrawler(capture, tmp_path, QUICK, sleep=lambda _: None).crawl(site.host, [site.url("/a")])
    assert (outcome.result, outcome.attempts) == (result, attempts)
    assert (site.url("/a") in known_outcomes(tmp_path)) is (result == "failed")


def test_a_host_whose_robots_txt_cannot_be_read_now_is_left_for_later(site: Site, tmp_path: Path) -> None:
    site.files["/robots.txt"] = (503, "")
    (outcome,) = HostCrawler(page, tmp_path, QUICK).crawl(site.host, [site.url("/a")])
    assert (outcome.result, outcome.reason) == ("later", "robots.txt: HTTP 503")
    assert not list(tmp_path.glob("captures/*"))


def test_no_robots_txt_forbids_nothing(site: Site, tmp_path: Path) -> None:
    del site.files["/robots.txt"]
    (outcome,) = HostCrawler(page, tmp_path, QUICK).crawl(site.host, [site.url("/private/b")])
    assert outcome.result == "captured"


def test_pages_are_found_by_sitemap_index_and_drawn_by_seed(site: Site, tmp_path: Path) -> None:
    places = "".join(f"<url><loc>{site.url(f'/p{k}')}</loc></url>" for k in range(30)) + "<url><loc>http://elsewhere.test/x</loc></url>"
    site.files["/robots.txt"] = (200, f"Sitemap: {site.url('/index.xml')}\n")
    site.files["/index.xml"] = (
        200,
        f"<sitemapindex xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><sitemap><loc>{site.url('/s.xml')}</loc></sitemap></sitemapindex>",
    )
    site.files["/s.xml"] = (200, f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{places}</urlset>")
    crawler = HostCrawler(page, tmp_path, QUICK, sleep=lambda _: None)
    robots = crawler._robots(site.url("/"))
    assert not isinstance(robots, str)
    first = crawler._sitemap_urls(robots, site.url("/"), 5, random.Random("0"))
    assert first[0] == site.url("/")
    assert len(set(first)) == 5
    assert all(url.startswith(site.url("/")) for url in first)
    assert first == crawler._sitemap_urls(robots, site.url("/"), 5, random.Random("0"))


def test_a_run_goes_on_where_it_was_interrupted(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urls = [site.url(f"/{k}") for k in range(4)]
    (tmp_path / "urls.txt").write_text("# pages\n" + "\n".join(urls) + "\n")
    opened: list[str] = []

    def interrupted(url: str) -> Snapshot:
        if len(opened) == 2:
            raise KeyboardInterrupt
        opened.append(url)
        return page(url)

    arguments = [str(tmp_path / "urls.txt"), "--out", str(tmp_path / "out"), "--delay-s", "0"]
    site.files["/robots.txt"] = (200, "")
    with pytest.raises(KeyboardInterrupt):
        main(arguments, capture=interrupted)
    with (tmp_path / "out" / "crawl.jsonl").open("a") as log:
        log.write('{"url": "http://cut.of')  # a kill in the middle of a line

    def going_on(url: str) -> Snapshot:
        opened.append(url)
        return page(url)

    assert main(arguments, capture=going_on) == 0
    assert opened == urls
    assert json.loads(capsys.readouterr().out)["captured"] == 4
    assert main(arguments, capture=going_on) == 0
    assert opened == urls


def test_urls_are_grouped_by_host_and_other_lines_refused() -> None:
    assert urls_by_host(["http://a.test/1", "https://b.test/", "http://a.test/2", "http://a.test/1"]) == {
        "a.test": ["http://a.test/1", "http://a.test/2"],
        "b.test": ["https://b.test/"],
    }
    with pytest.raises(ValueError, match="no web address"):
        urls_by_host(["ftp://a.test/"])


def test_a_tranco_list_gives_its_first_domains(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("1,a.test\n2,b.test\n3,c.test\n")
    assert list(tranco_hosts(tmp_path / "list.csv", 2)) == ["a.test", "b.test"]
    (tmp_path / "bad.csv").write_text("a.test\n")
    with pytest.raises(ValueError, match="line 1"):
        tranco_hosts(tmp_path / "bad.csv", 2)


def test_a_callers_mistake_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 2
    (tmp_path / "empty.txt").write_text("# nothing\n")
    assert main([str(tmp_path / "empty.txt"), "--out", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 2


def test_names_tell_addresses_apart_that_differ_in_their_query_only() -> None:
    first, second = capture_name("https://a.test/list?page=1"), capture_name("https://a.test/list?page=2")
    assert first != second
    assert first.startswith("a.test__list__")


@pytest.mark.browser
def test_a_page_is_captured_with_the_real_browser(site: Site, tmp_path: Path) -> None:
    site.files["/robots.txt"] = (200, "")
    site.files["/a"] = (200, "<!doctype html><title>Shop</title><h1>Orders</h1><button>Pay</button>")
    (outcome,) = HostCrawler(crawl.browser_capture(30.0), tmp_path, QUICK, sleep=lambda _: None).crawl(site.host, [site.url("/a")])
    assert outcome.result == "captured", outcome.reason
    names = {node.get("name", {}).get("value") for node in load_snapshot(tmp_path / "captures" / f"{outcome.name}.json.gz").nodes}
    assert {"Orders", "Pay"} <= names


@pytest.mark.optional
def test_the_same_hosts_through_ray(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed (extra 'ray')")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # workers import `page` by name
    site.files["/robots.txt"] = (200, "User-agent: *\nDisallow: /private\n")
    (tmp_path / "urls.txt").write_text("\n".join(site.url(path) for path in ("/a", "/private/b", "/c")))
    arguments = [str(tmp_path / "urls.txt"), "--out", str(tmp_path / "out"), "--delay-s", "0", "--hosts-at-once", "1"]
    assert main([*arguments, "--ray", "local"], capture=page) == 0
    counts = json.loads(capsys.readouterr().out.strip().split("\n")[-1])
    assert (counts["captured"], counts["disallowed"]) == (2, 1)
    assert len(known_outcomes(tmp_path / "out")) == 3
    ray.shutdown()
