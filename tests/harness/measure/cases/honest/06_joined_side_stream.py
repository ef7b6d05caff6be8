"""H06: half of the rows on a second stream, which is joined before the call returns."""
import torch
import torch.nn.functional as F

_side = {}


def custom_kernel(data):
    x, weight = data
    out = torch.empty_like(x)
    half, n = x.shape[0] // 2, x.shape[-1]
    if not x.is_cuda:
        out[:half] = F.rms_norm(x[:half], (n,), weight, 1e-6)
        out[half:] = F.rms_norm(x[half:], (n,), weight, 1e-6)
        return out
    if x.device not in _side:
        _side[x.device] = torch.cuda.Stream(x.device)
    main, side = torch.cuda.current_stream(x.device), _side[x.device]
    side.wait_stream(main)
    with torch.cuda.stream(side):
        out[half:] = F.rms_norm(x[half:], (n,), weight, 1e-6)
    out[:half] = F.rms_norm(x[:half], (n,), weight, 1e-6)
    main.wait_stream(side)
    return out
