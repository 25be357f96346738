"""Capture pages of many sites politely: `python -m training.crawl URLS.txt --out DIR` or `--tranco LIST.csv --top 500 --per-site 20`.

Enters: URLs, one a line, or sites of a Tranco list (`rank,domain`), whose pages are found by their sitemaps. Leaves in
--out: `captures/NAME.json.gz` (snapshots) and `crawl.jsonl`, one line a URL with its outcome. robots.txt is obeyed, a
host gets one request at a time with a pause between them, and temporary failures are tried again with growing pauses.
A run that was interrupted goes on: a URL that is captured or has failed for good is not asked for again.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import Request, urlopen
from urllib.robotparser import RobotFileParser
from xml.etree import ElementTree

from region4web.errors import BrowserError, CaptureError, CaptureTimeout, HttpError, NotAPage, SnapshotError, Unreachable
from region4web.snapshot import Snapshot, save_snapshot
from training.records import append_json_line, json_lines

__all__ = ["Capture", "HostCrawler", "UrlOutcome", "capture_name", "main"]

Capture = Callable[[str], Snapshot]
"""Opens a URL and reads it; raises CaptureError. `region4web.capture.capture_page` is one."""

USER_AGENT = "region4web-crawler"
"""What robots.txt is asked about and fetched with."""
SITEMAP_LIMIT = 5
"""Sitemap files read for one site."""
SITEMAP_BYTES = 20_000_000
ROBOTS_TIMEOUT_S = 20.0
_BUSY = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class UrlOutcome:
    """What came of a URL: `captured`, `disallowed` (robots.txt), `failed` (for good) or `later` (tried again by the next run)."""

    url: str
    result: str
    reason: str = ""
    name: str = ""
    nodes: int = 0
    attempts: int = 1


@dataclass(frozen=True)
class Politeness:
    """`delay_s` between two requests to one host (robots.txt may ask for more, up to `longest_delay_s`); `retries` of a temporary failure."""

    delay_s: float = 5.0
    longest_delay_s: float = 60.0
    retries: int = 2
    user_agent: str = USER_AGENT


@dataclass
class HostCrawler:
    """All URLs of one host, one after the other."""

    capture: Capture
    out: Path
    politeness: Politeness = Politeness()
    known: Mapping[str, UrlOutcome] = field(default_factory=dict, repr=False)
    """What earlier runs finished, by URL."""
    sleep: Callable[[float], None] = time.sleep
    _last: float = field(default=float("-inf"), repr=False)

    def crawl(self, host: str, urls: Sequence[str], *, per_site: int = 0, seed: int = 0) -> list[UrlOutcome]:
        """Capture `urls`; of a host without any, up to `per_site` pages of its sitemaps, drawn by `seed`."""
        origin = urls[0] if urls else f"https://{host}/"
        if urls and all(url in self.known for url in urls):
            return [self.known[url] for url in urls]
        robots = self._robots(origin)
        if isinstance(robots, str):
            return [self._note(UrlOutcome(url, "later", robots)) for url in urls or [origin]]
        if not urls:
            urls = self._sitemap_urls(robots, origin, per_site, random.Random(f"{seed}/{host}"))
        return [self.known[url] if url in self.known else self._note(self._one(url, robots)) for url in urls]

    def _one(self, url: str, robots: RobotFileParser) -> UrlOutcome:
        if not robots.can_fetch(self.politeness.user_agent, url):
            return UrlOutcome(url, "disallowed", "robots.txt")
        name = capture_name(url)
        delay = min(
            max(self.politeness.delay_s, float(robots.crawl_delay(self.politeness.user_agent) or 0)), self.politeness.longest_delay_s
        )
        for attempt in range(1, self.politeness.retries + 2):
            self._wait(delay * 2 ** (attempt - 1))
            try:
                snapshot = self.capture(url)
            except (CaptureTimeout, Unreachable, BrowserError) as error:
                reason, temporary = f"{type(error).__name__}: {error}", True
            except HttpError as error:
                reason, temporary = f"HTTP {error.status}", error.status in _BUSY
            except (NotAPage, CaptureError, SnapshotError, ValueError) as error:
                reason, temporary = f"{type(error).__name__}: {error}", False
            else:
                save_snapshot(snapshot, self.out / "captures" / f"{name}.json.gz")
                return UrlOutcome(url, "captured", "; ".join(snapshot.notes), name, len(snapshot.nodes), attempt)
            if not temporary:
                return UrlOutcome(url, "failed", reason[:300], attempts=attempt)
        return UrlOutcome(url, "later", reason[:300], attempts=attempt)

    def _wait(self, delay_s: float) -> None:
        """Until `delay_s` after the last request to this host."""
        left = self._last + delay_s - time.monotonic()
        if left > 0:
            self.sleep(left)
        self._last = time.monotonic()

    def _robots(self, origin: str) -> RobotFileParser | str:
        """The host's rules: none where there is no robots.txt (4xx), as RFC 9309 has it; why, when they cannot be read now."""
        address = urljoin(origin, "/robots.txt")
        robots = RobotFileParser(address)
        try:
            robots.parse(self._fetch(address).decode("utf-8", "replace").splitlines())
        except HTTPError as error:
            if error.code in _BUSY:
                return f"robots.txt: HTTP {error.code}"
            robots.parse([])
        except (URLError, OSError, ValueError) as error:
            return f"robots.txt: {getattr(error, 'reason', error)}"
        return robots

    def _sitemap_urls(self, robots: RobotFileParser, origin: str, most: int, rng: random.Random) -> list[str]:
        """The home page and pages of the sitemaps of one host."""
        waiting = list(robots.site_maps() or [urljoin(origin, "/sitemap.xml")])
        host, found = urlsplit(origin).hostname, set()
        for _ in range(SITEMAP_LIMIT):
            if not waiting:
                break
            address = waiting.pop(0)
            self._wait(self.politeness.delay_s)
            try:
                root = ElementTree.fromstring(self._fetch(address))
            except (URLError, OSError, ValueError, ElementTree.ParseError):
                continue
            places = [(element.text or "").strip() for element in root.iter() if element.tag.rpartition("}")[2] == "loc"]
            if root.tag.endswith("sitemapindex"):
                waiting += rng.sample(places, min(len(places), SITEMAP_LIMIT))
            else:
                found |= {place for place in places if urlsplit(place).hostname in (host, f"www.{host}")}
        others = sorted(found - {origin})
        return [origin, *rng.sample(others, min(len(others), max(0, most - 1)))]

    def _fetch(self, address: str) -> bytes:
        if urlsplit(address).scheme not in ("http", "https"):
            raise ValueError(f"{address!r:.80} is no web address")
        with urlopen(Request(address, headers={"User-Agent": self.politeness.user_agent}), timeout=ROBOTS_TIMEOUT_S) as reply:
            data: bytes = reply.read(SITEMAP_BYTES)
        return data

    def _note(self, outcome: UrlOutcome) -> UrlOutcome:
        with _LOG_LOCK:
            append_json_line(asdict(outcome), self.out / "crawl.jsonl")
        return outcome


