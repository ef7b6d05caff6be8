"""The dataset card: YAML that loaders read, a data statement, and the figures of the tables and of the audit."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmark.card_text import AUDIT, LICENCE, LIMITS, SPLITS_TEXT, TABLES_TEXT, UPSTREAM, WHAT, measuring, wrapped
from benchmark.parquet import read_table
from benchmark.query import SPLITS, TEST_SPLITS
from benchmark.records import SCHEMA_VERSION, TAUS, schema

CONFIG_ORDER = (
    "pairs", "kernels", "eval", "nodes", "same_program", "tasks", "searches", "sessions", "measurements", "events",
)  # fmt: skip
WHOLE = "complete"  # the one split of a table that is not split: `all` is a reserved word of the loader
SIZES = ((1e3, "n<1K"), (1e4, "1K<n<10K"), (1e5, "10K<n<100K"), (1e6, "100K<n<1M"), (1e7, "1M<n<10M"))
TAGS = ("gpu", "cuda", "triton", "kernels", "performance", "forecasting", "calibration")
_DTYPES = {"string": "string", "double": "float64", "int64": "int64", "bool": "bool"}


def card(folder: Path, manifest: Mapping[str, Any], audit: Mapping[str, Any]) -> str:
    """Return the text of a packaged dataset's `README.md`: a pure function of its tables, manifest and audit."""
    measured = manifest.get("source", "measured") == "measured"
    sections = [
        f"# {manifest['dataset']}",
        WHAT if measured else UPSTREAM,
        _counts(folder, manifest),
        _measuring(folder, manifest) if measured else "",
        TABLES_TEXT,
        SPLITS_TEXT if measured else "",
        _left_out(manifest),
        AUDIT,
        audit_text(audit),
        LIMITS,
        LICENCE,
    ]
    return front_matter(folder, manifest) + "\n" + "\n\n".join(s.strip() for s in sections if s.strip()) + "\n"


