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


def sequences(query, rows, of, scale, out):
    """The attention of sequences of query [rows, heads, size], each over the keys and values that of gives."""
    scale, lo, parts = scale or query.shape[-1] ** -0.5, 0, []
    for i, n in enumerate(rows):
        k, v, hidden, added = of(i, lo, n)
        parts.append(npu.attend(query[lo:lo + n], k, v, scale, hidden, added).to(query.dtype))
        lo += n
    y = torch.cat(parts)
    if out is None:
        return y
    with torch.no_grad():
        out.copy_(y.reshape(out.shape))
    return out.clone()


def alibi(slopes, n, m, offset):
    if slopes is None:
        return 0.0
    at = (torch.arange(n)[:, None] + offset - torch.arange(m)).abs()
    return -torch.tensor(slopes)[:, None, None] * at


def prefill_attention(query, key, value, key_cache, value_cache, q_start_loc, q_seq_len, kv_seq_len, max_q_seq_len,
                      num_q_heads, num_kv_heads, attn_mask, softmax_scale=None, alibi_slopes=None, attn_output=None):
    def of(i, lo, n):
        hidden, added = None, alibi(alibi_slopes, n, n, 0)
        if len(attn_mask):
            mask = attn_mask[i if len(attn_mask) > 1 else 0][:n, :n]
            hidden, added = (None, added + mask) if mask.is_floating_point() else (mask, added)
        elif len(q_start_loc) == len(q_seq_len) + 1:
            hidden = npu.behind(n, n)
        return key[lo:lo + n], value[lo:lo + n], hidden, added
    return sequences(query, q_seq_len.tolist(), of, softmax_scale, attn_output)


def fused_attention(query_states, key_states, value_states, mask):
    q, k, v = query_states[0], key_states[0], value_states[0]
    n = q.shape[0]
    hidden = mask[0][:n, :n] if n == k.shape[0] else None
    return npu.attend(q, k, v, q.shape[-1] ** -0.5, hidden).to(q.dtype)


def incre_flash_attention(query, key, value, num_heads, input_layout, softmax_scale=None):
    def rows(x):
        return {"BSH": lambda: x.unflatten(-1, (num_heads, -1)), "BNSD": lambda: x.transpose(1, 2), "BSND": lambda: x}[input_layout]()
    q, k, v = rows(query), rows(key), rows(value)
    y = torch.stack([npu.attend(*x, softmax_scale or q.shape[-1] ** -0.5) for x in zip(q, k, v)]).to(query.dtype)
    return {"BSH": lambda: y.flatten(-2), "BNSD": lambda: y.transpose(1, 2), "BSND": lambda: y}[input_layout]()


def paged(query, key_cache, value_cache, block_table, block_size, q_seq_len, kv_seq_len, num_q_heads, num_kv_heads,
          head_size_v=0, softmax_scale=None, alibi_slopes=None, attn_output=None, kv_scales=None, kv_zeros=None, quant_bits=0):
    def rows(cache, i, part):
        if cache.shape[1] == num_kv_heads and cache.shape[2] == block_size and num_kv_heads != block_size:
            cache = cache.transpose(1, 2)
        if quant_bits == 8:
            cache = ((cache.to(F32) + kv_zeros[part].reshape(cache.shape[2:])) * kv_scales[part].reshape(cache.shape[2:])).to(query.dtype)
        return torch.cat(list(cache[block_table[i].long()]))[:kv_seq_len[i]]

    def of(i, lo, n):
        k, m = rows(key_cache, i, 0), int(kv_seq_len[i])
        narrow = value_cache.shape[-1] != key_cache.shape[-1]
        v = k[..., :value_cache.shape[-1]] if narrow else rows(value_cache, i, 1)
        return k, v, npu.behind(n, m, m - n), alibi(alibi_slopes, n, m, m - n)
    return sequences(query, q_seq_len.tolist(), of, softmax_scale, attn_output)


def paged_decode_attention(query, key_cache, value_cache, block_table, block_size, q_seq_len, kv_seq_len, max_kv_seq_len,
                           num_q_heads, num_kv_heads, **more):
    return paged(query, key_cache, value_cache, block_table, block_size, q_seq_len, kv_seq_len, num_q_heads, num_kv_heads, **more)


