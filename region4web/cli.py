"""The command `region4web`: pages in, regions out; segmenters and abstractors measured against labels.

One JSON object on stdout with `--json`, progress and errors on stderr, one line an error. Exit status: 0 done, 2 the
caller's mistake, 1 the world failed (browser, network, model).
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from tqdm import tqdm

from region4web.axtree import AXTree
from region4web.errors import CaptureError, LabelError, MissingFile, NotAPage, Region4WebError, SnapshotError
from region4web.inputs import read_page
from region4web.regions import Abstractor, RegionMap, Segmenter
from region4web.snapshot import Snapshot, save_snapshot

__all__ = ["failure_line", "main", "run_command", "segment_json"]

CALLER, WORLD = 2, 1
DEFAULT_SEGMENTER, DEFAULT_ABSTRACTOR = "best", "embedded"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]+")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="region4web")
def commands() -> None:
    """Functional regions of web pages, each with its purpose and state."""


@commands.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option(
    "--segmenter",
    "segmenter_name",
    metavar="NAME",
    default=DEFAULT_SEGMENTER,
    show_default=True,
    help="How pages are cut: a name or a weights folder.",
)
@click.option(
    "--abstractor",
    "abstractor_name",
    metavar="NAME",
    default=DEFAULT_ABSTRACTOR,
    show_default=True,
    help="What writes purposes and states.",
)
@click.option("--view", type=click.Path(path_type=Path), help="Write the viewer (HTML) here; a folder when there are several inputs.")
@click.option("--png", type=click.Path(path_type=Path), help="Write the annotated page here; a folder when there are several inputs.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the snapshot (.json.gz) here; a folder when there are several inputs.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=15.0,
    show_default=True,
    help="Deadline for capturing a live page.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line for each input.")
def segment(
    inputs: tuple[str, ...],
    segmenter_name: str,
    abstractor_name: str,
    view: Path | None,
    png: Path | None,
    save: Path | None,
    timeout_s: float,
    as_json: bool,
) -> int:
    """Cut pages into regions. INPUT is a web address, an .html file or a saved snapshot (.json, .json.gz)."""
    targets = [_Target(view, ".html"), _Target(png, ".png"), _Target(save, ".json.gz")]
    for target in targets:
        target.check(len(inputs))
    segmenter, abstractor = _models(segmenter_name, abstractor_name)
    status = 0
    with tqdm(inputs, unit="page", file=sys.stderr, disable=None if len(inputs) > 1 else True, leave=False) as progress:
        for number, text in enumerate(progress):
            try:
                page = _segmented(text, segmenter, abstractor, timeout_s=timeout_s, screenshot=bool(view or png))
                written = _written(page, number, targets)
            except Exception as error:
                with tqdm.external_write_mode(file=sys.stderr):
                    status = max(status, _complain(error, subject=text))
                continue
            with tqdm.external_write_mode(file=sys.stdout):
                for note in (*page.region_map.partition.tree.repairs, *page.region_map.partition.tree.notes):
                    click.echo(f"region4web: {_one_line(text)}: note: {_one_line(note)}", err=True)
                if as_json:
                    click.echo(json.dumps(segment_json(page), ensure_ascii=True))
                else:
                    click.echo("\n".join(_readable(page, written)) + ("\n" if number < len(inputs) - 1 else ""))
    return status


@commands.command("eval")
@click.option("--captures", required=True, type=click.Path(path_type=Path), help="Folder of snapshots.")
@click.option("--labels", required=True, type=click.Path(path_type=Path), help="Folder of label files of the same names.")
@click.option(
    "--segmenter",
    "segmenter_names",
    metavar="NAME",
    multiple=True,
    default=(DEFAULT_SEGMENTER,),
    show_default=True,
    help="May be given several times; 'labels' takes the labelled regions, to measure the abstractor alone.",
)
@click.option(
    "--abstractor",
    "abstractor_name",
    metavar="NAME",
    default=DEFAULT_ABSTRACTOR,
    show_default=True,
    help="'none' measures regions only, which is faster.",
)
@click.option("--json", "as_json", is_flag=True, help='One JSON object; with several segmenters, {"segmenters": {NAME: object}}.')
def evaluate_command(captures: Path, labels: Path, segmenter_names: tuple[str, ...], abstractor_name: str, as_json: bool) -> None:
    """Compare regions, purposes and states with labelled ones."""
    from region4web.abstraction import abstractor_by_name
    from region4web.evaluation import evaluate_pages
    from region4web.labels import annotated_pages, page_files
    from region4web.segmenters import segmenter_by_name

    segmenters = {name: None if name == "labels" else segmenter_by_name(name) for name in segmenter_names}
    abstractor = None if abstractor_name == "none" else abstractor_by_name(abstractor_name)
    count = len(page_files(captures, labels))
    results = {}
    for name, segmenter in segmenters.items():
        pages = tqdm(annotated_pages(captures, labels), total=count, desc=name, unit="page", file=sys.stderr, disable=None, leave=False)
        results[name] = evaluate_pages(pages, segmenter, abstractor)
    _print_numbers(results, as_json)


@commands.command("eval-blocks")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--segmenter",
    "segmenter_names",
    metavar="NAME",
    multiple=True,
    default=(DEFAULT_SEGMENTER,),
    show_default=True,
    help="May be given several times.",
)
@click.option("--json", "as_json", is_flag=True, help='One JSON object; with several segmenters, {"segmenters": {NAME: object}}.')
def evaluate_blocks_command(folder: Path, segmenter_names: tuple[str, ...], as_json: bool) -> None:
    """Compare regions with blocks that people marked. DIR holds captures/ and blocks/."""
    from region4web.blocks import evaluate_blocks
    from region4web.segmenters import segmenter_by_name

    segmenters = {name: segmenter_by_name(name) for name in segmenter_names}
    _print_numbers({name: evaluate_blocks(folder, segmenter) for name, segmenter in segmenters.items()}, as_json)


def _print_numbers(results: dict[str, dict[str, Any]], as_json: bool) -> None:
    """One segmenter's numbers as they are, several under their names; or a table."""
    if as_json:
        only = next(iter(results.values()))
        click.echo(json.dumps(only if len(results) == 1 else {"segmenters": results}))
        return
    names = [key for key, value in next(iter(results.values())).items() if not isinstance(value, dict)]
    width = max(len(name) for name in results)
    click.echo(" " * width + "  " + "  ".join(names))
    for segmenter_name, numbers in results.items():
        cells = ("-" if (value := numbers[key]) is None else f"{value:.4f}" if isinstance(value, float) else str(value) for key in names)
        click.echo(f"{segmenter_name:<{width}}  " + "  ".join(f"{cell:>{len(key)}}" for key, cell in zip(names, cells, strict=True)))


