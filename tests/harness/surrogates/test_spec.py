"""The surrogate expression, and loading a class from the working directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.surrogates import BUNDLED
from harness.surrogates.spec import SurrogateError, create, fingerprint, parse, seeded

ROOT = Path(__file__).resolve().parents[3]


def test_a_name_alone() -> None:
    spec = parse("uniform")
    assert (spec.target, dict(spec.options), spec.bundled) == ("uniform", {}, True)


def test_options_are_numbers_booleans_or_text() -> None:
    spec = parse("mine:Model?seed=3&rate=0.5&verbose=true&name=a%20b&empty=")
    assert dict(spec.options) == {"seed": 3, "rate": 0.5, "verbose": True, "name": "a b", "empty": ""}
    assert not spec.bundled


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("unifrom", "did you mean 'uniform'"),
        ("weights=some/model", "unknown surrogate 'weights=some/model'"),
        ("trained=", "does not say where: write trained=..."),
        ("swaped(gbdt)", "unknown wrapper 'swaped'"),
        ("swapped(gbdt", "cannot read 'swapped(gbdt': write swapped(SURROGATE, ...)"),
        ("swapped(gbdt)x", "cannot read"),
        ("ensemble(gbdt,)", "has an empty place"),
        ("ensemble()", "has an empty place"),
        ("ensemble(gbdt,unifrom)", "did you mean 'uniform'"),
        ("", "write one of uniform"),
        ("mine:", "module:Class"),
        ("deep/mine.py:Mine", "names a file: write 'mine:Mine', in the folder where it lies"),
        ("uniform?seed", "?key=value"),
        ("random?seed=1&seed=2", "given twice"),
    ],
)
def test_a_wrong_expression_says_what_to_write(expression: str, words: str) -> None:
    with pytest.raises(SurrogateError) as caught:
        parse(expression)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrappers_nest_and_every_member_keeps_its_options() -> None:
    spec = parse("recalibrated(ensemble(random?seed=1, mine:Model?path=a%2Cb,trained=some/dir))?method=isotonic")
    assert (spec.target, dict(spec.options)) == ("recalibrated", {"method": "isotonic"})
    (ensemble,) = spec.members
    assert [leaf.target for leaf in spec.leaves()] == ["random", "mine:Model", "trained=some/dir"]
    assert [dict(leaf.options) for leaf in ensemble.members] == [{"seed": 1}, {"path": "a,b"}, {}]
    assert parse(str(spec)) == spec
    assert spec.configuration()["members"][0]["members"][0] == {"target": "random", "options": {"seed": 1}}


@pytest.mark.parametrize(
    ("expression", "bundled"),
    [("swapped(ensemble(gbdt,uniform))", True), ("swapped(mine:Model)", False), ("trained=x", False)],
)
def test_a_wrapper_is_ours_if_all_inside_is(expression: str, bundled: bool) -> None:
    assert parse(expression).bundled is bundled


def test_the_seed_reaches_the_members_of_a_wrapper() -> None:
    assert str(seeded(parse("ensemble(random,uniform)"), 7)) == "ensemble(random?seed=7,uniform)"


def test_an_edited_module_has_another_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "class Model:\n    def forecast(self, queries): ...\n"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = []
    for content in (text, text + "# more\n"):
        (tmp_path / "edited.py").write_text(content)
        monkeypatch.delitem(sys.modules, "edited", raising=False)
        found.append(fingerprint(parse("edited:Model"), create(parse("edited:Model"))))
    sys.modules.pop("edited", None)
    assert found[0] != found[1]


@pytest.mark.parametrize("name", BUNDLED)
def test_every_bundled_name_can_be_created(name: str) -> None:
    surrogate = create(parse(name))
    assert callable(surrogate.forecast)


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(SurrogateError, match="has no option 'sed'; its options: seed"):
        create(parse("random?sed=1"))


def test_the_seed_reaches_a_surrogate_that_takes_one_and_an_option_wins() -> None:
    assert str(seeded(parse("random"), 7)) == "random?seed=7"
    assert create(seeded(parse("random"), 7)).seed == 7  # type: ignore[attr-defined]
    assert str(seeded(parse("random?seed=1"), 7)) == "random?seed=1"
    assert str(seeded(parse("random"), None)) == "random"
    assert str(seeded(parse("uniform"), 7)) == "uniform"


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("", "absent:Model", "there is no module 'absent'"),
        ("x = 1", "mine:Model", "has no class 'Model'"),
        ("class Model: pass", "mine:Model", "a method forecast(queries)"),
        ("import not_installed_anywhere", "mine:Model", "No module named 'not_installed_anywhere'"),
        ("raise RuntimeError('no licence')", "mine:Model", "RuntimeError: no licence"),
        ("class Model:\n  def __init__(self): 1/0\n  def forecast(self, q): ...", "mine:Model", "ZeroDivisionError"),
        ("raise SystemExit(0)", "mine:Model", "cannot import 'mine': SystemExit: 0"),
        (
            "import sys\nclass Model:\n  def __init__(self): sys.exit()\n  def forecast(self, q): ...",
            "mine:Model",
            "cannot create 'mine:Model': SystemExit (",
        ),
        ("class Model:\n  def forecast(self, q): ...\nmodel = Model()", "mine:model", "needs to be a class"),
        ("", "tasks:Model", "package of KernelCast"),
    ],
)
def test_a_class_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str, words: str
) -> None:
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(SurrogateError) as caught:
        create(parse(target))
    assert words in str(caught.value)
    sys.modules.pop("mine", None)


def test_a_hostile_folder_adds_modules_and_replaces_none(tmp_path: Path) -> None:
    for name in ("tasks.py", "json.py", "numpy.py", "harness.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module was imported')\n")
    for name in ("benchmark", "leaderboard"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong package was imported')\n")
    (tmp_path / "helper.py").write_text("P = (1.0, 0, 0, 0, 0, 0, 0, 0)\n")
    (tmp_path / "mine.py").write_text(
        "import json, tasks\n"
        "from benchmark import Forecast\n"
        "from helper import P\n"
        "class Model:\n"
        "    def forecast(self, queries):\n"
        "        return [Forecast(probabilities=P) for _ in queries]\n"
    )
    program = (
        "import sys; from harness.surrogates import create, parse\n"
        "print(len(create(parse('mine:Model')).forecast([None])), sys.path[-1], sys.modules['tasks'].__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    count, last, tasks_file = done.stdout.split()
    assert (count, last) == ("1", str(tmp_path.resolve()))
    assert Path(tasks_file).is_relative_to(ROOT)
