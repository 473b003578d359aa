#!/usr/bin/env python3
"""Golden values of torch_npu's functions, from the formulas it documents, in plain torch.

  python3 ops/testdata/golden/torch_npu.py

writes torch_npu.jsonl beside this file, in the form of record.py. Needs torch alone: torch_npu's own kernels need a
device. Sums and products are computed in float32 and rounded once, as its kernels do.
"""
import torch

import record

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def rms_norm(x, gamma, epsilon=1e-6):
    dims = list(range(x.dim() - gamma.dim(), x.dim()))
    wide = x.to(F32)
    rstd = torch.rsqrt(wide.pow(2).mean(dims, keepdim=True) + epsilon)
    return (wide * rstd * gamma.to(F32)).to(x.dtype), rstd


def add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    x = x1.to(F32) + x2.to(F32)
    y, rstd = rms_norm(x, gamma, epsilon)
    return y.to(x1.dtype), rstd, x.to(x1.dtype)


def turned(x, mode="half"):
    if mode == "interleave":
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    if mode == "quarter":
        return torch.cat([turned(h) for h in x.chunk(2, -1)], -1)
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotary_mul(x, r1, r2, rotary_mode="half", rotate=None):
    wide = x.to(F32)
    other = turned(wide, rotary_mode) if rotate is None else wide @ rotate.to(F32)
    return (wide * r1 + other * r2).to(x.dtype)


def rotated_part(x, cos, sin, mode="half"):
    n = cos.shape[-1]
    return torch.cat([rotary_mul(x[..., :n], cos, sin, mode), x[..., n:]], -1)


def apply_rotary_pos_emb(query, key, cos, sin, layout="BSND", rotary_mode="half"):
    with torch.no_grad():
        for x in (query, key):
            x.copy_(rotated_part(x, cos, sin, rotary_mode))
    return query.clone(), key.clone()


def swiglu(x, dim=-1):
    a, b = x.to(F32).chunk(2, dim)
    return (torch.nn.functional.silu(a) * b).to(x.dtype)


def fast_gelu(x):
    wide = x.to(F32)
    return (wide * torch.sigmoid(1.702 * wide)).to(x.dtype)


def dynamic_quant(x, dst_type=torch.int8):
    top = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}[dst_type]
    wide = x.to(F32)
    scale = wide.abs().amax(-1, keepdim=True) / top
    y = torch.where(scale == 0, torch.zeros(()), wide / scale)
    return (torch.round(y) if dst_type == torch.int8 else y).to(dst_type), scale.squeeze(-1)


def quantized_matmul(x, weight, scale, rows=None, bias=None, dtype=F16):
    """x [m, k] and weight [k, n] of int8; a bias of integers is added before the scales."""
    total = x.to(torch.int64) @ weight.to(torch.int64)
    if bias is not None and not bias.is_floating_point():
        total = total + bias
    y = total.to(F32) * scale.to(F32).flatten()
    if rows is not None:
        y = y * rows.to(F32).reshape(*y.shape[:-1], 1)
    return (y if bias is None or not bias.is_floating_point() else y + bias.to(F32)).to(dtype)


def weight_quant_matmul(x, weight, scale, offset=None, bias=None, group=0):
    def each(p):
        p = p.to(F32)
        return p.reshape(-1, weight.shape[1]).repeat_interleave(group, 0) if group else p.flatten()
    if weight.dtype == torch.int32:  # eight int4 each
        weight = torch.stack([((weight >> 4 * j) & 15) for j in range(8)], -1).flatten(-2)
        weight = torch.where(weight > 7, weight - 16, weight)
    w = (weight.to(F32) + (0 if offset is None else each(offset))) * each(scale)
    y = x.to(F32) @ w.to(x.dtype).to(F32)
    return (y if bias is None else y + bias.to(F32)).to(x.dtype)


def attend(q, k, v, scale, hidden=None, added=None):
    """q [n, heads, size] over k and v [m, heads, size], of which fewer heads serve several of q each."""
    q, k, v = (x.transpose(0, 1).to(F32) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    s = q @ k.transpose(1, 2) * scale
    if added is not None:
        s = s + added
    if hidden is not None:
        s = s.masked_fill(hidden, float("-inf"))
    w = torch.softmax(s, -1).nan_to_num(0.0)  # a query that sees no key
    return (w @ v).transpose(0, 1)


def behind(n, m, offset=0):
    """The keys behind the places of n queries among m, the first at offset."""
    return torch.ones(n, m, dtype=torch.bool).triu(offset + 1)


class Draw:
    """Tensors of one random stream."""

    def __init__(self):
        self.g = torch.Generator().manual_seed(record.SEED)

    def normal(self, dt, *shape, grad=True):
        return torch.randn(*shape, generator=self.g).to(dt).requires_grad_(grad)

    def ints(self, dt, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.g).to(dt)


def calls():
    d = Draw()
    t = d.normal
    for dt in (F32, F16, BF16):
        yield "npu_rms_norm", rms_norm, (t(dt, 3, 8), t(dt, 8)), {}
        yield "npu_add_rms_norm", add_rms_norm, (t(dt, 3, 8), t(dt, 3, 8), t(dt, 8)), {"epsilon": 1e-3}
        yield "npu_rotary_mul", rotary_mul, (t(dt, 2, 3, 1, 4), t(dt, 1, 3, 1, 4), t(dt, 1, 3, 1, 4)), {}
        yield "npu_rotary_mul", rotary_mul, (t(dt, 2, 3, 4), t(dt, 2, 3, 4), t(dt, 2, 3, 4), "interleave"), {}
        for mode in ("half", "interleave", "quarter"):
            yield ("npu_apply_rotary_pos_emb", apply_rotary_pos_emb,
                   (t(dt, 1, 2, 2, 4, grad=False), t(dt, 1, 2, 1, 4, grad=False), t(dt, 1, 2, 1, 4, grad=False),
                    t(dt, 1, 2, 1, 4, grad=False)), {"rotary_mode": mode})
        yield "npu_swiglu", swiglu, (t(dt, 2, 6),), {}
        yield "npu_swiglu", swiglu, (t(dt, 4, 3), 0), {}
        yield "fast_gelu", fast_gelu, (t(dt, 2, 3),), {}
    yield "npu_rms_norm", rms_norm, (t(BF16, 2, 2, 4), t(F32, 2, 4), 1e-2), {}
    yield "npu_rotary_mul", rotary_mul, (t(F32, 2, 2, 4), t(F32, 1, 2, 4), t(F32, 1, 2, 4)), {"rotate": t(F32, 4, 4)}


if __name__ == "__main__":
    record.write("torch_npu", ((op, ["torch_npu." + op, "torch.ops.npu." + op], *call) for op, *call in calls()))
