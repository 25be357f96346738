"""The abstraction cache: what is remembered, for whom, how much, and what happens to a damaged file."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import region4web.abstraction
from region4web import Abstraction, AXTree, Partition
from region4web.abstraction import EmbeddedAbstractor
from region4web.abstraction_cache import CACHE_VARIABLE, Cached, default_cache_path, remembered

HEADER = "RootWebArea 'Shop'\n\t[1] banner ''\n\t\t[2] link 'Home'\n\t\t[3] link 'Cart'\n\t[4] main ''\n\t\t[5] heading '{}'"


def page(heading: str, *, header: str = HEADER) -> Partition:
    tree = AXTree.from_text(header.format(heading))
    return Partition(tree, (0, 1, 4))


class Counting:
    """Says the first name of each region, and counts how many regions it was asked about."""

    source = "counting"

    def __init__(self) -> None:
        self.asked = 0

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.abstract_regions(partition, range(len(partition)))

    def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
        self.asked += len(numbers)
        return tuple(Abstraction(partition.tree.nodes[partition.roots[n]].role, f"region {n}", self.source) for n in numbers)


def test_a_header_seen_on_one_page_costs_nothing_on_the_next(tmp_path: Path) -> None:
    counting = Counting()
    cached = Cached(counting, tmp_path / "c.sqlite")
    first = cached.abstract(page("Books"))
    second = cached.abstract(page("Toys"))
    assert (cached.hits, cached.misses, counting.asked) == (2, 4, 4)
    assert second[1] == first[1] == Abstraction("banner", "region 1", "counting")


def test_what_was_remembered_outlives_the_process(tmp_path: Path) -> None:
    Cached(Counting(), tmp_path / "c.sqlite").abstract(page("Books"))
    again = Cached(counting := Counting(), tmp_path / "c.sqlite")
    again.abstract(page("Books"))
    assert (again.hits, again.misses, counting.asked) == (3, 0, 0)


@pytest.mark.parametrize(
    ("old", "new"), [("link 'Cart'", "link 'Basket'"), ("link 'Cart'", "link 'Cart', expanded=True"), ("link 'Cart'", "button 'Cart'")]
)
def test_a_region_whose_content_changed_is_abstracted_again(tmp_path: Path, old: str, new: str) -> None:
    cached = Cached(counting := Counting(), tmp_path / "c.sqlite")
    cached.abstract(page("Books"))
    cached.abstract(page("Books", header=HEADER.replace(old, new)))
    assert (cached.hits, cached.misses, counting.asked) == (2, 4, 4)


def test_focus_does_not_change_what_a_region_is(tmp_path: Path) -> None:
    cached = Cached(Counting(), tmp_path / "c.sqlite")
    cached.abstract(page("Books"))
    cached.abstract(page("Books", header=HEADER.replace("link 'Cart'", "link 'Cart', focused")))
    assert cached.misses == 3


def test_two_abstractors_do_not_answer_for_each_other(tmp_path: Path) -> None:
    Cached(Counting(), tmp_path / "c.sqlite", identity="one").abstract(page("Books"))
    other = Cached(Counting(), tmp_path / "c.sqlite", identity="two")
    other.abstract(page("Books"))
    assert other.hits == 0


def test_what_a_fallback_said_is_not_remembered(tmp_path: Path) -> None:
    class Falling(Counting):
        def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
            self.asked += len(numbers)
            return tuple(Abstraction("Something", "", "fallback") for _ in numbers)

    cached = Cached(counting := Falling(), tmp_path / "c.sqlite")
    cached.abstract(page("Books"))
    cached.abstract(page("Books"))
    assert (cached.hits, counting.asked) == (0, 6)


def test_the_file_stays_within_its_bound_and_keeps_the_newest(tmp_path: Path) -> None:
    bound = 128 * 1024
    cached = Cached(Counting(), tmp_path / "c.sqlite", bound)
    for number in range(1500):
        cached.abstract(page(f"Page {number}"))
    cached.abstract(page("Page 1499"))
    assert cached.hits >= 1500
    assert cached.misses < 3100, "the header, used on every page, must not be dropped for good"
    cached.close()
    assert (tmp_path / "c.sqlite").stat().st_size <= bound
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 3 * bound


def test_a_bound_too_small_to_hold_anything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_bytes must be at least 65536, found 10"):
        Cached(Counting(), tmp_path / "c.sqlite", 10)


def test_only_the_user_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c.sqlite"
    cached = Cached(Counting(), path)
    cached.abstract(page("Books"))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes["c.sqlite"] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"this is no database, " * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_moved_aside_and_said(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(content)
    cached = Cached(counting := Counting(), path)
    cached.abstract(page("Books"))
    cached.abstract(page("Books"))
    assert (cached.hits, counting.asked) == (3, 3)
    assert [file.read_bytes() for file in tmp_path.glob("c.sqlite.damaged-*")] == [content]
    assert [record.message for record in caplog.records if "was damaged" in record.message]


def test_a_file_damaged_while_it_is_used_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    first = Cached(Counting(), path)
    first.abstract(page("Books"))
    first.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(100)
        file.write(os.urandom(size - 100))
    cached = Cached(Counting(), path)
    cached.abstract(page("Books"))
    cached.abstract(page("Books"))
    assert cached.hits == 3


def test_a_place_that_cannot_be_written_is_said_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cached = Cached(counting := Counting(), tmp_path / "file" / "c.sqlite")
    assert len(cached.abstract(page("Books"))) == 3
    assert (cached.unavailable, counting.asked, cached.misses) == (3, 3, 0)
    assert "cannot be used" in caplog.text


def test_several_processes_share_one_file(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_abstraction_cache import Cached, Counting, page\n"
        "c = Cached(Counting(), sys.argv[1])\n"
        "for n in range(60): c.abstract(page(f'Page {n}'))\n"
        "assert c.unavailable == 0, c.unavailable"
    )
    here = str(Path(__file__).parent)
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "c.sqlite"), here], stderr=subprocess.PIPE) for _ in range(3)]
    assert [(worker.communicate()[1], worker.returncode) for worker in workers] == [(b"", 0)] * 3
    cached = Cached(Counting(), tmp_path / "c.sqlite")
    for number in range(60):
        cached.abstract(page(f"Page {number}"))
    assert cached.misses == 0


def test_the_standard_place_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_path() == tmp_path / "region4web" / "abstractions.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache_path() == tmp_path / "home" / ".cache" / "region4web" / "abstractions.sqlite"


def test_a_menu_seen_on_one_page_of_a_site_is_not_described_again_on_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    written = EmbeddedAbstractor.abstract_regions

    def noted(self: EmbeddedAbstractor, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
        asked.append(tuple(numbers))
        return written(self, partition, numbers)

    monkeypatch.setattr(EmbeddedAbstractor, "abstract_regions", noted)
    cached = Cached(EmbeddedAbstractor(), tmp_path / "c.sqlite")
    first, second = cached.answer(page("Books")), cached.answer(page("Toys"))
    assert asked == [(0, 1, 2), (2,)]
    assert (first.reused, second.reused) == (0, 2)
    assert second.abstractions[:2] == first.abstractions[:2]
    assert cached.answer(page("Books")).reused == 3
    assert len(asked) == 2


def test_some_regions_are_described_as_they_are_among_all() -> None:
    abstractor, partition = EmbeddedAbstractor(), page("Books")
    everything = abstractor.abstract(partition)
    assert abstractor.abstract_regions(partition, (0, 2)) == (everything[0], everything[2])
    assert abstractor.abstract_regions(partition, ()) == ()


def test_other_weights_have_another_identity(tmp_path: Path) -> None:
    packaged = Path(region4web.abstraction.__file__).parent / "weights" / "abstraction"
    folder = shutil.copytree(packaged, tmp_path / "weights")
    assert EmbeddedAbstractor(folder).identity == EmbeddedAbstractor().identity
    other = shutil.copytree(packaged, tmp_path / "other")
    with (other / "purposes.json").open("a", encoding="utf-8") as file:
        file.write("\n")
    assert EmbeddedAbstractor(other).identity != EmbeddedAbstractor().identity


def test_the_user_names_the_file_or_turns_the_cache_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "named.sqlite"))
    remembering = remembered(counting)
    remembering.abstract(page("Books"))
    assert isinstance(remembering, Cached)
    assert remembering.path == tmp_path / "named.sqlite"
    assert remembering.path.is_file()
    monkeypatch.setenv(CACHE_VARIABLE, "off")
    assert remembered(counting) is counting
