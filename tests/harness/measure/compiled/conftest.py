"""These tests need Triton's compiler, and all others its interpreter; a process has one of them, chosen at import.

`test_compilers.py` runs this folder in a process of its own: TRITON_INTERPRET=0 pytest tests/harness/measure/compiled
"""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "0" else ["test_*.py"]
