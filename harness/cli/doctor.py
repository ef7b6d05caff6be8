"""`kernelcast doctor`: what this machine can do."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Say what this machine can do for measuring, and what to do about what is missing; exit 1 if it cannot measure."""
    from harness.cli.console import print_json, print_table
    from harness.measure.doctor import examine

    findings = examine()
    if as_json:
        print_json({"rows": [finding.to_json() for finding in findings]})
    else:
        print_table(("part", "state", "found", "advice"), [[f.name, f.state, f.detail, f.advice] for f in findings])
    raise typer.Exit(int(any(finding.state == "missing" for finding in findings)))
