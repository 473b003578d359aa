#!/usr/bin/env python3
"""Golden values of distances and norms of arguments that are not finite, or zeros, and their gradients.

  python3 ops/testdata/golden/distances.py

writes distances.jsonl beside this file, in the form of record.py. Needs torch 2.15 alone.
"""
import torch
import torch.nn.functional as F

import record

INF, NAN = float("inf"), float("nan")


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def x(rows, first):
        t = torch.randn(rows, 3, generator=g)
        t[0, :len(first)] = torch.tensor(first)
        return t.requires_grad_()

    for first in ([1., NAN], [1., INF], [-INF, 0.], [0., 0., 0.]):
        for p in (.5, 1., 1.5, 2., 3., INF):
            yield "cdist", ["torch.cdist"], torch.cdist, (x(4, first), x(3, []), p), {}
            yield "pdist", ["torch.pdist"], torch.pdist, (x(4, first), p), {}
            yield "dist", ["torch.dist"], torch.dist, (x(4, first), x(4, []), p), {}
            yield "renorm", ["torch.renorm"], torch.renorm, (x(4, first), p, 0, 1.), {}
            yield "normalize", ["torch.nn.functional.normalize"], F.normalize, (x(4, first), p), {}
        for p in ("fro", 1, -1, INF, -INF):  # the SVD of others does not converge
            yield "linalg_matrix_norm", ["torch.linalg.matrix_norm"], torch.linalg.matrix_norm, (x(4, first), p), {}
    yield "normalize", ["torch.nn.functional.normalize"], F.normalize, (torch.zeros(2, 3, dtype=torch.float16),), {}


if __name__ == "__main__":
    record.write("distances", calls())
