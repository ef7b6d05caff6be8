"""The curves of a training run as a PNG: its reward, and what it does on the validation split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INK, GRID, LINE = "#333333", "#dddddd", "#3366aa"
PANELS = (
    ("reward", "reward of the rollouts"),
    ("rps", "ranked probability score"),
    ("ece", "expected calibration error"),
    ("spearman", "Spearman"),
    ("accuracy", "accuracy"),
    ("entropy", "entropy, nats"),
)


def draw(title: str, history: Sequence[Mapping[str, Any]], supervised: bool, path: Path) -> None:
    """Write six panels over the steps; all but the first are of the validation split."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 5.2), dpi=110, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=INK)
    for axes, (name, label) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        points = [(line["step"], line[name]) for line in history if line[name] is not None]
        axes.plot(*zip(*points, strict=True), color=LINE, linewidth=1.4) if points else None
        shown = "minus the cross-entropy, nats" if supervised and name == "reward" else label
        axes.set_title(shown, loc="left", fontsize=9, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=GRID, linewidth=0.6)
        axes.tick_params(colors=INK, labelsize=8)
        axes.set_xlabel("step", fontsize=8, color=INK)
    figure.savefig(path, format="png", metadata={"Software": None})
