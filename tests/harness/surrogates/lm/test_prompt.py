"""The prompt says what is scored, on what, and against what."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.bins import EDGES, bin_of
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.prompt import FOLDER, load_prompt
from harness.surrogates.lm.tool import FIELDS, TOOL_NAME, bin_ranges, tool_definition

from .conftest import make_query

PROMPT = load_prompt()


def test_the_bin_table_is_the_one_that_is_scored() -> None:
    text = PROMPT.fill(make_query(), "tool").system
    for number, written in enumerate(bin_ranges(), start=1):
        assert f"bin {number}: {written}\n" in text
    # Each edge, as it is written, closes the bin below: it is read back and put into bins by the scorer's function.
    upper = [float(written.split("<=")[1]) for written in bin_ranges()[:-1]]
    assert upper == pytest.approx(EDGES, rel=1e-5)
    assert bin_of(EDGES).tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_the_timed_cases_are_given_and_the_others_not() -> None:
    text = PROMPT.fill(make_query(), "tool").shared
    assert "- 8x9: shape = [8, 9], dtype = bfloat16; least traffic 288 bytes; 72 floating-point operations" in text
    assert "4x4" not in text


def test_statement_hardware_anchor_and_its_time_are_given() -> None:
    text = PROMPT.fill(make_query(), "tool").shared
    assert "Double a matrix." in text
    assert "NVIDIA H200\n- architecture: Hopper" in text and "4.8 TB/s" in text
    assert "The anchor is the parent" in text and "it takes 12.5 microseconds" in text


def test_the_reference_and_an_unmeasured_anchor_are_said_to_be_so() -> None:
    text = PROMPT.fill(make_query(anchor_kind="reference", anchor_time_us=None), "tool").shared
    assert "reference implementation in PyTorch" in text and "Its time was not measured." in text


def test_hardware_is_the_rows_own_and_unknown_hardware_has_no_table() -> None:
    assert "- memory: 80 GB HBM2e" in PROMPT.fill(make_query(hardware="NVIDIA A100-SXM4-80GB"), "tool").shared
    unknown = PROMPT.fill(make_query(hardware="GPU of tomorrow"), "tool").shared
    assert "# Hardware\n\nGPU of tomorrow\n\n# Anchor" in unknown
    own = make_query(facts={"hardware": {"multiprocessors": 7}})
    text = PROMPT.fill(own, "tool").shared
    assert "- multiprocessors: 7" in text and "Hopper" not in text
    assert "shapes and data types of the timed cases are not known" in text


def test_the_shared_part_does_not_depend_on_the_candidate() -> None:
    first = PROMPT.fill(make_query(1), "tool")
    second = PROMPT.fill(make_query(2, candidate_code="x = '```'\n"), "tool")
    assert first.shared == second.shared
    assert first.own != second.own
    assert "````python\nx = '```'\n````" in second.own


def test_source_is_given_as_it_is() -> None:
    code = "a = '{{ task }} {% if %} <&>'\n"
    assert code in PROMPT.fill(make_query(candidate_code=code), "tool").own


def test_the_way_to_answer_is_part_of_the_candidates_message() -> None:
    assert TOOL_NAME in PROMPT.fill(make_query(), "tool").own
    assert "number of the bin" in PROMPT.fill(make_query(), "label").own


def test_the_tool_is_flat_and_names_all_bins() -> None:
    parameters = tool_definition()["function"]["parameters"]
    assert list(parameters["properties"]) == parameters["required"] == list(FIELDS)
    assert parameters["properties"]["p4"]["description"] == "probability that 0.707107 < S <= 1"
    assert "$" not in str(parameters)


def test_a_prompt_of_ones_own_has_another_digest(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for path in (FOLDER / "forecast-1").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    assert load_prompt(str(folder)).digest == PROMPT.digest
    with (folder / "system.j2").open("a") as file:
        file.write("Think twice.\n")
    changed = load_prompt(str(folder))
    assert (changed.name, changed.digest != PROMPT.digest) == ("mine", True)


def test_a_prompt_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SurrogateError, match="there is no prompt 'forecast-0'; expected one of forecast-1"):
        load_prompt("forecast-0")
    (tmp_path / "half").mkdir()
    with pytest.raises(SurrogateError, match=r"the prompt lacks the file system\.j2"):
        load_prompt(str(tmp_path / "half"))
