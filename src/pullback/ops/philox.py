"""Philox4x32-10: random bits as a pure function of a key and a counter.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. Block b of a draw is philox(counter = (b mod 2^32,
b div 2^32, counter mod 2^32, counter div 2^32), key = (key mod 2^32, key div 2^32)): four words w0 ... w3 of 32 bits.
Elements take words in groups of 16 blocks: first the 16 words w0 of the group, then the 16 words w1, and so on; draws
of 64-bit elements take the 16 pairs (w0, w1), then the 16 pairs (w2, w3).
"""

from dataclasses import dataclass
from math import prod

import numpy as np

GROUP = 16  # blocks whose words lie together, so that vector code of any width stores them side by side
MASK = np.uint64(0xFFFFFFFF)
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1
ROUNDS = 10
PIECE = 1024 * GROUP  # blocks computed at a time, so that they stay in the cache


def philox(key: int, counter: int, start: int, stop: int) -> np.ndarray:
    """Words (4, stop - start) of blocks start ... stop - 1, as uint32."""
    block = np.arange(start, stop, dtype=np.uint64)
    c0, c1 = block & MASK, block >> np.uint64(32)
    c2, c3 = (np.full_like(block, (counter >> shift) & 0xFFFFFFFF) for shift in (0, 32))
    k0, k1 = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    for _ in range(ROUNDS):
        a, b = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1 = (b >> np.uint64(32)) ^ c1 ^ np.uint64(k0), b & MASK
        c2, c3 = (a >> np.uint64(32)) ^ c3 ^ np.uint64(k1), a & MASK
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


@dataclass(frozen=True)
class Bits:
    """The words of one draw, as elements in order."""

    key: int
    counter: int

    def _groups(self, count: int, per_block: int) -> np.ndarray:
        """Words (groups, 4, GROUP) for `count` elements."""
        blocks = -(-count // (per_block * GROUP)) * GROUP
        pieces = [
            philox(self.key, self.counter, i, min(i + PIECE, blocks)).reshape(4, -1, GROUP)
            for i in range(0, max(blocks, 1), PIECE)
        ]
        return np.concatenate(pieces, axis=1).transpose(1, 0, 2)

    def words32(self, count: int) -> np.ndarray:
        """`count` uint32."""
        return self._groups(count, 4).reshape(-1)[:count]

    def words64(self, count: int) -> np.ndarray:
        """`count` uint64: the first word of each pair is the upper half."""
        pairs = self._groups(count, 2).astype(np.uint64)
        return ((pairs[:, 0::2] << np.uint64(32)) | pairs[:, 1::2]).reshape(-1)[:count]

    def uniform(self, size: tuple[int, ...], dtype: str) -> np.ndarray:
        """Multiples of 2^-b in [0, 1), b bits as many as the dtype's significand has."""
        count = prod(size)
        if dtype == "float64":
            u = (self.words64(count) >> np.uint64(11)) * 2.0**-53
        else:
            bits = np.finfo(dtype).nmant + 1
            u = (self.words32(count) >> np.uint32(32 - bits)).astype(dtype) * np.asarray(2.0**-bits, dtype)
        return u.reshape(size)

    def normal(self, size: tuple[int, ...], dtype: str) -> np.ndarray:
        """r cos t and r sin t with r = sqrt(-2 log u) and t = 2 pi v (Box & Muller 1958).

        u = (w + 1/2) 2^-bits comes from the words at even places, v (a multiple of 2^-b, as in `uniform`) from those at
        odd places; r cos t and r sin t are the two elements that these words stand for.
        """
        count = prod(size)
        if dtype == "float64":
            pairs = self._groups(count, 2).astype(np.uint64)
            words = (pairs[:, 0::2] << np.uint64(32)) | pairs[:, 1::2]
            u = ((words[:, 0::2] >> np.uint64(11)) + 0.5) * 2.0**-53
            v = (words[:, 1::2] >> np.uint64(11)) * 2.0**-53
        else:
            words = self._groups(count, 4)
            u = words[:, 0::2].astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
            v = (words[:, 1::2] >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        r, t = np.sqrt(-2 * np.log(u)), v * v.dtype.type(2 * np.pi)
        z = np.stack([r * np.cos(t), r * np.sin(t)], axis=2)  # (groups, pairs, 2, GROUP)
        return z.reshape(-1)[:count].reshape(size).astype(dtype, copy=False)
