"""Page digests of a plain Playwright page, and acting on the ids they show.

    from pagedigest.integrations.playwright import PlaywrightDigest

    digest = PlaywrightDigest(page, task="put a red mug into the basket")
    print(digest.observe().text)
    print(digest.fill("41", "red mug").text)
    print(digest.click("44").text)

Enters: a live page, sync (`PlaywrightDigest`) or async (`AsyncPlaywrightDigest`, same methods, awaited). Leaves: an
`Observation` a step. What happens in between is in `live_digest`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from pagedigest.integrations.acting import ActionFailed, ActionRefused
from pagedigest.integrations.live_digest import LiveDigest, Steps, packaged_digest
from pagedigest.observation import Action, Observation

__all__ = ["ActionFailed", "ActionRefused", "AsyncPlaywrightDigest", "PlaywrightDigest", "packaged_digest"]

T = TypeVar("T")

STEP_LIMIT_S = 30.0
"""No single call of the async API is waited for longer: a page may begin to hang in the middle of one."""


class PlaywrightDigest(LiveDigest):
    """Digests of a page of Playwright's sync API. Actions raise ActionRefused (nothing done), ActionFailed, CaptureError."""

    def observe(self, *, last_action: Action | None = None) -> Observation:
        """The page as it is now."""
        return _run(self._observe(last_action))

    def click(self, element_id: str | int) -> Observation:
        """Click an element that was shown."""
        return _run(self._click(element_id))

    def fill(self, element_id: str | int, text: str) -> Observation:
        """Replace the text of a field."""
        return _run(self._fill(element_id, text))

    def select(self, element_id: str | int, option: str) -> Observation:
        """Choose an option of a drop-down, by its text or its value."""
        return _run(self._select(element_id, option))

    def press(self, key: str, element_id: str | int | None = None) -> Observation:
        """Press a key (`Enter`, `Control+a`) on an element, or where the focus is."""
        return _run(self._press(key, element_id))

    def scroll(self, direction: str = "down", element_id: str | int | None = None) -> Observation:
        """Scroll the page, or the box that an element is in, by nearly a screen."""
        return _run(self._scroll(direction, element_id))

    def back(self) -> Observation:
        """Go back in the history of the tab."""
        return _run(self._back())

    def _capture(self) -> Any:
        from region4web.capture import capture_live

        return capture_live(self.page, timeout_s=self.timeout_s)

    def _expose(self, key: str, name: str) -> Any:
        from region4web.elements import expose_element

        return expose_element(self.page, key, name)

    def _stop_loading(self) -> None:
        from region4web.loading import stop_loading

        stop_loading(self.page)

    def _quiet(self) -> bool:
        from region4web.loading import wait_until_quiet

        return wait_until_quiet(self.page)


class AsyncPlaywrightDigest(LiveDigest):
    """Digests of a page of Playwright's async API."""

    @property
    def _limit_s(self) -> float:
        return max(STEP_LIMIT_S, self.timeout_s + 5.0)

    async def observe(self, *, last_action: Action | None = None) -> Observation:
        """The page as it is now."""
        return await _run_async(self._limit_s, self._observe(last_action))

    async def click(self, element_id: str | int) -> Observation:
        """Click an element that was shown."""
        return await _run_async(self._limit_s, self._click(element_id))

    async def fill(self, element_id: str | int, text: str) -> Observation:
        """Replace the text of a field."""
        return await _run_async(self._limit_s, self._fill(element_id, text))

    async def select(self, element_id: str | int, option: str) -> Observation:
        """Choose an option of a drop-down, by its text or its value."""
        return await _run_async(self._limit_s, self._select(element_id, option))

    async def press(self, key: str, element_id: str | int | None = None) -> Observation:
        """Press a key (`Enter`, `Control+a`) on an element, or where the focus is."""
        return await _run_async(self._limit_s, self._press(key, element_id))

    async def scroll(self, direction: str = "down", element_id: str | int | None = None) -> Observation:
        """Scroll the page, or the box that an element is in, by nearly a screen."""
        return await _run_async(self._limit_s, self._scroll(direction, element_id))

    async def back(self) -> Observation:
        """Go back in the history of the tab."""
        return await _run_async(self._limit_s, self._back())

    async def settle(self) -> None:
        """Wait for a navigation and the page's requests, then for a moment without changes."""
        await _run_async(self._limit_s, self._settle())

    def _capture(self) -> Awaitable[Any]:
        from region4web.capture import capture_live_async

        return capture_live_async(self.page, timeout_s=self.timeout_s)

    def _expose(self, key: str, name: str) -> Awaitable[None]:
        from region4web.elements import expose_element_async

        return expose_element_async(self.page, key, name)

    def _stop_loading(self) -> Awaitable[None]:
        from region4web.loading import stop_loading_async

        return stop_loading_async(self.page)

    def _quiet(self) -> Awaitable[bool]:
        from region4web.loading import wait_until_quiet_async

        return wait_until_quiet_async(self.page)


def _run(steps: Steps[T]) -> T:
    """Run page logic on the sync API: what is yielded is the value already."""
    value: Any = None
    while True:
        try:
            value = steps.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result


async def _run_async(limit_s: float, steps: Steps[T]) -> T:
    """Run page logic on the async API: await what is yielded, raise its errors where it was yielded."""
    from region4web.cdp import within
    from region4web.errors import CaptureTimeout

    value: Any = None
    failure: Exception | None = None
    while True:
        try:
            waiting = steps.throw(failure) if failure is not None else steps.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result
        value, failure = None, None
        try:
            value = await within(waiting, limit_s)
        except TimeoutError:
            failure = CaptureTimeout(f"the page did not respond within {limit_s:g} s (a script is busy)")
        except Exception as error:
            failure = error
