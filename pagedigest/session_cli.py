"""The commands of `pagedigest` that drive a browser session: open, click, fill, select, press, scroll, back, tabs, look, view-all, view-region, find, close; and `mcp`.

Each prints what is new to read: the digest when a page was entered, the changes while it stays. The browser lives in a
process of its own (`integrations.browser_session`) until `close`. Errors are `SessionError`s with an exit status.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import click

from pagedigest.cli_options import digest_budget_option, headed_option, json_option, page_option

__all__ = ["COMMANDS"]

_FENCE = "pagedigest.fence"
"""Key under which click's context keeps whether the text is fenced."""


def _session_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @click.option("--session", "name", metavar="NAME", default="default", show_default=True, help="Which session.")
    @json_option
    @click.option("--fence", "with_fence", is_flag=True, help="Put the text, which comes from the web, between markers with a nonce.")
    @functools.wraps(function)
    def wrapped(*args: Any, with_fence: bool, **options: Any) -> Any:
        click.get_current_context().meta[_FENCE] = with_fence
        return function(*args, **options)

    return wrapped


def _dialog_options(function: Callable[..., Any]) -> Callable[..., Any]:
    accept = click.option("--accept-dialog", is_flag=True, help="Accept a dialog that this opens; without it, it is dismissed.")
    text = click.option("--dialog-text", metavar="TEXT", help="Accept a prompt that this opens, with TEXT.")
    return accept(text(function))


def _ask(name: str, as_json: bool, command: str, **arguments: Any) -> None:
    from pagedigest.integrations.browser_session import SessionError, ask

    try:
        reply = ask(name, command, arguments)
    except SessionError as error:
        raise _failure(error) from error
    if click.get_current_context().meta[_FENCE]:
        from pagedigest.fence import fenced

        reply["text"] = fenced(reply["text"])
    click.echo(json.dumps(reply, ensure_ascii=False) if as_json else reply["text"])


def _failure(error: Any) -> Exception:
    """A caller's mistake as click's, so that the exit status is 2; the world's failure as it is."""
    return click.ClickException(str(error)) if error.status == 2 else error


@click.command("open")
@click.argument("target", metavar="URL")
@click.option("--task", help="What the session is for; it decides which regions are shown. A new task starts anew.")
@digest_budget_option
@click.option("--timeout", "timeout_s", metavar="SECONDS", type=click.FloatRange(min=1, max=60), help="Deadline for pages from now on; 15 at first.")  # fmt: skip
@click.option("--allow-files", is_flag=True, envvar="PAGEDIGEST_ALLOW_FILES", help="Let this session open files from now on.")
@click.option("--allow-private", is_flag=True, envvar="PAGEDIGEST_ALLOW_PRIVATE", help="Let this session open loopback and private network addresses from now on.")  # fmt: skip
@headed_option
@click.option("--idle", "idle_s", metavar="SECONDS", type=click.FloatRange(min=1), default=1800.0, show_default=True, help="The session ends after so long without a command.")  # fmt: skip
@_session_options
def open_command(target: str, task: str | None, budget_tokens: int, timeout_s: float | None, allow_files: bool, allow_private: bool, headed: bool, idle_s: float, name: str, as_json: bool) -> None:  # fmt: skip
    """Open URL (or an .html file) in the session's browser, which is started if need be."""
    from pathlib import Path

    from pagedigest.integrations.browser_session import SessionError, ensure_session

    try:
        started = ensure_session(name, headed=headed, idle_s=idle_s)
    except SessionError as error:
        raise _failure(error) from error
    if headed and not started:
        raise click.UsageError(f"session {name!r} runs already, without deciding its window anew; close it first")
    if "://" not in target and Path(target).exists():
        target = str(Path(target).resolve())
    _ask(
        name,
        as_json,
        "open",
        target=target,
        task=task,
        budget_tokens=budget_tokens,
        timeout_s=timeout_s,
        allow_files=allow_files,
        allow_private=allow_private,
    )


@click.command("click")
@click.argument("element_id", metavar="ID")
@_dialog_options
@_session_options
def click_command(element_id: str, accept_dialog: bool, dialog_text: str | None, name: str, as_json: bool) -> None:
    """Click the element ID."""
    _ask(name, as_json, "click", element_id=element_id, accept_dialog=accept_dialog, dialog_text=dialog_text)


@click.command("fill")
@click.argument("element_id", metavar="ID")
@click.argument("text", metavar="TEXT")
@_session_options
def fill_command(element_id: str, text: str, name: str, as_json: bool) -> None:
    """Replace the text of the field ID."""
    _ask(name, as_json, "fill", element_id=element_id, text=text)


