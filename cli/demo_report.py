"""The demo's report: one HTML file with two charts, drawn here, and the accounts behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

WIDTH = 760
BAR_PX, GAP_PX, LABEL_PX = 22, 6, 190
HOURS_PX = 180
#: Distinct in print and for most colour-blind readers (Okabe and Ito).
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8a8f98"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>PIER demo</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 780px; margin: 2em auto; padding: 0 1em; color: #1b1f24 }}
h1 {{ font-size: 1.5em }} h2 {{ font-size: 1.15em; margin-top: 1.8em }}
table {{ border-collapse: collapse }} td, th {{ text-align: left; padding: .15em 1em .15em 0 }}
td.n, th.n {{ text-align: right }} svg {{ width: 100%; height: auto }} .quiet {{ color: #57606a }}
</style></head><body>
<h1>Eight firewalls, one question</h1>
<p>{introduction}</p>
<h2>The busiest sources of the last minute, over all hosts</h2>
{sources}
<p class="quiet">Orange: known to the reputation table.</p>
<h2>What is known of them</h2>
{known}
<h2>A day of old logs, by hour</h2>
{hours}
<h2>Who answered</h2>
{accounts}
</body></html>
"""


@dataclass
class Findings:
    """What the demo found out, for the report."""

    nodes: int = 0
    sources: list[dict[str, Any]] = field(default_factory=list)
    known: list[dict[str, Any]] = field(default_factory=list)
    hours: list[dict[str, Any]] = field(default_factory=list)
    #: A few words and the account of a query, in the order they were asked.
    accounts: list[tuple[str, Any]] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)


def write_report(path: Path, found: Findings) -> None:
    known = {row["src"] for row in found.known}
    path.write_text(
        _PAGE.format(
            introduction=" ".join(escape(fact) for fact in found.facts),
            sources=bars([(row["src"], row["n"], row["src"] in known) for row in found.sources]),
            known=_table(("src", "kind", "score", "n"), found.known),
            hours=columns([(row["hour"], row["events"]) for row in found.hours]),
            accounts=_accounts(found.accounts),
        )
    )


def bars(rows: Sequence[tuple[str, int, bool]]) -> str:
    """Horizontal bars with their names and numbers."""
    most = max((count for _, count, _ in rows), default=1) or 1
    room = WIDTH - LABEL_PX - 70
    parts = []
    for number, (name, count, marked) in enumerate(rows):
        y = number * (BAR_PX + GAP_PX)
        width = max(2.0, room * count / most)
        middle = y + BAR_PX * 0.72
        parts.append(
            f'<text x="{LABEL_PX - 10}" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{LABEL_PX}" y="{y}" width="{width:.1f}" height="{BAR_PX}" '
            f'fill="{ORANGE if marked else BLUE}"/>'
            f'<text x="{LABEL_PX + width + 8:.1f}" y="{middle:.1f}">{count:,}</text>'
        )
    return _svg(len(rows) * (BAR_PX + GAP_PX), parts)


def columns(rows: Sequence[tuple[str, int]]) -> str:
    """Vertical bars, one an hour, every sixth with its time."""
    most = max((count for _, count in rows), default=1) or 1
    step = WIDTH / max(1, len(rows))
    parts = [f'<text x="0" y="12" fill="{GREY}">{most:,} events</text>']
    for number, (hour, count) in enumerate(rows):
        height = (HOURS_PX - 20) * count / most
        x = number * step
        parts.append(
            f'<rect x="{x + 1:.1f}" y="{HOURS_PX - height:.1f}" width="{step - 2:.1f}" height="{height:.1f}" '
            f'fill="{BLUE}"/>'
        )
        if number % 6 == 0 and number < len(rows) - 1:
            parts.append(
                f'<text x="{x:.1f}" y="{HOURS_PX + 18}" fill="{GREY}">{escape(str(hour)[11:16])}</text>'
            )
    return _svg(HOURS_PX + 24, parts)


def _svg(height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-size="13">'
    return head + "".join(parts) + "</svg>"


def _table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    def cells(row: dict[str, Any]) -> str:
        return "".join(
            f'<td class="n">{value:,}</td>' if isinstance(value, int) else f"<td>{escape(str(value))}</td>"
            for value in (row[name] for name in names)
        )

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{cells(row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>" if rows else "<p>Nothing was found.</p>"


def _accounts(accounts: Sequence[tuple[str, Any]]) -> str:
    rows = [
        {
            "question": words,
            "asked": account.asked,
            "answered": account.answered + account.empty,
            "missing": account.failed + account.unreachable + account.absent,
            "seconds": f"{account.elapsed_s:.2f}",
        }
        for words, account in accounts
    ]
    return _table(("question", "asked", "answered", "missing", "seconds"), rows)
