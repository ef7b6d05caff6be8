"""Figures of searches: best-so-far against measurements, and the tree of kernels coloured by speedup."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.search.report import Run
from harness.search.state import SearchState

INK, GRID = "#333333", "#dddddd"
COLOURS = ("#3366aa", "#cc6633", "#339977", "#aa3377", "#888833", "#555555")
SIZE_INCHES, DOTS = (7.0, 4.2), 130


def _axes(title: str) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=DOTS, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    return figure, axes


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def best_so_far(task: str, runs: Sequence[Run]) -> bytes:
    """Return a PNG: the mean best speedup after each measurement per arm, and the range over its searches."""
    figure, axes = _axes(f"{task}: best speedup so far")
    arms: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if len(run.curve):
            arms[run.arm].append(run)
    for colour, (arm, members) in zip(COLOURS * (1 + len(arms) // len(COLOURS)), sorted(arms.items()), strict=False):
        length = max(len(run.curve) for run in members)
        # A search that ended early keeps what it found.
        curves = np.array([np.pad(run.curve, (0, length - len(run.curve)), mode="edge") for run in members])
        told = np.flatnonzero(~np.isnan(curves).all(axis=0))
        logs, x = curves[:, told], told + 1
        axes.step(x, np.nanmean(logs, axis=0), where="post", color=colour, label=f"{arm} ({len(members)})")
        if len(members) > 1:
            low, high = np.nanmin(logs, axis=0), np.nanmax(logs, axis=0)
            axes.fill_between(x, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("measurements", fontsize=9, color=INK)
    axes.set_ylabel("speedup over the reference", fontsize=9, color=INK)
    axes.yaxis.set_major_formatter(lambda value, _: f"{2**value:.3g}x")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    if arms:
        axes.legend(frameon=False, fontsize=9)
    return _png(figure)


def lineage(state: SearchState) -> bytes:
    """Return a PNG of one search's tree: depth downwards, colour by speedup; grey failed, hollow was not measured."""
    figure, axes = _axes(f"{state.search_id}: lineage")
    place = layout(state)
    for node in state.nodes.values():
        if node.parent_node_id is not None:
            (x0, y0), (x1, y1) = place[node.parent_node_id], place[node.node_id]
            axes.plot([x0, x1], [y0, y1], color=GRID, linewidth=0.5, zorder=1)
    groups = {
        "ok": [n for n in state.nodes.values() if n.value is not None],
        "failed": [n for n in state.nodes.values() if n.status is not None and n.value is None],
        "unmeasured": [n for n in state.nodes.values() if n.status is None],
    }
    size = 16 if len(state.nodes) < 400 else 6
    for name, face, edge in (("failed", "#bbbbbb", "none"), ("unmeasured", "none", "#999999")):
        at = [place[n.node_id] for n in groups[name]]
        if at:
            axes.scatter(*zip(*at, strict=True), s=size, c=face, edgecolors=edge, linewidths=0.6, zorder=2, label=name)
    if groups["ok"]:
        values = np.array([n.value for n in groups["ok"]], dtype=float)
        at = [place[n.node_id] for n in groups["ok"]]
        limit = max(1e-3, float(np.abs(values).max()))
        drawn = axes.scatter(
            *zip(*at, strict=True),
            s=size,
            c=values,
            cmap="RdYlBu",
            vmin=-limit,
            vmax=limit,
            zorder=3,
            edgecolors="none",
        )
        bar = figure.colorbar(drawn, ax=axes, format=lambda value, _: f"{2**value:.2g}x")
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8, colors=INK)
    axes.invert_yaxis()
    axes.set_xticks([])
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("edits from a seed", fontsize=9, color=INK)
    return _png(figure)


def layout(state: SearchState) -> dict[str, tuple[float, int]]:
    """Return (x, depth) of every node: leaves stand side by side, a parent above the middle of its children."""
    children: dict[str | None, list[str]] = defaultdict(list)
    depth: dict[str, int] = {}
    for node in state.nodes.values():
        children[node.parent_node_id].append(node.node_id)
        depth[node.node_id] = 0 if node.parent_node_id is None else depth[node.parent_node_id] + 1
    x: dict[str, float] = {}
    leaves = 0
    work = [(node_id, False) for node_id in reversed(children[None])]
    while work:
        node_id, done = work.pop()
        below = children.get(node_id, [])
        if not below:
            x[node_id] = float(leaves)
            leaves += 1
        elif done:
            x[node_id] = (x[below[0]] + x[below[-1]]) / 2
        else:
            work.append((node_id, True))
            work += [(child, False) for child in reversed(below)]
    return {node_id: (x[node_id], depth[node_id]) for node_id in state.nodes}
