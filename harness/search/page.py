"""One self-contained HTML page about searches: tables and figures, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th{font-weight:600;color:#555}td:first-child,th:first-child,.text{text-align:left}
img{max-width:100%;height:auto}figure{margin:1rem 0}figcaption{color:#555;font-size:13px}
@media (prefers-color-scheme:dark){body{background:#181818;color:#ddd}th{color:#aaa}th,td{border-color:#383838}
figcaption{color:#aaa}img{background:#fff}}
"""


def cell(name: str, value: Any) -> str:
    """Return one value of a row as text: shares and changes in percent, speedups with an x, an absent one as a dash."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if name.endswith("_share"):
        return f"{value:.1%}"
    if name.endswith("_change"):
        return f"{value:+.1%}"
    if name.startswith("best_") or name.endswith("_speedup"):
        return f"{value:.3f}x"
    if name.endswith("_s"):
        return f"{value:.1f}"
    if name.endswith("_us"):
        return f"{value:.2f}"
    return str(value)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as an HTML table with their keys as head."""
    if not rows:
        return "<p>Nothing to show.</p>"
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=text' if isinstance(value, str) else ''}>{escape(cell(name, value))}</td>"
            for name, value in row.items()
        )
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def page(title: str, tables: Mapping[str, Sequence[Mapping[str, Any]]], figures: Mapping[str, bytes]) -> str:
    """Return the page; figures are PNG files by caption."""
    parts = [f"<h2>{escape(name)}</h2>\n{table(rows)}" for name, rows in tables.items()]
    if figures:
        parts.append("<h2>Figures</h2>")
    for caption, png in figures.items():
        data = base64.b64encode(png).decode()
        parts.append(
            f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