def front_matter(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Return the YAML block: configs with their files, features, sizes, licence."""
    import yaml

    by_table = _files_by_table(manifest)
    rows = sum(entry["rows"] for files in by_table.values() for _, entry in files)
    head = {
        "pretty_name": f"KernelCast {manifest['dataset']}",
        "license": "cc-by-4.0",
        "language": ["en"],
        "task_categories": ["other"],
        "size_categories": [next((name for limit, name in SIZES if rows < limit), "n>10M")],
        "tags": list(TAGS),
        "configs": [_config(name, by_table[name]) for name in CONFIG_ORDER if name in by_table],
        "dataset_info": [_info(folder, name, by_table[name]) for name in CONFIG_ORDER if name in by_table],
    }
    text = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{text}---\n"


def root_card(text: str, dataset: str) -> str:
    """Return the repository's DATASET_CARD.md: the card of the dataset without its YAML."""
    body = text.split("---\n", 2)[2].lstrip("\n")
    note = f"<!-- Made from benchmark/data/{dataset}/README.md by `kernelcast data card`; edit neither by hand. -->"
    return f"{note}\n\n{body}"


def _files_by_table(manifest: Mapping[str, Any]) -> dict[str, list[tuple[str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for relative, entry in manifest["files"].items():
        found.setdefault(relative.split("/")[0], []).append((relative, entry))
    return found


def _split_of(relative: str) -> str:
    split = relative.split("/")[1].split("-")[0]
    return WHOLE if split == "all" else split


def _config(name: str, files: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    paths = [{"split": _split_of(relative), "path": relative} for relative, _ in files]
    return {
        "config_name": name,
        **({"default": True} if name == "pairs" else {}),
        "version": _content_version([entry for _, entry in files]),
        "data_files": paths,
    }


def _content_version(entries: Sequence[Mapping[str, Any]]) -> str:
    """A version that follows the content: the loader caches by version, not by the hash of the files."""
    digest = hashlib.sha256("".join(entry["sha256"] for entry in entries).encode()).hexdigest()
    return f"{SCHEMA_VERSION}.0.{int(digest[:6], 16)}"


def _info(folder: Path, name: str, files: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    import pyarrow.parquet as pq

    splits, total = [], 0
    for relative, entry in files:
        metadata = pq.read_metadata(folder / relative)
        size = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
        total += size
        splits.append({"name": _split_of(relative), "num_bytes": size, "num_examples": entry["rows"]})
    return {
        "config_name": name,
        "features": [{"name": field.name, "dtype": _DTYPES[str(field.type)]} for field in schema(name)],
        "splits": splits,
        "download_size": sum(entry["bytes"] for _, entry in files),
        "dataset_size": total,
    }


def _read(folder: Path, manifest: Mapping[str, Any], name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for relative in manifest["files"]:
        if relative.startswith(f"{name}/"):
            rows += read_table(folder / relative, name, columns).to_pylist()
    return rows


def _counts(folder: Path, manifest: Mapping[str, Any]) -> str:
    kernels = _read(folder, manifest, "kernels", ["status", "split", "task"])
    pairs = _read(folder, manifest, "pairs", ["speedup", "resolved_141", "changed", "split"])
    evals = _read(folder, manifest, "eval", ["split"])
    searches = _read(folder, manifest, "searches", ["split"])
    splits = [split for split in SPLITS if any(row["split"] == split for row in (*kernels, *pairs, *evals))]

    def line(title: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        count = Counter(row["split"] for row in rows)
        return [title, *(f"{count[split]:,}" for split in splits)]

    found = [
        line("kernels", kernels),
        line("of which failed", (row for row in kernels if row["status"] != "ok")),
        line("parent-child pairs", pairs),
        line("of which changed", (row for row in pairs if row["changed"])),
        line("faster than √2 times their parent", (r for r in pairs if r["speedup"] and r["speedup"] > TAUS["141"])),
        line("evaluation pairs", evals),
        line("searches", searches),
    ]
    tasks = ", ".join(sorted({row["task"] for row in kernels}))
    table = _markdown(["", *splits], found)
    return f"{table}\n\n" + wrapped(f"These figures are printed by `kernelcast data info`. Tasks: {tasks}.")


def _measuring(folder: Path, manifest: Mapping[str, Any]) -> str:
    columns = ["role", "gpu", "torch", "triton", "cuda", "driver", "isolation"]
    sessions = _read(folder, manifest, "sessions", columns)
    stacks = sorted({f"{s['gpu']} with torch {s['torch']}, triton {s['triton']}, CUDA {s['cuda']} and driver "
                     f"{s['driver']}" for s in sessions})  # fmt: skip
    roles = Counter(s["role"] for s in sessions)
    origins = Counter(row["origin"] for row in _read(folder, manifest, "nodes", ["origin"]))
    arms = Counter(row["arm"] for row in _read(folder, manifest, "searches", ["arm"]))
    return measuring("; ".join(stacks), roles["primary"], roles["second"], dict(origins), dict(arms))


def _left_out(manifest: Mapping[str, Any]) -> str:
    rows = [[entry["table"], f"{entry['rows']:,}", entry["reason"]] for entry in manifest["dropped"]]
    if not rows:
        return ""
    return "### Left out\n\n" + _markdown(["table", "rows", "why"], rows)


def audit_text(audit: Mapping[str, Any]) -> str:
    """Return the findings of an audit as the card shows them."""
    parts = []
    near = [[r["split"], " + ".join(r["against"]), r["kernels"], r["same_structure"], r["near_duplicates"],
             f"{r['highest_jaccard']:.2f}"] for r in audit["near_duplicates"]]  # fmt: skip
    if near:
        parts.append(_markdown(["kernels of", "against", "n", "same structure", "Jaccard ≥ 0.8", "highest"], near))
    text = audit["telling_text"]
    parts.append(
        wrapped(
            f"Text that states a speed or a target stands in {text['in_code']:,} of {text['rows']:,} sources and in "
            f"{text['in_view']:,} views; {text['telling_names_in_view']:,} views hold a telling name."
        )
    )
    probes = [
        [r["probe"], "chance" if r["must_be_chance"] else "baseline", _number(r["auroc"]),
         "-" if r["low"] is None else f"{r['low']:.2f} to {r['high']:.2f}", r["tasks"]]
        for r in audit["probes"]
    ]  # fmt: skip
    if probes:
        parts.append("AUROC of a discovery at √2 on the test pairs, mean over tasks, for what is no code:")
        parts.append(_markdown(["sees only", "must be", "AUROC", "95%", "tasks"], probes))
    parts.append("Rank correlation of a kernel's speedup with what is no code, mean over tasks:")
    parts.append(_markdown(["split", "order", "id", "length"], [
        [r["split"], *(_number(r[name]) for name in ("order", "id", "length"))] for r in audit["correlations"]
    ]))  # fmt: skip
    parts += _noise(audit)
    parts.append(_markdown(["test rows", "by", "largest", "share", "cap"], [
        [f"{r['rows']:,} {r['of']}", r["by"], f"`{r['largest']}`", f"{r['share']:.0%}", f"{r['cap']:.0%}"]
        for r in audit["composition"]
    ]))  # fmt: skip
    parts.append(_balance(audit["balance"]))
    return "\n\n".join(part for part in parts if part)


def _noise(audit: Mapping[str, Any]) -> list[str]:
    noise = audit["label_noise"]
    width = {name: noise[f"{name}_median_log2_sd"] for name in ("kernels", "pairs")}
    parts = [
        "Label noise: the median standard deviation of log2 speedup is "
        f"{_number(width['kernels'], 4)} for kernels and {_number(width['pairs'], 4)} for pairs."
    ]
    same, second = noise["same_program"], noise["second"]
    if same["pairs"]:
        parts.append(
            wrapped(
                f"{same['pairs']:,} children are their parent's program: their log2 speedup spreads by "
                f"{same['log2_sd']:.4f}, {same['outside_interval']:.1%} of their intervals exclude 1 and "
                f"{same['called_changed']:.1%} would be called changed."
            )
        )
    if second["kernels"]:
        parts.append(
            wrapped(
                f"{second['kernels']:,} kernels were measured again at another machine start: log2 speedups differ by "
                f"{second['log2_rms_difference']:.4f} (root mean square), {second['rms_z']:.2f} times what intervals "
                f"say, and {second['same_bin']:.1%} fall into the same bin."
            )
        )
    if audit["unresolved"]:
        parts.append("Share of pairs whose interval holds a threshold:")
        parts.append(_markdown(["split", "pairs", "1.1", "1.25", "√2", "2", "changed"], [
            [r["split"], f"{r['pairs']:,}", *(f"{r[t]:.1%}" for t in TAUS), f"{r['changed']:.1%}"]
            for r in audit["unresolved"]
        ]))  # fmt: skip
    return parts


def _balance(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line for each task, the test splits apart from the others."""
    found: dict[tuple[str, bool], dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(
            (row["task"], row["split"] in TEST_SPLITS), {"rows": 0, "status": Counter(), "bins": [0] * 8}
        )
        entry["rows"] += row["rows"]
        entry["status"].update(row["status"])
        entry["bins"] = [a + b for a, b in zip(entry["bins"], row["bins"], strict=True)]
    lines = [
        [task, "test" if test else "training", f"{entry['rows']:,}",
         ", ".join(f"{n} {status}" for status, n in entry["status"].most_common()), " ".join(map(str, entry["bins"]))]
        for (task, test), entry in found.items()
    ]  # fmt: skip
    return _markdown(["task", "side", "kernels", "status", "bins 1 to 8"], lines)


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value + 0.0:.{digits}f}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
