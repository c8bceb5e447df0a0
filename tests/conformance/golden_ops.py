"""How the ops of golden vectors, with their attributes, are said in pullback.

A builder takes (attributes, {input name: variable}) and gives {output name: variable}.
"""

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback import nn

Attributes = dict[str, Any]
Inputs = dict[str, pb.Variable]
Builder = Callable[[Attributes, Inputs], dict[str, pb.Variable]]
Trace = Callable[[Attributes, pb.SharedVariable, pb.Variable], dict[pb.SharedVariable, pb.Variable]]

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def tup(value: Any) -> Any:
    """Lists of JSON as tuples."""
    return tuple(map(tup, value)) if isinstance(value, list) else value


# --- convolution ------------------------------------------------------------------------------------------------------
def layout(a: Attributes, n: int) -> str:
    return a.get("layout", "NC" + SPATIAL[n]).replace("L", "W")


def filter_layout(a: Attributes, first: str, n: int) -> str:
    """ "O,I/groups,kh,kw" as "OIHW"."""
    words = a.get("weight_layout", "").replace(" ", "").split(",")
    letters = "".join(word.removeprefix("k")[0].upper() for word in words if word)
    return letters.replace("L", "W") or first + SPATIAL[n]


def padding(a: Attributes) -> Any:
    if a.get("padding") == "explicit":
        top, left, bottom, right = a["pads_tlbr"]
        return ((top, bottom), (left, right))
    return tup(a.get("padding", 0))


def with_bias(y: pb.Variable, i: Inputs, layout: str) -> dict[str, pb.Variable]:
    if "bias" in i:
        y = y + pb.reshape(i["bias"], [-1 if letter == "C" else 1 for letter in layout])
    return {"y": y}


def convolution(n: int) -> Builder:
    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        where = layout(a, n)
        y = getattr(pb, f"conv{n}d")(
            i["x"], i["weight"], stride=tup(a.get("stride", 1)), padding=padding(a), dilation=tup(a.get("dilation", 1)),
            groups=a.get("groups", 1), layout=where, filter_layout=filter_layout(a, "OI", n),
        )  # fmt: skip
        return with_bias(y, i, where)

    return build


def transposed(n: int) -> Builder:
    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        where = layout(a, n)
        y = getattr(pb, f"conv_transpose{n}d")(
            i["x"], i["weight"], stride=tup(a.get("stride", 1)), padding=padding(a), dilation=tup(a.get("dilation", 1)),
            output_padding=tup(a.get("output_padding", 0)), groups=a.get("groups", 1), layout=where,
            filter_layout=filter_layout(a, "IO", n),
        )  # fmt: skip
        return with_bias(y, i, where)

    return build


# --- pooling ----------------------------------------------------------------------------------------------------------
def max_pool(n: int) -> Builder:
    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        y, indices = getattr(pb, f"max_pool{n}d")(
            i["x"], tup(a["kernel"]), tup(a.get("stride")), tup(a.get("padding", 0)),
            dilation=tup(a.get("dilation", 1)), ceil_mode=a.get("ceil_mode", False), return_indices=True,
        )  # fmt: skip
        return {"y": y, "indices": indices}

    return build


def avg_pool(n: int) -> Builder:
    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        y = getattr(pb, f"avg_pool{n}d")(
            i["x"], tup(a["kernel"]), tup(a.get("stride")), tup(a.get("padding", 0)),
            count_include_pad=a.get("count_include_pad", True), ceil_mode=a.get("ceil_mode", False),
            divisor=a.get("divisor_override"),
        )  # fmt: skip
        return {"y": y}

    return build


def lp_pool(n: int) -> Builder:
    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        power = a.get("norm_type", a.get("p"))
        options = dict(ceil_mode=a.get("ceil_mode", False))
        return {"y": getattr(pb, f"lp_pool{n}d")(i["x"], power, tup(a["kernel"]), tup(a.get("stride")), **options)}

    return build


