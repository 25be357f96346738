#!/usr/bin/env python3
"""Install, start, stop, reset and list the local test sites: `python scripts/sites.py start shop forum`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import click

from pagedigest.evaluation import sites


def chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in sites.SITES:
            raise click.UsageError(f"no site is called {name!r}; sites are {', '.join(sites.SITES)}")
    return names or tuple(name for name, site in sites.SITES.items() if site.shared_with is None)


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("names", nargs=-1)
def install(names: tuple[str, ...]) -> None:
    """Install and fill sites (all by default). One that fails does not keep the others from being installed."""
    failed = 0
    for name in chosen(names):
        try:
            sites.install(sites.SITES[name].shared_with or name, lambda line: click.echo(line, err=True))
        except sites.SiteError as error:
            click.echo(f"sites: {error}", err=True)
            failed += 1
    if failed:
        sys.exit(1)


@main.command()
@click.argument("names", nargs=-1)
def start(names: tuple[str, ...]) -> None:
    """Start sites on free loopback ports and print their addresses."""
    for name in chosen(names):
        running = sites.start(name)
        click.echo(f"{running.name}\t{running.url}")


@main.command()
@click.argument("names", nargs=-1)
def stop(names: tuple[str, ...]) -> None:
    """Stop sites."""
    for name in chosen(names):
        click.echo(f"{name}\t{'stopped' if sites.stop(name) else 'was not running'}")


@main.command()
@click.argument("names", nargs=-1)
def reset(names: tuple[str, ...]) -> None:
    """Restore the content that sites were installed with."""
    for name in chosen(names):
        began = time.monotonic()
        sites.reset(name)
        click.echo(f"{name}\trestored in {time.monotonic() - began:.2f} s")


@main.command()
@click.argument("names", nargs=-1)
def status(names: tuple[str, ...]) -> None:
    """Say which sites are installed and running, and where."""
    for name in chosen(names):
        running = sites.running_site(name)
        installed = (sites.sites_root() / (sites.SITES[name].shared_with or name) / "installed.json").is_file()
        click.echo(f"{name}\t{running.url if running else 'stopped' if installed else 'not installed'}\t{sites.SITES[name].about}")


if __name__ == "__main__":
    try:
        main()
    except sites.SiteError as error:
        sys.exit(f"sites: {error}")
