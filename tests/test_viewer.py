"""The viewer in a real browser: what it draws, how it is used, what page text cannot do in it."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

from region4web.axtree import AXNode, AXTree
from region4web.browser import launch
from region4web.capture import capture_page
from region4web.regions import Abstraction, Partition, RegionMap
from region4web.segmenters import Landmarks
from region4web.viewer import region_box, viewer_html, write_picture, write_viewer

pytestmark = pytest.mark.browser

SHIPPED_PAGE = Path(__file__).parents[1] / "data/pages/order_back_office/index.html"
HOSTILE = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 2">'


def described(partition: Partition) -> RegionMap:
    nodes = partition.tree.nodes
    return RegionMap(
        partition, tuple(Abstraction(f"{nodes[r].role} {nodes[r].name}", f"{nodes[r].name} first", "test") for r in partition.roots)
    )


def blocks(count: int, *, boxes: bool) -> RegionMap:
    """A page of `count` groups with one link each, every group a region."""
    nodes = [AXNode("1", "RootWebArea", "Blocks", box=(0, 0, 1280, 40.0 * count) if boxes else None)]
    parent = [-1]
    for k in range(count):
        box = (20.0, 40.0 * k, 600.0, 30.0) if boxes else None
        nodes += [AXNode(f"g{k}", "group", f"Group {k}", box=box), AXNode(f"l{k}", "link", f"Link number {k}", box=box)]
        parent += [0, len(nodes) - 2]
    tree = AXTree(tuple(nodes), np.array(parent), url="https://example.org/blocks", title="Blocks")
    return described(Partition.from_cuts(tree, range(1, len(nodes), 2)))


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        running = launch(playwright)
        yield running
        running.close()


@pytest.fixture(scope="module")
def shop():
    snapshot = capture_page(SHIPPED_PAGE, screenshot=True)
    return described(Landmarks().segment(AXTree.from_snapshot(snapshot))), snapshot.screenshot


@pytest.fixture
def open_viewer(browser, tmp_path):
    pages = []

    def opened(region_map, **options):
        page = browser.new_page(viewport={"width": 1400, "height": 800})
        pages.append(page)
        page.requests = []
        page.on("request", lambda request: page.requests.append(request.url))
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
        page.goto(write_viewer(region_map, tmp_path / "view.html", **options).as_uri())
        return page

    yield opened
    for page in pages:
        assert page.errors == []
        page.close()


def test_every_region_is_outlined_where_its_members_are(open_viewer, shop):
    region_map, screenshot = shop
    page = open_viewer(region_map, screenshot=screenshot)
    tree = region_map.partition.tree
    picture = page.locator("#picture").bounding_box()
    scale = picture["width"] / 1280
    assert page.locator(".outline").count() == len(region_map.partition)
    form = next(i for i, node in enumerate(tree.nodes) if node.name == "Filter orders")
    number = region_map.partition.roots.index(form)
    outline = page.locator(f'.outline[data-region="{number}"]').bounding_box()
    x, y, w, h = tree.nodes[form].box
    assert outline["x"] - picture["x"] == pytest.approx(x * scale, abs=2)
    assert outline["y"] - picture["y"] == pytest.approx(y * scale, abs=2)
    assert (outline["width"], outline["height"]) == pytest.approx((w * scale, h * scale), abs=2)


def test_the_file_asks_for_nothing_from_anywhere(open_viewer, shop):
    page = open_viewer(shop[0], screenshot=shop[1])
    assert [url for url in page.requests if not url.startswith("data:")] == [page.url]
    assert page.locator("#picture").evaluate("image => image.naturalWidth") == 1280


def test_pointing_at_one_side_highlights_the_other(open_viewer):
    page = open_viewer(blocks(5, boxes=True))
    page.hover("#region-2")
    assert page.locator(".outline.hot").get_attribute("data-region") == "2"
    page.hover('.outline[data-region="4"]')
    assert page.locator(".region.hot").get_attribute("id") == "region-4"
    page.mouse.move(1, 1)
    assert page.locator(".hot").count() == 0


def test_the_pointer_finds_the_innermost_region(open_viewer, shop):
    page = open_viewer(shop[0], screenshot=shop[1])
    box = page.locator("#picture").bounding_box()
    scale = box["width"] / 1280
    tree = shop[0].partition.tree
    trail = next(i for i, node in enumerate(tree.nodes) if node.name == "Breadcrumb")
    x, y, w, h = tree.nodes[trail].box
    page.mouse.click(box["x"] + (x + w / 2) * scale, box["y"] + (y + h / 2) * scale)
    assert page.locator(".region.selected .purpose").text_content() == "navigation Breadcrumb"


def test_a_click_selects_on_both_sides_and_a_second_one_shows_the_elements(open_viewer):
    page = open_viewer(blocks(5, boxes=True))
    page.click("#region-3")
    assert page.locator(".outline.selected").get_attribute("data-region") == "3"
    assert page.locator("#region-3").get_attribute("aria-selected") == "true"
    page.click("#region-3")
    assert page.locator("#region-3 .lines").text_content() == "[g2] group 'Group 2'\n\t[l2] link 'Link number 2'"


def test_the_keyboard_moves_searches_and_clears(open_viewer):
    page = open_viewer(blocks(12, boxes=True))
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert page.locator(".region.selected").get_attribute("id") == "region-2"
    page.keyboard.press("ArrowUp")
    assert page.locator(".region.selected").get_attribute("id") == "region-1"
    page.keyboard.press("/")
    page.keyboard.type("link number 11")
    assert page.locator(".region:visible").evaluate_all("items => items.map(item => item.id)") == ["region-12"]
    assert page.locator("#count").text_content() == "1 of 13"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "Link number 11" in page.locator("#region-12 .lines").text_content()
    page.keyboard.press("Escape")
    assert page.locator(".region:visible").count() == 13
    page.keyboard.press("Escape")
    assert page.locator(".selected").count() == 0


def test_a_search_without_result_says_so(open_viewer):
    page = open_viewer(blocks(3, boxes=True))
    page.fill("#search", "nothing holds this")
    assert page.locator("#list").inner_text() == "No region holds these words."
    page.fill("#search", "")
    assert page.locator(".region:visible").count() == 4


@pytest.mark.parametrize("boxes", [True, False], ids=["outlines", "cards"])
def test_page_text_stays_text(open_viewer, boxes):
    box = (0.0, 0.0, 400.0, 30.0) if boxes else None
    nodes = (AXNode("1", "RootWebArea", HOSTILE, box=box), AXNode("2", "button", HOSTILE, value=HOSTILE, box=box))
    tree = AXTree(nodes, np.array([-1, 0]), url="javascript:" + HOSTILE, title=HOSTILE)
    region_map = RegionMap(Partition(tree, (0, 1)), (Abstraction(HOSTILE, HOSTILE), Abstraction(HOSTILE, HOSTILE)))
    page = open_viewer(region_map)
    page.click("#region-1")
    page.click("#region-1")
    assert page.evaluate("window.broken") is None
    assert page.locator("#region-1 .purpose").text_content() == HOSTILE
    assert page.locator("h1").text_content() == HOSTILE
    assert HOSTILE in page.locator("#region-1 .lines").text_content()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


def test_a_page_without_boxes_is_drawn_as_nested_cards(open_viewer):
    page = open_viewer(blocks(4, boxes=False))
    assert page.locator(".outline").count() == 0
    assert page.locator(".card").count() == 5
    assert page.locator('.card[data-region="2"]').inner_text().split("\n")[-1] == "Group 1 · Link number 1"
    root, inner = (page.locator(f'.card[data-region="{k}"]').bounding_box()["x"] for k in (0, 1))
    assert inner > root
    page.click('.card[data-region="3"]')
    assert page.locator(".region.selected").get_attribute("id") == "region-3"


def test_boxes_without_a_screenshot_give_a_wireframe(open_viewer):
    page = open_viewer(blocks(4, boxes=True))
    assert page.locator("#page .text").all_inner_texts() == [f"Link number {k}" for k in range(4)]
    assert page.locator(".outline").count() == 5


def test_a_region_that_is_not_laid_out_is_listed_all_the_same(open_viewer):
    nodes = (AXNode("1", "RootWebArea", box=(0, 0, 800, 600)), AXNode("2", "group", "Hidden menu"), AXNode("3", "form", box=(5, 5, 90, 40)))
    region_map = described(Partition(AXTree(nodes, np.array([-1, 0, 0])), (0, 1, 2)))
    page = open_viewer(region_map)
    assert page.locator(".outline").count() == 2
    page.click("#region-1")
    assert page.locator("#region-1.selected").count() == 1
    assert "1 regions not laid out" in page.locator("header").inner_text()


def test_two_hundred_regions_can_be_walked_through(open_viewer):
    page = open_viewer(blocks(200, boxes=True))
    page.keyboard.press("ArrowUp")
    assert page.locator(".region.selected").get_attribute("id") == "region-200"
    for locator in (page.locator(".region.selected"), page.locator(".outline.selected")):
        box = locator.bounding_box()
        assert 0 <= box["y"] < 800
    colours = {page.locator(f".outline[data-region='{k}']").evaluate("o => getComputedStyle(o).borderTopColor") for k in range(1, 9)}
    assert len(colours) == 8


def test_boxes_are_joined_cut_to_the_page_and_hidden_members_left_out():
    nodes = (
        AXNode("1", "list", box=(10, 10, 50, 20)),
        AXNode("2", "link", box=(40, 20, 100, 30)),
        AXNode("3", "link", box=(-9000, 5, 100, 20)),
        AXNode("4", "link", box=(0, 300, 400, 20), visible=False),
    )
    tree = AXTree(nodes, np.array([-1, 0, 0, 0]))
    region = Partition(tree, (0,)).regions[0]
    assert region_box(tree, region, (800, 600)) == (10, 10, 130, 40)
    assert region_box(tree, region, (100, 600)) == (10, 10, 90, 40)


def test_the_picture_shows_the_page_with_its_outlines(tmp_path):
    path = write_picture(blocks(3, boxes=True), tmp_path / "regions.png")
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.width == 1560
        colours = {colour for _, colour in picture.convert("RGB").getcolors(maxcolors=1_000_000)}
    # The outline of R1: hsl(348 65% 38%).
    assert (160, 34, 59) in colours


def test_a_large_screenshot_is_embedded_as_jpeg():
    noise = np.random.default_rng(0).integers(0, 255, (700, 900, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    html = viewer_html(blocks(1, boxes=True), screenshot=buffer.getvalue())
    assert "data:image/jpeg;base64," in html
    assert "data:image/png" not in html


def test_a_screenshot_that_is_no_png_is_refused():
    with pytest.raises(ValueError, match="must be a PNG"):
        viewer_html(blocks(1, boxes=True), screenshot=b"GIF89a")
