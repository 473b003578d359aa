#!/usr/bin/env python3
"""Golden values of DeepLinkExt's functions beside attention, from their formulas in plain torch.

  python3 ops/testdata/golden/deeplink.py

writes deeplink.jsonl beside this file, in the form of record.py. Needs torch alone: DeepLinkExt's own kernels need a
device. Sums and products are computed in float32 (float64 of float64) and rounded once, as they do.
"""
import torch

import record

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16


def wide(x):
    return x if x.dtype == F64 else x.to(F32)


def normed(x, weight, eps):
    dims = list(range(x.dim() - weight.dim(), x.dim()))
    x = wide(x)
    rstd = torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + eps)
    return x * rstd, rstd


def rms_norm(x, weight, eps):
    return (normed(x, weight, eps)[0] * wide(weight)).to(x.dtype)


def mixed_rms_norm(x, weight, eps, shape):
    return (normed(x, weight, eps)[0] * wide(weight)).to(weight.dtype)


def manual_rms_norm(x, shape, weight, eps):
    variance = wide(x).pow(2).mean(-1, keepdim=True)  # converted twice, and so is its gradient
    return (x * torch.rsqrt(variance + eps)).to(weight.dtype) * weight


def cpp_rms_norm(output, inv_rms, x, shape, weight, bias, eps):
    y, rstd = normed(x, weight, eps)
    y = y * wide(weight)
    output.copy_(y if bias is None else y + wide(bias))
    inv_rms.copy_(rstd.reshape(inv_rms.shape))


def cpp_rms_norm_backward(grad_input, grad_weight, grad_bias, grad_output, x, weight, bias, inv_rms, shape, eps):
    n = wide(x) * inv_rms.reshape(-1, 1)
    h = wide(grad_output) * wide(weight)
    grad_input.copy_((h - n * (h * n).mean(-1, keepdim=True)) * inv_rms.reshape(-1, 1))
    grad_weight.copy_((wide(grad_output) * n).sum(0))
    if bias is not None:
        grad_bias.copy_(wide(grad_output).sum(0))


def turned(x, cos, sin, interleaved):
    """Pairs of the last dimension, turned by the angles of cos and sin, one for each pair."""
    n = 2 * cos.shape[-1]
    part, rest = wide(x[..., :n]), x[..., n:]
    a, b = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    y = (a * wide(cos) - b * wide(sin), b * wide(cos) + a * wide(sin))
    y = torch.stack(y, -1).flatten(-2) if interleaved else torch.cat(y, -1)
    return torch.cat([y.to(x.dtype), rest], -1)


def rotary(x, cos, sin, interleaved=False):
    n = x.shape[-3]
    return turned(x, cos[:n, None], sin[:n, None], interleaved)


def rotary_qkv(qkv, cos, sin, cos_k=None, sin_k=None, interleaved=False):
    q, k, v = qkv.unbind(-3)
    return torch.stack([rotary(q, cos, sin, interleaved),
                        rotary(k, cos if cos_k is None else cos_k, sin if sin_k is None else sin_k, interleaved), v], -3)


def rotary_rows(x, cos, sin):
    return rotary_rows_torch(x, cos, sin).to(x.dtype)


def rotary_rows_torch(x, cos, sin):
    x = wide(x)
    a, b = x.chunk(2, -1)
    return x * wide(cos) + torch.cat([-b, a], -1) * wide(sin)


def cpp_rotary(output, x, cos, sin, conj, interleaved):
    output.copy_(turned(x, cos, -sin if conj else sin, interleaved))


def hidden(mask, triangle):
    return torch.ones(mask.shape[-2:], dtype=torch.bool).triu(1) if triangle else mask


def masked_softmax(x, mask, scale, triangle):
    return torch.softmax((wide(x) * scale).masked_fill(hidden(mask, triangle), -10000.0), -1).to(x.dtype)


def cpp_softmax(out, x, mask, scale, triangle):
    out.copy_(masked_softmax(x, mask, scale, triangle))


def cpp_softmax_backward(grad_input, grad_output, out, mask, scale, triangle):
    t = wide(grad_output) * wide(out)
    g = (t - wide(out) * t.sum(-1, keepdim=True)) * scale
    grad_input.copy_(g.masked_fill(hidden(mask, triangle), 0.0))


