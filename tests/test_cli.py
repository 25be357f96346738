"""The command `region4web` as users run it: what it prints, its exit status, and one line for everything that goes wrong."""

import gzip
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from region4web.cli import main
from region4web.snapshot import load_snapshot

PAGE = """<!DOCTYPE html><html><head><title>Small shop</title></head><body>
<nav aria-label="Menu"><a href="/a">Start</a> <a href="/b">Offers</a></nav>
<main><h1>Kettles</h1><ul><li>Red kettle</li><li>Blue kettle</li></ul><button>Buy</button></main>
</body></html>"""


def ax_node(node_id, role, name="", children=(), **more):
    return {
        "nodeId": str(node_id),
        "ignored": False,
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "childIds": [str(child) for child in children],
        "backendDOMNodeId": 100 + int(node_id),
        **more,
    }


def small_nodes():
    return [
        ax_node(1, "RootWebArea", "Small shop", [2, 4]),
        ax_node(2, "navigation", "Menu", [3]),
        ax_node(3, "link", "Start"),
        ax_node(4, "main", "", [5, 6]),
        ax_node(5, "heading", "Kettles"),
        ax_node(6, "button", "Buy"),
    ]


def snapshot_text(nodes=None, **more):
    return json.dumps(
        {
            "url": "https://example.org/",
            "title": "Small shop",
            "viewport": [1280, 720],
            "nodes": small_nodes() if nodes is None else nodes,
            "boxes": {},
            **more,
        }
    )


@pytest.fixture
def run(capsys):
    """Runs the command in this process; gives exit status, stdout and the lines of stderr."""

    def ran(*arguments):
        with pytest.raises(SystemExit) as exit_info:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return exit_info.value.code, captured.out, captured.err.splitlines()

    return ran


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "shop.json"
    path.write_text(snapshot_text())
    return path


