#!/usr/bin/env python3
"""Golden values of what FSDP2 copies parameters and gradients with, from torch itself.

  python3 ops/testdata/golden/fsdp.py

writes fsdp.jsonl beside this file, in the form of record.py. Needs torch 2.15 alone.
"""
import torch
import torch.distributed.fsdp  # defines torch.ops.fsdp

import record


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def call(name, *args, **kwargs):
        return "fsdp_" + name, ["torch.ops.fsdp." + name], getattr(torch.ops.fsdp, name), args, kwargs

    def x(*shape, dtype=torch.float32):
        return torch.randn(*shape, generator=g).to(dtype)

    for rank in (0, 1):
        yield call("all_gather_copy_in", [x(4), x(2)], x(12), [4, 2], 6, rank)
    yield call("all_gather_copy_in", [x(3, dtype=torch.bfloat16)], x(3), [3], 3, 0)
    yield call("split_with_sizes_copy", x(2, 5), [3, 2], 1, out=[x(2, 3), x(2, 2)])
    yield call("split_with_sizes_copy", x(4), [1, 3], out=[x(1), x(3)])
    for name in ("chunk_cat", "chunk_cat_mixed_dtype"):
        yield call(name, [x(3), x(3, 2)], 0, 2, out=x(2, 6))
        yield call(name, [x(2, 2), x(2, 3)], 1, 2, out=x(2, 2, 3))
    yield call("chunk_cat_mixed_dtype", [x(3), x(3, 2)], 0, 2, out=x(2, 6, dtype=torch.bfloat16))


if __name__ == "__main__":
    record.write("fsdp", calls())
