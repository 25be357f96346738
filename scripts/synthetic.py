"""Pages that look like real ones, of any size, from a seed: what bench.py and limits.py measure on.

Leaves: a `Snapshot` as Chromium gives it (ignored wrappers, InlineTextBox below every text, addresses, states), made of
a banner with search and navigation, filters, and as many sections as the size asks for: product grids, tables,
articles, comment threads, forms. Sections have the sizes of real ones; a larger page has more and longer ones.
"""

from __future__ import annotations

import random
from typing import Any

from region4web.snapshot import Snapshot

__all__ = ["changed_page", "synthetic_page"]

WORDS = (
    "order basket account delivery price review garden kitchen lamp oak steel blue summer return invoice payment customer "
    "status pending shipped report project issue wiki release version editor history search filter category offer stock "
    "warranty address email phone support cookie policy newsletter partner voucher discount size colour weight material"
).split()


class _Page:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.nodes: list[dict[str, Any]] = []
        self.kept = 0

    def words(self, low: int, high: int) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(low, high))).capitalize()

    def add(self, parent: dict[str, Any] | None, role: str, name: str = "", **properties: Any) -> dict[str, Any]:
        number = len(self.nodes) + 1
        node: dict[str, Any] = {
            "nodeId": str(number),
            "ignored": role == "none",
            "role": {"type": "role", "value": role},
            "name": {"type": "computedString", "value": name},
            "properties": [{"name": key, "value": {"value": value}} for key, value in properties.items()],
            "childIds": [],
            "backendDOMNodeId": number,
        }
        if parent is not None:
            node["parentId"] = parent["nodeId"]
            parent["childIds"].append(node["nodeId"])
        self.nodes.append(node)
        self.kept += role not in ("none", "InlineTextBox")
        return node

    def text(self, parent: dict[str, Any], text: str) -> None:
        self.add(self.add(parent, "StaticText", text), "InlineTextBox", text)

    def link(self, parent: dict[str, Any], name: str) -> None:
        link = self.add(parent, "link", name, url=f"http://shop.example/{name.replace(' ', '-').lower()}-{len(self.nodes)}", focusable=True)
        self.text(link, name)
        self.kept -= 1  # the text repeats the name

    def wrap(self, parent: dict[str, Any], role: str = "none") -> dict[str, Any]:
        return self.add(parent, role)

    def banner(self, root: dict[str, Any]) -> None:
        banner = self.add(root, "banner")
        self.link(self.wrap(banner), "Example shop")
        search = self.add(banner, "search")
        self.add(search, "searchbox", "Search", focusable=True, invalid="false")
        self.add(search, "button", "Go")
        menu = self.add(self.add(banner, "navigation", "Main"), "list")
        for _ in range(9):
            self.link(self.add(menu, "listitem"), self.words(1, 2))

    def filters(self, parent: dict[str, Any]) -> None:
        box = self.add(parent, "complementary")
        for _ in range(4):
            group = self.add(box, "group", self.words(1, 1))
            self.add(group, "heading", self.words(1, 2), level=3)
            for _ in range(6):
                self.add(self.wrap(group), "checkbox", self.words(1, 3), checked="false", focusable=True)

    def grid(self, parent: dict[str, Any], size: int) -> None:
        section = self.wrap(parent)
        self.text(self.add(section, "heading", self.words(2, 4), level=2), "Offers")
        cards = self.add(section, "list")
        for _ in range(max(1, size // 9)):
            card = self.add(self.wrap(self.add(cards, "listitem")), "article")
            self.add(
                self.add(card, "link", self.words(2, 5), url=f"http://shop.example/p/{len(self.nodes)}"),
                "image",
                self.words(2, 4),
                url="http://shop.example/i.png",
            )
            self.link(self.add(card, "heading", "", level=3), self.words(2, 6))
            self.text(self.add(card, "paragraph"), f"£{self.random.randint(1, 900)}.99")
            self.add(card, "button", "Add to basket")

    def table(self, parent: dict[str, Any], size: int) -> None:
        rows = self.add(self.add(parent, "table", self.words(2, 3)), "rowgroup")
        for number in range(max(1, size // 12)):
            row = self.add(rows, "row")
            for column in range(5):
                cell = self.add(row, "cell", "")
                if column == 0:
                    self.add(cell, "checkbox", f"Select order {number}", checked="false")
                elif column == 4:
                    self.link(cell, f"View {number}")
                else:
                    self.text(cell, self.words(1, 3))

    def article(self, parent: dict[str, Any], size: int) -> None:
        article = self.add(self.wrap(parent), "article")
        for i in range(max(1, size // 6)):
            if i % 5 == 0:
                self.text(self.add(article, "heading", "", level=2), self.words(3, 7))
            paragraph = self.add(article, "paragraph")
            self.text(paragraph, self.words(20, 60))
            self.link(paragraph, self.words(1, 4))
            self.text(paragraph, self.words(5, 20))

    def thread(self, parent: dict[str, Any], size: int) -> None:
        posts = self.wrap(parent, "generic")
        for _ in range(max(1, size // 10)):
            post = self.wrap(posts, "generic")
            head = self.wrap(post, "generic")
            self.link(head, self.words(1, 2))
            self.add(head, "time", "2 days ago")
            self.text(self.add(post, "paragraph"), self.words(10, 50))
            self.add(self.wrap(post), "button", "Reply")
            self.add(post, "button", "Like", pressed="false")

    def form(self, parent: dict[str, Any], size: int) -> None:
        form = self.add(parent, "form", self.words(1, 3))
        for _ in range(max(1, size // 4)):
            line = self.wrap(form, "generic")
            label = self.words(1, 3)
            self.text(self.add(line, "LabelText"), label)
            self.add(line, "textbox", label, focusable=True, required=True)["value"] = {"value": self.words(1, 2)}
        self.add(form, "button", "Save")


def synthetic_page(nodes: int, seed: int = 0) -> Snapshot:
    """A page whose tree has about `nodes` nodes after preprocessing, never fewer."""
    page = _Page(seed)
    root = page.add(None, "RootWebArea", "Example shop", focusable=True)
    page.banner(root)
    main = page.add(page.wrap(root), "main")
    page.filters(main)
    blocks = (page.grid, page.table, page.article, page.thread, page.form)
    while page.kept < nodes:
        longest = min(nodes - page.kept + 10, max(60, nodes // 12))
        page.random.choice(blocks)(
            page.wrap(main, page.random.choice(("none", "generic", "region"))), page.random.randint(20, max(21, longest))
        )
    return Snapshot("http://shop.example/offers", "Example shop", (1280, 720), tuple(page.nodes))


def changed_page(page: Snapshot, seed: int = 0) -> Snapshot:
    """The page after an action: one in a hundred boxes ticked, one in three hundred texts rewritten, twenty nodes added."""
    choice = random.Random(seed)
    nodes: list[dict[str, Any]] = []
    for node in page.nodes:
        role = node["role"]["value"]
        if role == "checkbox" and choice.random() < 0.01:
            node = {**node, "properties": [{"name": "checked", "value": {"value": "true"}}]}
        elif role == "StaticText" and choice.random() < 0.003:
            node = {**node, "name": {"value": f"{node['name']['value']} (changed)"}}
        nodes.append(node)
    count = len(nodes)
    dialog = {"nodeId": str(count + 1), "parentId": "1", "ignored": False, "role": {"value": "dialog"}, "name": {"value": "Confirm"}, "backendDOMNodeId": count + 1,
              "childIds": [str(count + 2 + i) for i in range(20)]}  # fmt: skip
    added = [{"nodeId": str(count + 2 + i), "parentId": dialog["nodeId"], "ignored": False, "role": {"value": "button"}, "name": {"value": f"Choice {i}"},
              "backendDOMNodeId": count + 2 + i, "childIds": []} for i in range(20)]  # fmt: skip
    nodes[0] = {**nodes[0], "childIds": [*nodes[0]["childIds"], dialog["nodeId"]]}
    return Snapshot(page.url, page.title, page.viewport, (*nodes, dialog, *added))
