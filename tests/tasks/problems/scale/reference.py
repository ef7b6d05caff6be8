import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(rows: int, columns: int, factor: int, seed: int) -> input_t:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn((columns, rows), generator=generator, device=device)
    return x.t(), torch.empty((columns, rows), device=device), {"factor": factor}


def ref_kernel(data: input_t) -> output_t:
    x, out, options = data
    out[...] = x.t() * options["factor"]
    return out


check_implementation = make_match_reference(ref_kernel, rtol=1e-5, atol=1e-6)
