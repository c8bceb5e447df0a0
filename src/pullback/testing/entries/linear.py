"""Products of vectors, matrices and tensors."""

from ... import ops
from ..entry import Entry, real, variants

LINEAR = dict(analytic=True)

ENTRIES = [
    Entry("matmul", ops.matmul, (real("n k"), real("k m")), **LINEAR),
    Entry("matmul[batched]", ops.matmul, (real("a b n k"), real("b k m")), **LINEAR),
    Entry("matmul[broadcast]", ops.matmul, (real("a 1 n k"), real("b k m")), **LINEAR),
    Entry("matmul[vector, matrix]", ops.matmul, (real("k"), real("a k m")), **LINEAR),
    Entry("matmul[matrix, vector]", ops.matmul, (real("a n k"), real("k")), **LINEAR),
    Entry("matmul[vectors]", ops.matmul, (real("k"), real("k")), **LINEAR),
    Entry("dot[vectors]", ops.dot, (real("k"), real("k")), **LINEAR),
    Entry("dot[tensors]", ops.dot, (real("a n k"), real("b k m")), **LINEAR),
    Entry("dot[scalar]", ops.dot, (real(), real("a b")), **LINEAR),
    Entry("inner", ops.inner, (real("a k"), real("b k")), **LINEAR),
    Entry("outer", ops.outer, (real("n"), real("m")), **LINEAR),
    Entry("vdot", ops.vdot, (real("a b"), real("a b"))),
    Entry("kron", ops.kron, (real("a b"), real("c d")), **LINEAR),
    Entry("batched_dot", ops.batched_dot, (real("b n k"), real("b k m")), **LINEAR),
    *variants("tensordot", ops.tensordot, [real("a b c"), real("b c d")], [dict(), dict(axes=((1, 2), (0, 1)))],
              **LINEAR),
    Entry("tensordot[1]", lambda a, b: ops.tensordot(a, b, axes=((0,), (1,))), (real("k a"), real("b k")), **LINEAR),
    Entry("einsum[ij,jk->ik]", lambda a, b: ops.einsum("ij,jk->ik", a, b), (real("n k"), real("k m")), **LINEAR),
    Entry("einsum[bnij,bnjc->bnic]", lambda a, b: ops.einsum("bnij,bnjc->bnic", a, b),
          (real("b n i j"), real("b n j c")), sizes=dict.fromkeys("bnijc", (2, 3)), **LINEAR),
    Entry("einsum[ii->i]", lambda a: ops.einsum("ii->i", a), (real("n n"),), **LINEAR),
    Entry("einsum[ij->j]", lambda a: ops.einsum("ij->j", a), (real("n m"),), **LINEAR),
    Entry("einsum[ij,ij->]", lambda a, b: ops.einsum("ij,ij->", a, b), (real("n m"), real("n m")), **LINEAR),
    Entry("einsum[i,j,k->kij]", lambda a, b, c: ops.einsum("i,j,k->kij", a, b, c), (real("a"), real("b"), real("c"))),
    Entry("einsum[...ij,...j]", lambda a, b: ops.einsum("...ij,...j->...i", a, b), (real("b n k"), real("k")),
          **LINEAR),
    Entry("einsum[implicit]", lambda a, b: ops.einsum("ij,kj", a, b), (real("n k"), real("m k")), **LINEAR),
]  # fmt: skip
