"""Writes the page: one HTML file that holds its style, its script and its data."""

from __future__ import annotations

import os
from pathlib import Path

from leaderboard.board import Board
from leaderboard.site.content import page_content
from leaderboard.site.kernels import browser_data, packed

TEMPLATES = Path(__file__).resolve().parent / "templates"
PAGE = "index.html"


def write_site(board: Board, folder: Path) -> Path:
    """Write the site of a board to a folder, which is made if need be, and return the page; it appears whole."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / PAGE
    partial = folder / f"{PAGE}.partial"
    partial.write_text(render_page(board), encoding="utf-8")
    os.replace(partial, target)
    return target


def render_page(board: Board) -> str:
    """Return the page as HTML; the same board gives the same text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.js", "kernels.js"))
    return environment.get_template("page.html.j2").render(
        **page_content(board),
        style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
        script=scripts,
        kernels=packed(browser_data(board)),
    )
