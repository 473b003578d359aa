#!/usr/bin/env python3
"""Golden values of dlinfer's operators (dlinfer/ops/llm.py), in plain torch.

  python3 ops/testdata/golden/dlinfer.py

writes dlinfer.jsonl beside this file, in the form of record.py. Needs torch alone: dlinfer's implementations need a
vendor's device. What they call torch_npu for is in torch_npu.py.
"""
import torch

import record
import torch_npu as npu
from torch_npu import BF16, F16, F32


def rms_norm(hidden_states, weight, epsilon):
    return npu.rms_norm(hidden_states, weight, epsilon)[0]


def add_rms_norm(hidden_states, residual, weight, epsilon):
    y, _, total = npu.add_rms_norm(hidden_states, residual, weight, epsilon)
    return y, total


def apply_rotary_pos_emb(query, key, cos, sin):
    shape = query.shape[:-2] + (1, cos.shape[-1])
    return tuple(npu.rotated_part(x, cos.reshape(shape), sin.reshape(shape)) for x in (query, key))


def calls():
    d = npu.Draw()
    t = d.normal
    for dt in (F32, F16, BF16):
        yield "rms_norm", rms_norm, (t(dt, 3, 8), t(dt, 8), 1e-3), {}
        yield "add_rms_norm", add_rms_norm, (t(dt, 3, 8), t(dt, 3, 8), t(dt, 8), 1e-3), {}
        yield "apply_rotary_pos_emb", apply_rotary_pos_emb, (t(dt, 3, 2, 4), t(dt, 3, 1, 4), t(dt, 3, 4), t(dt, 3, 4)), {}
        yield "silu_and_mul", npu.swiglu, (t(dt, 2, 6),), {}
        yield "silu_and_mul", npu.swiglu, (t(dt, 2, 3),), {"dim": 0}
    yield "apply_rotary_pos_emb", apply_rotary_pos_emb, (t(F32, 1, 2, 2, 6), t(F32, 1, 2, 1, 6), t(F32, 1, 2, 1, 4),
                                                         t(F32, 1, 2, 1, 4)), {}


if __name__ == "__main__":
    record.write("dlinfer", (("dlinfer_" + op, ["dlinfer.ops." + op, "torch.ops.dlinfer." + op], *call) for op, *call in calls()))
