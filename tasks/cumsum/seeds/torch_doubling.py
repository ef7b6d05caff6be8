import torch


def custom_kernel(data):
    (x,) = data
    n = x.shape[1]
    current = x.clone()
    following = torch.empty_like(x)
    distance = 1
    while distance < n:
        following[:, :distance] = current[:, :distance]
        torch.add(current[:, distance:], current[:, :-distance], out=following[:, distance:])
        current, following = following, current
        distance *= 2
    return current
