"""The regions of a page, drawn on it: one self-contained HTML file, or the same picture as PNG.

Enters: a `RegionMap`, and the page's screenshot where there is one. Leaves: HTML that loads nothing from anywhere and
shows page text as text only. Each region is outlined at the union of its members' boxes: on the screenshot, else on a
wireframe made of the boxes, else (a page of which no boxes are known) as nested cards in page order.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

from region4web.axtree import AXTree
from region4web.regions import Region, RegionMap
from region4web.render import render_lines
from region4web.snapshot import Box

__all__ = ["region_box", "viewer_html", "write_picture", "write_viewer"]

LARGEST_PNG_BYTES = 600_000
"""A larger screenshot is embedded as JPEG."""
WIREFRAME_TEXTS = 5_000
EXCERPT_CHARACTERS = 900
PICTURE_WIDTH_PX, PICTURE_LIST_WIDTH_PX, PICTURE_HEIGHT_PX = 1000, 560, 9000
_PNG = b"\x89PNG\r\n\x1a\n"


def write_viewer(region_map: RegionMap, path: str | os.PathLike[str], *, screenshot: bytes | None = None) -> Path:
    """Write `viewer_html` to `path` and return it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(viewer_html(region_map, screenshot=screenshot), encoding="utf-8", errors="replace")
    return path


def write_picture(region_map: RegionMap, path: str | os.PathLike[str], *, screenshot: bytes | None = None) -> Path:
    """Write the annotated page with the list of its regions as PNG, drawn by the browser. Raises BrowserError."""
    path = Path(path)
    html = viewer_html(region_map, screenshot=screenshot)
    # A thread of its own: sync Playwright refuses to run inside an event loop (a notebook's).
    with ThreadPoolExecutor(max_workers=1) as executor:
        png = executor.submit(_drawn, html).result()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png)
    return path


def viewer_html(region_map: RegionMap, *, screenshot: bytes | None = None) -> str:
    """The viewer as one HTML document."""
    import jinja2

    tree = region_map.partition.tree
    size = _page_size(tree, screenshot)
    boxes = [region_box(tree, region, size) for region in region_map.partition.regions]
    layout = "screenshot" if screenshot else "wireframe" if any(boxes) else "schematic"
    data = {
        "size": size,
        "regions": _region_entries(region_map, boxes),
        "texts": _wireframe_texts(tree, size) if layout == "wireframe" else [],
    }
    folder = files("region4web") / "templates"
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("viewer.css", "viewer.js"))
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    return environment.from_string((folder / "viewer.html.j2").read_text(encoding="utf-8")).render(
        title=tree.title,
        url=tree.url,
        node_count=len(tree),
        regions=region_map.abstractions,
        without_box=0 if layout == "schematic" else sum(box is None for box in boxes),
        layout=layout,
        picture=_data_uri(screenshot) if screenshot else "",
        style=style,
        style_hash=_source_hash(style),
        script=script,
        script_hash=_source_hash(script),
        data=_json_in_html(data),
    )


def _drawn(html: str) -> bytes:
    """The viewer as a still: the whole page on the left, purposes and states on the right."""
    from region4web.browser import launch, require_playwright

    require_playwright()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright)
        try:
            page = browser.new_page(viewport={"width": PICTURE_WIDTH_PX + PICTURE_LIST_WIDTH_PX, "height": 400})
            page.set_content(html)
            page.evaluate(
                """([width, list, height]) => {
                    document.body.classList.add('figure');
                    document.body.style.gridTemplateColumns = `${width}px ${list}px`;
                    const page = document.getElementById('page');
                    page.style.width = Math.min(1, height / page.offsetHeight) * 100 + '%';
                }""",
                [PICTURE_WIDTH_PX, PICTURE_LIST_WIDTH_PX, PICTURE_HEIGHT_PX],
            )
            return bytes(page.screenshot(full_page=True))
        finally:
            browser.close()


