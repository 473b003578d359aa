#!/usr/bin/env python3
"""Golden values of FlashInfer's functions, from formulas in plain torch, in float32 and rounded once.

  python3 ops/testdata/golden/flashinfer.py

writes flashinfer.jsonl beside this file, in the form of record.py. Needs torch alone. FlashInfer's own kernels need a
device; the formulas are those of its documentation and of the references in its tests.
"""
import math

import torch

import record

F32 = torch.float32


def rms(x, weight, eps, more=0.0):
    x = x.to(F32)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (weight.to(F32) + more)


def norm(more):
    return lambda input, weight, eps=1e-6: rms(input, weight, eps, more).to(input.dtype)


def add_norm(more):
    def f(input, residual, weight, eps=1e-6):
        total = input.detach().to(F32) + residual.detach().to(F32)
        with torch.no_grad():
            input.copy_(rms(total, weight, eps, more))
            residual.copy_(total)
    return f


def gate(act):
    def f(input):
        a, b = input.to(F32).chunk(2, -1)
        return (act(a) * b).to(input.dtype)
    return f


def softmax(logits, temperature=None):
    x = logits.to(F32)
    if temperature is not None:
        x = x / (temperature.unsqueeze(-1) if isinstance(temperature, torch.Tensor) else temperature)
    return torch.softmax(x, -1)


def merge_states(v, s):
    p = torch.exp2(s - s.max(1, keepdim=True).values)
    out = (v.to(F32) * p.unsqueeze(-1)).sum(1) / p.sum(1).unsqueeze(-1)
    return out.to(v.dtype), torch.log2(torch.exp2(s).sum(1))


def merge_state(v_a, s_a, v_b, s_b):
    return merge_states(torch.stack([v_a, v_b], 1), torch.stack([s_a, s_b], 1))


def merge_in_place(v, s, v_other, s_other, mask=None):
    new_v, new_s = merge_state(v, s, v_other, s_other)
    if mask is not None:
        new_v, new_s = torch.where(mask[:, None, None], new_v, v), torch.where(mask[:, None], new_s, s)
    v.copy_(new_v)
    s.copy_(new_s)


def cached_rope(in_place):
    def f(positions, query, key, head_size, cos_sin_cache, is_neox=True):
        cos, sin = cos_sin_cache[positions.long()].to(F32).unsqueeze(1).chunk(2, -1)
        n = 2 * cos.shape[-1]

        def turn(x):
            y = x.to(F32).view(len(positions), -1, head_size)
            part, rest = y[..., :n], y[..., n:]
            a, b = part.chunk(2, -1) if is_neox else (part[..., ::2], part[..., 1::2])
            c, d = a * cos - b * sin, b * cos + a * sin
            out = torch.cat([c, d], -1) if is_neox else torch.stack([c, d], -1).flatten(-2)
            return torch.cat([out, rest], -1).reshape(x.shape).to(x.dtype)
        if not in_place:
            return turn(query), turn(key)
        with torch.no_grad():
            new = turn(query), turn(key)
            query.copy_(new[0])
            key.copy_(new[1])
    return f


def turned(x, positions, rotary_dim=None, interleave=False, scale=1.0, theta=1e4, llama=None):
    n = rotary_dim or x.shape[-1]
    freq = 1.0 / theta ** (torch.arange(0, n, 2, dtype=F32) / n)
    if llama:  # as transformers scales the frequencies of Llama 3.1
        low, high, length = llama
        wave = 2 * math.pi / freq
        smooth = (length / wave - low) / (high - low)
        between = (1 - smooth) * freq / scale + smooth * freq
        freq = torch.where(wave > length / low, freq / scale, torch.where(wave < length / high, freq, between))
    else:
        freq = freq / scale
    angle = positions.to(F32)[:, None] * freq
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    y = x.to(F32)
    part, rest = y[..., :n], y[..., n:]
    a, b = (part[..., ::2], part[..., 1::2]) if interleave else part.chunk(2, -1)
    c, d = a * cos - b * sin, b * cos + a * sin
    out = torch.stack([c, d], -1).flatten(-2) if interleave else torch.cat([c, d], -1)
    return torch.cat([out, rest], -1).to(x.dtype)


def in_segments(indptr, offsets):
    return torch.cat([torch.arange(b - a) + o for a, b, o in zip(indptr.tolist(), indptr.tolist()[1:], offsets.tolist())])


