"""Regenerate the committed baseline submissions, or check that regenerating them changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.surrogates.spec import parse
from harness.surrogates.submission import answer_all, describe, ready, write_submission

# Each stands in leaderboard/submissions under its own name, as `kernelcast evaluate NAME --out NAME` writes it.
BASELINES = ("uniform", "base-rate", "no-change", "random", "gbdt", "oracle")
TOLERANCE = 1e-6  # other versions of the numerical libraries differ in the last bits


def regenerate(name: str, dataset: str, folder: Path, say: Callable[[str], None]) -> None:
    """Write the submission of one baseline into a folder, replacing what is there."""
    spec = parse(name)
    surrogate = ready(spec, dataset)
    answers = list(answer_all(surrogate, dataset))
    for answered in answers:
        say(f"{name}, {answered.summary()}")
    write_submission(answers, spec, folder, describe(spec, surrogate, dataset, name), overwrite=True)


def reproduce(dataset: str, submissions: Path, names: Sequence[str], say: Callable[[str], None]) -> None:
    """Regenerate the named baselines in a folder of submissions."""
    for name in names:
        regenerate(name, dataset, submissions / name, say)


def differences(dataset: str, submissions: Path, names: Sequence[str], say: Callable[[str], None]) -> list[str]:
    """Return one line for each committed forecast file that regenerating does not give again."""
    lines = []
    with TemporaryDirectory(prefix="kernelcast-") as temporary:
        for name in names:
            fresh = Path(temporary) / name
            regenerate(name, dataset, fresh, say)
            for file in sorted({p.name for folder in (fresh, submissions / name) for p in folder.glob("*.parquet")}):
                problem = _difference(submissions / name / file, fresh / file)
                if problem:
                    lines.append(f"{name}/{file}: {problem}")
    return lines


def _difference(committed: Path, fresh: Path) -> str | None:
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
    return None
