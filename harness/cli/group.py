"""A group of commands whose help shows the whole first sentence of each command, over several lines if need be."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Group(TyperGroup):
    """What `typer.Typer(cls=Group)` takes; typer itself cuts a command's help where the first line ends."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in the order in which they are defined."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(self.commands[name].help or "")) for name in self.list_commands(ctx)])


def _summary(text: str) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())