def step(p, m, v, top, grad, lr, beta1, beta2, eps, decay, n, amsgrad):
    grad = wide(grad)
    m32 = beta1 * wide(m) + (1 - beta1) * grad
    v32 = beta2 * wide(v) + (1 - beta2) * grad * grad
    root = v32
    if amsgrad:
        root = torch.maximum(v32, wide(top))
        top.copy_(root)
    root = (root / (1 - beta2 ** n)).sqrt() + eps
    p.copy_(wide(p) * (1 - lr * decay) - lr / (1 - beta1 ** n) * m32 / root)
    m.copy_(m32)
    v.copy_(v32)


def steps(params, grads, ms, vs, tops, n, *, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize):
    for i, p in enumerate(params):
        step(p, ms[i], vs[i], tops[i] if amsgrad else None, grads[i], lr, beta1, beta2, eps, weight_decay, n, amsgrad)


def adamw(params, grads, ms, vs, tops, ns, *, norm_coeff_scale, **o):
    for i, p in enumerate(params):
        g = wide(grads[i]) * (1 if norm_coeff_scale is None else norm_coeff_scale)
        steps([p], [g], ms[i:i + 1], vs[i:i + 1], tops[i:i + 1], ns[i], **o)
    return list(params) + list(ms) + list(vs)


def index_first_axis(x, indices):
    return x[indices]


def residual(x, indices):
    return x[indices], x.clone()


def index_put(values, indices, n):
    return torch.zeros(n, *values.shape[1:], dtype=values.dtype).index_put((indices,), values)


def pad_input(x, indices, batch, length):
    return index_put(x, indices, batch * length).unflatten(0, (batch, length))


def ends(lengths):
    return torch.nn.functional.pad(lengths.to(torch.int32).cumsum(0), (1, 0)).to(torch.int32)


def unpad_input(x, mask):
    lengths = mask.sum(-1)
    at = mask.flatten().nonzero().flatten()
    return x.flatten(0, 1)[at], at, ends(lengths), int(lengths.max())


