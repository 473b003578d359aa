#!/usr/bin/env python3
"""Golden values of flash-attn's and DeepLinkExt's attention and of vLLM's and SGLang's kernels, from formulas in plain torch.

  python3 ops/testdata/golden/llm.py

writes llm.jsonl beside this file, in the form of record.py. Needs torch alone: the kernels need a device. Sums and
products are computed in float32 (float64 of float64) and rounded once, as they do.
"""
import torch

import record

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def wide(x):
    return x if x.dtype == torch.float64 else x.to(F32)


def attend(q, k, v, scale=None, causal=False, window=(-1, -1), softcap=0.0, slopes=None):
    """Attention of q (length, heads, size), whose last row stands at the last key."""
    n, heads, size = q.shape
    keys = k.shape[0]
    dt, q, k, v = q.dtype, wide(q), wide(k), wide(v)
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    s = torch.einsum("qhd,khd->hqk", q, k) * (scale or size ** -0.5)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    distance = torch.arange(n)[:, None] + keys - n - torch.arange(keys)[None, :]
    if slopes is not None:
        s = s - slopes[:, None, None] * distance.abs()
    hidden = torch.zeros(n, keys, dtype=torch.bool)
    left, right = window[0], 0 if causal else window[1]
    if left >= 0:
        hidden |= distance > left
    if right >= 0:
        hidden |= -distance > right
    blind = hidden.all(1)
    s = s.masked_fill(hidden & ~blind[:, None], float("-inf"))
    p = torch.softmax(s, -1).masked_fill(blind[None, :, None], 0.0)
    return torch.einsum("hqk,khd->qhd", p, v).to(dt)


def options(dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None):
    return {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap, "slopes": alibi_slopes}


def batched(q, k, v, **o):
    return torch.stack([attend(*x, **options(**o)) for x in zip(q, k, v)])


def varlen(q, k, v, cu_q, cu_k, max_q, max_k, block_table=None, **o):
    out = []
    for i in range(len(cu_q) - 1):
        n = int(cu_k[i + 1] - cu_k[i])
        if block_table is None:
            ki, vi = k[cu_k[i]:cu_k[i + 1]], v[cu_k[i]:cu_k[i + 1]]
        else:
            ki, vi = (x[block_table[i].long()].flatten(0, 1)[:n] for x in (k, v))
        out.append(attend(q[cu_q[i]:cu_q[i + 1]], ki, vi, **options(**o)))
    return torch.cat(out)


def pairs(x, cos, sin, interleaved):
    n = 2 * cos.shape[-1]
    turn, rest = wide(x[..., :n]), x[..., n:]
    cos, sin = wide(cos), wide(sin)
    a, b = (turn[..., ::2], turn[..., 1::2]) if interleaved else turn.chunk(2, -1)
    y = (a * cos - b * sin, b * cos + a * sin)
    y = torch.stack(y, -1).flatten(-2) if interleaved else torch.cat(y, -1)
    return torch.cat([y.to(x.dtype), rest], -1)


