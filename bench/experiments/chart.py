"""Line charts as SVG, without a library: series of (x, mean, deviation), logarithmic where asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Point = tuple[float, float, float]

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 80, 210, 40, 60
#: Distinct in print and for most colour-blind readers (Okabe and Ito); dashes tell the rest apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C564B")


#: A curve with more points than this is one without marks.
MARKED_MAX = 16


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    log: bool = False

    def place(self, value: float, low: float, high: float) -> float:
        """Where a value lies between the ends, from 0 to 1."""
        if self.log:
            value, low, high = (math.log10(max(each, 1e-9)) for each in (value, low, high))
        return 0.5 if high == low else (value - low) / (high - low)

    def ticks(self, low: float, high: float) -> list[float]:
        if self.log:
            first, last = math.floor(math.log10(max(low, 1e-9))), math.ceil(math.log10(max(high, 1e-9)))
            return [10.0**power for power in range(first, last + 1) if low <= 10.0**power <= high * 1.0001]
        step = 10.0 ** math.floor(math.log10((high - low) or 1.0))
        while (high - low) / step < 4:
            step /= 2
        return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def draw(title: str, x: Axis, y: Axis, series: Mapping[str, Sequence[Point]]) -> str:
    """The text of an SVG file."""
    points = [point for each in series.values() for point in each]
    low_x, high_x = min(p[0] for p in points), max(p[0] for p in points)
    low_y = min(p[1] for p in points) if y.log else 0.0
    high_y = max(p[1] + p[2] for p in points) * (1.3 if y.log else 1.05) or 1.0
    inner_w, inner_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(px: float, py: float) -> tuple[float, float]:
        return (
            LEFT + inner_w * x.place(px, low_x, high_x),
            TOP + inner_h * (1.0 - min(1.0, max(0.0, y.place(py, low_y, high_y)))),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
        f'<rect x="{LEFT}" y="{TOP}" width="{inner_w}" height="{inner_h}" fill="none" stroke="#444"/>',
        f'<text x="{LEFT + inner_w / 2}" y="{HEIGHT - 16}" text-anchor="middle">{escape(x.label)}</text>',
        f'<text transform="translate(18 {TOP + inner_h / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.label)}</text>",
    ]
    for tick in x.ticks(low_x, high_x):
        place = at(tick, low_y)[0]
        parts.append(
            f'<text x="{place:.1f}" y="{TOP + inner_h + 18}" text-anchor="middle">{_short(tick)}</text>'
        )
    for tick in y.ticks(low_y, high_y):
        place = at(low_x, tick)[1]
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + inner_w}" y1="{place:.1f}" y2="{place:.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{_short(tick)}</text>'
        )
    for number, (name, each) in enumerate(series.items()):
        parts.append(
            _line(number, name, [(*at(px, py), at(px, py - d)[1], at(px, py + d)[1]) for px, py, d in each])
        )
    return "\n".join([*parts, "</svg>", ""])


def _line(number: int, name: str, places: Sequence[tuple[float, float, float, float]]) -> str:
    colour = COLOURS[number % len(COLOURS)]
    dash = ("", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 3"')[number // 3 % 3]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _, _ in places)
    errors = "".join(
        f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{colour}"/>'
        for px, _, low, high in places
        if low - high > 1.0
    )
    if len(places) <= MARKED_MAX:
        errors += "".join(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5" fill="{colour}"/>' for px, py, _, _ in places
        )
    legend_x, legend_y = WIDTH - RIGHT + 14, TOP + 16 + 20 * number
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>{errors}'
        f'<line x1="{legend_x}" x2="{legend_x + 28}" y1="{legend_y - 4}" y2="{legend_y - 4}" stroke="{colour}" '
        f'stroke-width="2"{dash}/><text x="{legend_x + 34}" y="{legend_y}">{escape(name)}</text>'
    )


def _short(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"
