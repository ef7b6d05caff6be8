"""The tool call as text that a local model generates: greedy, parsed by the same rules as an endpoint's answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from harness.surrogates.answer_log import Told
from harness.surrogates.lm.endpoint import Reply
from harness.surrogates.lm.parsing import Said, parse_answer
from harness.surrogates.lm.remote import told
from harness.surrogates.lm.weights import Weights


def generate_forecast(weights: Weights, tokens: Sequence[int], left_out: dict[str, int], max_new_tokens: int) -> Told:
    """Return the forecast in the text that the model adds to a prompt, always its likeliest next token."""
    from dataclasses import replace

    start = time.perf_counter()
    added = _generate(weights, tokens, max_new_tokens)
    end = weights.tokenizer.eos_token_id
    text = weights.tokenizer.decode([token for token in added if token != end], clean_up_tokenization_spaces=False)
    finish_reason = "length" if len(added) >= max_new_tokens and added[-1] != end else "stop"
    reply = Reply(Said(text, finish_reason=finish_reason), len(tokens), len(added))
    answer = told([(reply, parse_answer(reply.said))], time.perf_counter() - start)
    return replace(answer, raw={**answer.raw[0], "left_out_tokens": left_out})


def _generate(weights: Weights, tokens: Sequence[int], max_new_tokens: int) -> list[int]:
    import torch

    ids = torch.tensor([list(tokens)], device=weights.model.device)
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "do_sample": False, "num_beams": 1}
    with torch.inference_mode():
        whole = weights.model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    added: list[int] = whole[0, len(tokens) :].tolist()
    return added