@pytest.fixture(scope="module")
def server():
    answers = {
        "/page": (200, "text/html", PAGE.encode()),
        "/picture": (200, "image/png", b"\x89PNG\r\n\x1a\n"),
        "/data": (200, "application/json", b"{}"),
        "/failing": (500, "text/html", b"<h1>Server error</h1>"),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/page")
                self.end_headers()
                return
            if self.path == "/slow":
                threading.Event().wait(5)
            status, kind, body = answers.get(self.path, (404, "text/html", b"<h1>Not found</h1>"))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            pass  # the browser has hung up

    running = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()


def test_segment_prints_the_documented_json_object(run, snapshot):
    status, out, err = run("segment", snapshot, "--segmenter", "landmarks", "--json")
    assert (status, err) == (0, [])
    page = json.loads(out)
    assert list(page) == ["input", "url", "nodes", "ms", "regions"]
    assert (page["input"], page["url"], page["nodes"]) == (str(snapshot), "https://example.org/", 6)
    assert [list(region) for region in page["regions"]] == [["id", "root", "size", "purpose", "state", "members"]] * 3
    assert [(r["id"], r["root"], r["size"], r["members"]) for r in page["regions"]] == [
        ("R0", 101, 1, [101]),
        ("R1", 102, 2, [102, 103]),
        ("R2", 104, 3, [104, 105, 106]),
    ]
    assert all(region["purpose"] for region in page["regions"])
    assert set(page["ms"]) == {"capture", "tree", "decomposition", "abstraction"}


def test_segment_prints_a_readable_list(run, snapshot):
    status, out, _ = run("segment", snapshot, "--segmenter", "landmarks")
    lines = out.splitlines()
    assert status == 0
    assert lines[0] == "Small shop"
    assert lines[1].startswith("https://example.org/ | 6 nodes | 3 regions | ")
    assert [line[:2] for line in lines[2:] if line.startswith("R")] == ["R0", "R1", "R2"]
    assert "(3 nodes)" in out


def test_several_inputs_give_one_line_each_in_order(run, tmp_path):
    paths = [tmp_path / name for name in ("b.json", "a.json.gz", "c.json")]
    for path in paths:
        text = snapshot_text().encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    status, out, _ = run("segment", *paths, "--segmenter", "whole-page", "--json")
    assert status == 0
    assert [json.loads(line)["input"] for line in out.splitlines()] == [str(path) for path in paths]


def test_an_input_that_fails_is_one_line_and_the_others_go_on(run, snapshot, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    status, out, err = run("segment", snapshot, broken, snapshot, "--segmenter", "whole-page", "--json")
    assert status == 2
    assert len(out.splitlines()) == 2
    assert len(err) == 1
    assert str(broken) in err[0]


def test_the_default_segmenter_and_abstractor_ship_with_the_package(run, snapshot):
    status, out, err = run("segment", snapshot, "--json")
    assert (status, err) == (0, [])
    assert sum(region["size"] for region in json.loads(out)["regions"]) == 6


@pytest.mark.browser
def test_an_html_file_is_captured_viewed_drawn_and_saved(run, tmp_path):
    page = tmp_path / "shop.html"
    page.write_text(PAGE)
    view, png, saved = tmp_path / "out/view.html", tmp_path / "out/regions.png", tmp_path / "out/shop.json.gz"
    status, out, err = run("segment", page, "--segmenter", "landmarks", "--view", view, "--png", png, "--save", saved)
    assert (status, err) == (0, [])
    assert [line for line in out.splitlines() if line.startswith("wrote")] == [f"wrote {path}" for path in (view, png, saved)]
    assert "data:image/png;base64," in view.read_text()
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert load_snapshot(saved).title == "Small shop"
    again_status, again, _ = run("segment", saved, "--segmenter", "landmarks", "--json")
    assert again_status == 0
    assert json.loads(again)["regions"][1]["size"] == 3


@pytest.mark.browser
def test_an_address_is_captured_and_redirects_are_followed(run, server):
    status, out, _ = run("segment", f"{server}/moved", "--segmenter", "landmarks", "--json")
    assert status == 0
    assert json.loads(out)["url"] == f"{server}/page"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("path", "options", "status", "words"),
    [
        ("/missing", (), 1, "404"),
        ("/failing", (), 1, "500"),
        ("/picture", (), 2, "image/png"),
        ("/data", (), 2, "application/json"),
        ("/slow", ("--timeout", "1"), 1, "within 1 s"),
    ],
    ids=["404", "500", "picture", "json", "slow"],
)
def test_an_address_that_gives_no_page_is_one_line(run, server, path, options, status, words):
    found, out, err = run("segment", server + path, *options, "--segmenter", "landmarks", "--json")
    assert (found, out, len(err)) == (status, "", 1)
    assert words in err[0]
    assert server + path in err[0]


@pytest.mark.browser
@pytest.mark.parametrize("address", ["http://127.0.0.1:9/", "http://no-such-host.invalid/"])
def test_an_unreachable_host_is_one_line_and_status_1(run, address):
    status, out, err = run("segment", address, "--segmenter", "landmarks", "--json")
    assert (status, out, len(err)) == (1, "", 1)
    assert address in err[0]


BAD_FILES = {
    "missing": ("nothing.json", None, "no such file"),
    "missing html": ("nothing.html", None, "no such file"),
    "empty": ("empty.json", b"", "empty file"),
    "empty html": ("empty.html", b"", "empty file"),
    "not json": ("page.json", b"<html></html>", "not valid JSON"),
    "not utf-8": ("page.json", b"\xff\xfe\x00{", "not UTF-8"),
    "damaged gzip": ("page.json.gz", gzip.compress(b"{}" * 900)[:-20], "damaged gzip"),
    "a list": ("page.json", b"[]", "expected a JSON object"),
    "deep nesting": ("page.json", b"[" * 100_000, "JSON"),
    "no nodes": ("page.json", snapshot_text([]).encode(), "'nodes' is empty"),
    "nodes missing": ("page.json", b'{"url": ""}', "'nodes' must be a list"),
    "node no object": ("page.json", snapshot_text([7]).encode(), "nodes[0]"),
    "url no text": ("page.json", snapshot_text(url=7).encode(), "'url'"),
    "viewport wrong": ("page.json", snapshot_text(viewport="wide").encode(), "'viewport'"),
    "boxes wrong": ("page.json", snapshot_text(boxes=[1]).encode(), "'boxes'"),
    "other file": ("page.pdf", b"%PDF-1.7", ".html file or a snapshot"),
    "no suffix": ("page", b"hello", ".html file or a snapshot"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_one_line_that_names_it_and_status_2(run, tmp_path, case):
    name, content, words = BAD_FILES[case]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    status, out, err = run("segment", path, "--segmenter", "whole-page", "--json")
    assert (status, out, len(err)) == (2, "", 1)
    assert words in err[0]
    assert err[0].startswith(f"region4web: {path}")


MALFORMED_NODES = {
    "a cycle": ([ax_node(1, "RootWebArea", "", [2]), ax_node(2, "group", "", [3]), ax_node(3, "link", "A", [2])], 3),
    "an orphan": ([*small_nodes(), ax_node(9, "link", "Lost", parentId="77")], 7),
    "two roots": ([*small_nodes(), ax_node(8, "RootWebArea", "Second"), ax_node(9, "button", "B", parentId="8")], 8),
    "an unknown role": ([*small_nodes()[:5], ax_node(6, "hologram", "Buy")], 6),
    "a child twice": ([ax_node(1, "RootWebArea", "", [2, 2]), ax_node(2, "link", "A")], 2),
    "a missing id": (
        [ax_node(1, "RootWebArea", "", [2]), ax_node(2, "link", "A"), {"role": {"value": "button"}, "name": {"value": "B"}}],
        3,
    ),
    "a child that is not there": ([ax_node(1, "RootWebArea", "", [2, 5]), ax_node(2, "link", "A")], 2),
}


@pytest.mark.parametrize("case", MALFORMED_NODES)
def test_malformed_nodes_are_mended_with_a_note_and_none_is_lost(run, tmp_path, case):
    nodes, expected = MALFORMED_NODES[case]
    path = tmp_path / "page.json"
    path.write_text(snapshot_text(nodes))
    status, out, err = run("segment", path, "--segmenter", "whole-page", "--json")
    assert status == 0
    assert json.loads(out)["nodes"] == expected
    assert all(line.startswith(f"region4web: {path}: note: ") for line in err)
    assert bool(err) == (case != "an unknown role")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["segment"], "Missing argument 'INPUT...'"),
        (["segment", "SNAPSHOT", "--segmenter", "nonsense"], "no segmenter 'nonsense'"),
        (["segment", "SNAPSHOT", "--abstractor", "nonsense"], "nonsense"),
        (["segment", "SNAPSHOT", "--colour"], "--colour"),
        (["segment", "SNAPSHOT", "--timeout", "-1"], "--timeout"),
        (["segment", "FOLDER"], "a folder"),
        (["segment", ""], "names no page"),
        (["segment", "http://[::1"], "Invalid IPv6 URL"),
        (["segment", "ftp://example.org/x"], "http:// or https://"),
        (["segment", "javascript:alert(1)"], "http:// or https://"),
        (["segment", "example.org"], "write https://example.org"),
        (["segment", "SNAPSHOT", "SNAPSHOT", "--view", "one.html"], "name a folder"),
        (["segment", "SNAPSHOT", "--save", "page.txt"], ".json.gz"),
        (["nonsense"], "No such command"),
        (["eval", "--captures", "FOLDER"], "--labels"),
        (["eval", "--captures", "FOLDER/nothing", "--labels", "FOLDER"], "no such folder"),
        (["eval", "--captures", "FOLDER", "--labels", "FOLDER"], "no capture in"),
        (["eval-blocks", "FOLDER/nothing"], "nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_call_is_one_line_and_status_2(run, snapshot, tmp_path, arguments, words):
    folder = tmp_path / "folder"
    folder.mkdir()
    status, out, err = run(*(argument.replace("SNAPSHOT", str(snapshot)).replace("FOLDER", str(folder)) for argument in arguments))
    assert (status, out, len(err)) == (2, "", 1)
    assert words in err[0]


def labelled_folder(tmp_path):
    for name in ("captures", "labels", "blocks"):
        (tmp_path / name).mkdir()
    regions = [
        {"root": 101, "purpose": "Page frame", "state": "Small shop"},
        {"root": 102, "purpose": "Main navigation", "state": "Start"},
        {"root": 104, "purpose": "Product list", "state": "Kettles, Buy"},
    ]
    blocks = [{"level": 1, "type": "menu", "members": [102, 103]}, {"level": 1, "type": "content", "members": [104, 105, 106]}]
    (tmp_path / "captures/shop.json").write_text(snapshot_text())
    (tmp_path / "labels/shop.json").write_text(json.dumps({"page": "shop", "kind": "shop", "regions": regions}))
    (tmp_path / "blocks/shop.json").write_text(json.dumps({"page": "shop", "blocks": blocks}))
    return tmp_path


EVAL_KEYS = [
    "pages",
    "regions",
    "region_precision",
    "region_recall",
    "region_f1",
    "edge_f1",
    "purpose_similarity",
    "state_similarity",
    "ms_per_page",
    "roots_mapped",
]


def test_eval_prints_the_documented_json_object(run, tmp_path):
    folder = labelled_folder(tmp_path)
    arguments = ("--captures", folder / "captures", "--labels", folder / "labels", "--abstractor", "none", "--json")
    status, out, err = run("eval", *arguments, "--segmenter", "landmarks")
    assert (status, err) == (0, [])
    numbers = json.loads(out)
    assert set(EVAL_KEYS) <= set(numbers)
    assert (numbers["pages"], numbers["regions"], numbers["region_f1"], numbers["edge_f1"]) == (1, 3, 1.0, 1.0)
    status, out, _ = run("eval", *arguments, "--segmenter", "whole-page", "--segmenter", "landmarks")
    several = json.loads(out)["segmenters"]
    assert {name: numbers["region_f1"] for name, numbers in several.items()} == {"whole-page": 0.5, "landmarks": 1.0}


def test_eval_prints_a_table_with_each_segmenter_by_name(run, tmp_path):
    folder = labelled_folder(tmp_path)
    arguments = ("--captures", folder / "captures", "--labels", folder / "labels", "--abstractor", "none")
    status, out, _ = run("eval", *arguments, "--segmenter", "whole-page", "--segmenter", "labels")
    head, *rows = [line.split() for line in out.splitlines()]
    assert status == 0
    assert [row[0] for row in rows] == ["whole-page", "labels"]
    assert [row[1 + head.index("region_f1")] for row in rows] == ["0.5000", "1.0000"]


def test_eval_blocks_prints_the_documented_json_object(run, tmp_path):
    status, out, err = run("eval-blocks", labelled_folder(tmp_path), "--segmenter", "landmarks", "--json")
    assert (status, err) == (0, [])
    numbers = json.loads(out)
    assert list(numbers) == ["pages", "blocks", "block_f1", "bcubed_f1"]
    assert (numbers["pages"], numbers["blocks"], numbers["bcubed_f1"]) == (1, 2, 1.0)


def test_a_file_that_cannot_be_written_is_one_line(run, snapshot, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    status, _, err = run("segment", snapshot, "--segmenter", "whole-page", "--json", "--view", blocked / "view.html")
    assert (status, len(err)) == (2, 1)
    assert str(blocked) in err[0]


def test_a_browser_that_is_not_there_is_one_line_and_status_1(run, tmp_path, monkeypatch):
    monkeypatch.setenv("REGION4WEB_BROWSER", str(tmp_path / "no-browser"))
    page = tmp_path / "shop.html"
    page.write_text(PAGE)
    status, _, err = run("segment", page, "--segmenter", "whole-page", "--json")
    assert (status, len(err)) == (1, 1)
    assert "no-browser" in err[0]


def test_text_of_the_page_cannot_drive_the_terminal(run, tmp_path):
    path = tmp_path / "page.json"
    path.write_text(
        snapshot_text(
            [ax_node(1, "RootWebArea", "\x1b[2Jgone\nR9   forged", [2]), ax_node(2, "button", "\x1b]0;x\x07")], title="\x1b[31mred\n"
        )
    )
    status, out, _ = run("segment", path, "--segmenter", "whole-page")
    assert status == 0
    assert "\x1b" not in out
    assert not any(line.startswith("R9") for line in out.splitlines())


def test_json_survives_text_that_is_not_unicode(run, tmp_path):
    path = tmp_path / "page.json"
    path.write_text(snapshot_text([ax_node(1, "RootWebArea", "\ud800 half", [2]), ax_node(2, "button", "日本語 עברית")]))
    status, out, _ = run("segment", path, "--segmenter", "whole-page", "--json")
    assert status == 0
    json.loads(out.encode().decode())


def test_folders_take_one_file_an_input(run, snapshot, tmp_path):
    status, _, _ = run(
        "segment", snapshot, snapshot, "--segmenter", "whole-page", "--json", "--view", f"{tmp_path}/views/", "--save", f"{tmp_path}/saved/"
    )
    assert status == 0
    assert sorted(path.name for path in (tmp_path / "views").iterdir()) == ["001-shop.html", "002-shop.html"]
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["001-shop.json.gz", "002-shop.json.gz"]


def test_the_installed_command_prints_no_traceback_and_ends_quietly_when_its_reader_does(snapshot):
    command = [sys.executable, "-m", "region4web.cli", "segment", str(snapshot), "--segmenter", "whole-page"]
    failed = subprocess.run([*command[:4], "nothing.json"], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.count("\n") == 1
    reader, writer = os.pipe()
    os.close(reader)
    closed = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert closed.stderr == ""