_LOG_LOCK = threading.Lock()


def known_outcomes(out: Path) -> dict[str, UrlOutcome]:
    """What earlier runs finished: all but `later`, and captures whose file is gone."""
    known: dict[str, UrlOutcome] = {}
    for entry in json_lines(out / "crawl.jsonl"):
        outcome = UrlOutcome(**entry)
        gone = outcome.result == "captured" and not (out / "captures" / f"{outcome.name}.json.gz").is_file()
        if outcome.result == "later" or gone:
            known.pop(outcome.url, None)
        else:
            known[outcome.url] = outcome
    return known


def capture_name(url: str) -> str:
    """`shop.example.com__products-red-shoes__1f3a9c2b`: host, path, and a hash of the whole URL."""
    parts = urlsplit(url)
    path = re.sub(r"[^A-Za-z0-9]+", "-", parts.path).strip("-")[:60] or "home"
    host = re.sub(r"[^A-Za-z0-9.-]+", "-", parts.netloc.lower())
    return f"{host}__{path}__{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def urls_by_host(urls: Iterable[str]) -> dict[str, list[str]]:
    """URLs in their order, each once, by host and port. Raises ValueError for what is no web address."""
    hosts: dict[str, list[str]] = {}
    for url in dict.fromkeys(urls):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r:.80} is no web address; give one URL a line, with http:// or https://")
        hosts.setdefault(parts.netloc.lower(), []).append(url)
    return hosts