def paged_prefill_attention(query, key, value, key_cache, value_cache, block_table, block_size, q_start_loc, q_seq_len,
                            kv_seq_len, cu_seq_lens_kv, max_q_seq_len, max_kv_seq_len, num_q_heads, num_kv_heads, attn_mask, **more):
    return paged(query, key_cache, value_cache, block_table, block_size, q_seq_len, kv_seq_len, num_q_heads, num_kv_heads, **more)


def fill_kv_cache(key, value, key_cache, value_cache, kv_indices, k_scales_zeros=(), v_scales_zeros=(), quant_bits=0):
    narrow = key.shape[-1] != value.shape[-1]
    for x, cache, scales in ((key, key_cache, k_scales_zeros), (value, value_cache, v_scales_zeros)):
        if narrow and x is value:
            continue
        if quant_bits == 8:
            x = (x / scales[0] - scales[1]).round().clamp(-128, 127).to(torch.int8)
        size = cache.shape[1] if cache.shape[2:] == x.shape[1:] else cache.shape[2]
        for row, slot in zip(x, kv_indices.flatten().tolist()):
            if slot >= 0 and size == cache.shape[1]:
                cache[slot // size, slot % size] = row
            elif slot >= 0:
                cache[slot // size, :, slot % size] = row
    return key_cache.clone(), value_cache.clone()


def fill_contiguous_kvcache(key_cache, value_cache, key_state, value_state):
    return torch.cat([key_cache, key_state], 1), torch.cat([value_cache, value_state], 1)


def get_cache_len(cache):
    return cache.shape[1]


def moe_gating_topk_softmax(router_logits, topk):
    weights, ids = torch.softmax(router_logits.to(F32), -1).topk(topk)
    return weights.to(router_logits.dtype), ids.to(torch.int32)


def fused_moe(hidden_states, gate_up_weights, down_weights, topk_weights, topk_ids, topk, renormalize):
    if renormalize:
        topk_weights = topk_weights / topk_weights.sum(-1, keepdim=True)
    rows = []
    for x, weights, ids in zip(hidden_states, topk_weights, topk_ids.tolist()):
        parts = [w * (down_weights[e] @ npu.swiglu(gate_up_weights[e] @ x)) for w, e in zip(weights, ids)]
        rows.append(torch.stack(parts).sum(0))
    return torch.stack(rows)


def linear(x, weight, bias=None, all_reduce=False, group=""):
    if weight.dim() == 4:
        weight = weight.permute(0, 2, 1, 3).flatten(2)[0]
    return torch.nn.functional.linear(x, weight, bias)


def rms_norm_w8a8(hidden_states, weight, epsilon, quant_dtype):
    return npu.dynamic_quant(rms_norm(hidden_states, weight, epsilon), quant_dtype)


def add_rms_norm_w8a8(hidden_states, residual, weight, epsilon, quant_dtype):
    y, total = add_rms_norm(hidden_states, residual, weight, epsilon)
    return *npu.dynamic_quant(y, quant_dtype), total


def dynamic_quant(x, quant_dtype, quant_granularity=None):
    return npu.dynamic_quant(x, quant_dtype)


def linear_w8a8(a, b, rms_scale, linear_scale, out_dtype, quant_dtype, bias=None):
    return npu.quantized_matmul(a, b.t(), linear_scale, rms_scale, bias, out_dtype)


def weight_quant_matmul(x1, x2, scale, offset=None, bias=None, all_reduce=False, group_size=0):
    return npu.weight_quant_matmul(x1, x2, scale, offset, bias, group_size)


def transdata(hidden_states, transdata_type=2):
    x = hidden_states if hidden_states.dim() == 3 else hidden_states[None]
    n = 32 if x.dtype == torch.int8 else 16
    x = torch.nn.functional.pad(x, (0, -x.shape[2] % n, 0, -x.shape[1] % 16))
    return x.unflatten(2, (-1, n)).transpose(1, 2).contiguous()


def calls():
    d = npu.Draw()
    t = d.normal
    plain = lambda dt, *shape: t(dt, *shape, grad=False)
    ints = lambda *v: torch.tensor(v, dtype=torch.int32)
    table = torch.tensor([[2, 0], [1, 0]], dtype=torch.int32)
    for dt in (F32, F16, BF16):
        yield "rms_norm", rms_norm, (t(dt, 3, 8), t(dt, 8), 1e-3), {}
        yield "add_rms_norm", add_rms_norm, (t(dt, 3, 8), t(dt, 3, 8), t(dt, 8), 1e-3), {}
        yield "apply_rotary_pos_emb", apply_rotary_pos_emb, (t(dt, 3, 2, 4), t(dt, 3, 1, 4), t(dt, 3, 4), t(dt, 3, 4)), {}
        yield "silu_and_mul", npu.swiglu, (t(dt, 2, 6),), {}
        yield "silu_and_mul", npu.swiglu, (t(dt, 2, 3),), {"dim": 0}
        q, k, v = plain(dt, 5, 4, 4), plain(dt, 5, 2, 4), plain(dt, 5, 2, 4)
        lengths, rest = ints(2, 3), (3, 4, 2)
        added = torch.tensor([[0.0, -1e4, -1e4], [0.5, 0, -1e4], [0, 0, 0.25]]).to(dt)
        for start, mask, more in ((ints(0, 2), [], {}), (ints(0, 2, 5), [], {"attn_output": plain(dt, 5, 16)}),
                                  (ints(0, 2), [npu.behind(4, 4)], {"softmax_scale": 0.25}),
                                  (ints(0, 2), [added, added.flip(0)], {}),
                                  (ints(0, 2, 5), [], {"alibi_slopes": [1.0, 0.5, 0.25, 0.125]})):
            yield "prefill_attention", prefill_attention, (q, k, v, None, None, start, lengths, lengths, *rest, mask), more
        for n in (1, 3):
            yield ("fused_attention", fused_attention,
                   (plain(dt, 1, n, 4, 4), plain(dt, 1, 3, 2, 4), plain(dt, 1, 3, 2, 4), [npu.behind(5, 5)]), {})
        yield ("incre_flash_attention", incre_flash_attention,
               (plain(dt, 2, 1, 8), plain(dt, 2, 3, 8), plain(dt, 2, 3, 8), 2, "BSH"), {})
        for layout, shape in (("BNSD", (2, 2, 3, 4)), ("BSND", (2, 3, 2, 4))):
            one = (2, 2, 1, 4) if layout == "BNSD" else (2, 1, 2, 4)
            yield ("incre_flash_attention", incre_flash_attention,
                   (plain(dt, *one), plain(dt, *shape), plain(dt, *shape), 2, layout, 0.25), {})
        store = lambda heads=2, size=4: plain(dt, 3, 3, heads, size)
        base = lambda k, v: (plain(dt, 2, 4, 4), k, v, table, 3, ints(1, 1), ints(5, 2), 5, 4)
        for args, more in (((*base(store(), store()), 2), {}),
                           ((*base(plain(dt, 3, 2, 3, 4), plain(dt, 3, 2, 3, 4)), 2), {"attn_output": plain(dt, 2, 16)}),
                           ((*base(store(1), plain(dt, 3, 3, 1, 3)), 1), {"softmax_scale": 0.25}),
                           ((*base(store(), store()), 2), {"alibi_slopes": [1.0, 0.5, 0.25, 0.125]}),
                           ((*base(d.ints(torch.int8, -9, 9, 3, 3, 2, 4), d.ints(torch.int8, -9, 9, 3, 3, 2, 4)), 2),
                            {"kv_scales": plain(F32, 2, 8), "kv_zeros": plain(F32, 2, 8), "quant_bits": 8})):
            yield "paged_decode_attention", paged_decode_attention, args, more
        yield ("paged_prefill_attention", paged_prefill_attention,
               (q, k, v, store(), store(), table, 3, ints(0, 3), ints(3, 2), ints(5, 2), ints(0, 5, 7), 3, 5, 4, 2, [npu.behind(4, 4)]), {})
        yield ("fill_kv_cache", fill_kv_cache,
               (plain(dt, 3, 2, 4), plain(dt, 3, 2, 4), store(), store(), ints(5, 0, -1)), {})
        yield ("fill_kv_cache", fill_kv_cache,
               (plain(dt, 2, 2, 4), plain(dt, 2, 2, 4), plain(dt, 2, 2, 3, 4), plain(dt, 2, 2, 3, 4), ints(5, 1)), {})
        scales = [torch.tensor([0.03], dtype=F32), torch.tensor([2.0], dtype=F32)]
        eight = lambda: d.ints(torch.int8, -9, 9, 2, 3, 2, 4)
        yield ("fill_kv_cache", fill_kv_cache, (plain(dt, 3, 2, 4), plain(dt, 3, 2, 4), eight(), eight(), ints(5, 0, 2)),
               {"k_scales_zeros": scales, "v_scales_zeros": scales, "quant_bits": 8})
        yield ("fill_contiguous_kvcache", fill_contiguous_kvcache,
               (t(dt, 1, 2, 2, 2), t(dt, 1, 2, 2, 2), t(dt, 1, 1, 2, 2), t(dt, 1, 1, 2, 2)), {})
        yield "moe_gating_topk_softmax", moe_gating_topk_softmax, (t(dt, 3, 6), 2), {}
        for again in (False, True):
            weights = torch.rand(3, 2, generator=d.g).to(dt).requires_grad_()
            yield ("fused_moe", fused_moe, (t(dt, 3, 4), t(dt, 4, 6, 4), t(dt, 4, 4, 3), weights,
                                            torch.tensor([[0, 3], [2, 0], [3, 2]], dtype=torch.int32), 2, again), {})
        yield "linear", linear, (t(dt, 2, 3, 8), t(dt, 5, 8), t(dt, 5)), {}
        yield "linear", linear, (t(dt, 3, 8), t(dt, 1, 2, 5, 4)), {}
        yield "dynamic_quant", dynamic_quant, (plain(dt, 2, 3, 8), torch.int8), {"quant_granularity": "PER_TOKEN"}
        yield "rms_norm_w8a8", rms_norm_w8a8, (plain(dt, 3, 8), plain(dt, 8), 1e-3, torch.int8), {}
        yield "add_rms_norm_w8a8", add_rms_norm_w8a8, (plain(dt, 3, 8), plain(dt, 3, 8), plain(dt, 8), 1e-3, torch.int8), {}
        a, b = d.ints(torch.int8, -128, 128, 1, 3, 8), d.ints(torch.int8, -128, 128, 4, 8)
        for bias in (None, plain(dt, 4), d.ints(torch.int32, -99, 99, 4)):
            yield ("linear_w8a8", linear_w8a8, (a, b, torch.rand(1, 3, generator=d.g) / 50, torch.rand(4, 1, generator=d.g) / 50, dt,
                                                torch.int8), {"bias": bias})
        w = d.ints(torch.int8, -9, 9, 8, 5)
        yield "weight_quant_matmul", weight_quant_matmul, (plain(dt, 3, 8), w, plain(dt, 5), plain(dt, 5), plain(dt, 5)), {}
        yield ("weight_quant_matmul", weight_quant_matmul, (plain(dt, 3, 8), w, plain(dt, 2, 5), plain(dt, 2, 5)), {"group_size": 4})
        yield "weight_quant_matmul", weight_quant_matmul, (plain(dt, 3, 4), d.ints(torch.int32, -2**31, 2**31 - 1, 4, 1), plain(dt, 1)), {}
    yield "apply_rotary_pos_emb", apply_rotary_pos_emb, (t(F32, 1, 2, 2, 6), t(F32, 1, 2, 1, 6), t(F32, 1, 2, 1, 4),
                                                         t(F32, 1, 2, 1, 4)), {}
    yield "get_cache_len", get_cache_len, (plain(F32, 1, 3, 2),), {}
    yield "transdata", transdata, (plain(F16, 3, 20),), {}
    yield "transdata", transdata, (d.ints(torch.int8, -9, 9, 2, 1, 33),), {}


if __name__ == "__main__":
    record.write("dlinfer", (("dlinfer_" + op, ["dlinfer.ops." + op, "torch.ops.dlinfer." + op], *call) for op, *call in calls()))
