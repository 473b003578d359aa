#!/usr/bin/env python3
"""Golden values of apex', Megatron-LM's and Transformer Engine's fused functions, from formulas in plain torch.

  python3 ops/testdata/golden/megatron.py

writes megatron.jsonl beside this file, in the form of record.py. Needs torch alone: the libraries' kernels need a
device. What they fuse is computed in float32 (float64 of float64) and rounded once; what Megatron-LM writes in torch
is rounded step by step, as it does.
"""
import torch

import record

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
act = torch.nn.functional


def wide(x):
    return x if x is None or x.dtype == F64 else x.to(F32)


def layer_norm(x, weight, bias, shape, eps=1e-6, raw=False, mixed=False):
    dims = list(range(x.dim() - len(shape), x.dim()))
    w = wide(x)
    mean = w.mean(dims, keepdim=True)
    rstd = torch.rsqrt((w - mean).pow(2).mean(dims, keepdim=True) + eps)
    y = (w - mean) * rstd
    y = y if weight is None else y * wide(weight) + wide(bias)
    y = y.to(weight.dtype if mixed else x.dtype)
    return (y, mean.flatten(), rstd.flatten()) if raw else y


def rms_norm(x, weight, shape, eps=1e-6, raw=False, mixed=False):
    dims = list(range(x.dim() - len(shape), x.dim()))
    w = wide(x)
    rstd = torch.rsqrt(w.pow(2).mean(dims, keepdim=True) + eps)
    y = w * rstd if weight is None else w * rstd * wide(weight)
    y = y.to(weight.dtype if mixed else x.dtype)
    return (y, rstd.flatten()) if raw else y


def softmax(x, scale, hidden=None):
    s = wide(x) * scale
    s = s if hidden is None else s.masked_fill(hidden, float("-inf"))
    return torch.softmax(s, -1).to(x.dtype)


def masked_softmax(x, mask, scale):
    y = torch.softmax((wide(x) * scale).masked_fill(mask, -10000.0), -1)
    return y.masked_fill(mask.all(-1, keepdim=True), 0.0).to(x.dtype)


def behind(n, m, offset=0):
    return torch.ones(n, m, dtype=torch.bool).triu(1 + offset)


def upper(x, scale):
    return softmax(x, scale, behind(*x.shape[-2:]))


def aligned(x, scale):
    n, m = x.shape[-2:]
    return softmax(x, scale, behind(n, m, m - n))


def softmax_backward(grads, y, scale):
    t = wide(grads) * wide(y)
    return ((t - wide(y) * t.sum(-1, keepdim=True)) * scale).to(y.dtype)


def gelu_tanh(x):
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def gated(f, x, bias=None, weights=None, limit=None, offset=0.0):
    dt = x.dtype
    x = x if bias is None else x + bias
    if limit is not None:
        a, b = x.to(F32).chunk(2, -1)
        y = (f(a.clamp(max=limit)) * b.clamp(-limit, limit)).to(dt)
    else:
        a, b = x.chunk(2, -1)
        y = f(a) * (b + offset if offset else b)
    return y if weights is None else (y * weights).to(dt)


def turned(x, interleaved):
    if interleaved:
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotate(t, cos, sin, interleaved=False, steps=False):
    n = cos.shape[-1]
    part, rest = t[..., :n], t[..., n:]
    if steps:
        part = part * cos.to(t.dtype) + turned(part, interleaved) * sin.to(t.dtype)
    else:
        part = wide(part)
        part = (part * wide(cos) + turned(part, interleaved) * wide(sin)).to(t.dtype)
    return torch.cat([part, rest], -1)


def rope(t, freqs, interleaved=False, steps=False):
    return rotate(t, freqs.cos(), freqs.sin(), interleaved, steps)


def packed(t, ends, freqs, starts=None, **o):
    parts = []
    for i in range(len(ends) - 1):
        lo, n = int(ends[i]), int(ends[i + 1] - ends[i])
        at = 0 if starts is None else int(starts[i])
        parts.append(rope(t[lo:lo + n], freqs[at:at + n, 0], **o))
    return torch.cat(parts)


def plane(t, h, w, cos_h, sin_h, cos_w, sin_w):
    a, b = t.unflatten(1, (h, w)).chunk(2, -1)
    a = rotate(a, cos_h[:, :h, None], sin_h[:, :h, None])
    b = rotate(b, cos_w[:, None, :w], sin_w[:, None, :w])
    return torch.cat([a, b], -1).flatten(1, 2)


