"""Training a language model's adapters by GRPO, with the rewards of the compact policy, in slices that resume."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.bins import Floats
from harness.train.adapted import Adapted
from harness.train.answers import balanced_order, examples, judge, read
from harness.train.policy_gradient import require_sensible
from harness.train.rewards import SUPERVISED, Reward, reward
from harness.train.rows import Rows
from harness.train.validation import measures

TRAINER = "trainer"  # the folder of the trainer's checkpoints
WARM_RATE = 2e-4
ASKED = 8  # prompts at a time, on validation


@dataclass(frozen=True)
class ModelSettings:
    """All that decides how a run ends. `model` is the folder of the weights; `batch` counts queries in a step.

    The warm start, `warm_steps` updates on examples of the answer's format, is the same for every reward.
    """

    model: str
    reward: str
    seed: int
    dataset: str
    steps: int = 200
    weight: float = 1.0
    batch: int = 8
    group: int = 8
    learning_rate: float = 4e-5
    advantage_scale: str = "batch"
    warm_steps: int = 60
    window: int = 4096
    new_tokens: int = 160
    judged: int = 32
    limit: int | None = None
    policy: str = "lm"

    def __post_init__(self) -> None:
        require_sensible(self)
        if self.reward == SUPERVISED:
            raise ValueError("policy lm has no supervised training: its warm start is all that it is shown")

    def rewarded(self) -> Reward:
        """Return the reward. Raises RewardError."""
        return reward(self.reward, self.weight)


def train_model(
    settings: ModelSettings,
    policy: Adapted,
    rows: Rows,
    validation: Rows,
    folder: Path,
    resume: bool = False,
    time_limit: float | None = None,
    report: Callable[[dict[str, Any], float], None] = lambda line, left: None,
) -> tuple[list[dict[str, Any]], int]:
    """Train the policy's adapters; return the history, and how many steps have been made.

    With `resume` the trainer's last checkpoint is gone on from: adapters, optimiser, schedule and random numbers.
    """
    import torch
    from datasets import Dataset
    from transformers.trainer_callback import PrinterCallback
    from transformers.trainer_utils import get_last_checkpoint
    from trl import GRPOConfig, GRPOTrainer

    started = time.monotonic()
    torch.manual_seed(settings.seed)
    policy.adapt()
    if policy.tokenizer.pad_token is None:
        policy.tokenizer.pad_token = policy.tokenizer.eos_token
    order = balanced_order([query.task for query in rows.queries], settings.seed)
    prompts = [policy.prompt_text(query) for query in rows.queries]
    place = folder / TRAINER
    last = get_last_checkpoint(str(place)) if resume and place.is_dir() else None
    if last is None:
        _warm_start(policy, [prompts[i] for i in order], rows.mass, settings)
    on_gpu = torch.cuda.is_available()
    processes = int(os.environ.get("WORLD_SIZE", "1"))  # among which the queries of a step are divided
    arguments = GRPOConfig(
        output_dir=str(place), seed=settings.seed, max_steps=settings.steps, learning_rate=settings.learning_rate,
        per_device_train_batch_size=settings.group, gradient_accumulation_steps=max(1, settings.batch // processes),
        num_generations=settings.group, max_completion_length=settings.new_tokens, temperature=1.0, beta=0.0,
        scale_rewards=settings.advantage_scale, save_steps=max(1, settings.steps // 20), save_total_limit=1,
        logging_steps=1, report_to="none", disable_tqdm=True, bf16=on_gpu, use_cpu=not on_gpu,
        warmup_steps=max(1, settings.steps // 20),
    )  # fmt: skip
    watch = _watcher(settings, policy, validation, started, time_limit, report)
    trainer = GRPOTrainer(
        model=policy.model,
        reward_funcs=judge(settings.rewarded()),
        args=arguments,
        train_dataset=Dataset.from_dict(
            {
                "prompt": [_without_start(prompts[i], policy.tokenizer) for i in order],
                "mass": [rows.mass[i].tolist() for i in order],
            }
        ),
        processing_class=policy.tokenizer,
        callbacks=[watch],
    )
    trainer.remove_callback(PrinterCallback)  # the watcher says how it goes
    trainer.train(resume_from_checkpoint=last)
    policy.model.eval()
    history = [
        {**line["validation"], "step": line["step"], "reward": line["reward"]}
        for line in _said(trainer.state.log_history)
    ]
    return history, trainer.state.global_step


def _without_start(prompt: str, tokenizer: Any) -> str:
    """Return the prompt without the token that the tokeniser puts before every text, which the trainer lets it do."""
    start = getattr(tokenizer, "bos_token", None)
    adds = start and tokenizer.encode("x")[:1] == [tokenizer.bos_token_id]
    return prompt.removeprefix(start) if adds else prompt


def _said(log: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of the trainer's log that hold a validation, each with the mean reward since the one before."""
    lines, rewards = [], []
    for entry in log:
        if "validation" in entry:
            lines.append({**entry, "reward": float(np.mean(rewards)) if rewards else None})
            rewards = []
        elif "reward" in entry:
            rewards.append(entry["reward"])
    return lines


