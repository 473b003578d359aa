#!/usr/bin/env python3
"""Golden values of normalisations in 16 bits over two to four elements, where rounded statistics decide the gradient.

  python3 ops/testdata/golden/norms.py

writes norms.jsonl beside this file, in the form of record.py. Needs torch 2.15 alone.
"""
import torch
import torch.nn.functional as F

import record


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def x(dtype, *shape, around=0.):
        return (torch.randn(*shape, generator=g) + around).to(dtype).requires_grad_()

    for dtype in (torch.bfloat16, torch.float16):
        for wide in (dtype, torch.float32):
            for around in (0., 1., 4.):
                for shape in ((2, 12), (2, 12, 1, 2)):
                    w, b = x(wide, 12), x(wide, 12)
                    yield "batch_norm", ["torch.nn.functional.batch_norm"], F.batch_norm, (x(dtype, *shape, around=around), None, None, w, b, True), {}
                    yield ("native_batch_norm", ["torch.native_batch_norm"], torch.native_batch_norm,
                           (x(dtype, *shape, around=around), w, b, None, None, True, .1, 1e-5), {})
                yield ("instance_norm", ["torch.nn.functional.instance_norm"], F.instance_norm,
                       (x(dtype, 2, 12, 2, around=around), None, None, w, b), {})
                yield "group_norm", ["torch.nn.functional.group_norm"], F.group_norm, (x(dtype, 2, 12, around=around), 6, w, b), {}
                w, b = x(wide, 2), x(wide, 2)
                yield "layer_norm", ["torch.nn.functional.layer_norm"], F.layer_norm, (x(dtype, 12, 2, around=around), (2,), w, b), {}
                yield ("native_layer_norm", ["torch.native_layer_norm"], torch.native_layer_norm,
                       (x(dtype, 12, 2, around=around), (2,), w, b, 1e-5), {})


if __name__ == "__main__":
    record.write("norms", calls())
