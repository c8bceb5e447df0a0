"""JAX functions, with `custom_vjp` and without: five right, five wrong."""

import jax
import jax.numpy as jnp

EXPECTED = {
    "cube": None,
    "logsumexp": None,
    "affine": None,
    "softmax": None,
    "loss": None,
    "cube_factor": "factor",
    "softmax_dropped": "dropped term",
    "affine_swapped": "swapped",
    "running_sum": "transposed",
    "sines": "dropped term",
}


def with_rule(f, rule):
    """`f` with a backward rule `(g, *inputs) -> gradients`."""
    wrapped = jax.custom_vjp(f)
    wrapped.defvjp(lambda *inputs: (f(*inputs), inputs), lambda inputs, g: tuple(rule(g, *inputs)))
    return wrapped


def _cube(x):
    return x**3


cube = with_rule(_cube, lambda g, x: [3 * g * x**2])
cube_factor = with_rule(_cube, lambda g, x: [6 * g * x**2])


def logsumexp(x):
    return jax.scipy.special.logsumexp(x, axis=1)


def _affine(x, w, b):
    return x @ w + b


affine = with_rule(_affine, lambda g, x, w, b: [g @ w.T, x.T @ g, g.sum(0)])
affine_inputs = (3, 4), (4, 2), (2,)
affine_swapped = with_rule(lambda x, w: x @ w, lambda g, x, w: [x.T @ g, g @ w.T])
affine_swapped_inputs = (3, 3), (3, 3)


def _softmax(x):
    e = jnp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _softmax_rule(g, x):
    s = _softmax(x)
    return [s * (g - (g * s).sum(axis=1, keepdims=True))]


softmax = with_rule(_softmax, _softmax_rule)
softmax_dropped = with_rule(_softmax, lambda g, x: [_softmax(x) * g])


@jax.jit
def loss(w, x, labels):
    logits = jnp.tanh(x @ w)
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels])


loss_inputs = (4, 3), (5, 4), jnp.array([0, 2, 1, 1, 0])

running_sum = with_rule(lambda x: jnp.cumsum(x, axis=1), lambda g, x: [jnp.cumsum(g, axis=1)])
sines = with_rule(lambda x: (jnp.sin(x), jnp.cos(x)), lambda g, x: [-g[1] * jnp.sin(x)])
