"""Work in a forked child of the test process, for what cannot be taken back in a process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any


def in_child(work: Callable[[], Any]) -> Any:
    """Run `work` in a forked child and return its answer (JSON values); an exception becomes its name."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = work()
        except BaseException as error:
            answer = type(error).__name__
        with open(theirs, "w", encoding="utf-8") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(theirs)
    with open(ours, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text)