def with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                 cache_batch_idx=None, cache_leftpad=None, block_table=None, rotary_interleaved=True, **o):
    out = []
    opt = options(**o)
    local = opt["causal"] or max(opt["window"]) >= 0
    with torch.no_grad():
        for i in range(len(q)):
            n = int(cache_seqlens[i])
            if block_table is None:
                row = i if cache_batch_idx is None else int(cache_batch_idx[i])
                place = lambda j: (row, j)
            else:
                place = lambda j: (int(block_table[i, j // k_cache.shape[1]]), j % k_cache.shape[1])
            qi = q[i]
            if rotary_cos is not None:
                at = n + torch.arange(len(qi)) * (1 if local else 0)
                qi = pairs(qi, rotary_cos[at][:, None], rotary_sin[at][:, None], rotary_interleaved)
            if k is not None:
                ki, at = k[i], n + torch.arange(k.shape[1])
                if rotary_cos is not None:
                    ki = pairs(ki, rotary_cos[at][:, None], rotary_sin[at][:, None], rotary_interleaved)
                for j in range(len(ki)):
                    k_cache[place(n + j)], v_cache[place(n + j)] = ki[j], v[i, j]
                n += len(ki)
            lo = 0 if cache_leftpad is None else int(cache_leftpad[i])
            ks, vs = (torch.stack([c[place(j)] for j in range(lo, n)]) for c in (k_cache, v_cache))
            out.append(attend(qi, ks, vs, **opt))
    return torch.stack(out)


def log_sums(q, k, scale, causal):
    """The logarithms of the sums of exponentials of scores, (heads, length), infinite of a query that sees no key."""
    n, keys = q.shape[0], k.shape[0]
    k = wide(k).repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = torch.einsum("qhd,khd->hqk", wide(q), k) * (scale or q.shape[2] ** -0.5)
    if causal:
        s = s.masked_fill(torch.ones(n, keys, dtype=torch.bool).triu(1 + keys - n), float("-inf"))
    lse = torch.logsumexp(s, -1).to(F32)
    return lse.masked_fill(lse == float("-inf"), float("inf")).detach()


def batched_sums(q, k, v, softmax_scale=None, causal=False, return_attn_probs=True):
    lse = torch.stack([log_sums(a, b, softmax_scale, causal) for a, b in zip(q, k)])
    return batched(q, k, v, softmax_scale=softmax_scale, causal=causal), lse, q.new_zeros(0)


def varlen_sums(q, k, v, cu_q, cu_k, max_q, max_k, causal=False, return_attn_probs=True):
    lse = [log_sums(q[cu_q[i]:cu_q[i + 1]], k[cu_k[i]:cu_k[i + 1]], None, causal) for i in range(len(cu_q) - 1)]
    return varlen(q, k, v, cu_q, cu_k, max_q, max_k, causal=causal), torch.cat(lse, 1), q.new_zeros(0)


def rms(x, weight, eps):
    x32 = x.to(F32)
    return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def rms_norm(result, input, weight, epsilon):
    result.copy_(rms(input, weight, epsilon))


def fused_add_rms_norm(input, residual, weight, epsilon):
    residual.copy_(input.to(F32) + residual.to(F32))
    input.copy_(rms(residual, weight, epsilon))


def gate(f):
    def into(result, input):
        result.copy_(f(*input.to(F32).chunk(2, -1)))
    return into


def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox):
    cos, sin = (c[positions.long()][:, None] for c in cos_sin_cache.chunk(2, -1))
    for x in (query, key):
        x.copy_(pairs(x.reshape(len(positions), -1, head_size), cos, sin, not is_neox).reshape(x.shape))


def reshape_and_cache(key, value, key_cache, value_cache, slots, dtype, k_scale, v_scale):
    size, x = key_cache.shape[3], key_cache.shape[4]
    for i, s in enumerate(slots.tolist()):
        if s >= 0:
            key_cache[s // size, :, :, s % size] = key[i].reshape(key.shape[1], -1, x)
            value_cache[s // size, :, :, s % size] = value[i]


def reshape_and_cache_flash(key, value, key_cache, value_cache, slots, dtype, k_scale, v_scale):
    size = key_cache.shape[1]
    for i, s in enumerate(slots.tolist()):
        if s >= 0:
            key_cache[s // size, s % size], value_cache[s // size, s % size] = key[i], value[i]


def paged_v1(out, query, key_cache, value_cache, heads, scale, tables, lens, size, longest, slopes, dtype, k_scale,
             v_scale):
    for i, n in enumerate(lens.tolist()):
        pages = tables[i].long()
        k = key_cache[pages].permute(0, 3, 1, 2, 4).flatten(0, 1).flatten(2)[:n]
        v = value_cache[pages].permute(0, 3, 1, 2).flatten(0, 1)[:n]
        out[i] = attend(query[i:i + 1], k, v, scale, slopes=slopes)[0]


def paged_v2(out, exp_sums, max_logits, tmp_out, *rest):
    paged_v1(out, *rest)


def routed(scores, at, renormalize, factor=1.0):
    w = scores.gather(-1, at)
    return (w / w.sum(-1, keepdim=True) if renormalize else w) * factor


def choose(weights, indices, sources, scores, renormalize=False, bias=None, factor=1.0):
    """Experts are chosen by scores + bias and weigh what their scores are."""
    at = (scores if bias is None else scores + bias).topk(weights.shape[1], -1)[1]
    weights.copy_(routed(scores, at, renormalize, factor))
    indices.copy_(at)
    rows, k = weights.shape
    if sources is not None:
        sources.copy_(torch.arange(rows * k).reshape(k, rows).t())


def topk_softmax(weights, indices, sources, logits, renormalize=False, bias=None):
    choose(weights, indices, sources, torch.softmax(logits.to(F32), -1), renormalize, bias)


def topk_sigmoid(weights, indices, sources, logits, renormalize=False, bias=None, factor=1.0):
    choose(weights, indices, sources, torch.sigmoid(logits.to(F32)), renormalize, bias, factor)


def topk_softplus_sqrt(weights, indices, sources, logits, renormalize, factor, bias=None, tokens=None, table=None):
    scores = torch.nn.functional.softplus(logits.to(F32)).sqrt()
    choose(weights, indices, sources, scores, renormalize, bias, factor)
    if table is not None:
        indices.copy_(table[tokens.long()])
        weights.copy_(routed(scores, indices.long(), renormalize, factor))


def sgl_topk_softmax(weights, indices, logits, renormalize=False, cap=0.0, bias=None):
    x = logits.to(F32)
    x = torch.tanh(x / cap) * cap if cap else x
    choose(weights, indices, None, torch.softmax(x if bias is None else x + bias, -1), renormalize)


def sgl_topk_sigmoid(weights, indices, logits, renormalize=False, bias=None):
    topk_sigmoid(weights, indices, None, logits, renormalize, bias)


def grouped(scores, biased, groups, chosen, k, renormalize, factor):
    each = biased.unflatten(-1, (groups, -1))
    best = each.topk(2, -1)[0].sum(-1).topk(chosen, -1)[1]
    kept = torch.zeros(each.shape[:2], dtype=torch.bool).scatter(1, best, True)[:, :, None].expand_as(each).flatten(1)
    at = biased.masked_fill(~kept, float("-inf")).topk(k, -1)[1]
    return routed(scores, at, renormalize, factor), at.to(torch.int32)


def grouped_topk(scores, groups, chosen, k, renormalize, factor, bias, function=0):
    scores = scores.to(F32)
    scores = torch.sigmoid(scores) if function else scores
    return grouped(scores, scores + bias, groups, chosen, k, renormalize, factor)


def grouped_topk_biased(scores, biased, *rest):
    return grouped(scores.to(F32), biased.to(F32), *rest)


def moe_sum(x, out):
    out.copy_(wide(x).sum(1))


def align(ids, experts, block, sorted_ids, expert_ids, total):
    flat = ids.flatten().tolist()
    sorted_ids.fill_(len(flat))
    expert_ids.zero_()
    at = 0
    for e in range(experts):
        mine = [i for i, x in enumerate(flat) if x == e]
        sorted_ids[at:at + len(mine)] = torch.tensor(mine, dtype=sorted_ids.dtype)
        blocks = -(-len(mine) // block)
        expert_ids[at // block:at // block + blocks] = e
        at += blocks * block
    total.fill_(at)


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def t(dt, *shape, grad=True):
        return torch.randn(*shape, generator=g).to(dt).requires_grad_(grad)

    ints = lambda *v: torch.tensor(v, dtype=torch.int32)
    f = "flash_attn."
    d = "deeplink_ext.internevo_ops."
    table = ints((2, 0), (1, 0))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    for dt in (F32, F16, BF16):
        for o in ({}, {"causal": True, "softmax_scale": 0.5}, {"window_size": (2, 1), "softcap": 1.5},
                  {"window_size": (2, -1), "alibi_slopes": slopes}):
            q, k, v = t(dt, 2, 3, 4, 4), t(dt, 2, 5, 2, 4), t(dt, 2, 5, 2, 4)
            libs = [("", f)] if "softcap" in o else [("", f), ("deeplink_ext_", d)]
            for prefix, ns in libs:
                call = lambda name, fn, args, kw: (prefix + name, [ns + name], fn, args, kw)
                yield call("flash_attn_func", batched, (q, k, v), o)
                kv = lambda q, kv, **o: batched(q, kv[:, :, 0], kv[:, :, 1], **o)
                yield call("flash_attn_kvpacked_func", kv, (q, t(dt, 2, 5, 2, 2, 4)), o)
                qkv = lambda x, **o: batched(*x.unbind(2), **o)
                yield call("flash_attn_qkvpacked_func", qkv, (t(dt, 2, 4, 3, 4, 4),), o)
                ends = (ints(0, 3, 5), ints(0, 4, 5), 3, 4)
                yield call("flash_attn_varlen_func", varlen, (t(dt, 5, 4, 4), t(dt, 5, 2, 4), t(dt, 5, 2, 4), *ends), o)
                kv = lambda q, kv, *a, **o: varlen(q, kv[:, 0], kv[:, 1], *a, **o)
                yield call("flash_attn_varlen_kvpacked_func", kv, (t(dt, 5, 4, 4), t(dt, 5, 2, 2, 4), *ends), o)
                qkv = lambda x, cu, n, **o: varlen(*x.unbind(1), cu, cu, n, n, **o)
                yield call("flash_attn_varlen_qkvpacked_func", qkv, (t(dt, 5, 3, 4, 4), ints(0, 3, 5), 3), o)
        yield ("flash_attn_varlen_func", [f + "flash_attn_varlen_func"], varlen,
               (t(dt, 5, 4, 4), t(dt, 3, 3, 2, 4), t(dt, 3, 3, 2, 4), ints(0, 3, 5), ints(0, 5, 7), 3, 5),
               {"causal": True, "block_table": table})
        for o in ({}, {"causal": True, "softmax_scale": 0.5}):
            yield ("flash_attn_func", [f + "flash_attn_func"], batched_sums,
                   (t(dt, 2, 6, 4, 4), t(dt, 2, 5, 2, 4), t(dt, 2, 5, 2, 4)), {**o, "return_attn_probs": True})
        yield ("flash_attn_varlen_func", [f + "flash_attn_varlen_func"], varlen_sums,
               (t(dt, 5, 4, 4), t(dt, 5, 2, 4), t(dt, 5, 2, 4), *ends), {"causal": True, "return_attn_probs": True})
        n = "flash_attn_with_kvcache"
        c = lambda *s: t(dt, *s, grad=False)
        new = lambda: (c(2, 2, 2, 4), c(2, 2, 2, 4))
        base = lambda rows=6: (c(2, 2, 4, 4), c(3, rows, 2, 4), c(3, rows, 2, 4))
        turns = lambda: (c(8, 1), c(8, 1))
        for args, o in (((*base(), *new(), *turns()), {"causal": True}),
                        ((*base(), *new(), *turns()), {"rotary_interleaved": False, "cache_batch_idx": ints(2, 0)}),
                        ((c(2, 2, 4, 4), c(4, 3, 2, 4), c(4, 3, 2, 4), *new()),
                         {"causal": True, "block_table": ints((2, 0), (1, 3)), "softcap": 1.5}),
                        (base(), {"cache_leftpad": ints(1, 0), "window_size": (1, 0), "alibi_slopes": slopes})):
            yield n, [f + n], with_kvcache, args, {"cache_seqlens": ints(4, 2), **o}

        def vllm(name, fn, *args, module="_C"):
            return "vllm_" + name, [f"torch.ops.{module}.{name}"], fn, args, {}
        act = torch.nn.functional
        yield vllm("rms_norm", rms_norm, c(3, 8), c(3, 8), c(8), 1e-3)
        yield vllm("fused_add_rms_norm", fused_add_rms_norm, c(3, 8), c(3, 8), c(8), 1e-3)
        for name, fn in (("silu_and_mul", lambda a, b: act.silu(a) * b), ("mul_and_silu", lambda a, b: a * act.silu(b)),
                         ("gelu_and_mul", lambda a, b: act.gelu(a) * b),
                         ("gelu_tanh_and_mul", lambda a, b: act.gelu(a, approximate="tanh") * b)):
            yield vllm(name, gate(fn), c(3, 4), c(3, 8))
        for neox in (True, False):
            yield vllm("rotary_embedding", rotary_embedding, ints(3, 0, 1), c(3, 12), c(3, 6), 6, c(5, 4), neox)
        one = torch.ones(1)
        slots = ints(5, -1, 2)
        k, v = c(3, 2, 2, 2, 4), c(3, 2, 8, 2)
        for heads in (None, slopes):
            rest = (c(2, 4, 8), k.clone(), v.clone(), 2, 0.4, table, ints(3, 2), 2, 3, heads, "auto", one, one)
            yield vllm("paged_attention_v1", paged_v1, c(2, 4, 8), *rest)
            parts = (torch.zeros(2, 4, 1), torch.zeros(2, 4, 1), c(2, 4, 1, 8))
            yield vllm("paged_attention_v2", paged_v2, c(2, 4, 8), *parts, *rest)
        tail = (slots, "auto", one, one)
        yield vllm("reshape_and_cache", reshape_and_cache, c(3, 2, 8), c(3, 2, 8), k, v, *tail, module="_C_cache_ops")
        yield vllm("reshape_and_cache_flash", reshape_and_cache_flash, c(3, 2, 8), c(3, 2, 8), c(3, 2, 2, 8),
                   c(3, 2, 2, 8), *tail, module="_C_cache_ops")
        for renormalize in (False, True):
            zeros = lambda: torch.zeros(3, 2, dtype=torch.int32)
            logits = (torch.randperm(18, generator=g).reshape(3, 6) / 4).to(dt)
            yield vllm("topk_softmax", topk_softmax, torch.zeros(3, 2), zeros(), zeros(), logits, renormalize,
                       module="_moe_C")
    zeros = lambda n: torch.zeros(n, dtype=torch.int32)
    yield ("vllm_moe_align_block_size", ["torch.ops._moe_C.moe_align_block_size"], align,
           (ints((2, 3), (0, 2), (2, 0), (3, 2)), 4, 2, zeros(14), zeros(7), zeros(1)), {})
    yield from routes()


def routes():
    """Calls of the kernels that choose experts."""
    g = torch.Generator().manual_seed(record.SEED + 1)
    apart = lambda dt, *shape: (torch.randperm(torch.Size(shape).numel(), generator=g).reshape(shape) / 8 - 1).to(dt)
    outs = lambda: (torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.int32))
    places = lambda: torch.zeros(3, 2, dtype=torch.int32)
    bias = torch.tensor([0.5, -0.25, 0.125, 0.75, -0.5, 0.0])
    tokens, table = torch.tensor([1, 0, 1], dtype=torch.int32), torch.tensor([[5, 0], [2, 3]], dtype=torch.int32)
    for dt, renormalize in ((F32, False), (F16, True), (BF16, True)):
        logits = apart(dt, 3, 6)
        for name, fn, *rest in (("topk_softmax", topk_softmax, renormalize, bias), ("topk_sigmoid", topk_sigmoid, renormalize),
                                ("topk_sigmoid", topk_sigmoid, renormalize, bias, 2.5),
                                ("topk_softplus_sqrt", topk_softplus_sqrt, renormalize, 1.5, bias),
                                ("topk_softplus_sqrt", topk_softplus_sqrt, renormalize, 1.5, None, tokens, table)):
            yield "vllm_" + name, ["torch.ops._moe_C." + name], fn, (*outs(), places(), logits, *rest), {}
        for name, fn, *rest in (("topk_softmax", sgl_topk_softmax, renormalize), ("topk_softmax", sgl_topk_softmax, renormalize, 2.0, bias),
                                ("topk_sigmoid", sgl_topk_sigmoid, renormalize, bias)):
            yield "sgl_" + name, ["torch.ops.sgl_kernel." + name, "sgl_kernel." + name], fn, (*outs(), logits, *rest), {}
        yield ("sgl_topk_softmax.earlier", ["torch.ops.sgl_kernel.topk_softmax"], topk_softmax, (*outs(), places(), logits), {})
        names = ["torch.ops._moe_C.grouped_topk", "vllm._custom_ops.grouped_topk"]
        for function in (0, 1):
            yield ("vllm_grouped_topk", names, grouped_topk, (apart(dt, 3, 12), 4, 2, 3, renormalize, 2.5, apart(F32, 12), function), {})
        yield ("vllm_grouped_topk.biased", names, grouped_topk_biased, (apart(dt, 3, 12), apart(dt, 3, 12), 4, 2, 3, renormalize, 2.5), {})
        yield "vllm_moe_sum", ["torch.ops._moe_C.moe_sum"], moe_sum, (apart(dt, 3, 2, 4), torch.zeros(3, 4, dtype=dt)), {}
        halves = torch.zeros(3, 8, dtype=dt), apart(dt, 3, 8), None, 1e-3
        yield "vllm_rms_norm", ["torch.ops._C.rms_norm"], lambda out, x, w, eps: rms_norm(out, x, torch.ones(8, dtype=x.dtype), eps), halves, {}


if __name__ == "__main__":
    record.write("llm", calls())
