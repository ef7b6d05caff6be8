"""Regenerate the committed baseline submissions, or check that regenerating them changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.surrogates.spec import parse
from harness.surrogates.submission import answer_all, describe, ready, write_submission

# A submission's name -> the surrogate that makes it; `kernelcast evaluate SURROGATE --out NAME` writes the same.
BASELINES: Mapping[str, str] = {
    **{name: name for name in ("uniform", "random", "base-rate", "no-change", "length", "lookup", "nearest-seed")},
    **{name: name for name in ("roofline", "neighbours", "gbdt", "compiled", "neural")},
    "gbdt-swapped": "swapped(gbdt)",
    "ensemble": "ensemble(gbdt,neighbours)?weights=fitted",
    **{f"probe-{sees}": f"probe?sees={sees}" for sees in ("comments", "order", "id", "anchors")},
    "oracle": "oracle",
    "noise-ceiling": "noise-ceiling",
}
NEEDS = {"neural": "torch"}  # what a surrogate cannot be made again without
TOLERANCE = 1e-6  # other versions of the numerical libraries differ in the last bits

Say = Callable[[str], None]


def regenerate(name: str, dataset: str, folder: Path, say: Say) -> None:
    """Write the submission of one baseline into a folder, replacing what is there."""
    _forget()
    spec = parse(BASELINES[name])
    surrogate = ready(spec, dataset)
    answers = list(answer_all(surrogate, dataset))
    for answered in answers:
        say(f"{name}, {answered.summary()}")
    write_submission(answers, spec, folder, describe(spec, surrogate, dataset, name), overwrite=True)


def _forget() -> None:
    """Drop what an earlier baseline found out about the same sources: the seconds of each are to be its own."""
    from harness.surrogates import features, query_features, tokens

    for cached in (features._analysed, query_features._edit_features, tokens.tokenise, tokens.changed_lines):
        cached.cache_clear()


def cannot_be_made(name: str, dataset: str) -> str | None:
    """Return why a baseline cannot be made here, or None: a package is missing, or the dataset has nothing for it."""
    package = NEEDS.get(name)
    if package and find_spec(package) is None:
        return f"it needs {package}, which is not installed"
    if name == "noise-ceiling" and not _measured_twice(dataset):
        return f"no kernel of dataset {dataset} was measured a second time"
    return None


def _measured_twice(dataset: str) -> bool:
    from benchmark.data_access import load_table

    return "second" in load_table("sessions", None, dataset, ["role"]).column("role").to_pylist()


def reproduce(dataset: str, submissions: Path, names: Sequence[str], say: Say) -> None:
    """Regenerate the named baselines in a folder of submissions.

    A file whose forecasts come out the same is left as it is, so that the seconds in it do not change by themselves.
    """
    for name, fresh in _made(dataset, names, say):
        target = submissions / name
        target.mkdir(parents=True, exist_ok=True)
        for stale in {p.name for p in target.glob("*.parquet")} - {p.name for p in fresh.iterdir()}:
            (target / stale).unlink()
        for file in sorted(fresh.iterdir()):
            own = target / file.name
            if file.suffix != ".parquet" or difference(own, file) is not None or not _is_timed(own):
                shutil.copyfile(file, own)


def _is_timed(path: Path) -> bool:
    import numpy as np

    from benchmark.forecasts import read_forecasts

    return not bool(np.isnan(read_forecasts(path).seconds).all())


def differences(dataset: str, submissions: Path, names: Sequence[str], say: Say) -> list[str]:
    """Return one line for each committed forecast file that regenerating does not give again."""
    lines = []
    for name, fresh in _made(dataset, names, say):
        for file in sorted({p.name for folder in (fresh, submissions / name) for p in folder.glob("*.parquet")}):
            problem = difference(submissions / name / file, fresh / file)
            if problem:
                lines.append(f"{name}/{file}: {problem}")
    return lines


def _made(dataset: str, names: Sequence[str], say: Say) -> Iterator[tuple[str, Path]]:
    """Yield each baseline that can be made here, with the folder that holds it until the next one."""
    for name in names:
        why = cannot_be_made(name, dataset)
        if why:
            say(f"{name}: skipped, because {why}")
            continue
        with TemporaryDirectory(prefix="kernelcast-") as temporary:
            fresh = Path(temporary) / name
            regenerate(name, dataset, fresh, say)
            yield name, fresh


def difference(committed: Path, fresh: Path) -> str | None:
    """Return how two forecast files differ in what they forecast and were made for, or None; costs may differ."""
    import numpy as np

    from benchmark.forecasts import read_forecasts

    for path, word in ((committed, "is not committed"), (fresh, "is not regenerated")):
        if not path.is_file():
            return word
    a, b = read_forecasts(committed), read_forecasts(fresh)
    if a.query_id.tolist() != b.query_id.tolist() or a.status.tolist() != b.status.tolist():
        return "other queries or statuses"
    for name in ("probabilities", "log2_speedup", "rank_score", "p_fail"):
        x, y = getattr(a, name), getattr(b, name)
        if (x is None) != (y is None):
            return f"{name} is given in only one of them"
        if x is not None and not np.allclose(x, y, rtol=0, atol=TOLERANCE, equal_nan=True):
            return f"{name} differs by up to {np.nanmax(np.abs(x - y)):.3g}"
    return "other metadata" if dict(a.metadata) != dict(b.metadata) else None


def speeds(submissions: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return how fast each submission was made, from the seconds in its files: rows, and rows per second, by track."""
    import numpy as np

    from benchmark.forecasts import read_forecasts

    rows = []
    for name in names:
        for file in sorted((submissions / name).glob("*.parquet")):
            seconds = read_forecasts(file).seconds
            total = float(np.nansum(seconds))
            timed = int(np.count_nonzero(~np.isnan(seconds)))
            rate = timed / total if total else None
            rows.append({"name": name, "track": file.stem, "rows": timed, "seconds": total, "rows_per_second": rate})
    return rows
