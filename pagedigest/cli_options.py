"""Options that several commands of `pagedigest` share, each said once.

Enters: nothing. Leaves: decorators of click. Which command takes which option is the commands' own affair.
"""

from __future__ import annotations

import click

from pagedigest.budgets import SMALLEST_BUDGET

__all__ = ["abstractor_option", "digest_budget_option", "headed_option", "json_option", "page_option", "segmenter_option"]

SESSION_BUDGET_TOKENS = 1000
"""Budget of a digest in a browser session or for a client, unless it is given."""

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
segmenter_option = click.option(
    "--segmenter", metavar="NAME", default="best", show_default=True, help="How pages are cut: a name or a weights folder."
)
abstractor_option = click.option(
    "--abstractor", metavar="NAME", default="embedded", show_default=True, help="What writes purposes and states."
)
digest_budget_option = click.option(
    "--budget",
    "budget_tokens",
    metavar="N",
    type=click.IntRange(min=SMALLEST_BUDGET),
    default=SESSION_BUDGET_TOKENS,
    show_default=True,
    help="Most tokens of a page's digest.",
)
headed_option = click.option("--headed", is_flag=True, help="Show the browser's window.")
page_option = click.option("--page", type=click.IntRange(min=1), default=1, show_default=True, help="Which page of a long view.")
