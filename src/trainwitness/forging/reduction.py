"""Integer vectors that a matrix hardly sees: reduced bases, and rounding to them.

With a matrix M [m, k] and a scale s, Z^m under the norm |v|^2 + s^2 |v M|^2 is a lattice whose short vectors are
small and nearly in the null space of M. Two of them make a tensor product in which a whole change of a batch is
rounded at once: for P in L1 (x) L2 both M1'P and P M2 stay small.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainwitness.core.errors import UsageError

Reals = npt.NDArray[np.float64]
_SHORTEST = 120


def short_basis(matrix: Reals, scale: float, *, block: int = 0) -> Basis:
    """An LLL-reduced basis of Z^m under |v|^2 + |scale v matrix|^2; with `block`, BKZ of that block size after it."""
    try:
        from fpylll import BKZ, LLL, IntegerMatrix
    except ImportError as error:
        raise UsageError(
            "lattice reduction needs fpylll, which is not installed", hint="pip install 'trainwitness[lattice]'"
        ) from error
    size, columns = matrix.shape
    scaled = np.rint(matrix * scale).astype(np.int64)
    rows = IntegerMatrix.from_matrix(np.hstack([np.eye(size, dtype=np.int64), scaled]).tolist())
    LLL.reduction(rows)
    for width in range(20, min(block, size) + 1, 10):
        BKZ.reduction(rows, BKZ.Param(block_size=width, max_loops=2, flags=BKZ.MAX_LOOPS | BKZ.AUTO_ABORT))
    vectors = np.empty((size, size + columns), np.int64)
    rows.to_matrix(vectors)
    return Basis.of(vectors[:, :size].astype(np.float64), matrix, scale)


@dataclass(frozen=True, eq=False)
class Basis:
    """Vectors as rows, with the triangular form that rounding needs."""

    vectors: Reals
    """[m, m], whole numbers."""
    seen: Reals
    """[m, k]: scale times the matrix whose products are to stay small."""
    frame: Reals
    """[m + k, m]: orthonormal columns."""
    triangle: Reals
    """[m, m], upper: the vectors, extended by their products, are frame @ triangle as columns."""

    @classmethod
    def of(cls, vectors: Reals, matrix: Reals, scale: float) -> Basis:
        """From whole-number vectors; their products with the matrix are taken as they are, not rounded."""
        seen = matrix * scale
        frame, triangle = np.linalg.qr(np.hstack([vectors, vectors @ seen]).T)
        return cls(vectors, seen, frame, triangle)

    @functools.cached_property
    def shortest(self) -> Reals:
        """The few vectors that change and harm least."""
        lengths = (self.vectors**2).sum(1) + ((self.vectors @ self.seen) ** 2).sum(1)
        return self.vectors[np.argsort(lengths, kind="stable")[:_SHORTEST]]

    def nearest(self, rows: Reals) -> Reals:
        """For each row [r, m] a vector of the lattice near it, by Babai's nearest plane."""
        rest = (np.hstack([rows, rows @ self.seen]) @ self.frame).T.copy()
        coefficients = np.empty((len(self.vectors), len(rows)))
        for j in range(len(self.vectors) - 1, -1, -1):
            coefficients[j] = np.rint(rest[j] / self.triangle[j, j])
            rest[: j + 1] -= np.outer(self.triangle[: j + 1, j], coefficients[j])
        return np.rint(coefficients.T @ self.vectors)


def nearest_in_product(left: Basis, right: Basis, target: Reals, owed: Reals) -> Reals:
    """A matrix of left (x) right near `target` [m1, m2] whose products with left's matrix are near `owed` [k1, m2].

    `owed` is in units of left's scaled matrix: what the rest of the change has left to make good here.
    """
    both = np.vstack([target, owed])
    rest = left.frame.T @ (np.hstack([both, both @ right.seen]) @ right.frame)
    size, width = len(left.vectors), len(right.vectors)
    found = np.zeros((size, width))
    columns = [np.ascontiguousarray(right.triangle[: j + 1, j]) for j in range(width)]
    diagonal = right.triangle.diagonal().tolist()
    for a in range(size - 1, -1, -1):
        row = rest[a] / left.triangle[a, a]
        for j in range(width - 1, -1, -1):
            whole = round(row[j] / diagonal[j])
            if whole:
                found[a, j] = whole
                row[: j + 1] -= whole * columns[j]
        rest[: a + 1] -= np.outer(left.triangle[: a + 1, a], right.triangle @ found[a])
    return np.rint(left.vectors.T @ found @ right.vectors)
