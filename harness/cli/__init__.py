"""The command line: `kernelcast COMMAND`; a command's module is imported only when the command runs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# name -> (module, one-line help). A module has `app`, a Typer with the group's commands, or else a function of the
# command's name.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "evaluate": ("harness.cli.evaluate", "Show where a surrogate stands: forecast, score and rank it."),
    "leaderboard": ("harness.cli.leaderboard", "Recompute the table from the committed forecasts."),
    "forecast": ("harness.cli.forecast", "Write a surrogate's forecasts of one track and split to a file."),
    "score": ("harness.cli.score", "Score a forecast file or a submission folder."),
    "compare": ("harness.cli.compare", "Compare two submissions, metric by metric and task by task."),
    "submit": ("harness.cli.submit", "Check a submission and add it to the leaderboard."),
    "data": ("harness.cli.data", "List, check and package the datasets."),
    "tasks": ("harness.cli.tasks", "List, show, check and start kernel tasks."),
    "measure": ("harness.cli.measure", "Compile, check and time kernels."),
    "bench": ("harness.cli.bench", "Measure the harness itself."),
    "doctor": ("harness.cli.doctor", "Say what this machine can do for measuring."),
    "search": ("harness.cli.search", "Run a kernel search, or continue one."),
    "train": ("harness.cli.train", "Train a surrogate with a reward, or supervised."),
    "reproduce": ("harness.cli.reproduce", "Regenerate every committed baseline submission."),
}
BAD_INPUT = 2
UsageError: Any = typer.BadParameter.__base__  # typer offers its other usage errors only through their base
OURS = ("benchmark", "tasks", "harness", "leaderboard")


class LazyGroup(TyperGroup):
    """The root group: help lists every command without importing any."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, text) in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=text)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, importing its module; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, text = COMMANDS[cmd_name]
        loaded = import_module(module)
        app = getattr(loaded, "app", None)
        if app is None:
            app = typer.Typer(rich_markup_mode=None, add_completion=False)
            app.command(cmd_name)(getattr(loaded, cmd_name))
        command = typer.main.get_command(app)
        command.name = cmd_name
        command.help = command.help or text
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands from the table above."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


app = typer.Typer(
    cls=LazyGroup,
    help="How fast will this GPU kernel be? Score forecasts, and search with them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        import benchmark

        print(f"kernelcast {benchmark.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def message_of(error: BaseException) -> str:
    """Return an exception as the one line that a user reads."""
    if isinstance(error, ModuleNotFoundError):
        return f"this command needs the package '{error.name}', which is not installed"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the work failed, 2 bad input, 130 interrupted."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a character gets its number
    try:
        code = typer.main.get_command(app)(args=arguments, prog_name="kernelcast", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except UsageError as error:
        _show_usage(error)
        sys.exit(BAD_INPUT)
    except typer.Abort:
        print("kernelcast: aborted", file=sys.stderr)
        sys.exit(1)
    except (ValueError, OSError, KeyError, ModuleNotFoundError) as error:
        if os.environ.get("KERNELCAST_DEBUG") == "1" or _is_defect(error):
            raise
        print(f"kernelcast: {message_of(error)}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _show_usage(error: Any) -> None:
    """Print a usage error as one line, or the help of a group that was named without a command."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    text = message_of(ValueError(error.format_message())).rstrip(".")
    command = f" ({error.ctx.command_path} --help)" if error.ctx else ""
    print(f"kernelcast: {text}{command}", file=sys.stderr)


def _is_defect(error: BaseException) -> bool:
    """Whether an exception means a fault of ours: a bare KeyError, or a module of our own that is not there."""
    ours = isinstance(error, ModuleNotFoundError) and (error.name or "harness").partition(".")[0] in OURS
    return type(error) is KeyError or ours