@click.command("select")
@click.argument("element_id", metavar="ID")
@click.argument("option", metavar="OPTION")
@_session_options
def select_command(element_id: str, option: str, name: str, as_json: bool) -> None:
    """Choose OPTION of the drop-down ID."""
    _ask(name, as_json, "select", element_id=element_id, option=option)


@click.command("press")
@click.argument("key", metavar="KEY")
@click.argument("element_id", metavar="[ID]", required=False)
@_dialog_options
@_session_options
def press_command(key: str, element_id: str | None, accept_dialog: bool, dialog_text: str | None, name: str, as_json: bool) -> None:
    """Press KEY (Enter, Escape, Control+a) on the element ID, or where the focus is."""
    _ask(name, as_json, "press", key=key, element_id=element_id, accept_dialog=accept_dialog, dialog_text=dialog_text)


@click.command("scroll")
@click.argument("direction", metavar="[DIRECTION]", type=click.Choice(["down", "up", "left", "right", "top", "bottom"]), default="down")
@click.argument("element_id", metavar="[ID]", required=False)
@_session_options
def scroll_command(direction: str, element_id: str | None, name: str, as_json: bool) -> None:
    """Scroll the page, or the box that the element ID is in: down, up, left, right, top, bottom."""
    _ask(name, as_json, "scroll", direction=direction, element_id=element_id)


@click.command("back")
@_session_options
def back_command(name: str, as_json: bool) -> None:
    """Go back in the tab's history."""
    _ask(name, as_json, "back")


@click.command("look")
@_session_options
def look_command(name: str, as_json: bool) -> None:
    """Read the page as it is now."""
    _ask(name, as_json, "look")


@click.command("tabs")
@click.argument("number", metavar="[N]", type=click.IntRange(min=1), required=False)
@click.option("--close", is_flag=True, help="Close tab N instead of going to it.")
@_session_options
def tabs_command(number: int | None, close: bool, name: str, as_json: bool) -> None:
    """List the tabs, or go to tab N."""
    if close and number is None:
        raise click.UsageError("--close needs the number of the tab")
    _ask(name, as_json, "tabs", number=number, close=close)


@click.command("view-all")
@page_option
@_session_options
def view_all_command(page: int, name: str, as_json: bool) -> None:
    """Read every region in full, in pages."""
    _ask(name, as_json, "view_all", page=page)


@click.command("view-region")
@click.argument("region", metavar="R")
@page_option
@_session_options
def view_region_command(region: str, page: int, name: str, as_json: bool) -> None:
    """Read region R (such as R4) in full."""
    _ask(name, as_json, "view_region", region=region, page=page)


@click.command("find")
@click.argument("text", metavar="TEXT")
@page_option
@_session_options
def find_command(text: str, page: int, name: str, as_json: bool) -> None:
    """List the elements that say TEXT."""
    _ask(name, as_json, "find", text=text, page=page)


@click.command("close")
@_session_options
def close_command(name: str, as_json: bool) -> None:
    """End the session and its browser."""
    from pagedigest.integrations.browser_session import SessionError, close_session

    try:
        close_session(name)
    except SessionError as error:
        raise _failure(error) from error
    click.echo(json.dumps({"closed": name}) if as_json else f"session {name} closed")


@click.command("mcp")
@click.option("--task", default="", help="What the client's agent is for, when it does not say so itself.")
@digest_budget_option
@headed_option
@click.option("--timeout", "timeout_s", metavar="SECONDS", type=click.FloatRange(min=1, max=60), default=15.0, show_default=True, help="Deadline for a page.")  # fmt: skip
@click.option("--allow-files", is_flag=True, help="Let the client open file:// addresses.")
@click.option("--allow-private", is_flag=True, help="Let the client open loopback and private network addresses.")
@click.option("--print-config", is_flag=True, help="Print the snippet for a client's configuration and end.")
def mcp_command(task: str, budget_tokens: int, headed: bool, timeout_s: float, allow_files: bool, allow_private: bool, print_config: bool) -> None:  # fmt: skip
    """Serve a browser to a Model Context Protocol client over stdio."""
    from pagedigest.integrations.mcp_server import client_configuration, serve_stdio

    if print_config:
        click.echo(client_configuration())
        return
    serve_stdio(task=task, budget_tokens=budget_tokens, headless=not headed, timeout_s=timeout_s, files=allow_files, private=allow_private)


COMMANDS: tuple[click.Command, ...] = (
    open_command,
    click_command,
    fill_command,
    select_command,
    press_command,
    scroll_command,
    back_command,
    look_command,
    tabs_command,
    view_all_command,
    view_region_command,
    find_command,
    close_command,
    mcp_command,
)
