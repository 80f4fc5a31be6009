"""`tenure explain CODE|CAUSE`: the catalogue's page about one cause; without an argument, the list of all."""

from __future__ import annotations

from textwrap import fill, indent

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.causes import CATALOGUE, Cause, find, near

WIDTH = 100


@click.command("explain")
@click.argument("cause", required=False, metavar="[CODE|CAUSE]")
def command(cause: str | None) -> None:
    """Explain a cause of growth and its cure, by its name or code (gradient-registry, TEN201).

    Without an argument it lists all causes. Exit status 2 when there is no such cause.
    """
    console = Console(highlight=False)
    if cause is None:
        console.print(_listing())
        return
    try:
        entry = find(cause)
    except KeyError:
        guesses = near(cause) if cause.strip() else ()
        hint = f"did you mean {' or '.join(guesses)}?" if guesses else "`tenure explain` lists all of them."
        click.echo(f"tenure explain: there is no cause {cause!r}; {hint}", err=True)
        raise SystemExit(2) from None
    console.print(_page(entry, min(console.width, WIDTH)), soft_wrap=True)


def _listing() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("code", no_wrap=True)
    table.add_column("cause", no_wrap=True, style="bold")
    table.add_column("usually", no_wrap=True)
    table.add_column("what grows")
    for entry in CATALOGUE.values():
        table.add_row(entry.code, entry.name, entry.kind, Text(entry.summary))
    return table


def _page(entry: Cause, width: int) -> Text:
    page = Text.assemble((f"{entry.code}  {entry.name}", "bold"), f"   {entry.kind}, {entry.origin}\n")
    page.append(fill(f"{entry.summary[0].upper()}{entry.summary[1:]}.", width) + "\n")
    sections = (
        ("why", entry.why),
        ("cure", entry.remedy),
        ("more", entry.cure),
        ("measured", entry.measured or "Nobody has measured it yet."),
        ("versions", entry.versions),
        ("upstream", ", ".join(entry.upstream)),
    )
    if entry.looks_like:
        page.append("\nlooks like\n", "bold").append(indent(entry.looks_like, "    ") + "\n")
    for title, body in sections:
        if body:
            page.append(f"\n{title}\n", "bold")
            page.append(indent(fill(body, width - 4, break_on_hyphens=False), "    ") + "\n")
    page.rstrip()
    return page
