"""Which page a tree shows: navigation, reload, pushState, hashes, shells, other views under one URL."""

from __future__ import annotations

import numpy as np
import pytest

from pagedigest.page_identity import identify, page_address, unready_reason
from region4web.axtree import AXNode, AXTree

URL = "http://shop.test/orders"


def page(
    names: list[str], *, url: str = URL, first: int = 10, document: int | None = 1, roles: str = "button", title: str = "Orders"
) -> AXTree:
    """A flat page of elements; backend ids from `first` on, the document's own in `document`."""
    nodes = [AXNode(str(document or 1), "RootWebArea", title, backend_id=document)]
    nodes += [AXNode(str(first + k), roles, name, backend_id=None if document is None else first + k) for k, name in enumerate(names)]
    return AXTree(tuple(nodes), np.asarray([-1] + [0] * len(names), dtype=np.int32), url=url, title=title)


NAMES = [f"item {k}" for k in range(10)]


def test_the_same_tree_is_unchanged() -> None:
    assert identify(page(NAMES), page(NAMES), page(NAMES)).kind == "unchanged"


def test_an_update_under_the_same_url_stays_on_the_page() -> None:
    event = identify(page(NAMES), page(NAMES), page([*NAMES[:-1], "other"]))
    assert event.kind == "changed"
    assert event.transition is not None


@pytest.mark.parametrize("url", ["http://shop.test/basket", "http://shop.test/orders?page=2", "http://other.test/orders"])
def test_another_path_query_or_host_with_other_content_is_a_new_page(url: str) -> None:
    event = identify(page(NAMES), page(NAMES), page([*NAMES[:-1], "other"], url=url))
    assert event.kind == "opened"
    assert event.transition is None


def test_a_hash_link_stays_on_the_page() -> None:
    event = identify(page(NAMES), page(NAMES), page(NAMES, url=URL + "#details"))
    assert event.kind == "changed"
    assert event.transition is not None
    assert event.transition.is_empty


def test_push_state_that_leaves_the_content_alone_stays_and_tells_the_url() -> None:
    event = identify(page(NAMES), page(NAMES), page(NAMES, url=URL + "?tab=2"))
    assert event.stays
    assert event.note == "the URL is now http://shop.test/orders?tab=2"


def test_push_state_with_other_content_is_a_new_page() -> None:
    assert identify(page(NAMES), page(NAMES), page(["a", "b", "c"], first=80, url="http://shop.test/orders/7")).kind == "opened"


def test_other_content_under_the_same_url_is_a_new_view() -> None:
    event = identify(page(NAMES), page(NAMES), page([f"other {k}" for k in range(10)], first=80, url=URL + "#v2"))
    assert (event.kind, event.note) == ("new view", "new view, same URL")
    assert not event.stays


def test_half_of_the_nodes_gone_is_still_the_same_view() -> None:
    assert identify(page(NAMES), page(NAMES), page(NAMES[:6])).kind == "changed"
    assert identify(page(NAMES), page(NAMES), page(NAMES[:4])).kind == "new view"


def test_a_reload_with_the_same_content_keeps_every_element() -> None:
    event = identify(page(NAMES), page(NAMES), page(NAMES, first=500, document=400))
    assert (event.kind, event.note) == ("reloaded", "reloaded, content equal")
    assert event.transition is not None
    assert not event.transition.removed
    assert not event.transition.placed
    assert all(update.replaced for update in event.transition.updated[1:])


def test_a_reload_that_shows_something_else_is_a_new_page() -> None:
    event = identify(page(NAMES), page(NAMES), page(["Log in"], first=500, document=400, roles="textbox"))
    assert event.kind == "opened"
    assert event.note == "the document was loaded again with other content"


def test_a_reload_with_one_row_more_says_that_it_changed() -> None:
    event = identify(page(NAMES), page(NAMES), page([*NAMES, "new"], first=500, document=400))
    assert (event.kind, event.note) == ("reloaded", "reloaded, content changed")


def test_a_shell_that_fills_is_read_anew() -> None:
    shell = page(["Loading"], roles="StaticText")
    assert unready_reason(shell)
    assert identify(shell, shell, page(["Loading", *NAMES])).kind == "filled"


def test_very_many_additions_are_a_new_view_not_a_list() -> None:
    event = identify(page(NAMES), page(NAMES), page([*NAMES, *(f"row {k}" for k in range(200))]))
    assert event.kind == "new view"
    assert "200 elements are new" in event.note


def test_a_menu_on_a_small_page_is_no_new_view() -> None:
    assert identify(page(NAMES[:3]), page(NAMES[:3]), page([*NAMES[:3], *(f"entry {k}" for k in range(30))])).kind == "changed"


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (page([]), "no elements"),
        (page(["..."], roles="StaticText"), "only 1 element"),
        (page(["Please wait"], roles="StaticText"), "it says that it is loading"),
        (page([""], roles="progressbar"), "it shows a progress indicator and little else"),
    ],
)
def test_an_empty_shell_looks_not_ready(tree: AXTree, reason: str) -> None:
    assert unready_reason(tree) == reason


@pytest.mark.parametrize(
    "tree",
    [page(NAMES), page(["Go"]), page(["This page does not exist. Go back to the start."], roles="StaticText"), page([""], roles="textbox")],
)
def test_a_small_page_with_something_to_do_or_read_looks_ready(tree: AXTree) -> None:
    assert unready_reason(tree) == ""


def test_addresses_differ_by_path_and_query_not_by_hash() -> None:
    assert page_address("http://a.test/x?q=1#top") == page_address("http://a.test/x/?q=1#end")
    assert page_address("http://a.test/x?q=1") != page_address("http://a.test/x?q=2")
    assert page_address("http://[broken") == "http://[broken"


def test_recorded_trees_without_backend_ids_are_told_apart_by_url_and_content() -> None:
    entry = page(NAMES, document=None)
    assert identify(entry, entry, page(NAMES[:9], document=None)).kind == "changed"
    assert identify(entry, entry, page(NAMES[:2], document=None)).kind == "new view"