def rope(segments, llama, in_place):
    def f(q, k, *rest, rotary_dim=None, interleave=False, rope_scale=8 if llama else 1, rope_theta=5e5 if llama else 1e4,
          low_freq_factor=1, high_freq_factor=4, old_context_len=8192):
        at = in_segments(*rest) if segments else rest[0]
        factors = (low_freq_factor, high_freq_factor, old_context_len) if llama else None
        q2, k2 = (turned(x, at, rotary_dim, interleave, rope_scale, rope_theta, factors) for x in (q, k))
        if not in_place:
            return q2, k2
        with torch.no_grad():
            q.copy_(q2)
            k.copy_(k2)
    return f


def attention(q, k, v, scale, layout="NHD", causal=False, mask=None, window=-1, cap=None, encoding="NONE", times=1.0, lse=False,
              rope_scale=None, rope_theta=None):
    if layout == "HND":
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    length, keys, heads = q.shape[0], k.shape[0], q.shape[1]
    at, places = torch.arange(keys - length, keys), torch.arange(keys)
    if encoding == "ROPE_LLAMA":
        q, k = (turned(x, p, scale=rope_scale or 1.0, theta=rope_theta or 1e4) for x, p in ((q, at), (k, places)))
    dt = q.dtype
    q, k, v = q.to(F32), k.to(F32), v.to(F32)
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    s = torch.einsum("qhd,khd->hqk", q, k) * (scale or q.shape[-1] ** -0.5)
    if encoding == "ALIBI":
        slopes = torch.tensor([2 ** (-8 * (h + 1) / heads) for h in range(heads)])
        s = s + slopes[:, None, None] * (places[None, :] - at[:, None])
    if cap:
        s = cap * torch.tanh(s / cap)
    seen = mask if mask is not None else places[None, :] <= at[:, None] if causal else torch.ones(length, keys, dtype=torch.bool)
    if window >= 0:
        seen = seen & (at[:, None] - places[None, :] <= window)
    s = s.masked_fill(~seen, float("-inf"))
    out = (torch.einsum("hqk,khd->qhd", torch.softmax(s, -1), v) * times).to(dt)
    return (out, torch.logsumexp(s, -1).t() / math.log(2)) if lse else out


def prefill(q, k, v, causal=False, kv_layout="NHD", pos_encoding_mode="NONE", sm_scale=None, window_left=-1, logits_soft_cap=None,
            custom_mask=None, return_lse=False, rope_scale=None, rope_theta=None, k_scale=1.0, v_scale=1.0):
    return attention(q, k, v, (sm_scale or q.shape[-1] ** -0.5) * k_scale, kv_layout, causal, custom_mask, window_left,
                     logits_soft_cap, pos_encoding_mode, v_scale, return_lse, rope_scale, rope_theta)


