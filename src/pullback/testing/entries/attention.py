"""Entries of attention."""

from math import inf, nan

from ...ops.attention import scaled_dot_product_attention
from ..entry import Entry, Point, mask, real, variants

QKV = (real("b l e"), real("b s e"), real("b s v"))
FORMULA = "with P the weights and D = g v^T: dS = P (D - sum(D P)); (scale dS k, scale dS^T q, P^T g)"
EMPTY = ("b", "l", "v")


def masked(q, k, v, m, **options):
    return scaled_dot_product_attention(q, k, v, m, **options)


ENTRIES = [
    *variants("scaled_dot_product_attention", scaled_dot_product_attention, QKV,
              [{}, {"is_causal": True}, {"scale": 0.3}, {"return_weights": True}], empty=EMPTY, formula=FORMULA),
    *variants("scaled_dot_product_attention[mask]", masked, [*QKV, mask("b l s")],
              [{}, {"is_causal": True}, {"return_weights": True}], empty=EMPTY),
    *variants("scaled_dot_product_attention[bias]", masked, [*QKV, real("l s")], [{}, {"is_causal": True}],
              empty=EMPTY),
    Entry("scaled_dot_product_attention[keys that are padding]", masked, (*QKV, mask("b 1 s")), empty=EMPTY),
    Entry(
        "scaled_dot_product_attention[special]",
        masked,
        (*QKV, mask("b l s")),
        empty=EMPTY,
        points=(
            Point(
                ([[[1.0], [nan]]], [[[0.0], [0.0], [nan]]], [[[2.0], [4.0], [inf]]],
                 [[[True, True, False], [False, False, False]]]),
                ([[[0.0], [0.0]]], [[[-0.5], [0.5], [0.0]]], [[[0.5], [0.5], [0.0]]], None),
                [[[3.0], [0.0]]],
                why="a query without keys, and a key without queries, whatever they hold",
            ),
        ),
    ),
]  # fmt: skip
