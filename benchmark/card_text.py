"""The prose of a dataset card: what the rows are, how they were made, what they cannot say."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

WIDTH = 120

WHAT = """
Measured GPU kernels with their lineage, for work on forecasting speed from source. Every kernel is an edit of an
earlier one, made by a search that measured what it made; every row says how it was measured, with an interval, and the
raw samples are kept.
"""

UPSTREAM = """
The published data of "GPU Forecasters: Language Models as Speculative Surrogates for Kernel Runtime Optimization"
(arXiv 2605.31464), converted into KernelCast's tables by `kernelcast data import-upstream`. Nothing was measured again:
speedups have no interval, kernels no raw samples. Bins follow from the speedups by KernelCast's edges; the label of the
release is kept as `upstream_bin`. Rows that state their own speed are marked `self_describing`. `import.json` says how
many rows each file had, what was left out, and where the counts differ from the published ones.
"""


def measuring(stacks: str, primary: int, second: int, origins: Mapping[str, int], arms: Mapping[str, int]) -> str:
    """Return how the kernels were made and measured, with the hardware, the sessions and the origins of the rows."""
    llm = origins.get("llm", 0)
    written = (
        f"{llm:,} kernels were written by a language model (origin `llm`); their prompts and answers are kept."
        if llm
        else "No kernel was written by a language model."
    )
    again = (
        f" and {second:,} second ones, at another start of the machine, which serve the noise ceiling and label eval"
        if second
        else "; nothing was measured a second time"
    )
    sessions = f"{primary:,} primary session{'s' if primary != 1 else ''}"
    kinds = ", ".join(f"{n:,} `{arm}`" for arm, n in sorted(arms.items()))
    text = f"""
## How the kernels were made

Each task is one operation with a PyTorch reference, input cases and tolerances. Its seed kernels, written by hand in
PyTorch, Triton or CUDA C++, were divided between the splits before anything was searched, and a search uses the seeds
of its split alone. A search selects parents, edits them with a rule-based mutator and measures children (arms:
{kinds}). An edit has an operator (its name) and an operator class, which is read off the difference of the two syntax
trees: constants, memory, precision, loop, fusion, algorithm, recombination, host. {written}

## How they were measured

On {stacks}, in {sessions}{again}. A kernel is compiled, checked against a float64 oracle on inputs
that it has not seen, and timed together with the reference, in turns, with a cold L2 cache and inputs that change on
every call. The method (`cupti`, `graph` or `event`) is on the row. A speedup S is t_anchor / t_candidate, aggregated
over the timing cases by geometric mean: above 1 is faster. Its interval (95%) combines the spread between processes
with the spread within one, because samples from one process agree with each other better than with the next process.
A parent is selected because it read fast; so it is measured again with its children, and pairs use that second time.

A kernel that does not compile, crashes, runs out of time or memory, gives a wrong result or is rejected for how it
behaves has that status and no speedup. Such rows are part of the data.
"""
    return "\n\n".join(wrapped(part) for part in text.strip().split("\n\n"))


def wrapped(paragraph: str) -> str:
    """Return a paragraph in lines of at most 120 characters."""
    return textwrap.fill(" ".join(paragraph.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


TABLES_TEXT = """
## Tables

Flat Parquet, one configuration for each table. Units are in the names of the columns, and times are not rounded.

- **pairs**, a parent and its child: pair_id, task, search_id, parent_id, child_id, parent_code, child_code,
  child_status, operator, operator_class, parent_us_geomean, speedup of the child over the parent with speedup_low and
  speedup_high, bin, resolved_110, resolved_125, resolved_141, resolved_200 (whether the interval excludes a speedup of
  1.1, 1.25, √2, 2), changed (it excludes 1, and the change is above 3%), frontier (the fastest of its search so far),
  undo (it takes back an earlier edit), second_speedup, second_speedup_low and second_speedup_high (from second sessions
  alone), self_describing, upstream_bin (the label in the release of the paper, for its rows alone), gpu, split. Failed
  children are rows without a speedup.
