def custom_kernel(data):
    x, out, _ = data
    out.copy_(x.t() * 2)
    return out