@dataclass(frozen=True)
class SegmentedPage:
    """One page with its regions. `ms` are milliseconds a stage."""

    source: str
    snapshot: Snapshot
    region_map: RegionMap
    ms: dict[str, float]


def segment_json(page: SegmentedPage) -> dict[str, Any]:
    """The object that `region4web segment --json` prints."""
    partition = page.region_map.partition
    keys = [_key(node.id, node.backend_id, node.frame) for node in partition.tree.nodes]
    return {
        "input": page.source,
        "url": partition.tree.url,
        "nodes": len(partition.tree),
        "ms": {stage: round(value, 3) for stage, value in page.ms.items()},
        "regions": [
            {
                "id": region.key,
                "root": keys[region.root],
                "size": len(region),
                "purpose": abstraction.purpose,
                "state": abstraction.state,
                "members": [keys[i] for i in region.members.tolist()],
            }
            for region, abstraction in zip(partition.regions, page.region_map.abstractions, strict=True)
        ],
    }


def _key(node_id: str, backend_id: int | None, frame: str) -> int | str:
    """The backend id of an element of the page's own document; the tree's id where there is none or it needs its frame."""
    return backend_id if backend_id is not None and not frame else node_id


def _models(segmenter_name: str, abstractor_name: str) -> tuple[Segmenter, Abstractor]:
    from region4web.abstraction import abstractor_by_name
    from region4web.segmenters import segmenter_by_name

    return segmenter_by_name(segmenter_name), abstractor_by_name(abstractor_name)