def tranco_hosts(path: Path, top: int) -> dict[str, list[str]]:
    """The first `top` domains of a `rank,domain` file, without URLs. Raises ValueError for another form."""
    hosts: dict[str, list[str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if len(hosts) >= top:
                break
            if len(row) != 2 or not row[0].isdecimal() or "." not in row[1]:
                raise ValueError(f"{path}: line {number} is not rank,domain: {','.join(row)!r:.80}")
            hosts[row[1].strip().lower()] = []
    return hosts


def crawl_here(hosts: dict[str, list[str]], crawler: Callable[[], HostCrawler], at_once: int, per_site: int, seed: int) -> list[UrlOutcome]:
    from tqdm import tqdm

    def work(item: tuple[str, list[str]]) -> list[UrlOutcome]:
        return crawler().crawl(item[0], item[1], per_site=per_site, seed=seed)

    with ThreadPoolExecutor(at_once) as pool:
        return [outcome for found in tqdm(pool.map(work, hosts.items()), total=len(hosts), desc="hosts", disable=None) for outcome in found]


def crawl_with_ray(
    hosts: dict[str, list[str]], crawler: Callable[[], HostCrawler], at_once: int, per_site: int, seed: int, address: str
) -> list[UrlOutcome]:
    """The same on the machines of a Ray cluster; --out lies on a disk that all of them share. A host is always on one machine."""
    try:
        import ray
    except ImportError as error:
        raise ValueError("--ray needs ray; run: pip install 'region4web[ray]'") from error
    ray.init(address=None if address == "local" else address, ignore_reinit_error=True)

    def work(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [asdict(outcome) for outcome in crawler().crawl(row["host"], json.loads(row["urls"]), per_site=per_site, seed=seed)]

    rows = ray.data.from_items([{"host": host, "urls": json.dumps(urls)} for host, urls in hosts.items()]).repartition(len(hosts))
    return [UrlOutcome(**row) for row in rows.flat_map(work, concurrency=at_once).take_all()]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.crawl", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("urls", type=Path, nargs="?", help="file with one URL a line; # starts a comment line")
    parser.add_argument("--tranco", type=Path, help="CSV of rank,domain instead of a URL list")
    parser.add_argument("--top", type=int, default=500, help="how many domains of the Tranco list")
    parser.add_argument("--per-site", type=int, default=100, help="pages of a domain, by its sitemaps")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--delay-s", type=float, default=5.0, help="between two requests to one host; robots.txt may ask for more")
    parser.add_argument("--timeout-s", type=float, default=30.0, help="for a page to be read")
    parser.add_argument("--retries", type=int, default=2, help="of a temporary failure, with growing pauses")
    parser.add_argument("--hosts-at-once", type=int, default=2, help="each has a browser of its own")
    parser.add_argument("--user-agent", default=USER_AGENT, help="name that robots.txt is asked about")
    parser.add_argument("--seed", type=int, default=0, help="which pages of a sitemap are drawn")
    parser.add_argument("--ray", metavar="ADDRESS", help="run on a Ray cluster: its address, 'auto', or 'local' for one started here")
    return parser


def main(argv: list[str] | None = None, *, capture: Capture | None = None) -> int:
    """`capture` replaces the browser's, for instance by one that reads an archive."""
    args = arguments().parse_args(argv)
    try:
        hosts = _hosts(args)
        out = args.out.absolute()
        out.mkdir(parents=True, exist_ok=True)
        known = known_outcomes(out)
        politeness = Politeness(delay_s=args.delay_s, retries=args.retries, user_agent=args.user_agent)

        def crawler() -> HostCrawler:
            return HostCrawler(capture or browser_capture(args.timeout_s), out, politeness, known)

        at_once = (args.hosts_at_once, args.per_site, args.seed)
        outcomes = crawl_with_ray(hosts, crawler, *at_once, args.ray) if args.ray else crawl_here(hosts, crawler, *at_once)
    except (ValueError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    counts = {result: sum(outcome.result == result for outcome in outcomes) for result in ("captured", "disallowed", "failed", "later")}
    print(json.dumps({"hosts": len(hosts), "urls": len(outcomes), **counts}))
    return 1 if outcomes and counts["later"] == len(outcomes) else 0


def browser_capture(timeout_s: float) -> Capture:
    """A fresh headless browser for every page."""

    def capture(url: str) -> Snapshot:
        from region4web.capture import capture_page

        return capture_page(url, timeout_s=timeout_s)

    return capture


def _hosts(args: argparse.Namespace) -> dict[str, list[str]]:
    if (args.urls is None) == (args.tranco is None):
        raise ValueError("give a file of URLs or --tranco LIST.csv, one of the two")
    if args.tranco is not None:
        return tranco_hosts(args.tranco, args.top)
    lines = (line.strip() for line in args.urls.read_text(encoding="utf-8").splitlines())
    hosts = urls_by_host(line for line in lines if line and not line.startswith("#"))
    if not hosts:
        raise ValueError(f"{args.urls}: holds no URL; give one a line")
    return hosts


if __name__ == "__main__":
    raise SystemExit(main())