def decode(q, k, v, kv_layout="NHD", pos_encoding_mode="NONE", q_scale=1.0, k_scale=1.0, v_scale=1.0, window_left=-1,
           logits_soft_cap=None, sm_scale=None, return_lse=False):
    out = attention(q[None], k, v, (sm_scale or q.shape[-1] ** -0.5) * q_scale * k_scale, kv_layout, True, None, window_left,
                    logits_soft_cap, pos_encoding_mode, v_scale, return_lse)
    return tuple(x[0] for x in out) if return_lse else out[0]


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def t(dt, *shape, grad=True):
        return torch.randn(*shape, generator=g).to(dt).requires_grad_(grad and dt.is_floating_point)

    ints = lambda *v: torch.tensor(v, dtype=torch.int32)
    act = torch.nn.functional
    for dt in (torch.float32, torch.float16, torch.bfloat16):
        for name, more in (("rmsnorm", 0.0), ("gemma_rmsnorm", 1.0)):
            yield name, norm(more), (t(dt, 3, 8), t(dt, 8)), {"eps": 1e-3}
        for name, more in (("fused_add_rmsnorm", 0.0), ("gemma_fused_add_rmsnorm", 1.0)):
            yield name, add_norm(more), (t(dt, 3, 8, grad=False), t(dt, 3, 8, grad=False), t(dt, 8, grad=False)), {}
        for name, f in (("silu_and_mul", act.silu), ("gelu_and_mul", act.gelu),
                        ("gelu_tanh_and_mul", lambda x: act.gelu(x, approximate="tanh"))):
            yield name, gate(f), (t(dt, 2, 8),), {}
        yield "merge_state", merge_state, (t(dt, 2, 2, 4), t(F32, 2, 2), t(dt, 2, 2, 4), t(F32, 2, 2)), {}
        yield "merge_states", merge_states, (t(dt, 2, 3, 2, 4), t(F32, 2, 3, 2)), {}
        for llama, kind in ((False, "rope"), (True, "llama31_rope")):
            for segments, rest in ((True, (ints(0, 2, 5), ints(30, 0))), (False, (ints(30, 31, 0, 1, 2),))):
                name = "apply_" + kind + ("" if segments else "_pos_ids")
                options = {"old_context_len": 64, "rope_theta": 1e3} if llama else {"rope_scale": 2.0}
                more = {"interleave": True, "rotary_dim": 4} if dt != torch.float16 else {}
                yield name, rope(segments, llama, False), (t(dt, 5, 1, 8), t(dt, 5, 1, 8), *rest), dict(options, **more)
                if dt == torch.bfloat16:
                    yield (name + "_inplace", rope(segments, llama, True),
                           (t(dt, 5, 2, 8, grad=False), t(dt, 5, 1, 8, grad=False), *rest), dict(options))
        q, k, v = t(dt, 3, 4, 8), t(dt, 5, 2, 8), t(dt, 5, 2, 8)
        p = "single_prefill_with_kv_cache"
        yield p, prefill, (q, k, v), {"return_lse": dt == F32}
        yield p, prefill, (q, k, v), {"causal": True, "window_left": 1, "logits_soft_cap": 2.0, "sm_scale": 0.5}
        yield p, prefill, (q, k, v), {"causal": True, "pos_encoding_mode": "ALIBI"}
        d = "single_decode_with_kv_cache"
        yield d, decode, (t(dt, 4, 8), k, v), {"return_lse": dt == F32}
        yield d, decode, (t(dt, 4, 8), k, v), {"window_left": 2, "logits_soft_cap": 2.0, "sm_scale": 0.5, "pos_encoding_mode": "NONE"}
        yield d, decode, (t(dt, 4, 8), k, v), {"pos_encoding_mode": "ALIBI"}
    q, k, v = t(F32, 3, 4, 8), t(F32, 2, 5, 8), t(F32, 2, 5, 8)
    mask = torch.tensor([[1, 0, 1, 0, 0], [1, 1, 1, 0, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)
    p = "single_prefill_with_kv_cache"
    yield p, prefill, (q, k, v), {"kv_layout": "HND", "custom_mask": mask, "return_lse": True, "k_scale": 0.5, "v_scale": 2.0}
    yield p, prefill, (q, k, v), {"kv_layout": "HND", "causal": True, "pos_encoding_mode": "ROPE_LLAMA", "return_lse": True,
                                  "rope_scale": 2.0, "rope_theta": 100.0}
    yield p, prefill, (q, k, v), {"kv_layout": "HND", "causal": True, "window_left": 2, "logits_soft_cap": 1.5, "return_lse": True}
    yield "single_decode_with_kv_cache", decode, (q[0].detach().requires_grad_(), k, v), {"kv_layout": "HND", "q_scale": 0.5,
                                                "v_scale": 2.0, "return_lse": True, "pos_encoding_mode": "ROPE_LLAMA"}
    yield "softmax", softmax, (t(F32, 2, 5),), {}
    yield "softmax", softmax, (t(torch.bfloat16, 2, 5),), {"temperature": 0.5}
    yield "softmax", softmax, (t(F32, 2, 5), torch.tensor([0.5, 2.0])), {}
    for dt in (torch.float32, torch.float16, torch.bfloat16):
        kept = lambda *shape: t(dt, *shape, grad=False)
        yield ("merge_state_in_place", merge_in_place, (kept(3, 2, 4), t(F32, 3, 2, grad=False), kept(3, 2, 4), t(F32, 3, 2, grad=False)),
               {} if dt == F32 else {"mask": torch.tensor([True, False, True])})
        table = torch.randn(6, 4, generator=g)
        yield "apply_rope_with_cos_sin_cache", cached_rope(False), (ints(3, 0, 5), t(dt, 3, 12), t(dt, 3, 6), 6, table), {}
        yield ("apply_rope_with_cos_sin_cache_inplace", cached_rope(True), (ints(3, 0, 5), kept(3, 12), kept(3, 6), 6, table),
               {"is_neox": False})


if __name__ == "__main__":
    record.write("flashinfer", (("flashinfer_" + name, ["flashinfer." + name], *call) for name, *call in calls()))
