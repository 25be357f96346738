"""A task's page in a real browser: opened and logged in, acted on by calls, read as trees.

Enters: a task and a running site. Leaves: an `AXTree` a step and, at the end, what checkers look at. No observation
method is involved: what an agent may act on is the runner's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Protocol

from pagedigest.evaluation.actions import Call
from pagedigest.evaluation.sites import RunningSite
from pagedigest.evaluation.tasks import FinalState, Task, failed_checks
from pagedigest.integrations.playwright import ActionFailed, ActionRefused, PlaywrightDigest
from pagedigest.observation import Action, Observation
from pagedigest.tokens import TokenCounter, default_counter
from region4web.axtree import AXTree

__all__ = ["LOGINS", "BrowserEnvironment", "Environment", "TreeReader", "do_call"]

PASSWORD = "password123"
LOGINS = {
    "shop": ("/en-gb/accounts/login/", "#id_login-username", "#id_login-password", "button[name=login_submit]"),
    "dashboard": ("/en-gb/accounts/login/", "#id_login-username", "#id_login-password", "button[name=login_submit]"),
    "forum": ("/user/login/", "#id_username", "#id_password", "form:has(#id_username) [type=submit]"),
    "tracker": ("/login", "#username", "#password", "#login-submit"),
    "wiki": ("/index.php?title=Special:UserLogin", "#wpName1", "#wpPassword1", "#wpLoginAttempt"),
}
"""Per site: address of the login form, its two fields, its button."""


class Environment(Protocol):
    """Where an episode takes place. `tree` is the page as it is now, `over` whether the agent has ended the episode."""

    @property
    def task(self) -> Task: ...

    @property
    def tree(self) -> AXTree: ...

    @property
    def over(self) -> bool: ...

    def act(self, call: Call) -> str:
        """Do one action; what went wrong in one line, '' when nothing did."""

    def failures(self) -> list[str]:
        """What of the task is not done, [] when it is done."""

    def close(self) -> None: ...


def do_call(live: PlaywrightDigest, call: Call) -> str:
    """Do one call on a live page and read it again; what went wrong in one line, '' when nothing did."""
    given = call.arguments
    try:
        if call.name == "click":
            live.click(given[0])
        elif call.name == "fill":
            live.fill(given[0], given[1])
        elif call.name == "select_option":
            live.select(given[0], given[1])
        elif call.name == "press":
            live.press(given[1], given[0])
        elif call.name == "scroll":
            live.scroll("down" if float(given[1]) >= 0 else "up")
        elif call.name == "go_back":
            live.back()
        else:
            live.observe()
            return "" if call.name == "noop" else f"{call.name} is not offered here"
    except (ActionRefused, ActionFailed, ValueError) as error:
        if not live.page.is_closed():
            live.observe()
        return str(error).splitlines()[0][:300]
    return ""


@dataclass
class TreeReader:
    """Stands where PlaywrightDigest expects a method: keeps the tree and shows every element."""

    counter: TokenCounter = field(default_factory=default_counter)
    tree: AXTree | None = None
    step: int = 0
    page: Any = None

    def start(self, task: str) -> TreeReader:
        return self

    def observe(self, tree: AXTree, *, last_action: Action | None = None) -> Observation:
        self.tree = tree
        self.step += 1
        region_of: Sequence[int] = (0,) * len(tree)
        self.page = SimpleNamespace(tree=tree, changes=SimpleNamespace(region_of=region_of))
        shown = tuple(node.id for node in tree.nodes if node.addressable)
        return Observation("", shown, trace={"page": tree.url, "step": self.step})


def _with_addresses(tree: AXTree, old: str, new: str) -> AXTree:
    nodes = tuple(replace(node, url=node.url.replace(old, new)) if node.url and old in node.url else node for node in tree.nodes)
    return replace(tree, nodes=nodes, url=tree.url.replace(old, new))


class BrowserEnvironment:
    """One episode in a browser context of its own."""

    def __init__(self, browser: Any, task: Task, site: RunningSite, *, timeout_s: float = 30.0) -> None:
        self.task, self.site = task, site
        self.answer: str | None = None
        self.infeasible = False
        self._address = f"http://{task.site}.localhost"
        self._context = browser.new_context(viewport={"width": 1280, "height": 720}, locale="en-GB")
        page = self._context.new_page()
        page.set_default_timeout(timeout_s * 1000)
        if task.user:
            self._log_in(page)
        page.goto(site.url + task.start)
        self._reader = TreeReader()
        self._live = PlaywrightDigest(page, task.intent, method=self._reader, timeout_s=timeout_s)  # type: ignore[arg-type]
        self._context.on("page", self._live.attach)
        self._live.observe()

    @property
    def tree(self) -> AXTree:
        """The page as it was after the last action, the server's address replaced by the site's name: ports differ from run to run."""
        assert self._reader.tree is not None
        return _with_addresses(self._reader.tree, self.site.url, self._address)

    @property
    def over(self) -> bool:
        """Whether the agent has ended the episode."""
        return self.answer is not None or self.infeasible

    def act(self, call: Call) -> str:
        """Do one action; what went wrong in one line, '' when nothing did. Asking to see more is not an action here."""
        if call.name == "send_msg_to_user":
            self.answer = call.arguments[0]
        elif call.name == "report_infeasible":
            self.infeasible = True
        elif call.name == "goto":
            return self._goto(call.arguments[0])
        else:
            return do_call(self._live, call)
        return ""

    def _goto(self, address: str) -> str:
        if address.startswith((f"{self._address}/", f"{self._address}?")) or address == self._address:
            address = self.site.url + address.removeprefix(self._address)
        if not address.startswith((self.site.url, "/")):
            return f"{address} lies outside this site"
        self._live.page.goto(address if address.startswith("http") else self.site.url + address)
        self._live.observe()
        return ""

    def final_state(self) -> FinalState:
        """What checkers look at."""
        page = self._live.page
        text = page.evaluate("document.body ? document.body.innerText : ''")
        return FinalState(page.url, text, self.answer, self.infeasible, self.site.database)

    def failures(self) -> list[str]:
        """Checks of the task that do not hold."""
        return failed_checks(self.task, self.final_state())

    def close(self) -> None:
        self._context.close()

    def _log_in(self, page: Any) -> None:
        path, user_field, password_field, button = LOGINS[self.task.site]
        page.goto(self.site.url + path)
        page.fill(user_field, self.task.user)
        page.fill(password_field, PASSWORD)
        page.click(button)
        page.wait_for_load_state()
