"""Bars of the pages as SVG text: the same from the same results, on any machine, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, _LEFT, _RIGHT = 760, 150, 200
INK, MUTED = "#1c2733", "#5b6b7b"
OURS, OTHERS = "#1b7837", "#aab4c2"


@dataclass(frozen=True)
class Bar:
    """A horizontal bar: its length in the plot's unit, and the text after it."""

    label: str
    value: float
    text: str
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
