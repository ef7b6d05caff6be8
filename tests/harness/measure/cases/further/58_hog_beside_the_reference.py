"""A13/A16: while the process waits for requests, a thread leaves long work on the device; the reference meets it."""
import sys
import threading
import time

import torch
import torch.nn.functional as F

COPIES, BYTES = 40, 1 << 30  # some 20 ms
_main = threading.get_ident()


def _hog():
    stream = torch.cuda.Stream()
    source, target = (torch.empty(BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    worked = False
    while True:
        time.sleep(0.0002)
        names, frame = [], sys._current_frames().get(_main)
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        if "batch" in names:
            worked = True
        elif worked and "receive" in names:
            worked = False
            with torch.cuda.stream(stream):
                for _ in range(COPIES):
                    target.copy_(source, non_blocking=True)


if torch.cuda.is_available():
    threading.Thread(target=_hog, daemon=True).start()


def custom_kernel(data):
    x, weight = data
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)
