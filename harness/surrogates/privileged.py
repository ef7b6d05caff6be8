"""What only bundled classes may see besides the queries: labels, second measurements, raw sources, compiled facts.

A class is recognised by its identity, not by its name, so that no class of a user is ever shown any of it; compiled
facts alone follow a declaration, because they are no label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmark.query import Query, Surrogate
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.training import Labelled, labelled

COMPILED = ("registers", "spills", "shared_bytes")


@dataclass(frozen=True)
class Raw:
    """What no surrogate sees of one query: the candidate's source as it was written, and where its row stands.

    `position` is the row of the candidate in its table, `number` its place in the order of ids (both from 0 to 1), and
    `n_anchor` how many children it has in the dataset.
    """

    query_id: str
    code: str
    position: float
    number: float
    n_anchor: int


def reveal(surrogate: Surrogate, track: str, split: str, dataset: str) -> None:
    """Show a bundled surrogate what its class may see of a track and split; others are shown nothing."""
    from harness.surrogates.baselines import Oracle
    from harness.surrogates.noise_ceiling import NoiseCeiling, second_measurements
    from harness.surrogates.probes import Probe

    if type(surrogate) is Oracle:
        surrogate.reveal(labelled(track, split, dataset))
    elif type(surrogate) is NoiseCeiling:
        surrogate.reveal(second_measurements(track, split, dataset))
    elif type(surrogate) is Probe:
        surrogate.reveal(raw_rows(track, split, dataset))


def queries_for(surrogate: Surrogate, track: str, split: str, dataset: str) -> list[Query]:
    """Return the queries of a track and split as this surrogate may see them."""
    from benchmark.data_access import load_queries

    queries = load_queries(track, split, dataset=dataset)
    return with_compiled(queries, track, split, dataset) if _sees_compiled(surrogate) else queries


def labelled_for(surrogate: Surrogate, track: str, split: str, dataset: str) -> Labelled:
    """Return labelled rows to learn from, with the queries as this surrogate may see them."""
    rows = labelled(track, split, dataset)
    if _sees_compiled(surrogate):
        rows = replace(rows, queries=with_compiled(rows.queries, track, split, dataset))
    return rows


def _sees_compiled(surrogate: Surrogate) -> bool:
    return bool(getattr(surrogate, "information", "source") == "compiled")


def with_compiled(queries: Sequence[Query], track: str, split: str, dataset: str) -> list[Query]:
    """Return the queries with `facts["compiled"]`: registers, spills and shared_bytes of candidate and anchor.

    A kernel that the harness found no such facts of has an empty mapping, and so has the reference. Raises
    SurrogateError if the dataset has them of no kernel.
    """
    from benchmark.data_access import load_kernels, load_labels

    columns = ["kernel_id", *COMPILED]
    facts: dict[str | None, dict[str, int]] = {}
    for row in load_kernels(None, dataset, columns).to_pylist():
        facts[row["kernel_id"]] = {name: row[name] for name in COMPILED if row[name] is not None}
    if not any(facts.values()):
        problem = f"dataset '{dataset}' has no compiled facts (registers, spills, shared memory) of any kernel"
        raise SurrogateError(f"{problem}; use a surrogate that sees the source only, such as gbdt")
    labels = load_labels(track, split, dataset).select(["query_id", "anchor_id", "candidate_id"]).to_pylist()
    of_query = {
        row["query_id"]: {"candidate": facts.get(row["candidate_id"], {}), "anchor": facts.get(row["anchor_id"], {})}
        for row in labels
    }
    return [replace(query, facts={**query.facts, "compiled": of_query[query.query_id]}) for query in queries]


def raw_rows(track: str, split: str, dataset: str) -> list[Raw]:
    """Return what stands in the dataset's tables about the candidates of a track and split."""
    from benchmark.data_access import load_kernels, load_labels, load_pairs

    rows: list[dict[str, Any]] = load_labels(track, split, dataset).select(["query_id", "candidate_id"]).to_pylist()
    kernels = load_kernels(split, dataset, ["kernel_id", "code"])
    code = dict(zip(kernels.column("kernel_id").to_pylist(), kernels.column("code").to_pylist(), strict=True))
    # Pairs are stored by their own id and kernels by theirs, which is what the id probe sees: a nodes table, in the
    # order of the searches, is what a reader who does not shuffle would meet.
    order = _order_in_nodes(split, dataset)
    anchors = Counter(load_pairs(None, dataset, ["parent_id"]).column("parent_id").to_pylist())
    last = max(len(order) - 1, 1)
    return [
        Raw(
            query_id=row["query_id"],
            code=code[row["candidate_id"]],
            position=order[row["candidate_id"]] / last,
            number=int(row["candidate_id"].rpartition("-")[2], 16) / 16**16,
            n_anchor=anchors[row["candidate_id"]],
        )
        for row in rows
    ]


def _order_in_nodes(split: str, dataset: str) -> dict[str, int]:
    """Return the place of each kernel among the distinct kernels of the nodes table, in the order of its rows."""
    from benchmark.data_access import load_table

    kernels = load_table("nodes", split, dataset, ["kernel_id"]).column("kernel_id").to_pylist()
    return {kernel: place for place, kernel in enumerate(dict.fromkeys(kernels))}
