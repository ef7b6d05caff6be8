"""`python -m harness.cli` is the same as `kernelcast`."""

import os
import sys

from harness.cli import main

if __name__ == "__main__":
    # Python puts the working directory first; a tasks.py or benchmark/ that lies there must not hide ours.
    if sys.path[0] == os.getcwd():
        sys.path.append(sys.path.pop(0))
    main()
