"""Options that several commands of `pagedigest` share, each said once.

Enters: nothing. Leaves: decorators of click. Which command takes which option is the commands' own affair.
"""

from __future__ import annotations

import click

__all__ = ["abstractor_option", "json_option", "segmenter_option"]

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
segmenter_option = click.option(
    "--segmenter", metavar="NAME", default="best", show_default=True, help="How pages are cut: a name or a weights folder."
)
abstractor_option = click.option(
    "--abstractor", metavar="NAME", default="embedded", show_default=True, help="What writes purposes and states."
)