def adaptive(kind: str, n: int) -> Builder:
    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        pool, size = getattr(pb, f"adaptive_{kind}_pool{n}d"), tup(a["output_size"])
        if kind == "avg":
            return {"y": pool(i["x"], size)}
        y, indices = pool(i["x"], size, return_indices=True)
        return {"y": y, "indices": indices}

    return build


# --- normalisation ----------------------------------------------------------------------------------------------------
def batch_norm(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    x, mean, var = i["x"], i["running_mean"], i["running_var"]
    gamma = i.get("weight", pb.ones_like(mean))
    beta = i.get("bias", pb.zeros_like(mean))
    axis, eps, momentum = a.get("axis", 1), a["eps"], a["momentum"]
    if not a["training"]:
        y = pb.batch_norm(x, gamma, beta, training=False, eps=eps, axis=axis, mean=mean, var=var)
        return {"y": y, "running_mean_after": mean * 1, "running_var_after": var * 1}
    y, batch_mean, batch_var = pb.batch_norm_train(x, gamma, beta, eps=eps, axis=axis)
    count = pb.cast(pb.size(x), var.dtype) / pb.cast(pb.size(mean), var.dtype)
    unbiased = batch_var * count / (count - 1)
    return {
        "y": y,
        "running_mean_after": (1 - momentum) * mean + momentum * batch_mean,
        "running_var_after": (1 - momentum) * var + momentum * unbiased,
    }


def layer_norm(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    axes = tuple(range(-len(a["normalized_shape"]), 0))
    return {"y": pb.layer_norm(i["x"], i.get("weight"), i.get("bias"), axis=axes, eps=a["eps"])}


def group_norm(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    return {"y": pb.group_norm(i["x"], a["groups"], i.get("weight"), i.get("bias"), eps=a["eps"])}


def instance_norm(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    return {"y": pb.instance_norm(i["x"], i.get("weight"), i.get("bias"), eps=a["eps"])}


def rms_norm(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    axes = tuple(range(-len(a["normalized_shape"]), 0))
    return {"y": pb.rms_norm(i["x"], i.get("weight"), axis=axes, eps=a["eps"])}


def local_response_norm(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    return {"y": pb.local_response_norm(i["x"], a["size"], a["alpha"], a["beta"], a["k"])}


# --- losses -----------------------------------------------------------------------------------------------------------
def cross_entropy(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    y = pb.cross_entropy(
        i["logits"], i["target"], ignore_index=a.get("ignore_index", -100), reduction=a.get("reduction", "mean"),
        weight=i.get("weight"), label_smoothing=a.get("label_smoothing", 0.0), axis=a.get("class_axis", 1),
    )  # fmt: skip
    return {"y": y}


def loss(name: str, **words: str) -> Builder:
    """A loss of (input, target); `words` are attributes that are handed on, by their names here."""

    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        options = {ours: a[theirs] for theirs, ours in {"reduction": "reduction", **words}.items() if theirs in a}
        return {"y": getattr(pb, name)(i["input"], i["target"], **options)}

    return build


# --- elementwise and reductions ---------------------------------------------------------------------------------------
def unary(name: str, **words: str) -> Builder:
    """A function of x; `words` are attributes that are handed on, by their names here."""

    def build(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
        return {"y": getattr(pb, name)(i["x"], **{ours: a[theirs] for theirs, ours in words.items() if theirs in a})}

    return build


def prelu(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    return {"y": pb.prelu(i["x"], i["weight"], axis=a.get("axis", 1))}


def indexed_extremes(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    options = dict(axis=a["dim"], keepdims=a["keepdim"])
    largest, argmax = pb.max_and_argmax(i["x"], **options)
    smallest, argmin = pb.min_and_argmin(i["x"], **options)
    return {"max": largest, "argmax": argmax, "min": smallest, "argmin": argmin}


def extremes(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    options = dict(axis=a["dim"], keepdims=a["keepdim"])
    return {"amax": pb.max(i["x"], **options), "amin": pb.min(i["x"], **options)}


def full_extremes(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    x = i["x"]
    return {"max": pb.max(x), "argmax": pb.argmax(x), "min": pb.min(x), "argmin": pb.argmin(x)}


def statistics(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    x, axis = i["x"], a["dim"]
    return {
        "sum": pb.sum(x, axis),
        "mean": pb.mean(x, axis),
        "var_unbiased": pb.var(x, axis, ddof=1),
        "var_biased": pb.var(x, axis),
        "std": pb.std(x, axis, ddof=1),
        "prod": pb.prod(x, axis),
        "logsumexp": pb.logsumexp(x, axis),
        "cumsum": pb.cumsum(x, axis),
    }


# --- attention, embedding, resizing, the rest -------------------------------------------------------------------------
def attention(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    scale = a.get("scale")
    y = pb.scaled_dot_product_attention(
        i["q"], i["k"], i["v"], mask=i.get("mask"), is_causal=a.get("is_causal", False),
        scale=scale if isinstance(scale, (int, float)) else None,
    )  # fmt: skip
    return {"y": y}


def multi_head_attention(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    heads = a["num_heads"]
    width = i["out_proj.weight"].shape[0]

    def split_heads(x: pb.Variable, part: int) -> pb.Variable:
        rows = slice(part * width, (part + 1) * width)
        y = x @ i["in_proj_weight"][rows].T + i["in_proj_bias"][rows]
        return pb.transpose(pb.reshape(y, (x.shape[0], x.shape[1], heads, width // heads)), (0, 2, 1, 3))

    q, k, v = (split_heads(i[name], part) for part, name in enumerate("qkv"))
    scores = q @ pb.swapaxes(k, -1, -2) / pb.sqrt(pb.cast(width // heads, q.dtype))
    if a.get("causal"):
        steps = pb.arange(scores.shape[-1])
        weights = pb.masked_softmax(scores, pb.expand_dims(pb.arange(scores.shape[-2]), 1) >= steps)
    else:
        weights = pb.softmax(scores)
    y = pb.reshape(pb.transpose(weights @ v, (0, 2, 1, 3)), (q.shape[0], q.shape[2], width))
    return {"y": y @ i["out_proj.weight"].T + i["out_proj.bias"], "attn": weights}


def embedding(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    options = dict(padding_idx=a.get("padding_idx"), scale_grad_by_freq=a.get("scale_grad_by_freq", False))
    return {"y": pb.embedding(i["weight"], i["indices"], **options)}


def masked_dropout(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    return {"y": i["x"] * i["mask"] / (1 - a["p"])}


def linear(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    y = i["x"] @ (i["weight"].T if a.get("weight_layout", "out,in") == "out,in" else i["weight"])
    return {"y": y + i["bias"] if "bias" in i else y}


def interpolate(a: Attributes, i: Inputs) -> dict[str, pb.Variable]:
    y = pb.resize(
        i["x"], size=tup(a.get("size")), scale=tup(a.get("scale_factor")), mode=a["mode"],
        align_corners=bool(a.get("align_corners")),
    )  # fmt: skip
    return {"y": y}


def shuffle(name: str) -> Builder:
    return lambda a, i: {"y": getattr(pb, name)(i["x"], a["r"])}


BUILDERS: dict[str, Builder] = {
    **{f"conv{n}d": convolution(n) for n in SPATIAL},
    **{f"conv_transpose{n}d": transposed(n) for n in SPATIAL},
    **{f"max_pool{n}d": max_pool(n) for n in SPATIAL},
    **{f"avg_pool{n}d": avg_pool(n) for n in SPATIAL},
    **{f"lp_pool{n}d": lp_pool(n) for n in SPATIAL},
    **{f"adaptive_{kind}_pool{n}d": adaptive(kind, n) for kind in ("avg", "max") for n in SPATIAL},
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "rms_norm": rms_norm,
    "local_response_norm": local_response_norm,
    "l2_normalize": unary("l2_normalize", dim="axis", eps="eps"),
    "l1_normalize": unary("l1_normalize", dim="axis", eps="eps"),
    "softmax": unary("softmax", dim="axis"),
    "log_softmax": unary("log_softmax", dim="axis"),
    "cross_entropy": cross_entropy,
    "mse_loss": loss("mse"),
    "l1_loss": loss("mae"),
    "smooth_l1_loss": loss("smooth_l1", beta="beta"),
    "huber_loss": loss("huber", delta="delta"),
    "bce": loss("binary_cross_entropy"),
    "bce_with_logits": loss("bce_with_logits"),
    "kl_div": loss("kl_divergence", log_target="log_target"),
    "relu": unary("relu"),
    "relu6": unary("relu6"),
    "leaky_relu": unary("leaky_relu", negative_slope="alpha"),
    "elu": unary("elu", alpha="alpha"),
    "selu": unary("selu"),
    "celu": unary("celu", alpha="alpha"),
    "gelu_erf": unary("gelu"),
    "gelu_tanh": unary("gelu", approximate="approximate"),
    "silu": unary("silu"),
    "mish": unary("mish"),
    "softplus": unary("softplus", beta="beta"),
    "hardtanh": unary("hardtanh", min_val="min_val", max_val="max_val"),
    "hardswish": unary("hard_swish"),
    "hardsigmoid": unary("hard_sigmoid"),
    "softsign": unary("softsign"),
    "tanhshrink": unary("tanhshrink"),
    "softshrink": unary("softshrink", lambd="lambd"),
    "hardshrink": unary("hardshrink", lambd="lambd"),
    "logsigmoid": unary("log_sigmoid"),
    "sigmoid": unary("sigmoid"),
    "tanh": unary("tanh"),
    "threshold": unary("threshold", threshold="threshold", value="value"),
    "prelu": prelu,
    "glu": unary("glu", dim="axis"),
    "max/min(dim)": indexed_extremes,
    "amax/amin": extremes,
    "max()/argmax()": full_extremes,
    "sum/mean/var/std/prod/logsumexp": statistics,
    "scaled_dot_product_attention": attention,
    "nn.MultiheadAttention": multi_head_attention,
    "embedding": embedding,
    "dropout_with_mask": masked_dropout,
    "linear": linear,
    "interpolate": interpolate,
    "pixel_shuffle": shuffle("pixel_shuffle"),
    "pixel_unshuffle": shuffle("pixel_unshuffle"),
}


# --- optimizers -------------------------------------------------------------------------------------------------------
OPTIMIZER_WORDS = {
    "lr": "learning_rate", "eps": "epsilon", "rho": "beta", "alpha": "beta", "lr_decay": "rate_decay",
    "initial_accumulator_value": "first",
}  # fmt: skip


def optimizer(name: str) -> Trace:
    def updates(a: Attributes, parameter: pb.SharedVariable, gradient: pb.Variable) -> Any:
        given = dict(a)
        decoupled = given.pop("decoupled_weight_decay", False)
        beta1, beta2 = given.pop("betas", (None, None))
        if beta1 is not None:
            given |= {"beta1": beta1, "beta2": beta2}
        kind = getattr(nn, "AdamW" if decoupled and name == "Adam" else name)
        return kind(**{OPTIMIZER_WORDS.get(k, k): v for k, v in given.items()}).updates([gradient], [parameter])

    return updates


TRACES: dict[str, Trace] = {
    f"torch.optim.{theirs}": optimizer(ours)
    for theirs, ours in {
        "SGD": "SGD", "Adam": "Adam", "AdamW": "AdamW", "RMSprop": "RMSProp", "Adagrad": "Adagrad",
        "Adadelta": "Adadelta", "Adamax": "Adamax", "NAdam": "NAdam", "RAdam": "RAdam",
    }.items()
}  # fmt: skip