- **same_program**, the same columns: children whose compiled code and host code equal the parent's. What their
  speedups differ from 1 is noise, so they are neither pairs nor in eval.
- **kernels**, one row for each distinct kernel: kernel_id (a hash of task and code), task, language, code, code_view,
  structure_hash, self_describing (a comment or string states a speed or a target), status, error, speedup against the
  reference with speedup_low and speedup_high, bin, second_speedup, second_speedup_low, second_speedup_high,
  time_us_geomean, reference_us_geomean, compile_s, check_s, timing_s, timing_method, isolation, n_processes, registers,
  spills, shared_bytes, cubin_hash, gpu, driver, cuda, torch, triton, harness_version, measured_at, split.
- **eval**, pairs for calibration, balanced over the bins within each kind of anchor: pair_id, task, search_id, seed_id,
  anchor_kind (reference or parent), anchor_id, candidate_id, anchor_code, candidate_code, anchor_us_geomean, speedup,
  speedup_low, speedup_high and bin (of the second measurement), first_speedup and first_bin (of the first, by which the
  row was drawn), weight (the inverse of its sampling rate), operator_class, self_describing, upstream_bin, gpu, split.
- **nodes**, one row for each place in a search: node_id, kernel_id, task, search_id, parent_node_id, seed_id, step,
  origin, operator, operator_class, split.
- **searches**, one row for each search: search_id, task, split, arm, mutator, isolation, seeds, seed, budget, measured,
  replay_tree (grown for replay: parents drawn independently of speed), ended, started_at.
- **tasks**: task, source, family, statement, reference_code, facts (JSON: cases with shapes, bytes and operations).
- **sessions**, one row for each start of a measuring process: session_id, role (primary sessions give the labels,
  second ones the noise ceiling), isolation, sandbox, timing_method, gpu, driver, cuda, torch, triton, harness_version,
  sm_clock_mhz, memory_clock_mhz, temperature_c, started_at.
- **measurements**, the raw samples: session_id, process, kernel_id, case_id, side (candidate or reference),
  repetition, order, time_ns.
- **events**, the record of every search: search_id, index, kind, payload (JSON, without sources and samples, which the
  other tables hold).

All tables are made from the logs of the searches. The manifest names every file with its rows, bytes and hash, every
seed's split, and what was left out and why.

`code` is what ran. `code_view` and the codes of pairs and eval are what a surrogate may see: comments, docstrings and
telling names are removed, since they may give the outcome away. Bins: 1 is S ≤ 0.25, then ≤ 0.5, ≤ 0.71, ≤ 1, ≤ 1.41,
≤ 2, ≤ 4, and 8 is S > 4, closed above, so that S = 1 is in bin 4 and bins 6 to 8 are exactly S > √2.
"""

SPLITS_TEXT = """
## Splits

`train`, `validation`, `test` and `test_unseen_task` follow lineage: no kernel of one split descends from a seed of
another, and training never sees a task of `test_unseen_task`. Two kernels with the same structure (the same syntax tree
after literals, launch options and names are replaced), or with structures whose MinHash Jaccard index is at least 0.8,
never stand on a scored side and on the side that learns from it: the copy in train or validation is left out.
"""

AUDIT = """
## Audit

Printed by `kernelcast data audit`.
"""

LIMITS = """
## Limits

- Times of another GPU or software stack belong in another dataset.
- Edits by rules are more regular than edits by a model. Operator columns are there to check what a surrogate has
  learnt; they are not part of a query.
- Speedups of a few percent are within the noise for short kernels; use the interval, or `changed`.
- Time is device time of one call with a cold cache.
- Kernels within a search are related: resample whole searches, not rows.
- The test labels are public.
"""

LICENCE = """
## Licence

CC BY 4.0; see LICENSE-DATA. Kernel sources inside the tables are data.
"""
