"""Reads the tables of a page, as text, without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Board:
    """One table of the leaderboard: its caption, heads, and the cells of each submission, interval included."""

    track: str
    split: str
    caption: str = ""
    head: list[str] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)


class PageReader(HTMLParser):
    """Collects the boards, the ids, and every address that the page names."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.boards: list[Board] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self._inside = False
        self._row: list[str] | None = None
        self._text: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids += [values["id"]] if "id" in values else []
        self.addresses += [values[name] for name in ("href", "src", "action") if name in values]
        if values.get("class") == "board":
            self.boards.append(Board(values["data-track"], values["data-split"]))
            self._inside = True
        if not self._inside:
            return
        if tag == "tr" and "data-name" in values:
            self._row = self.boards[-1].rows.setdefault(values["data-name"], [])
        if tag in ("td", "th", "caption"):
            self._text = ""

    def handle_endtag(self, tag: str) -> None:
        if not self._inside:
            return
        if tag in ("td", "th", "caption") and self._text is not None:
            text = " ".join(self._text.split())
            if tag == "caption":
                self.boards[-1].caption = text
            elif self._row is not None:
                self._row.append(text)
            elif len(self.boards[-1].rows) == 0:
                self.boards[-1].head.append(text)
            self._text = None
        if tag == "tr":
            self._row = None
        if tag == "table":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text += data
