"""The figures of a submission as files for a paper: PNG and SVG by matplotlib, with the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leaderboard.charts import Chart

SIZE_INCHES = (4.4, 3.5)
DPI = 200
_COLOURS = {"own": "#0b6bcb", "chance": "#6b7280", "best": "#1a7f4b"}
_DASHES = {"own": "-", "chance": "--", "best": ":"}
_STYLE = {
    "svg.hashsalt": "kernelcast",  # ids in an SVG are random otherwise
    "font.family": "DejaVu Sans",  # ships with matplotlib
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def write_figures(charts: Sequence[Chart], folder: Path, prefix: str, title: str) -> list[Path]:
    """Write every chart that has something to draw to `folder`, as PREFIX-KEY.png and .svg; return the files."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with matplotlib.rc_context(_STYLE):
        for chart in charts:
            if not chart.curves:
                continue
            figure = _figure(chart, title)
            for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
                path = folder / f"{prefix}-{chart.key}.{suffix}"
                figure.savefig(path, format=suffix, dpi=DPI, metadata=metadata)
                written.append(path)
    return written


def _figure(chart: Chart, title: str) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    if chart.counts is None:
        axes = figure.add_subplot()
    else:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
        edges = [i / len(chart.counts) for i in range(len(chart.counts))]
        below.bar(edges, chart.counts, width=0.9 / len(chart.counts), align="edge", color="#9ca3af")
        below.set_ylabel("rows")
    if chart.band:
        axes.fill_between(chart.band.x, chart.band.low, chart.band.high, color="#0b6bcb", alpha=0.15, linewidth=0,
                          label=chart.band.label)  # fmt: skip
    for curve in chart.curves:
        single = len(curve.x) == 1
        axes.plot(
            curve.x, curve.y, color=_COLOURS[curve.role], linestyle=_DASHES[curve.role],
            linewidth=1.6 if curve.role == "own" else 1.0, marker="o" if single else None, label=curve.label,
        )  # fmt: skip
    if chart.x_start:
        axes.set_xscale("log")
        axes.set_xticks([0.01, 0.1, 1.0], ["1%", "10%", "100%"])
    axes.set_xlim(chart.x_start, 1.0)
    axes.set_ylim(0.0, chart.y_end * 1.02)
    axes.set_ylabel(chart.y_label)
    (axes if chart.counts is None else below).set_xlabel(chart.x_label)
    axes.set_title(f"{chart.title}: {title}", fontsize=9, loc="left")
    axes.legend(fontsize=7.5)
    return figure
