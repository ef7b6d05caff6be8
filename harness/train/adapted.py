"""A language model with trained low-rank adapters (LoRA) as a surrogate: its answer is generated text, parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from benchmark.query import Query
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.local import LocalModel
from harness.surrogates.lm.weights import EXTRA

RANK, WINDOW, NEW_TOKENS = 32, 4096, 160
PATH = "harness.train.adapted:Adapted"


class Adapted(LocalModel):
    """Weights in a folder (`source`) with adapters of rank `rank` on every linear layer; answers greedily.

    The adapters come from a trained folder; the weights below them stay where they were, and have to be there.
    """

    fingerprint = ""  # a trained folder's own, once it is read back; the weights' stands in the details

    def __init__(
        self,
        source: str,
        rank: int = RANK,
        window: int = WINDOW,
        max_new_tokens: int = NEW_TOKENS,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        super().__init__(source, read="tool", window=window, max_new_tokens=max_new_tokens, device=device, dtype=dtype)
        self.source, self.rank, self.fitted = source, rank, False

    @property
    def expression(self) -> str:
        """What creates this surrogate again, without its adapters."""
        options = {"source": self.source, "rank": self.rank, "window": self._window}
        return f"{PATH}?{urlencode({**options, 'max_new_tokens': self._max_new_tokens})}"

    @property
    def model(self) -> Any:
        """The model, with adapters once there are any."""
        return self._weights.model

    @property
    def tokenizer(self) -> Any:
        """The tokeniser."""
        return self._weights.tokenizer

    @property
    def max_new_tokens(self) -> int:
        """How long an answer may be."""
        return self._max_new_tokens

    def adapt(self) -> None:
        """Put untrained adapters on the model, which leave its answers as they are. Raises SurrogateError."""
        try:
            from peft import LoraConfig, get_peft_model
        except ModuleNotFoundError:
            message = EXTRA.replace("llm", "train")
            raise SurrogateError(f"adapters need the package peft, which is not installed: {message}") from None
        config = LoraConfig(
            r=self.rank, lora_alpha=2 * self.rank, target_modules="all-linear", task_type="CAUSAL_LM", bias="none"
        )
        self._weights = replace(self._weights, model=get_peft_model(self._weights.model, config))
        self.fitted = True

    def prompt_text(self, query: Query) -> str:
        """Return the prompt that a query becomes, its codes shortened to the window."""
        prepared = self.prepare(query)
        tokens = [*prepared.shared, *prepared.own]
        return str(self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False))

    def fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the adapters, and which weights they belong to, for `harness.surrogates.saved`."""
        from peft import get_peft_model_state_dict

        adapters = get_peft_model_state_dict(self.model)
        return {"weights": self._weights.fingerprint}, {k: v.float().cpu().numpy() for k, v in adapters.items()}

    def restore_fitted(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take back what `fitted_state` returned. Raises SurrogateError for adapters of other weights."""
        import torch
        from peft import set_peft_model_state_dict

        if values["weights"] != self._weights.fingerprint:
            raise SurrogateError(f"'{self.source}' does not hold the weights that the adapters were trained on")
        self.adapt()
        set_peft_model_state_dict(self.model, {name: torch.tensor(array) for name, array in arrays.items()})
        self.model.eval()