def _segmented(text: str, segmenter: Segmenter, abstractor: Abstractor, *, timeout_s: float, screenshot: bool) -> SegmentedPage:
    ms: dict[str, float] = {}

    def timed(stage: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        value = call()
        ms[stage] = (time.perf_counter() - start) * 1000
        return value

    snapshot = timed("capture", lambda: read_page(text, timeout_s=timeout_s, screenshot=screenshot))
    tree = timed("tree", lambda: AXTree.from_snapshot(snapshot))
    partition = timed("decomposition", lambda: segmenter.segment(tree))
    abstractions = timed("abstraction", lambda: abstractor.abstract(partition))
    return SegmentedPage(text, snapshot, RegionMap(partition, abstractions), ms)


@dataclass(frozen=True)
class _Target:
    """A file to write for each input: `path` itself for one input, a file in the folder `path` for several."""

    path: Path | None
    suffix: str

    def check(self, inputs: int) -> None:
        if self.path is None:
            return
        if self._is_folder():
            return
        if inputs > 1:
            raise click.UsageError(f"{self.path}: with {inputs} inputs name a folder (an existing one, or with a / at the end)")
        if self.suffix == ".json.gz" and not self.path.name.endswith((".json", ".json.gz")):
            raise click.UsageError(f"{self.path}: a snapshot's name ends in .json or .json.gz")

    def file(self, source: str, number: int) -> Path | None:
        if self.path is None or not self._is_folder():
            return self.path
        stem = re.sub(r"\W+", "-", re.sub(r"^https?://|(\.json)?(\.gz)?$|\.html?$", "", Path(source).name or source)).strip("-")[:60]
        return self.path / f"{number + 1:03d}-{stem or 'page'}{self.suffix}"

    def _is_folder(self) -> bool:
        return self.path is not None and (self.path.is_dir() or self.path.suffix == "")


def _written(page: SegmentedPage, number: int, targets: Sequence[_Target]) -> list[Path]:
    """Write what was asked for; return the files."""
    from region4web.viewer import write_picture, write_viewer

    view, png, save = (target.file(page.source, number) for target in targets)
    written = []
    if view:
        written.append(write_viewer(page.region_map, view, screenshot=page.snapshot.screenshot))
    if png:
        written.append(write_picture(page.region_map, png, screenshot=page.snapshot.screenshot))
    if save:
        written.append(save_snapshot(page.snapshot, save))
    return written


def _readable(page: SegmentedPage, written: Sequence[Path]) -> list[str]:
    partition = page.region_map.partition
    tree = partition.tree
    ms = ", ".join(f"{stage} {value:.0f} ms" for stage, value in page.ms.items())
    lines = [
        click.style(_one_line(tree.title or page.source), bold=True),
        f"{_one_line(tree.url)} | {len(tree)} nodes | {len(partition)} regions | {ms}",
    ]
    for region, abstraction in zip(partition.regions, page.region_map.abstractions, strict=True):
        size = "1 node" if len(region) == 1 else f"{len(region)} nodes"
        lines.append(f"{click.style(f'{region.key:<4}', fg='cyan')} {_one_line(abstraction.purpose)} {click.style(f'({size})', dim=True)}")
        if abstraction.state:
            lines.append(f"     {_one_line(abstraction.state)}")
    lines += [f"wrote {path}" for path in written]
    return lines


def failure_line(error: BaseException) -> tuple[str, int]:
    """What to say of an error, in one line, and the exit status."""
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "region4web"
        return f"{error.format_message()} (see {command} --help)", CALLER
    if isinstance(error, click.ClickException):
        return error.format_message(), CALLER
    if isinstance(error, (SnapshotError, LabelError, MissingFile, NotAPage)):
        return str(error), CALLER
    if isinstance(error, CaptureError):
        return str(error) or type(error).__name__, WORLD
    if isinstance(error, Region4WebError):
        return str(error), WORLD
    if isinstance(error, (ValueError, FileNotFoundError)):
        return str(error), CALLER
    if isinstance(error, OSError):
        return f"{error.filename or ''}: {error.strerror or error}".removeprefix(": "), CALLER if isinstance(
            error, _CALLERS_FILES
        ) else WORLD
    return f"internal error ({type(error).__name__}: {error}); set REGION4WEB_DEBUG=1 for the traceback and report it", WORLD


_CALLERS_FILES = (PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)


def run_command(group: click.Command, argv: Sequence[str] | None, *, name: str) -> NoReturn:
    """Run a click command as a program: one line an error, DESIGN's exit statuses."""
    try:
        status = group.main(args=None if argv is None else list(argv), prog_name=name, standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{name}: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(WORLD)
    except Exception as error:
        sys.exit(_complain(error, program=name))
    sys.exit(status if isinstance(status, int) else 0)


def _complain(error: Exception, *, program: str = "region4web", subject: str = "") -> int:
    """Print the error's line; return its exit status."""
    message, status = failure_line(error)
    message = _one_line(message)
    if subject and not message.startswith(_one_line(subject)):
        message = f"{_one_line(subject)[:200]}: {message}"
    click.echo(f"{program}: {message}", err=True)
    if os.environ.get("REGION4WEB_DEBUG"):
        logging.getLogger(__name__).error("%s", message, exc_info=error)
    return status


def _one_line(text: str) -> str:
    return _CONTROL.sub(" ", text)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    run_command(commands, argv, name="region4web")


if __name__ == "__main__":
    main()
