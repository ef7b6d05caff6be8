"""The command line itself: start-up, help, versions, and how it reports bad input."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

import benchmark
from harness.cli import COMMANDS, main, message_of

ROOT = Path(__file__).resolve().parents[2]
HELP = """
import harness.cli
try:
    harness.cli.main(["--help"])
except SystemExit:
    pass
"""
HEAVY = ("torch", "triton", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "datasets", "yaml", "rich", "openai")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=60)


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("arguments", [("-c", "import benchmark"), ("-m", "harness.cli", "--help")])
def test_start_up_takes_well_under_half_a_second(arguments: tuple[str, ...]) -> None:
    def seconds() -> float:
        start = time.perf_counter()
        assert run_python(*arguments).returncode == 0
        return time.perf_counter() - start

    # The fastest of several: other work on the machine can only add to it.
    assert min(seconds() for _ in range(5)) < 0.5


@pytest.mark.parametrize("program", ["import benchmark, kernelcast", HELP])
def test_start_up_loads_nothing_heavy(program: str) -> None:
    done = run_python("-c", f"{program}\nimport sys\nprint(*sys.modules, file=sys.stderr)")
    assert done.returncode == 0
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & set(HEAVY)
    assert "harness.cli.forecast" not in done.stderr.split()


def test_help_lists_every_command_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--help") == 0
    lines = capsys.readouterr().out.splitlines()
    for name, (_, text) in COMMANDS.items():
        assert any(line.split(None, 1) == [name, text] for line in lines), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(name, "--help") == 0
    assert f"kernelcast {name}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"kernelcast {benchmark.__version__}\n"


def test_an_unknown_command_is_bad_input_and_names_a_close_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("scor") == 2
    assert "Did you mean 'score'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scor",), "No such command 'scor'"),
        (("data", "inf"), "No such command 'inf'"),
        (("forecast", "uniform", "--out", "x"), "Missing option '--track' (kernelcast forecast --help)"),
        (("score",), "Missing argument"),
        (("score", "a", "b"), "unexpected extra argument"),
        (("score", "a", "--resamples", "many"), "Invalid value for '--resamples'"),
        (("score", "a", "--resamples", "-1"), "Invalid value for '--resamples'"),
        (("score", "a", "--resamples"), "'--resamples' requires an argument"),
        (("leaderboard", "--absent"), "No such option: --absent"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert said.out == "" and line.startswith("kernelcast: ") and words in line


@pytest.mark.parametrize("arguments", [(), ("data",)])
def test_a_group_without_a_command_shows_its_help(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*arguments) == 2
    assert "Commands" in capsys.readouterr().err


def test_a_group_shows_the_whole_first_sentence_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("data", "--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "exit 1 if anything is wrong." in said and said.endswith("all or nothing.")


@pytest.mark.parametrize(
    "group", [name for name, (module, _) in COMMANDS.items() if hasattr(import_module(module), "app")]
)
def test_only_our_options_are_shown(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(group, "--help") == 0
    assert "completion" not in capsys.readouterr().out


def test_a_terminal_without_a_character_gets_its_number() -> None:
    code = "import harness.cli as c\nc.typer.main.get_command = lambda app: lambda **_: print('\\u2265')\nc.main([])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "\\u2265\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [(("tasks", "verify", "--all"), "proving tasks"), (("bench", "measure", "--out", "x.json"), "measuring")],
)
def test_without_torch_the_work_is_refused_before_it_begins(
    arguments: tuple[str, ...], what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.cli.console.find_spec", lambda _: None)
    assert exit_code(*arguments) == 2
    line = f"kernelcast: {what} needs torch and triton; install with: pip install 'kernelcast[gpu]'"
    assert capsys.readouterr().err.splitlines() == [line]


def test_every_table_is_made_with_the_same_resamples() -> None:
    from leaderboard.table import RESAMPLES

    for name in ("evaluate", "leaderboard", "reproduce", "score"):
        command = getattr(import_module(COMMANDS[name][0]), name)
        assert signature(command).parameters["resamples"].default == RESAMPLES, name


@pytest.fixture
def broken_command(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("KERNELCAST_DEBUG", raising=False)
    return monkeypatch


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    import harness.cli.measure as module

    def measure() -> None:
        raise error

    monkeypatch.setattr(module, "measure", measure)


class NoSuchTask(KeyError):
    pass


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("row 3 is\n  wrong"), "row 3 is wrong"),
        (FileNotFoundError("no file 'a.parquet'"), "no file 'a.parquet'"),
        (NoSuchTask("unknown task 'x'"), "unknown task 'x'"),
        (ModuleNotFoundError("x", name="torch"), "this command needs the package 'torch', which is not installed"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    error: BaseException, line: str, broken_command: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(broken_command, error)
    assert exit_code("measure") == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"kernelcast: {line}\n")


@pytest.mark.parametrize(
    "error", [KeyError("x"), TypeError("x"), ModuleNotFoundError("No module named 'harness.x'", name="harness.x")]
)
def test_a_defect_of_ours_keeps_its_traceback(error: BaseException, broken_command: pytest.MonkeyPatch) -> None:
    raising(broken_command, error)
    with pytest.raises(type(error)):
        main(["measure"])


def test_debug_shows_the_traceback_of_bad_input_too(broken_command: pytest.MonkeyPatch) -> None:
    raising(broken_command, ValueError("x"))
    broken_command.setenv("KERNELCAST_DEBUG", "1")
    with pytest.raises(ValueError, match="x"):
        main(["measure"])


def test_a_message_is_never_empty() -> None:
    assert message_of(ValueError()) == "ValueError"
