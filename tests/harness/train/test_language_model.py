"""Adapters of a small random model, trained by the real trainer on a CPU, stopped, resumed, saved and read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.prompt import PromptText
from harness.surrogates.saved import load
from harness.train import answers, command, language_model
from harness.train.checkpoint import CheckpointError
from harness.train.rows import Rows, measured
from tests.harness.surrogates.conftest import make_rows
from tests.harness.surrogates.lm.test_local import save_model

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytestmark = pytest.mark.slow


def of_the_text(texts: list[str]) -> tuple[Any, Any]:
    """Return forecasts that depend on what was generated: no random model states one, and equal rewards teach none."""
    sure = np.array([0.1 + 0.8 * (sum(text.encode()) % 7) / 7 for text in texts])
    rows = np.tile(((1 - sure) / 7)[:, None], (1, 8))
    rows[:, 4] = sure
    return rows, np.ones(len(texts), dtype=bool)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> language_model.ModelSettings:
    some, held = measured(make_rows(8, 1), "train"), measured(make_rows(4, 2), "validation")

    def rows(split: str, *_: Any) -> Rows:
        return some if split == "train" else held

    monkeypatch.setattr(command, "load_rows", rows)
    monkeypatch.setattr(answers, "read", of_the_text)
    weights = str(save_model(tmp_path / "weights"))
    return language_model.ModelSettings(
        weights, "rps", 1, "synthetic", steps=3, batch=1, group=2, warm_steps=2, new_tokens=8, judged=2,
        learning_rate=1e-2,
    )  # fmt: skip


def test_a_stopped_run_resumes_and_is_a_surrogate(settings: language_model.ModelSettings, tmp_path: Path) -> None:
    out, lines = tmp_path / "out", []
    first = command.run(settings, out, time_limit=1e-3, say=lines.append)
    assert not first["finished"] and first["steps"] == 1
    with np.load(out / "arrays.npz") as arrays:
        before = {name: arrays[name] for name in arrays.files}
    with pytest.raises(CheckpointError, match="made with reward 'rps', and this run asks for 'brier'"):
        command.run(replace(settings, reward="brier"), out, resume=True)
    summary = command.run(settings, out, resume=True, say=lines.append)
    assert summary["finished"] and [line["step"] for line in summary["history"]] == [1, 2, 3]
    assert lines[-1].startswith("step 3/3: reward ") and "RPS" in lines[-1]
    assert all(0 < line["reward"] < 2 for line in summary["history"])
    with np.load(out / "arrays.npz") as arrays:
        assert arrays.files == list(before) and any((arrays[n] != before[n]).any() for n in before)
        adapters = {name: arrays[name] for name in arrays.files}
    surrogate: Any = load(str(out))
    mine = surrogate.fitted_state()[1]
    assert mine.keys() == adapters.keys() and all((mine[name] == adapters[name]).all() for name in mine)
    (answer,) = surrogate.forecast(make_rows(1, 5).queries)
    assert answer.status == "unparsed" and answer.output_tokens <= 8
    weights = Path(settings.model) / "config.json"
    weights.write_text(weights.read_text().replace('"silu"', '"gelu"'))
    with pytest.raises(SurrogateError, match="does not hold the weights that the adapters were trained on"):
        load(str(out))


def test_the_prompt_is_the_one_that_is_asked_later(settings: language_model.ModelSettings) -> None:
    from harness.train.adapted import Adapted

    policy = Adapted(settings.model, max_new_tokens=8, device="cpu")
    (query,) = make_rows(1, 5).queries
    text = policy.prompt_text(replace(query, candidate_code="y = 1\n"))
    asked: PromptText = policy._prompt.fill(replace(query, candidate_code="y = 1\n"), "tool")
    assert text.endswith("<|assistant|>\n") and asked.own in text and asked.system in text
