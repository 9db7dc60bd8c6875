"""Horizontal bars as SVG."""

from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _TOP = 480, 120, 80, 44
_INK, _MUTED, _OURS, _OTHERS = "#1c2733", "#5b6b7b", "#1b7837", "#aab4c2"


def _text(x: float, y: float, text: str, anchor: str = "start", bold: bool = False, style: str = "") -> str:
    style = style or f'fill="{_INK}" font-size="13"' + ' font-weight="600"' * bold
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {style}>{escape(text)}</text>'


def bars(title: str, rows: dict[str, int], ours: str, unit: str) -> str:
    """Return horizontal bars from zero as SVG, with their numbers; the label ``ours`` is bold."""
    parts = [_text(12, 26, title, bold=True)]
    for number, (label, value) in enumerate(rows.items()):
        y, fill = _TOP + 27 * number, _OURS if label == ours else _OTHERS
        length = (_WIDTH - _LEFT - _RIGHT) * value / max(rows.values())
        parts += [
            _text(_LEFT - 10, y + 15, label, "end", label == ours),
            f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="20" rx="2" fill="{fill}"/>',
            _text(_LEFT + length + 7, y + 15, f"{value:,}", bold=label == ours),
        ]
    foot = _TOP + 27 * len(rows) + 12
    parts.append(_text(12, foot, unit, style=f'fill="{_MUTED}" font-size="12"'))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {foot + 12}" width="{_WIDTH}" '
        f'height="{foot + 12}" role="img" font-family="system-ui, sans-serif">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" rx="6" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