def unpad_concatenated(x, lengths):
    keep = torch.arange(lengths.shape[1]) < lengths.sum(-1, keepdim=True)
    at = keep.flatten().nonzero().flatten()
    each = lengths[lengths > 0]
    return x.flatten(0, 1)[at], at, ends(each), int(each.max())


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def t(dt, *shape, grad=True):
        return torch.randn(*shape, generator=g).to(dt).requires_grad_(grad)

    def own(name, op, f, *args, module="cpp_extensions", **kwargs):
        return "deeplink_ext_" + op, [f"deeplink_ext.{module}.{name}"], f, args, kwargs

    mask = torch.tensor([[[[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 0]]]], dtype=torch.bool)
    for dt in (F64, F32, F16, BF16):
        c = lambda *s: t(dt, *s, grad=False)
        acc = F64 if dt == F64 else F32
        yield own("rms_norm", "rms_norm", rms_norm, t(dt, 3, 8), t(dt, 8), 1e-3, module="easyllm_ops")
        yield own("RMSNorm.apply", "rms_norm", rms_norm, t(dt, 2, 3, 8), t(dt, 8), 0.25, module="ascend_speed")
        for w in (dt, acc, BF16):
            if dt != F64 or w == F64:
                yield own("_mixed_rms_norm_dipu._MixedFusedRMSNormFunction.apply",
                          "mixed_rms_norm", mixed_rms_norm, t(dt, 3, 8), t(w, 8), 1e-3, (8,), module="interntrain_ops")
                yield own("rms_norm_fallback.manual_rms_norm", "manual_rms_norm", manual_rms_norm, t(dt, 3, 8), (8,),
                          t(w, 8), 1e-3, module="interntrain_ops")
        for bias in (None, c(8)):
            yield own("rms_norm", "cpp_rms_norm", cpp_rms_norm, c(3, 8), torch.zeros(3, dtype=acc), c(3, 8), (8,), c(8),
                      bias, 1e-3)
            yield own("rms_norm_backward", "cpp_rms_norm_backward", cpp_rms_norm_backward, c(3, 8), c(8),
                      None if bias is None else c(8), c(3, 8), c(3, 8), c(8), bias,
                      torch.rand(3, generator=g).to(acc) + 0.5, (8,), 1e-3)
        for interleaved in (False, True):
            angles = lambda: (c(4, 2), c(4, 2))
            for module in ("internevo_ops", "interntrain_ops"):
                yield own("ApplyRotaryEmb.apply", "rotary_embedding", rotary, t(dt, 2, 3, 2, 5), *angles(), interleaved,
                          module=module)
            for more in ((), angles()):
                yield own("ApplyRotaryEmbQKV_.apply", "rotary_embedding_qkv", rotary_qkv, t(dt, 4, 3, 2, 5), *angles(),
                          *more, module="interntrain_ops", interleaved=interleaved)
            yield own("apply_rotary", "cpp_apply_rotary", cpp_rotary, c(2, 3, 2, 4), c(2, 3, 2, 4), c(3, 1, 2),
                      c(3, 1, 2), interleaved, not interleaved)
            yield own("ScaledMaskedSoftmax.apply", "scaled_masked_softmax", masked_softmax, t(dt, 2, 2, 3, 4), mask, 0.5,
                      interleaved, module="ascend_speed")
            yield own("scaled_masked_softmax_fwd", "cpp_scaled_masked_softmax_fwd", cpp_softmax, c(2, 2, 3, 4),
                      c(2, 2, 3, 4), mask, 0.5, interleaved)
            yield own("scaled_masked_softmax_bwd", "cpp_scaled_masked_softmax_bwd", cpp_softmax_backward, c(2, 2, 3, 4),
                      c(2, 2, 3, 4), torch.softmax(c(2, 2, 3, 4), -1), mask, 0.5, interleaved)
        both = lambda: torch.cat([c(3, 1, 1, 2)] * 2, -1)
        yield own("RotaryEmbedding.apply", "rotary_embedding_rows", rotary_rows, t(dt, 3, 2, 2, 4), both(), both(),
                  module="ascend_speed")
        yield own("rotary_embedding_fallback.RotaryEmbeddingTorch.apply", "rotary_embedding_torch", rotary_rows_torch,
                  t(dt, 3, 2, 2, 4), both(), both(), module="ascend_speed")
        for amsgrad in (False, True):
            o = {"amsgrad": amsgrad, "beta1": 0.9, "beta2": 0.99, "lr": 0.01, "weight_decay": 0.1, "eps": 1e-3,
                 "maximize": False}
            lists = lambda: [[c(3, 4), c(5)], [c(3, 4), c(5)], [c(3, 4), c(5)], [c(3, 4).abs(), c(5).abs()],
                             [c(3, 4).abs(), c(5).abs()] if amsgrad else []]
            yield own("adamw", "cpp_adamw", step, c(3, 4), c(3, 4), c(3, 4).abs(), c(3, 4).abs() if amsgrad else None,
                      c(3, 4), 0.01, 0.9, 0.99, 1e-3, 0.1, 2, amsgrad)
            yield own("_adamw_dipu.fused_adamw", "fused_adamw", steps, *lists(), 3, module="interntrain_ops", **o)
            yield own("adamw", "adamw", adamw, *lists(), [3, 1], module="ascend_speed", **o,
                      norm_coeff_scale=0.5 if amsgrad else None)
        at = torch.tensor([4, 0, 2])
        for name, f, *args in (("index_first_axis", index_first_axis, t(dt, 5, 2, 3), at),
                               ("bert_padding.index_first_axis_residual", residual, t(dt, 5, 2, 3), at),
                               ("bert_padding.index_put_first_axis", index_put, t(dt, 3, 2, 3), at, 6),
                               ("pad_input", pad_input, t(dt, 3, 2, 3), at, 2, 3),
                               ("unpad_input", unpad_input, t(dt, 2, 3, 4), torch.tensor([[1, 1, 0], [1, 0, 1]])),
                               ("bert_padding.unpad_input_for_concatenated_sequences", unpad_concatenated, t(dt, 2, 4, 3),
                                torch.tensor([[2, 1, 0, 0], [3, 0, 0, 0]]))):
            yield name.split(".")[-1], ["deeplink_ext.easyllm_ops." + name], f, args, {}


if __name__ == "__main__":
    record.write("deeplink", calls())
