"""Plots of the benchmarks page as SVG text: the same from the same results, on any machine, without a library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, _LEFT, _RIGHT = 760, 150, 200
INK, MUTED, GRID = "#1c2733", "#5b6b7b", "#dfe4ea"
OURS, OTHERS = "#1b7837", "#aab4c2"
_LINES = ("#c2571a", "#2b6cb0", "#8e5ea2", "#b8860b", "#5b6b7b", "#d1495b", "#0f766e", "#9a3412")
_OUR_LINES = (OURS, "#7fbf7b", "#a6d96a")


@dataclass(frozen=True)
class Bar:
    """A horizontal bar: its length in the plot's unit, and the text after it."""

    label: str
    value: float
    text: str
    ours: bool = False


@dataclass(frozen=True)
class Line:
    """A line through points, named at its end."""

    label: str
    points: Sequence[tuple[float, float]]
    ours: bool = False


def _text(
    x: float, y: float, text: str, anchor: str = "start", color: str = INK, size: int = 13, weight: str = ""
) -> str:
    style = f'fill="{color}" font-size="{size}"' + (f' font-weight="{weight}"' if weight else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{escape(text)}</text>'


def _svg(height: float, title: str, parts: list[str], width: int = WIDTH) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'height="{height:.0f}" role="img" font-family="system-ui, sans-serif">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" rx="6" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def bars(title: str, rows: Sequence[Bar], unit: str, width: int = WIDTH, headed: bool = False) -> str:
    """Return horizontal bars from zero; with ``headed`` the title is visible."""
    longest = max((row.value for row in rows), default=1.0) or 1.0
    top = 44 if headed else 14
    left, right = (_LEFT, _RIGHT) if width == WIDTH else (_LEFT - 30, _RIGHT - 120)
    parts = [_text(12, 26, title, weight="600")] if headed else []
    for number, row in enumerate(rows):
        y, fill = top + 27 * number, OURS if row.ours else OTHERS
        length = (width - left - right) * row.value / longest
        weight = "600" if row.ours else ""
        parts += [
            _text(left - 10, y + 15, row.label, "end", weight=weight),
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="20" rx="2" fill="{fill}"/>',
            _text(left + length + 7, y + 15, row.text, weight=weight),
        ]
    foot = top + 27 * len(rows) + 12
    return _svg(foot + 12, title, [*parts, _text(12 if headed else left, foot, unit, color=MUTED, size=12)], width)


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        return [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    step = 10 ** math.floor(math.log10(high / 2))
    step = next(step * k for k in (1, 2, 5, 10) if high / (step * k) <= 6)
    return [step * k for k in range(int(high / step) + 2)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _spread(places: list[float], least: float) -> list[float]:
    """Return heights of labels, in the order given, moved down until none is over another."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for before, here in itertools.pairwise(order):
        moved[here] = max(moved[here], moved[before] + least)
    return moved


def lines(title: str, rows: Sequence[Line], x_name: str, y_name: str, log: bool = False) -> str:
    """Return lines over a common horizontal axis; with ``log`` both axes are logarithmic, else y begins at zero."""
    xs, ys = ([point[k] for row in rows for point in row.points] for k in (0, 1))
    height, top, bottom, left, right = 330, 34, 46, 66, 170
    ticks = _ticks(min(ys), max(ys), log)
    low, high = min(xs), max(xs)

    def scaled(value: float, one: float, other: float) -> float:
        if log:
            value, one, other = math.log10(value), math.log10(one), math.log10(other)
        return (value - one) / (other - one) if other > one else 0.5

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (WIDTH - left - right) * scaled(x, low, high),
            height - bottom - (height - top - bottom) * scaled(y, ticks[0], ticks[-1]),
        )

    parts = [_text(10, 20, y_name, color=MUTED, size=12)]
    for tick in ticks:
        y = at(low, tick)[1]
        parts.append(f'<path d="M{left} {y:.1f}H{WIDTH - right}" stroke="{GRID}"/>')
        parts.append(_text(left - 8, y + 4, _number(tick), "end", MUTED, 12))
    places = {x: at(x, ticks[-1])[0] for x in sorted(set(xs))}
    parts += [_text(place, height - bottom + 18, _number(x), "middle", MUTED, 12) for x, place in places.items()]
    parts.append(_text((left + WIDTH - right) / 2, height - 8, x_name, "middle", MUTED, 12))
    labels = _spread([at(*row.points[-1])[1] for row in rows], 15)
    ours, others = itertools.cycle(_OUR_LINES), itertools.cycle(_LINES)
    for number, (row, label) in enumerate(zip(rows, labels, strict=True)):
        color = next(ours if row.ours else others)
        through = [at(*point) for point in row.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in through)
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{2.5 if number == 0 else 1.7}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in through]
        parts.append(_text(WIDTH - right + 12, label + 4, row.label, color=color, weight="600" if number == 0 else ""))
    return _svg(height, title, parts)
