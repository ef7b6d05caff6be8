import torch.nn.functional as F

EPS = 1e-5


def norm(x, bn):
    return F.batch_norm(x, bn[2], bn[3], bn[0], bn[1], False, 0.0, EPS)


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    stride = 2 if len(data) > 5 else 1
    y = F.relu(norm(F.conv2d(x, w1, stride=stride, padding=1), bn1), inplace=True)
    y = norm(F.conv2d(y, w2, padding=1), bn2)
    y += norm(F.conv2d(x, data[5], stride=stride), data[6]) if len(data) > 5 else x
    return F.relu(y, inplace=True)
