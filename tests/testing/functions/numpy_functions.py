"""NumPy functions with hand-written derivatives: five right, five wrong."""

import numpy as np

EXPECTED = {
    "softplus": None,
    "affine": None,
    "row_norm": None,
    "take_rows": None,
    "Softmax": None,
    "tanh": "wrong formula",
    "shifted": "missing broadcast sum",
    "matmul": "transposed",
    "mean_squares": "factor",
    "largest": "tie",
}


def softplus(x):
    return np.logaddexp(x, 0)


def softplus_grad(x):
    return 1 / (1 + np.exp(-x))


def affine(x, w, b):
    return x @ w + b


def affine_vjp(g, x, w, b):
    return g @ w.T, x.T @ g, g.sum(axis=0)


affine_inputs = (3, 4), (4, 2), (2,)


def row_norm(x):
    return np.sqrt((x * x).sum(axis=1))


def row_norm_jacobian(x):
    rows, columns = x.shape
    jacobian = np.zeros((rows, rows, columns))
    for i in range(rows):
        jacobian[i, i] = x[i] / np.linalg.norm(x[i])
    return jacobian


def take_rows(x, rows):
    return x[rows]


def take_rows_vjp(g, x, rows):
    out = np.zeros_like(x)
    np.add.at(out, rows, g)
    return out, None


take_rows_inputs = (4, 3), np.array([0, 2, 0, 3, 0])


class _Softmax:
    """A layer in the style of forward and backward."""

    def forward(self, x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        self.y = e / e.sum(axis=1, keepdims=True)
        return self.y

    def backward(self, g):
        return self.y * (g - (g * self.y).sum(axis=1, keepdims=True))


Softmax = _Softmax()


def tanh(x):
    return np.tanh(x)


def dtanh(x):
    return 1 - np.tanh(x)


def shifted(x, b):
    return x - b


def shifted_vjp(g, x, b):
    return g, -g


shifted_inputs = (3, 4), (4,)


def matmul(a, b):
    return a @ b


def matmul_vjp(g, a, b):
    return b @ g.T, a.T @ g


matmul_inputs = (3, 3), (3, 3)


def mean_squares(x):
    return np.mean(x * x)


def mean_squares_grad(x):
    return 2 * x


def largest(x):
    return x.max(axis=1)


def largest_vjp(g, x):
    return g[:, None] * (x == x.max(axis=1, keepdims=True))
