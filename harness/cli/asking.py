"""What `forecast` and `evaluate` share: a surrogate made ready and asked, with a log that lets a run be continued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from harness.cli.console import progress, require_new, say

if TYPE_CHECKING:
    from benchmark.query import Surrogate
    from harness.surrogates.run import Manner
    from harness.surrogates.spec import SurrogateSpec
    from harness.surrogates.submission import Answered


@dataclass
class Asked:
    """A surrogate, and how and where it is asked; `out` is what the answers are for, None if they are not kept."""

    spec: SurrogateSpec
    dataset: str
    manner: Manner
    out: Path | None
    cache: Path | None
    save: Path | None
    quiet: bool

    def __post_init__(self) -> None:
        from harness.surrogates.submission import ready

        if self.save:
            require_new(self.save, overwrite=False, folder=True, option="--save")
        self.surrogate: Surrogate = ready(self.spec, self.dataset)
        if self.save:
            from harness.surrogates.saved import save

            save(self.surrogate, str(self.spec), self.dataset, self.save)
            say(f"saved the surrogate in {self.save}; trained={self.save} uses it", self.quiet)

    @contextmanager
    def answers(self, splits_of: Mapping[str, Sequence[str]], limit: int | None = None) -> Iterator[list[Answered]]:
        """Give the answers of some tracks, each over some splits; the block writes them, then the log has served.

        It stays when it is in a cache, holds raw output, or lacks an answer that a later run may get. Exits with 1 if
        the surrogate cannot be asked any further.
        """
        from harness.surrogates.foreign import Unavailable
        from harness.surrogates.submission import answer, open_log

        with TemporaryDirectory(prefix="kernelcast-") as temporary:
            path = self._log_path(Path(temporary))
            with open_log(path, self.spec, self.surrogate, self.dataset) as log:
                self._say_if_not_concurrent()
                done: list[Answered] = []
                show = partial(progress, quiet=self.quiet)
                for track, splits in splits_of.items():
                    try:
                        one = answer(self.surrogate, track, splits, self.dataset, self.manner, limit, show, log)
                    except Unavailable as error:
                        self._say_cost()
                        say(f"kernelcast: {' '.join(str(error).split())}")
                        if self.out or self.cache:
                            say(f"{len(log)} answers are kept in {path}; the same command goes on from there")
                        raise typer.Exit(1) from None
                    say(one.summary(), self.quiet and one.n_ok > 0)
                    done.append(one)
                self._say_cost()
                keep = log.holds_raw or any(one.problems for one in done)
            yield done
            if not self.cache and not keep:
                path.unlink(missing_ok=True)

    def _log_path(self, temporary: Path) -> Path:
        from harness.cli.standing import submission_name
        from harness.surrogates.answer_log import SUFFIX, beside

        if self.cache:
            return self.cache / f"{submission_name(str(self.spec))[:80]}{SUFFIX}"
        return beside(self.out) if self.out else temporary / f"answers{SUFFIX}"

    def _say_if_not_concurrent(self) -> None:
        wanted = self.manner.concurrency
        if wanted and wanted > 1 and self.manner.concurrency_of(self.surrogate) == 1:
            say(f"'{self.spec.target}' does not declare concurrency, so that it gets one call at a time", self.quiet)

    def _say_cost(self) -> None:
        """One line of what a surrogate that counts its requests asked for, and paid."""
        cost = getattr(self.surrogate, "cost", None)
        if cost:
            counts = [
                f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in cost.items()
            ]
            say("asked in this run: " + ", ".join(counts).replace("None", "unknown"), self.quiet)
