"""The prompt as one text in the form that a model was trained on, split where candidates of one anchor part."""

from __future__ import annotations

from typing import Any

from harness.surrogates.foreign import SurrogateError, foreign
from harness.surrogates.lm.prompt import PromptText


def chat_text(tokenizer: Any, prompt: PromptText) -> tuple[str, str]:
    """Return the text up to the candidate, and the text from there to where the model's answer begins.

    A tokeniser without a chat template gets the plain text. A template without a system role gets the system's text at
    the start of the user's. Raises SurrogateError for a template that changes what it is given.
    """
    if not getattr(tokenizer, "chat_template", None):
        return f"{prompt.system}\n\n{prompt.shared}", f"{prompt.own}\n\n"
    text = _render(tokenizer, prompt)
    at = text.rfind(prompt.own)
    if at < 0:
        raise SurrogateError("the tokeniser's chat template changes the prompt; use weights with another template")
    return text[:at], text[at:]


def _render(tokenizer: Any, prompt: PromptText) -> str:
    from jinja2 import TemplateError

    try:
        return _apply(tokenizer, prompt.messages())
    except TemplateError:
        merged = f"{prompt.system}\n\n{prompt.shared}{prompt.own}"
        with foreign("fill the tokeniser's chat template"):
            return _apply(tokenizer, [{"role": "user", "content": merged}])


def _apply(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