def _watcher(
    settings: ModelSettings,
    policy: Adapted,
    validation: Rows,
    started: float,
    time_limit: float | None,
    report: Callable[[dict[str, Any], float], None],
) -> Any:
    from transformers import TrainerCallback

    shown = _some(validation, settings)
    every = max(1, settings.steps // 10)

    class Watch(TrainerCallback):
        """Judges on validation, tells how it goes, and stops at the time limit with a checkpoint."""

        first: int | None = None

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.first is None:
                self.first = state.global_step

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if time_limit is not None and time.monotonic() - started >= time_limit:
                control.should_save = control.should_training_stop = True

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            step = state.global_step
            due = "reward" in (logs or {}) and (step % every == 0 or step == settings.steps)
            if due and state.is_world_process_zero:
                found = validate(policy, shown, settings.rewarded())
                state.log_history.append({"step": step, "validation": found})
                line = {**found, "step": step, "reward": _said(state.log_history)[-1]["reward"]}
                rate = (time.monotonic() - started) / (step - (self.first or 0))
                report(line, rate * (settings.steps - step))

    return Watch()


def _some(rows: Rows, settings: ModelSettings) -> Rows:
    """Return the rows that are judged on: as many of each task, drawn with a seed that no run changes."""
    index = balanced_order([query.task for query in rows.queries], 0)[: settings.judged]
    index = np.unique(index)
    queries = [rows.queries[i] for i in index]
    return Rows(queries, rows.features.rows(index), rows.mass[index], rows.log2[index], np.ones(len(index)))


def validate(policy: Adapted, rows: Rows, rewarded: Reward) -> dict[str, Any]:
    """Return the measures of greedy answers to some rows, and the share of them that could be read.

    Unlike the reward, the measures take an answer that cannot be read for the uniform forecast.
    """
    training = policy.model.training
    policy.model.eval()
    texts = _answers(policy, [policy.prompt_text(query) for query in rows.queries])
    policy.model.train(training)
    forecast, parsed = read(texts)
    rewards = rewarded(forecast, rows.mass, parsed)
    return {**measures(forecast, rows), "parsed": float(parsed.mean()), "objective": float(rewards.mean())}


def _answers(policy: Adapted, prompts: Sequence[str]) -> list[str]:
    """Return the likeliest continuation of each prompt, a few prompts at a time."""
    import torch

    tokenizer, texts = policy.tokenizer, []
    for start in range(0, len(prompts), ASKED):
        part = list(prompts[start : start + ASKED])
        inputs = tokenizer(part, padding=True, padding_side="left", add_special_tokens=False, return_tensors="pt")
        ids, mask = (inputs[name].to(policy.model.device) for name in ("input_ids", "attention_mask"))
        options: dict[str, Any] = {"max_new_tokens": policy.max_new_tokens, "do_sample": False, "use_cache": True}
        with torch.no_grad():
            whole = policy.model.generate(
                input_ids=ids, attention_mask=mask, pad_token_id=tokenizer.pad_token_id, **options
            )
        texts += tokenizer.batch_decode(whole[:, ids.shape[1] :], skip_special_tokens=True)
    return texts


def _warm_start(policy: Adapted, prompts: Sequence[str], mass: Floats, settings: ModelSettings) -> None:
    """Train on examples of the format after prompts, with the log loss of the answer's tokens alone."""
    import torch

    model, tokenizer = policy.model, policy.tokenizer
    texts = examples(mass.mean(axis=0), settings.warm_steps, settings.seed)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=WARM_RATE)
    model.train()
    for step, text in enumerate(texts):
        before = tokenizer.encode(prompts[step % len(prompts)], add_special_tokens=False)
        answer = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
        ids = torch.tensor([[*before, *answer]], device=model.device)
        labels = ids.clone()
        labels[:, : len(before)] = -100  # what the loss passes over
        model(input_ids=ids, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
