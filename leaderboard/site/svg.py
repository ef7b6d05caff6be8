"""A chart as a small inline SVG that takes its colours from the page."""

from __future__ import annotations

from html import escape

import numpy as np

from benchmark.metrics.tally import Floats
from leaderboard.charts import Chart

WIDTH, HEIGHT = 320, 214
LEFT, RIGHT, TOP, BOTTOM = 40, 310, 10, 172
COUNTS_HEIGHT = 34
TOLERANCE = 0.35  # in pixels: how far a simplified line may pass from a point that it leaves out


def svg(chart: Chart, name: str) -> str:
    """Return a chart as an SVG element; `name` says whose it is to those who do not see it.

    Parts carry the classes own, chance, best, band, bar and grid, which the page's style gives colours. The axes stand
    once on the page, as `axes` returns them.
    """
    label = escape(f"{chart.title} of {name}: {chart.y_label} against {chart.x_label}. {_summary(chart)}", quote=True)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
        f'<use href="#{axes_id(chart)}"/>',
    ]
    if chart.counts is not None:
        parts += _bars(chart)
    if chart.band is not None:
        x = np.concatenate([chart.band.x, chart.band.x[::-1]])
        y = np.concatenate([chart.band.low, chart.band.high[::-1]])
        half = len(chart.band.x)
        points = np.concatenate([_simplified(_pixels(chart, x[:half], y[:half])),
                                 _simplified(_pixels(chart, x[half:], y[half:]))])  # fmt: skip
        parts.append(f'<path class="band" d="{_path(points)}Z"/>')
    for curve in chart.curves:
        points = _pixels(chart, curve.x, curve.y)
        if len(points) == 1:
            parts.append(f'<circle class="{curve.role}" cx="{points[0, 0]:.1f}" cy="{points[0, 1]:.1f}" r="3"/>')
        else:
            parts.append(f'<path class="{curve.role}" d="{_path(_simplified(points))}"/>')
    return "".join([*parts, "</svg>"])


def _summary(chart: Chart) -> str:
    return " ".join(f"{c.label}: from {c.y[0]:.2f} to {c.y[-1]:.2f}." for c in chart.curves)


def _pixels(chart: Chart, x: Floats, y: Floats) -> Floats:
    """Return points of the chart as pixels, shape (n, 2)."""
    start = chart.x_start
    across = np.log(np.maximum(x, start) / start) / np.log(1 / start) if start else x
    up = np.clip(y / chart.y_end, 0.0, 1.0)
    points: Floats = np.stack([LEFT + across * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP)], axis=1)
    return points


def _simplified(points: Floats) -> Floats:
    """Return the points of a line that matter to the eye (Ramer 1972, Douglas and Peucker 1973)."""
    keep = np.zeros(len(points), dtype=bool)
    keep[[0, -1]] = True
    open_parts = [(0, len(points) - 1)]
    while open_parts:
        first, last = open_parts.pop()
        if last - first < 2:
            continue
        along, inner = points[last] - points[first], points[first + 1 : last] - points[first]
        length = float(np.hypot(*along))
        away = np.abs(along[0] * inner[:, 1] - along[1] * inner[:, 0]) / length if length else np.hypot(*inner.T)
        far = int(away.argmax())
        if away[far] > TOLERANCE:
            keep[first + 1 + far] = True
            open_parts += [(first, first + 1 + far), (first + 1 + far, last)]
    return points[keep]


def _path(points: Floats) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}".replace(".0", "") for x, y in points)


def axes_id(chart: Chart) -> str:
    """Return the id of a chart's axes, which all charts of its kind and range share."""
    return f"axes-{chart.key}-{chart.y_end:g}".replace(".", "_")


def axes(chart: Chart) -> str:
    """Return the axes of a chart, with grid and labels, as an SVG group."""
    parts = []
    if chart.x_start:
        across = {0.01: "1%", 0.1: "10%", 1.0: "100%"}
    else:
        across = {v: f"{v:g}" for v in (0.0, 0.25, 0.5, 0.75, 1.0)}
    step = next(s for s in (0.05, 0.1, 0.25) if chart.y_end / s <= 5)
    up = {v: f"{v:g}" for v in np.round(np.arange(0, chart.y_end + 1e-9, step), 3).tolist()}
    grid = ""
    for value, text in across.items():
        ((x, _),) = _pixels(chart, np.array([value]), np.zeros(1))
        grid += f"M{x:g} {TOP}V{BOTTOM}"
        parts.append(f'<text x="{x:g}" y="{BOTTOM + 13}" text-anchor="middle">{text}</text>')
    for value, text in up.items():
        ((_, y),) = _pixels(chart, np.ones(1), np.array([value]))
        grid += f"M{LEFT} {y:g}H{RIGHT}"
        parts.append(f'<text x="{LEFT - 5}" y="{y + 3:g}" text-anchor="end">{text}</text>')
    middle, height = (LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2
    parts.append(f'<text x="{middle:g}" y="{HEIGHT - 10}" text-anchor="middle">{escape(chart.x_label)}</text>')
    turned = f'transform="translate(10 {height:g}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">{escape(chart.y_label)}</text>')
    return f'<g id="{axes_id(chart)}" class="axes"><path class="grid" d="{grid}"/>{"".join(parts)}</g>'


def _bars(chart: Chart) -> list[str]:
    """The counts as bars that stand on the x axis, behind the lines; the tallest says how many rows it has."""
    assert chart.counts is not None
    most, n = int(chart.counts.max()), len(chart.counts)
    width = (RIGHT - LEFT) / n
    parts = []
    for i, count in enumerate(chart.counts.tolist()):
        height = count / most * COUNTS_HEIGHT
        if count:
            parts.append(
                f'<rect class="bar" x="{LEFT + i * width + 1:.1f}" y="{BOTTOM - height:.1f}" width="{width - 2:.1f}" '
                f'height="{height:.1f}"><title>{count} rows</title></rect>'
            )
    tallest = LEFT + (int(chart.counts.argmax()) + 0.5) * width
    parts.append(f'<text x="{tallest:.1f}" y="{BOTTOM - COUNTS_HEIGHT - 3}" text-anchor="middle">{most} rows</text>')
    return parts