def megatron_rope(t, freqs, interleaved=False, mla=False, mscale=1.0, inverse=False, back=False):
    n = freqs.shape[-1]
    part, rest = t[..., :n], t[..., n:]
    if mla:
        part = torch.cat([part[..., ::2], part[..., 1::2]], -1)
    cos, sin = (freqs.cos() * mscale).to(t.dtype), (freqs.sin() * mscale).to(t.dtype)
    part = part * cos + turned(part, interleaved) * (-sin if inverse else sin)
    if mla and back:
        part = torch.stack(part.chunk(2, -1), -1).flatten(-2)
    return torch.cat([part, rest], -1)


def engine_rope(t, freqs, tensor_format="sbhd", start_positions=None, interleaved=False, fused=False, cu_seqlens=None):
    o = {"interleaved": interleaved, "steps": not fused}
    if tensor_format == "thd":
        return packed(t, cu_seqlens, freqs, start_positions, **o)
    t = t.transpose(0, 1) if tensor_format == "sbhd" else t
    starts = [0] * len(t) if start_positions is None else start_positions.tolist()
    y = torch.stack([rope(x, freqs[s:s + len(x), 0], **o) for x, s in zip(t, starts)])
    return y.transpose(0, 1) if tensor_format == "sbhd" else y


def entropy(x, target, smoothing=0.0):
    logp = torch.log_softmax(wide(x), -1)
    loss = -logp.gather(-1, target[..., None])[..., 0]
    return loss if smoothing == 0 else (1 - smoothing) * loss - smoothing * logp.mean(-1)


def parallel(x, target, smoothing=0.0):
    n = x.shape[-1]
    return entropy(x, target, smoothing * n / (n - 1))


def token(x, target, smoothing=0.0, reduce=False, group=None, ignored=-100):
    skip = target == ignored
    loss = entropy(x, target.masked_fill(skip, 0), smoothing).masked_fill(skip, 0.0)
    return loss.sum() / max(int((~skip).sum()), 1) if reduce else loss


def apex_entropy(x, labels, smoothing=0.0, padding=0, to_float=False):
    loss = entropy(x, labels, smoothing).masked_fill(labels == padding, 0.0)
    return loss if to_float else loss.to(x.dtype)


