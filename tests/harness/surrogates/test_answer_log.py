"""The log of answers: what is kept, what is a miss, and what a cut file costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark.query import Forecast, Query
from harness.surrogates.answer_log import AnswerLog, Told, beside
from harness.surrogates.foreign import SurrogateError

QUERY = Query("p-1", "pairs", "t", "s", "parent", "a = 1", "a = 2", 10.0, "H200", {"cases": [{"bytes": 1}]})
UNIFORM = (0.125,) * 8
FULL = Told(UNIFORM, 0.5, 1.5, 0.25, "ok", 2.0, 30, 4, raw={"text": "bin 5 \u00fc"})


def test_an_answer_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.answers.jsonl"
    answers = [FULL, Forecast(None, status="unparsed"), Told(None, status="refused", raw="no")]
    queries = [replace(QUERY, query_id=f"p-{n}") for n in range(3)]
    with AnswerLog(path, {"target": "x"}) as log:
        log.put_all(zip(queries, answers, strict=True))
    again = AnswerLog(path, {"target": "x"})
    assert [again.get(q) for q in queries] == answers
    assert len(again) == 3 and again.holds_raw
    assert json.loads(path.read_text().splitlines()[0])["raw"] == {"text": "bin 5 \u00fc"}


def test_an_error_is_never_kept_and_leaves_no_file(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "log", {}) as log:
        log.put(QUERY, Forecast(None, status="error"))
        assert log.get(QUERY) is None
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"candidate_code": "a = 3"}, {"anchor_code": "a = 0"}, {"statement": "other"}, {"anchor_time_us": 11.0},
        {"hardware": "H100"}, {"facts": {}}, {"query_id": "p-2"}, {"task": "u"},
    ],
)  # fmt: skip
def test_another_query_is_a_miss(tmp_path: Path, change: dict[str, object]) -> None:
    with AnswerLog(tmp_path / "log", {}) as log:
        log.put(QUERY, FULL)
        assert log.get(replace(QUERY, **change)) is None  # type: ignore[arg-type]
        assert log.get(QUERY, repeat=1) is None
        assert log.get(QUERY) == FULL


def test_another_configuration_is_a_miss_in_the_same_file(tmp_path: Path) -> None:
    for seed in (1, 2):
        with AnswerLog(tmp_path / "log", {"seed": seed}) as log:
            assert log.get(QUERY) is None
            log.put(QUERY, replace(FULL, log2_speedup=float(seed)))
    one = AnswerLog(tmp_path / "log", {"seed": 1}).get(QUERY)
    assert one is not None and one.log2_speedup == 1.0


def test_a_line_that_was_cut_is_asked_again_and_the_next_answer_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    other = replace(QUERY, query_id="p-2")
    with AnswerLog(path, {}) as log:
        log.put(QUERY, FULL)
        log.put(other, FULL)
    path.write_bytes(path.read_bytes()[:-20])
    with AnswerLog(path, {}) as log:
        assert (log.get(QUERY), log.get(other)) == (FULL, None)
        log.put(other, FULL)
    assert AnswerLog(path, {}).get(other) == FULL


def test_two_runs_that_share_a_log_lose_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "log"
    queries = [replace(QUERY, query_id=f"p-{n}") for n in range(3)]
    with AnswerLog(path, {}) as first, AnswerLog(path, {}) as second:
        first.put(queries[0], FULL)
        second.put(queries[1], FULL)  # it read the log when there was none
        first.put(queries[2], FULL)
    log = AnswerLog(path, {})
    assert [log.get(query) for query in queries] == [FULL] * 3


def test_a_broken_line_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with AnswerLog(path, {}) as log:
        log.put(QUERY, FULL)
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(SurrogateError, match=r"log, line 2: not an answer .*remove the file"):
        AnswerLog(path, {})


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path: Path) -> None:
    answer = Forecast(np.full(8, 0.125), np.float32(0.5), output_tokens=np.int64(3))  # type: ignore[arg-type]
    with AnswerLog(tmp_path / "log", {}) as log:
        log.put(QUERY, answer)
    assert AnswerLog(tmp_path / "log", {}).get(QUERY) == Forecast(UNIFORM, 0.5, output_tokens=3)


def test_the_log_lies_beside_the_output() -> None:
    assert beside(Path("out/x.parquet")) == Path("out/x.parquet.answers.jsonl")