def region_box(tree: AXTree, region: Region, size: tuple[int, int]) -> Box | None:
    """The smallest rectangle around the boxes of the region's members, cut to the page; None when nothing is laid out.

    Members that are not visible count only where nothing of the region is.
    """
    members = [tree.nodes[i] for i in region.members]
    for nodes in ([node for node in members if node.visible], members):
        boxes = [clipped for node in nodes if node.box and (clipped := _clipped(node.box, size))]
        if boxes:
            left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
            return (left, top, max(x + w for x, _, w, _ in boxes) - left, max(y + h for _, y, _, h in boxes) - top)
    return None


def _clipped(box: Box, size: tuple[int, int]) -> Box | None:
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(float(size[0]), box[0] + box[2]), min(float(size[1]), box[1] + box[3])
    return (left, top, right - left, bottom - top) if right - left >= 1 and bottom - top >= 1 else None


def _region_entries(region_map: RegionMap, boxes: list[Box | None]) -> list[dict[str, Any]]:
    tree = region_map.partition.tree
    depth: list[int] = []
    entries = []
    for region, abstraction, box in zip(region_map.partition.regions, region_map.abstractions, boxes, strict=True):
        depth.append(0 if region.enclosing < 0 else depth[region.enclosing] + 1)
        names = dict.fromkeys(tree.nodes[i].name for i in region.members if tree.nodes[i].name)
        entries.append(
            {
                "id": region.key,
                "number": region.number,
                "purpose": abstraction.purpose,
                "state": abstraction.state,
                "size": len(region),
                "depth": depth[-1],
                "box": box,
                "excerpt": " · ".join(names)[:EXCERPT_CHARACTERS] if box is None else "",
                "lines": render_lines(tree, region.members.tolist(), base_depth=int(tree.depth[region.root])),
            }
        )
    return entries


def _wireframe_texts(tree: AXTree, size: tuple[int, int]) -> list[tuple[float, float, float, float, str]]:
    """Names of leaves at their boxes, so that a page without a screenshot can be recognised."""
    texts = []
    for node, children in zip(tree.nodes, tree.children, strict=True):
        if (
            not children
            and node.box
            and node.visible
            and (text := str(node.value or "") or node.name)
            and (box := _clipped(node.box, size))
        ):
            texts.append((*box, text[:400]))
    return texts[:WIREFRAME_TEXTS]


def _page_size(tree: AXTree, screenshot: bytes | None) -> tuple[int, int]:
    """Width and height of the page in CSS px: of its screenshot, else the extent of what can be seen of it."""
    if screenshot:
        return _png_size(screenshot)
    width, height = max(1, tree.viewport[0]), max(1, tree.viewport[1])
    visible = [node.box for node in tree.nodes if node.box and node.visible and node.box[2] >= 1 and node.box[3] >= 1]
    if not visible:
        return width, height
    # A lone element far to the right or below (a hidden menu) must not shrink everything else to nothing.
    return max(width, min(2 * width, int(max(x + w for x, _, w, _ in visible)))), max(height, int(max(y + h for _, y, _, h in visible)))


def _png_size(png: bytes) -> tuple[int, int]:
    if png[:8] != _PNG or len(png) < 24:
        raise ValueError(f"the screenshot must be a PNG, found {png[:8]!r}")
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)


def _data_uri(png: bytes) -> str:
    kind, data = "png", png
    if len(png) > LARGEST_PNG_BYTES:
        from PIL import Image

        buffer = io.BytesIO()
        with Image.open(io.BytesIO(png)) as image:
            # JPEG holds at most 65,500 pixels a side.
            if max(image.size) <= 65_500:
                image.convert("RGB").save(buffer, "JPEG", quality=80, optimize=True)
                kind, data = "jpeg", buffer.getvalue()
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _json_in_html(data: object) -> str:
    """JSON that no HTML parser can leave: `<`, `>` and `&` as escapes."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _source_hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii")
