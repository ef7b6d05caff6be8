"""The curves behind the figures, and the two ways in which they are drawn."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmark.answers import align
from benchmark.metrics.catalogue import fraction_name
from benchmark.metrics.ranking import FRACTIONS
from benchmark.metrics.selective import aurc
from leaderboard.board import Board
from leaderboard.charts import Band, Chart, Curve, charts_of
from leaderboard.figures import write_figures
from leaderboard.site.svg import BOTTOM, LEFT, RIGHT, TOLERANCE, TOP, _simplified, axes, svg
from tests.leaderboard.conftest import TRACKS


def _charts(board: Board, name: str, track: str, split: str = "test") -> dict[str, Chart]:
    found = charts_of(board.entries[name].forecasts[track], board.labels[track][split], track)
    return {chart.key: chart for chart in found}


def test_each_track_has_its_figures(board: Board) -> None:
    assert list(_charts(board, "good", "pairs")) == ["discovery", "reliability", "risk-coverage"]
    assert list(_charts(board, "good", "pool")) == ["recovery", "reliability", "risk-coverage"]


def _curve(chart: Chart, role: str = "own") -> Curve:
    (found,) = [curve for curve in chart.curves if curve.role == role]
    return found


def test_a_perfect_forecaster_recovers_everything_and_finds_every_discovery_first(board: Board) -> None:
    assert _curve(_charts(board, "oracle", "pool")["recovery"]).y == pytest.approx(1.0)
    discovery = _curve(_charts(board, "oracle", "pairs")["discovery"])
    assert discovery.y[discovery.x < 1] == pytest.approx(1.0)


def test_a_forecaster_that_knows_nothing_lies_on_chance(board: Board) -> None:
    recovery = _charts(board, "uniform", "pool")["recovery"]
    assert _curve(recovery).y == pytest.approx(_curve(recovery, "chance").y)
    assert np.all(np.diff(_curve(recovery).y) >= -1e-12)
    assert _curve(recovery).y[-1] == pytest.approx(1.0)
    discovery = _charts(board, "uniform", "pairs")["discovery"]
    assert _curve(discovery).y == pytest.approx(_curve(discovery, "chance").y[0])
    risk = _charts(board, "uniform", "pairs")["risk-coverage"]
    assert _curve(risk).y == pytest.approx(_curve(risk, "chance").y[0])


def test_the_curves_agree_with_the_figures_of_the_table(board: Board) -> None:
    result = board.results["pool", "test"]["good"]
    recovery = _curve(_charts(board, "good", "pool")["recovery"])
    for fraction in FRACTIONS:
        (at,) = np.flatnonzero(recovery.x == fraction)
        assert recovery.y[at] == pytest.approx(result.metrics[fraction_name(fraction)].value)
    answers = align(board.entries["tenth"].forecasts["pairs"], 0, board.labels["pairs"]["test"])
    measured = board.labels["pairs"]["test"].measured
    risk = _curve(_charts(board, "tenth", "pairs")["risk-coverage"])
    assert risk.y.mean() == pytest.approx(aurc(answers.surety[measured], answers.risk[measured]).value)


def test_counts_are_the_rows_with_a_forecast_and_a_speedup(board: Board) -> None:
    for name in ("good", "tenth"):
        chart = _charts(board, name, "pairs")["reliability"]
        labels = board.labels["pairs"]["test"]
        answered = set(board.entries[name].forecasts["pairs"].query_id.tolist())
        rows = sum(m and q in answered for q, m in zip(labels.query_id.tolist(), labels.measured, strict=True))
        assert chart.counts is not None and chart.counts.sum() == rows
        assert chart.band is not None and np.all(chart.band.low <= chart.band.high)


def test_nothing_to_draw_says_why(board: Board) -> None:
    labels = board.labels["pairs"]["test"]
    slow = labels.select(labels.measured & (labels.speedup < 1.2))
    chart = charts_of(board.entries["good"].forecasts["pairs"], slow, "pairs")[0]
    assert not chart.curves and chart.note == "Nothing to draw: no row has S > √2."


def test_figures_are_png_and_svg_with_the_same_bytes_every_time(board: Board, tmp_path: Path) -> None:
    charts = [_charts(board, "good", "pairs")["reliability"], Chart("empty", "t", "x", "y", note="Nothing to draw.")]
    written = [write_figures(charts, tmp_path / folder, "x", "good") for folder in ("a", "b")]
    assert [p.name for p in written[0]] == ["x-reliability.png", "x-reliability.svg"]
    for a, b in zip(*written, strict=True):
        assert a.read_bytes() == b.read_bytes()
        assert a.read_bytes().startswith(b"\x89PNG" if a.suffix == ".png" else b"<?xml")


@pytest.mark.parametrize("track", TRACKS)
def test_the_page_draws_the_same_curves_small_and_named(board: Board, track: str) -> None:
    for chart in _charts(board, "good", track).values():
        text = svg(chart, "good <&>")
        assert len(text) < 6000
        tree = ElementTree.fromstring(text)
        assert tree.get("role") == "img" and "good <&>" in str(tree.get("aria-label"))
        paths = {e.get("class"): e.get("d") for e in tree.iter("path")}
        assert {"own", "chance"} <= set(paths)
        numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", str(paths["own"]))]
        x, y = np.array(numbers[0::2]), np.array(numbers[1::2])
        assert x.min() >= LEFT and x.max() <= RIGHT and y.min() >= TOP and y.max() <= BOTTOM
        shared = ElementTree.fromstring(axes(chart))
        assert [use.get("href") for use in tree.iter("use")] == [f"#{shared.get('id')}"]
        assert {chart.x_label, chart.y_label} <= set(shared.itertext())


def test_a_simplified_line_stays_close_and_keeps_its_ends() -> None:
    x = np.linspace(0, 300, 2000)
    line = np.stack([x, 80 + 60 * np.sin(x / 20)], axis=1)
    kept = _simplified(line)
    assert len(kept) < 200
    assert kept[0].tolist() == line[0].tolist() and kept[-1].tolist() == line[-1].tolist()
    assert np.abs(np.interp(x, kept[:, 0], kept[:, 1]) - line[:, 1]).max() < 4 * TOLERANCE
    assert _simplified(line[:1]).tolist() == line[:1].tolist()


def test_one_point_is_a_dot() -> None:
    one = np.array([0.5])
    chart = Chart("k", "t", "x", "y", [Curve("c", one, one)], Band("b", one, one, one), np.array([3]))
    assert '<circle class="own"' in svg(chart, "n")
