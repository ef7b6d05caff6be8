"""`kernelcast train`: a surrogate trained with a reward, as a folder that `trained=DIR` reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

REWARD_HELP = (
    "correctness; brier, rps or log: correctness + weight x (1 - that score); brier-only, rps-only or log-only: the "
    "score alone; supervised: the cross-entropy, no reward; or module:function of forecasts and labels, both (n, 8)."
)
POLICY_HELP = "compact: a small network, trained on a CPU; lm: adapters of the language model in --model."
MODEL_HELP = "For lm: a folder of Hugging Face weights, with their tokeniser."
STEPS_HELP = "Updates of the weights; by default 2000 for compact, 200 for lm."
GROUP_HELP = "Rollouts of one query, judged against each other; by default 16 for compact, 8 for lm."
SCALE_HELP = "What advantages are divided by: the spread over the batch, over each group as in GRPO, or none."
START_HELP = "Begin with the weights of this folder, which another run wrote."
LIMIT_HELP = "Stop after so many seconds; --resume goes on."


def train(
    reward: Annotated[str, typer.Option("--reward", help=REWARD_HELP)],
    out: Annotated[Path, typer.Option("--out", help="The new folder; trained=DIR uses it.")],
    policy: Annotated[str, typer.Option("--policy", help=POLICY_HELP)] = "compact",
    model: Annotated[Path | None, typer.Option("--model", help=MODEL_HELP)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of weights, order of the rows and rollouts.")] = 0,
    weight: Annotated[float, typer.Option("--weight", help="Of the score beside correctness.")] = 1.0,
    steps: Annotated[int | None, typer.Option("--steps", help=STEPS_HELP)] = None,
    group: Annotated[int | None, typer.Option("--group", help=GROUP_HELP)] = None,
    advantage_scale: Annotated[str, typer.Option("--advantage-scale", help=SCALE_HELP)] = "batch",
    start: Annotated[Path | None, typer.Option("--start", help=START_HELP)] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first rows of each split.")] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help=LIMIT_HELP)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Train a surrogate by policy gradient with a reward, or supervised.

    Interrupted, the same command with --resume goes on from its last checkpoint and ends with the same weights.
    """
    from benchmark.data_access import DEFAULT_DATASET
    from harness.cli.console import print_json, progress, say
    from harness.surrogates.foreign import prints_to_stderr
    from harness.train.command import run
    from harness.train.language_model import ModelSettings
    from harness.train.loop import Settings

    given = {"steps": steps, "group": group}
    common: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    common |= {"reward": reward, "seed": seed, "dataset": dataset or DEFAULT_DATASET, "weight": weight}
    common |= {"advantage_scale": advantage_scale, "limit": limit}
    settings: Settings | ModelSettings
    if policy == "compact":
        if model:
            raise ValueError("--model is for --policy lm; compact has no weights but its own")
        settings = Settings(start=str(start or ""), **common)
    elif policy == "lm":
        if start or not model:
            raise ValueError("--policy lm begins with the weights in --model DIR, and takes no --start")
        settings = ModelSettings(model=str(model), **common)
    else:
        raise ValueError(f"unknown policy '{policy}'; expected compact or lm")
    with prints_to_stderr():
        summary = run(
            settings, out, resume, time_limit, lambda message: say(message, quiet), partial(progress, quiet=quiet)
        )
    if as_json:
        print_json({"out": str(out), **summary})
    if summary["finished"]:
        say(f"wrote {out}; trained={out} is the surrogate, curves.png shows how it was trained", quiet)
    else:
        stopped = f"stopped at step {summary['steps']} of {settings.steps} by --time-limit"
        say(f"{stopped}; the same command with --resume goes on")
