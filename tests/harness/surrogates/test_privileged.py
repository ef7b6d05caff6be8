"""What only bundled classes may see, on the synthetic dataset: compiled facts, raw rows, and labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmark.data_access import load_kernels, load_labels, load_pairs, load_queries
from benchmark.query import Forecast, Query
from harness.surrogates.baselines import Oracle
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.noise_ceiling import Second, second_measurements
from harness.surrogates.privileged import labelled_for, queries_for, raw_rows, reveal, with_compiled
from harness.surrogates.probes import LOOKS, Probe, comments
from harness.surrogates.spec import create, parse
from harness.surrogates.submission import ready
from harness.surrogates.training import prepare

DATA = "synthetic"


def test_compiled_facts_reach_who_declares_them_and_nobody_else(synthetic_dataset: Path) -> None:
    for name, sees in (("gbdt", False), ("compiled", True)):
        surrogate = create(parse(name))
        queries = queries_for(surrogate, "pairs", "test", DATA)
        assert all(("compiled" in q.facts) is sees for q in queries)
        assert all(("compiled" in q.facts) is sees for q in labelled_for(surrogate, "pool", "train", DATA).queries)
    facts = queries[0].facts["compiled"]
    kernels = {r["kernel_id"]: r for r in load_kernels(None, DATA).to_pylist()}
    (label,) = [r for r in load_labels("pairs", "test", DATA).to_pylist() if r["query_id"] == queries[0].query_id]
    assert facts["candidate"]["shared_bytes"] == kernels[label["candidate_id"]]["shared_bytes"]
    assert facts["anchor"]["registers"] == kernels[label["anchor_id"]]["registers"]
    assert (
        with_compiled(load_queries("pool", "test", DATA)[:1], "pool", "test", DATA)[0].facts["compiled"]["anchor"] == {}
    )


def test_a_dataset_without_compiled_facts_says_so(synthetic_dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.surrogates.privileged.COMPILED", ())
    with pytest.raises(SurrogateError, match="dataset 'synthetic' has no compiled facts"):
        ready(parse("compiled"), DATA)


def test_raw_rows_are_those_of_the_candidates(synthetic_dataset: Path) -> None:
    rows = {row.query_id: row for row in raw_rows("pairs", "test", DATA)}
    parents = load_pairs(None, DATA).column("parent_id").to_pylist()
    kernels = {r["kernel_id"]: r for r in load_kernels("test", DATA).to_pylist()}
    labels = load_labels("pairs", "test", DATA).to_pylist()
    assert len(rows) == len(labels)
    for label in labels:
        row = rows[label["query_id"]]
        assert row.code == kernels[label["candidate_id"]]["code"]
        assert row.n_anchor == parents.count(label["candidate_id"])
        assert 0 <= row.position <= 1 and 0 <= row.number < 1
    assert len({row.position for row in rows.values()}) > 1


def test_the_comment_probe_finds_the_leak_that_raw_sources_have_and_views_do_not(synthetic_dataset: Path) -> None:
    # Every synthetic source tells its outcome in a comment.
    probe = ready(parse("probe?sees=comments"), DATA)
    reveal(probe, "pool", "test", DATA)
    queries = load_queries("pool", "test", DATA)
    assert len({forecast.log2_speedup for forecast in probe.forecast(queries)}) > 1
    assert not any("#" in query.candidate_code for query in queries)


def test_comments_of_python_and_cuda_and_nothing_else() -> None:
    code = (
        '"""Doc."""\nx = a // b  # twice\n'
        'S = r"""\n__global__ void f() { int y = 1; // thrice\n/* four\ntimes */ }\n"""\n'
        "t = 'plain'\n"
    )
    assert comments(code) == '"""Doc."""\n# twice\n// thrice\n/* four\ntimes */'
    assert comments("def f(:  # seen\n  (\n") == "# seen"


@pytest.mark.parametrize("sees", LOOKS)
def test_every_look_gives_as_many_numbers_for_every_row(sees: str, synthetic_dataset: Path) -> None:
    rows = raw_rows("pool", "train", DATA)
    assert len({len(LOOKS[sees](row)) for row in rows}) == 1


def test_a_probe_of_something_else_is_refused() -> None:
    with pytest.raises(SurrogateError, match="cannot see 'labels'; expected one of comments, order, id, anchors"):
        create(parse("probe?sees=labels"))


def test_no_class_of_a_user_is_shown_anything(synthetic_dataset: Path) -> None:
    class Curious(Oracle):
        information = "oracle"

        def reveal(self, rows: object) -> None:
            raise AssertionError("was shown labels")

    class CuriousProbe(Probe):
        def reveal(self, rows: object) -> None:
            raise AssertionError("was shown raw rows")

    for surrogate in (Curious(), CuriousProbe()):
        reveal(surrogate, "pairs", "test", DATA)


def test_fitting_sees_train_and_validation_only(synthetic_dataset: Path) -> None:
    class Notes:
        def fit(self, train: object, validation: object) -> None:
            self.seen = [{q.query_id for q in part.queries} for part in (train, validation)]  # type: ignore[attr-defined]

        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            return []

    surrogate = Notes()
    prepare(surrogate, DATA)
    for seen, split in zip(surrogate.seen, ("train", "validation"), strict=True):
        assert seen == {q.query_id for track in ("pairs", "pool") for q in load_queries(track, split, DATA)}


def test_a_fitted_surrogate_is_not_fitted_again(synthetic_dataset: Path) -> None:
    class Done:
        fitted = True

        def fit(self, train: object, validation: object) -> None:
            raise AssertionError("was fitted again")

        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            return []

    prepare(Done(), DATA)


def test_the_second_measurements_are_those_of_the_tables(synthetic_dataset: Path) -> None:
    stored = load_pairs("test", DATA).to_pylist()
    if all(row["second_speedup"] is None for row in stored):
        with pytest.raises(SurrogateError, match="no kernel was measured a second time"):
            second_measurements("pairs", "test", DATA)
        return
    second = {row["pair_id"]: row["second_speedup"] for row in stored}
    for row in second_measurements("pairs", "test", DATA):
        assert isinstance(row, Second)
        assert (row.log2_speedup is None) == (second[row.query_id] is None)
        if row.log2_speedup is not None:
            assert 2**row.log2_speedup == pytest.approx(second[row.query_id])
