"""Further pages built again from clones: the same tree and labels, and what cannot be found or has changed is said."""

from __future__ import annotations

import asyncio
import gzip
import logging
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from region4web.browser import find_browser
from region4web.labels import read_page
from training.public_pages import PAGES, PublicPage, main, page_source, read_pages, rebuild, save_pages

HTML = """<!doctype html><title>Club</title><header><a href='/'>Home</a> <a href='/join'>Join</a></header>
<main><h1>Events</h1><ul><li>March walk</li><li>April walk</li></ul><script>document.title = 'changed'</script>
<img src='http://elsewhere.test/x.png' alt='Map'></main>"""


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    clone = tmp_path / "clones" / "club" / "site"
    clone.mkdir(parents=True)
    (clone / "index.html").write_text(HTML)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t.test", "commit", "-qm", "page"]):
        subprocess.run(["git", "-C", str(clone), *command], check=True)
    return tmp_path / "clones"


def page(clones: Path, **changes: object) -> PublicPage:
    head = subprocess.run(["git", "-C", str(clones / "club/site"), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    whole = PublicPage("p", "club/site", head.stdout.strip(), "index.html", "https://club.test/", 9, ((0, "Page shell"), (1, "Site links")))
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_the_packaged_lists_name_pages_of_repositories_and_purposes_but_no_content() -> None:
    pages = [page for file in sorted(PAGES.parent.glob("*.jsonl.gz")) for page in read_pages(file)]
    assert len({p.page for p in pages}) == len(pages) > 2000
    assert sum(bool(purpose) for p in pages for _, purpose in p.regions) > 25_000
    assert all(len(p.commit) == 40 and p.repository.count("/") == 1 and p.regions[0][0] == 0 for p in pages)
    assert all(0 <= order < p.nodes and len(purpose.split()) <= 12 for p in pages for order, purpose in p.regions)


def test_a_list_is_read_back_and_a_damaged_line_is_named(tmp_path: Path) -> None:
    pages = [PublicPage(f"p{k}", "a/b", "0" * 40, "x.html", "https://a.test/", 3, ((0, ""), (2, "Menü"))) for k in range(3)]
    save_pages(pages, tmp_path / "pages.jsonl.gz")
    assert list(read_pages(tmp_path / "pages.jsonl.gz")) == pages
    first = (tmp_path / "pages.jsonl.gz").read_bytes()
    save_pages(pages, tmp_path / "pages.jsonl.gz")
    assert (tmp_path / "pages.jsonl.gz").read_bytes() == first
    with gzip.open(tmp_path / "bad.jsonl.gz", "wt") as file:
        file.write('{"page": "p"}\n')
    with pytest.raises(ValueError, match="line 1 is no page"):
        list(read_pages(tmp_path / "bad.jsonl.gz"))


@pytest.mark.browser
def test_pages_are_rendered_without_scripts_and_network_and_labelled(
    clones: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("playwright.async_api", reason="playwright is not installed (extra 'browser')")
    if find_browser() is None:
        pytest.skip("no browser")
    out = tmp_path / "out"
    with caplog.at_level(logging.WARNING):
        found = asyncio.run(rebuild([page(clones, nodes=1)], clones, out))
    assert found == {"different": 1}
    nodes = int(caplog.text.split(" nodes")[0].rsplit(" ", 1)[1])
    whole = page(clones, nodes=nodes)
    wanted = [whole, replace(whole, page="q", path="none.html"), replace(whole, page="r", repository="club/other")]
    assert asyncio.run(rebuild(wanted, clones, out)) == {"built": 1, "missing": 2}
    assert asyncio.run(rebuild(wanted, clones, out)) == {"there": 1, "missing": 2}
    built = read_page(out / "captures" / "p.json.gz", out / "labels" / "p.json")
    assert built is not None
    assert built.tree.title == "Club"
    assert built.site == "club.test"
    assert PublicPage.of(built, whole.repository, whole.commit, whole.path) == replace(whole, page="p")


def test_a_packed_file_is_unpacked_and_a_damaged_one_said(clones: Path, tmp_path: Path) -> None:
    clone = clones / "club" / "site"
    (clone / "index.html.gz").write_bytes(gzip.compress(HTML.encode()))
    for command in (["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t.test", "commit", "-qm", "packed"]):
        subprocess.run(["git", "-C", str(clone), *command], check=True)
    assert page_source(page(clones, path="index.html.gz"), clones) == HTML.encode()
    (clone / "index.html.gz").write_bytes(b"no")
    for command in (["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t.test", "commit", "-qm", "damaged"]):
        subprocess.run(["git", "-C", str(clone), *command], check=True)
    with pytest.raises(ValueError, match="cannot be unpacked"):
        page_source(page(clones, path="index.html.gz"), clones)


def test_a_list_that_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_pages([PublicPage("p", "a/b", "0" * 40, "x.html", "https://a.test/", 3, ((0, ""), (3, "Menu")))], tmp_path / "outside.gz")
    (tmp_path / "cut.gz").write_bytes(PAGES.read_bytes()[:2000])
    save_pages([], tmp_path / "empty.gz")
    for name, said in (
        ("none.gz", "No such file"),
        ("outside.gz", "outside of the page"),
        ("cut.gz", "ended before"),
        ("empty.gz", "no page"),
    ):
        with pytest.raises(SystemExit):
            main(["--clones", str(tmp_path), "--out", str(tmp_path), "--pages", str(tmp_path / name)])
        assert said in capsys.readouterr().err.strip().split("\n")[-1]
