"""Import the release: all five datasets or nothing, with a report of every count against the published one."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmark.package import write_dataset
from benchmark.records import RecordError
from benchmark.upstream.lineage import read_searches
from benchmark.upstream.release import PUBLISHED, SUMMARIES, TABLES
from benchmark.upstream.rows import Converted, Converter
from benchmark.upstream.source import Placed, Surprises, UpstreamError, config_files, read_table
from benchmark.upstream.submissions import read_answers, write_submissions

DATASET = "upstream"
REPORT = "import.json"
Stage = Callable[[str, int], Callable[[int], None]]


def _silent(label: str, total: int) -> Callable[[int], None]:
    return lambda n: None


def import_release(folders: Mapping[str, Path], out: Path, stage: Stage = _silent) -> dict[str, Any]:
    """Write dataset, submissions and `import.json` into the new folder `out`; return the report.

    `folders` gives the folder of each dataset of the release by the names of `TABLES`. The folder appears whole or not
    at all. Raises UpstreamError, with a line for each surprise, and FileExistsError.
    """
    if out.exists():
        raise FileExistsError(f"{out}: exists already; choose another --out")
    surprises = Surprises()
    advance = stage("reading the release", len(TABLES))
    rows: dict[str, list[Placed]] = {}
    for name, table in TABLES.items():
        rows[name] = read_table(folders[name], table, surprises)
        advance(1)
    surprises.raise_if_any()
    searches = read_searches(rows["events"], surprises)
    converted = Converter(surprises, stage).convert(rows["eval"], rows["discovery"], rows["rl"], searches)
    answers, left_out = read_answers(rows["predictions"], converted.query_of, surprises)
    surprises.raise_if_any()
    report = _report(rows, converted, left_out, surprises, folders["events"])
    report["searches"] = {"events": len(searches), "version_2": sum(s.version == 2 for s in searches),
                          "version_3": sum(s.version == 3 for s in searches)}  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        _write(partial, converted, rows["events"], report, stage)
        revision = str(report["revision"])
        write_submissions(answers, partial / "submissions", DATASET, revision)
        _write_json(partial / REPORT, report)
        os.chmod(partial, 0o755)
        os.rename(partial, out)
    except RecordError as error:
        raise UpstreamError([f"a converted row breaks the schema: {error}"], 1) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return report


def _write(folder: Path, converted: Converted, events: list[Placed], report: dict[str, Any], stage: Stage) -> None:
    import hashlib

    known = {row["search_id"] for row in converted.rows["searches"]}
    converted.rows["events"] = [
        {"search_id": row["source_search"], "index": row["event_index"], "kind": row["event_kind"],
         "payload": json.dumps(_without_code(row["payload"]), sort_keys=True, allow_nan=False)}
        for row in sorted(events, key=lambda row: (row["source_search"], row["event_index"]))
        if row["source_search"] in known
    ]  # fmt: skip
    dropped = [{"table": table, "reason": reason, "rows": n, "ids": []} for table, reason, n in _dropped(report)]
    more = {"source": "upstream", "splits": {}, "dropped": dropped, "logs": []}
    manifest = write_dataset(DATASET, converted.rows, folder, more, stage)
    text = "".join(f"{name} {entry['sha256']}\n" for name, entry in sorted(manifest["files"].items()))
    report["revision"] = hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_code(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Sources stand in the kernels table."""
    found = {k: v for k, v in payload.items() if k not in ("code", "seed_reference_code")}
    if isinstance(found.get("root"), dict):
        found["root"] = {k: v for k, v in found["root"].items() if k != "program_code"}
    return found


def _dropped(report: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    counts = report["left_out"]
    reasons = (
        ("eval", "the same pair of sources again, in the evaluation set", "repeated_eval_pairs"),
        ("eval", "the same pair of sources again, in the RL pool", "repeated_rl_pairs"),
        ("pairs", "the same pair of the same search again", "repeated_discovery_pairs"),
        ("kernels", "the same source measured again", "kernels_measured_again"),
        ("kernels", "never measured (infrastructure failure)", "not_measured"),
    )
    return [(table, reason, counts[name]) for table, reason, name in reasons if counts.get(name)]


def _report(
    rows: Mapping[str, list[Placed]],
    converted: Converted,
    left_out: Mapping[str, int],
    surprises: Surprises,
    events: Path,
) -> dict[str, Any]:
    tables = converted.rows
    in_test = [row for row in tables["eval"] if row["split"] == "test"]
    found = {
        "kernels": len(tables["kernels"]),
        **{name: len(rows[name]) for name in ("discovery", "eval", "rl", "predictions")},
    }
    return {
        "counts": [
            {"of": name, "published": published, "found": found[name], "difference": found[name] - published}
            for name, published in PUBLISHED.items()
        ],
        "rows": {name: len(part) for name, part in tables.items()} | {"eval_in_test": len(in_test)},
        "self_describing": {
            name: sum(row["self_describing"] for row in tables[name]) for name in ("kernels", "pairs", "eval")
        },
        "kernels_by_status": {
            status: sum(row["status"] == status for row in tables["kernels"])
            for status in sorted({row["status"] for row in tables["kernels"]})
        },
        "bins_that_moved": sum(row["bin"] != row["upstream_bin"] for row in (*tables["pairs"], *in_test)),
        "left_out": {**converted.counts, **left_out},
        "summaries": SUMMARIES in config_files(events),
        "notes": surprises.notes,
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8", newline="\n")