def raw_entropy(x, labels, smoothing, to_float):
    loss = entropy(x, labels, smoothing)
    return loss if to_float else loss.to(x.dtype), torch.logsumexp(wide(x), -1)


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def t(dt, *shape, grad=True):
        return torch.randn(*shape, generator=g).to(dt).requires_grad_(grad)

    def call(op, name, f, *args, **kwargs):
        return op, [name], f, args, kwargs

    target = torch.tensor([[0, 3, 2], [4, 1, 2]])
    hidden = torch.tensor([[[[0, 1, 0, 0], [1, 1, 1, 1], [1, 0, 1, 0]]], [[[0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 1, 1]]]],
                          dtype=torch.bool)
    ends, starts = torch.tensor([0, 3, 5], dtype=torch.int32), torch.tensor([2, 0], dtype=torch.int32)
    apex, fusions = "apex.normalization.fused_layer_norm.", "megatron.core.fusions."
    rope_of, engine = "apex.transformer.functional.fused_rope.", "transformer_engine.pytorch."
    for dt in (F64, F32, F16, BF16):
        c = lambda *s: t(dt, *s, grad=False)
        s = (2, 4)
        x, w, b = (lambda: t(dt, 3, 2, 4)), (lambda d=dt: t(d, 2, 4)), (lambda d=dt: t(d, 2, 4))
        raw = "fused_layer_norm_cuda."
        yield call("apex_fused_layer_norm_affine", apex + "fused_layer_norm_affine", layer_norm, x(), w(), b(), s, 1e-3)
        yield call("apex_fused_layer_norm", apex + "FusedLayerNormFunction.apply",
                   lambda x, *a: layer_norm(x, None, None, *a), x(), s, 1e-3)
        yield call("apex_fused_rms_norm_affine", apex + "FusedRMSNormAffineFunction.apply", rms_norm, x(), w(), s, 1e-3)
        yield call("apex_fused_rms_norm", "apex.normalization.fused_rms_norm", lambda x, *a: rms_norm(x, None, *a), x(), s)
        acc = F64 if dt == F64 else F32
        yield call("apex_mixed_dtype_fused_layer_norm_affine", apex + "mixed_dtype_fused_layer_norm_affine",
                   lambda *a: layer_norm(*a, mixed=True), x(), w(acc), b(acc), s, 1e-3)
        yield call("apex_mixed_dtype_fused_rms_norm_affine", apex + "mixed_dtype_fused_rms_norm_affine",
                   lambda *a: rms_norm(*a, mixed=True), x(), w(acc), s, 1e-3)
        yield call("apex_fused_layer_norm_affine_forward", raw + "forward_affine",
                   lambda x, s, w, b, e: layer_norm(x, w, b, s, e, raw=True), x(), s, w(), b(), 1e-3)
        yield call("apex_fused_rms_norm_affine_forward", raw + "rms_forward_affine",
                   lambda x, s, w, e: rms_norm(x, w, s, e, raw=True), x(), s, w(), 1e-3)

        yield call("scaled_softmax", fusions + "fused_softmax.ScaledSoftmax.apply", softmax, t(dt, 2, 2, 3, 4), 0.5)
        yield call("scaled_masked_softmax.megatron", "apex.transformer.functional.fused_softmax.scaled_masked_softmax",
                   masked_softmax, t(dt, 2, 2, 3, 4), hidden, 0.5)
        yield call("scaled_upper_triang_masked_softmax", fusions + "fused_softmax.ScaledUpperTriangMaskedSoftmax.apply",
                   upper, t(dt, 2, 4, 4), 0.5)
        yield call("scaled_aligned_causal_masked_softmax", "scaled_aligned_causal_masked_softmax_cuda.forward", aligned,
                   t(dt, 2, 2, 3, 5), 0.5)
        yield call("scaled_softmax_backward", "scaled_softmax_cuda.backward", softmax_backward, c(2, 3, 4),
                   torch.softmax(c(2, 3, 4), -1), 0.5)

        sw, ge = fusions + "fused_bias_swiglu.", fusions + "fused_bias_geglu."
        if dt != F64:  # the constant in Megatron-LM's GELU has 8 digits
            yield call("megatron_bias_gelu", fusions + "fused_bias_gelu.bias_gelu", lambda b, y: gelu_tanh(b + y), t(dt, 4),
                       t(dt, 3, 4))
            yield call("megatron_bias_gelu_impl", fusions + "fused_bias_gelu.bias_gelu_impl",
                       lambda y, b: gelu_tanh(b + y), t(dt, 3, 4), t(dt, 4))
            yield call("megatron_geglu", ge + "geglu", lambda y: gated(gelu_tanh, y), t(dt, 3, 8))
            yield call("megatron_bias_geglu_impl", ge + "bias_geglu_impl", lambda y, b: gated(gelu_tanh, y, b),
                       t(dt, 2, 3, 8), t(dt, 8))
        yield call("megatron_swiglu", sw + "swiglu", lambda y: gated(act.silu, y), t(dt, 3, 8))
        yield call("megatron_bias_swiglu", sw + "bias_swiglu", lambda y, b: gated(act.silu, y, b), t(dt, 3, 8), t(dt, 8))
        yield call("megatron_weighted_swiglu", sw + "weighted_swiglu", lambda y, w: gated(act.silu, y, weights=w),
                   t(dt, 3, 8), t(dt, 3, 1))
        if dt != F64:  # it clamps in float32
            yield call("megatron_clamped_swiglu", sw + "clamped_swiglu", lambda y, v: gated(act.silu, y, limit=v),
                       t(dt, 3, 8), 0.8)
            yield call("megatron_bias_swiglu_impl", sw + "bias_swiglu_impl",
                       lambda y, b, f, o, v: gated(act.silu, y, b, limit=v), t(dt, 3, 8), t(dt, 8), False, False, 0.8)
        yield call("megatron_bias_swiglu_impl", sw + "BiasSwiGLUFunction.apply", lambda y, b, f, o: gated(act.silu, y, b),
                   t(dt, 3, 8), t(dt, 8), False, False)
        yield call("megatron_weighted_bias_swiglu_impl", sw + "weighted_bias_swiglu_impl",
                   lambda y, b, w: gated(act.silu, y, weights=w), t(dt, 3, 8), None, t(dt, 3, 1))
        yield call("megatron_quick_geglu", ge + "quick_geglu", lambda y, o: gated(quick_gelu, y, offset=o), t(dt, 3, 8), 1.0)
        yield call("megatron_weighted_bias_quick_geglu_impl", ge + "weighted_bias_quick_geglu_impl",
                   lambda y, b, w, f, o: gated(quick_gelu, y, b, w, offset=o), t(dt, 3, 8), t(dt, 8), t(dt, 3, 1), False, 1.0)
        yield call("megatron_weighted_squared_relu", fusions + "fused_weighted_squared_relu.weighted_squared_relu_impl",
                   lambda x, w: (act.relu(x).pow(2) * w).to(x.dtype), t(dt, 3, 4), t(dt, 3, 1))
        for name, f in (("gelu", lambda x: act.gelu(x, approximate="tanh")), ("qgelu", quick_gelu),
                        ("srelu", lambda x: act.relu(x).pow(2)), ("silu", act.silu), ("relu", act.relu)):
            yield call("transformer_engine_" + name, "transformer_engine_torch." + name,
                       lambda x, q, f=f: f(wide(x)).to(x.dtype), c(3, 8), None)
            gate = {"srelu": "sreglu", "silu": "swiglu", "relu": "reglu", "gelu": "geglu", "qgelu": "qgeglu"}[name]
            yield call("transformer_engine_" + gate, "transformer_engine_torch." + gate,
                       lambda x, q, f=f: gated(f, wide(x)).to(x.dtype), c(3, 8), None)

        a = lambda *s: t(F32, *s, grad=False)
        yield call("apex_fused_apply_rotary_pos_emb", rope_of + "fused_apply_rotary_pos_emb", rope, t(dt, 3, 2, 2, 6),
                   a(3, 1, 1, 4))
        yield call("apex_fused_apply_rotary_pos_emb_cached", rope_of + "FusedRoPECachedFunc.apply", rotate,
                   t(dt, 3, 2, 2, 6), c(3, 1, 1, 4), c(3, 1, 1, 4))
        yield call("apex_fused_apply_rotary_pos_emb_thd", rope_of + "fused_apply_rotary_pos_emb_thd", packed, t(dt, 5, 2, 6),
                   ends, a(4, 1, 1, 4))
        yield call("apex_fused_apply_rotary_pos_emb_2d", rope_of + "fused_apply_rotary_pos_emb_2d", plane, t(dt, 2, 6, 2, 8),
                   2, 3, c(1, 3, 1, 4), c(1, 3, 1, 4), c(1, 4, 1, 4), c(1, 4, 1, 4))
        utils = "megatron.core.models.common.embeddings.rope_utils._apply_rotary_pos_emb_bshd"
        for o in ((), (True,), (False, True, 0.5), (True, True, 1.0, True, True)):
            yield call("megatron_apply_rotary_pos_emb_bshd", utils, megatron_rope, t(dt, 3, 2, 2, 6), a(3, 1, 1, 4), *o)
        for fused in (False, True):
            for shape, o in (((3, 2, 2, 6), {}), ((2, 3, 2, 6), {"tensor_format": "bshd", "start_positions": starts}),
                             ((5, 2, 6), {"tensor_format": "thd", "cu_seqlens": ends, "interleaved": True})):
                yield call("transformer_engine_apply_rotary_pos_emb", engine + "attention.rope.apply_rotary_pos_emb",
                           engine_rope, t(dt, *shape), a(5, 1, 1, 4), fused=fused, **o)
        yield call("transformer_engine_fused_rope", engine + "attention.rope.FusedRoPEFunc.apply",
                   lambda t, f, s, form: engine_rope(t, f, form, s, fused=True), t(dt, 3, 2, 2, 6), a(5, 1, 1, 4), starts,
                   "sbhd")

        for smoothing in (0.0, 0.1):
            yield call("megatron_vocab_parallel_cross_entropy",
                       "megatron.core.tensor_parallel.cross_entropy.vocab_parallel_cross_entropy", parallel,
                       t(dt, 2, 3, 5), target, smoothing)
            for reduce in (False, True):
                yield call("transformer_engine_parallel_cross_entropy", engine + "parallel_cross_entropy", token,
                           t(dt, 2, 3, 5), target, smoothing, reduce, None, 2)
            yield call("apex_softmax_cross_entropy_loss", "apex.contrib.xentropy.SoftmaxCrossEntropyLoss.apply",
                       apex_entropy, t(dt, 6, 5), target.flatten(), smoothing, 2, smoothing > 0)
            yield call("apex_xentropy_forward", "xentropy_cuda.forward", raw_entropy, c(6, 5), target.flatten(), smoothing,
                       smoothing > 0)
        yield call("megatron_fused_vocab_parallel_cross_entropy",
                   fusions + "fused_cross_entropy.fused_vocab_parallel_cross_entropy", parallel, t(dt, 2, 3, 5), target)


if __name__ == "__main__":
    record.write("megatron", calls())
