#!/usr/bin/env python3
"""Golden values of torch_npu's functions, from the formulas it documents, in plain torch.

  python3 ops/testdata/golden/torch_npu.py

writes torch_npu.jsonl beside this file, in the form of record.py. Needs torch alone: torch_npu's own kernels need a
device. Sums and products are computed in float32 and rounded once, as its kernels do.
"""
import cmath, math

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


def group_norm_silu(x, weight, bias, group, eps=1e-5):
    wide = x.to(F32).reshape(x.shape[0], group, -1)
    mean = wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt(((wide - mean) ** 2).mean(-1, keepdim=True) + eps)
    y = ((wide - mean) * rstd).reshape(x.shape)
    each = (1, x.shape[1]) + (1,) * (x.dim() - 2)
    y = y if weight is None else y * weight.to(F32).reshape(each)
    y = y if bias is None else y + bias.to(F32).reshape(each)
    return torch.nn.functional.silu(y).to(x.dtype), mean.squeeze(-1).to(x.dtype), rstd.squeeze(-1).to(x.dtype)


def softmax_cross_entropy(features, labels):
    return -(labels.to(F32) * torch.log_softmax(features.to(F32), -1)).sum(-1).to(features.dtype)


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


def hidden(mode, i, n, m, mask, pre, after, prefix):
    """Where keys are hidden: n queries and m keys of batch item i."""
    if mask is None:
        return None
    place, key = torch.arange(n)[:, None], torch.arange(m)
    if mode in (0, 1, 5):
        one = mask[i if mask.shape[0] > 1 else 0] if mask.dim() > 2 else mask
        return one[..., :n, :m] != 0
    if mode == 2:
        return key > place
    place = place + m - n
    if mode == 4:
        return (key > place + after) | (key < place - pre)
    seen = key <= place
    return ~(seen | (key < prefix[i])) if mode == 6 else ~seen


def scored(q, k, v, scale, mask, added, sink=None):
    """Attention of one sequence [n, heads, size], and the largest score and the sum of exponentials of each query."""
    q, k, v = (x.transpose(0, 1).to(F32) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    s = q @ k.transpose(1, 2) * scale
    s = s if added is None else s + added
    s = s if mask is None else s.masked_fill(mask, float("-inf"))
    if sink is not None:
        s = torch.cat([s, sink[:, None, None].expand(-1, s.shape[1], 1)], -1)
    top = s.amax(-1, keepdim=True).detach()
    e = torch.exp(s - top).nan_to_num(0.0)
    total = e.sum(-1, keepdim=True)
    w = torch.softmax(s, -1).nan_to_num(0.0)[..., :k.shape[1]]
    return (w @ v).transpose(0, 1), top, total.detach()


def opened(x, layout, heads):
    if layout in ("BSH", "SBH"):
        x = x.unflatten(-1, (heads, -1))
    return {"SBH": lambda: x.transpose(0, 1), "BNSD": lambda: x.transpose(1, 2)}.get(layout, lambda: x)()


def closed(x, layout):
    x = {"SBH": lambda: x.transpose(0, 1), "BNSD": lambda: x.transpose(1, 2)}.get(layout, lambda: x)()
    return x.flatten(-2) if layout in ("BSH", "SBH") else x


def fusion_attention(query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None, scale=1.0,
                     keep_prob=1.0, pre_tockens=2147483647, next_tockens=2147483647, inner_precise=0, prefix=None,
                     actual_seq_qlen=None, actual_seq_kvlen=None, sparse_mode=0, softmax_layout="", sink=None):
    def one(i, of, q, k, v):
        mode = {7: 4 if i == of - 1 else 3, 8: 4 if i == 0 else 2}.get(sparse_mode, sparse_mode)
        mask = hidden(mode, i, q.shape[0], k.shape[0], atten_mask, pre_tockens, next_tockens, prefix)
        added = None if pse is None else scale * pse[i if pse.shape[0] > 1 else 0].to(F32)
        y, top, total = scored(q, k, v, scale, mask, added, sink)
        return y.to(query.dtype), top, total
    empty = torch.zeros(0, dtype=query.dtype)
    if input_layout == "TND":
        parts, a, b = [], 0, 0
        for i, (c, d) in enumerate(zip(actual_seq_qlen, actual_seq_kvlen)):
            parts.append(one(i, len(actual_seq_qlen), query[a:c], key[b:d], value[b:d]))
            a, b = c, d
        sums = [torch.cat(x, 1).expand(-1, -1, 8) for x in list(zip(*parts))[1:]]
        sums = [x.transpose(0, 1) if softmax_layout == "TND" else x.reshape(x.shape[1], x.shape[0], 8) for x in sums]
        return (torch.cat([p[0] for p in parts]), *(x.contiguous() for x in sums), empty, 0, 0, 0)
    few = head_num if input_layout not in ("BSH", "SBH") else key.shape[-1] * head_num // query.shape[-1]
    items = list(zip(opened(query, input_layout, head_num), opened(key, input_layout, few), opened(value, input_layout, few)))
    parts = list(zip(*(one(i, len(items), *x) for i, x in enumerate(items))))
    sums = [torch.stack(x).expand(-1, -1, -1, 8).contiguous() for x in parts[1:]]
    return (closed(torch.stack(parts[0]), input_layout), *sums, empty, 0, 0, 0)


def lengths(of, n, most):
    return [most] * n if of is None else list(of) * n if len(of) == 1 else of


def infer_attention(query, key, value, *, layout, heads, key_heads, scale, mask=None, mode=0, pre=2147483647, after=2147483647,
                    pse=None, q_lengths=None, k_lengths=None, table=None, size=0, rope=None, anti=None, post=None, lse=False):
    key_heads = key_heads or heads
    first, last = layout.split("_") if "_" in layout else (layout, layout)
    packed = layout == "TND"
    q = [query] if packed else opened(query, first, heads)
    if packed:
        q = query.split([b - a for a, b in zip([0] + q_lengths, q_lengths)])
    if rope is not None:
        extra = rope[0].split([len(x) for x in q]) if packed else opened(rope[0], first, heads)
        q = [torch.cat(x, -1) for x in zip(q, extra)]

    def store(x, i, n):
        if table is not None:
            x = x.transpose(1, 2).flatten(2) if x.dim() == 4 else x
            return torch.cat(list(x[table[i].long()]))[:n].unflatten(-1, (key_heads, -1))
        return opened(x, first, key_heads)[i][:n]
    n = len(q)
    if packed and table is None:
        cut = lambda x: x.split([b - a for a, b in zip([0] + k_lengths, k_lengths)])
        ks, vs = cut(key), cut(value)
    else:
        ls = lengths(k_lengths, n, key.shape[1 if first != "BNSD" else 2])
        ks, vs = ([store(x, i, ls[i]) for i in range(n)] for x in (key, value))
    if anti is not None:
        ks, vs = ([((x.to(F32) + o.reshape(x.shape[1:])) * s.reshape(x.shape[1:])).to(query.dtype) for x in xs]
                  for xs, s, o in ((ks, anti[0], anti[1]), (vs, anti[2], anti[3])))
    if rope is not None:
        ks = [torch.cat(x, -1) for x in zip(ks, opened(rope[1], first, key_heads))]
    ys, sums = [], []
    for i, (a, k, v) in enumerate(zip(q, ks, vs)):
        rows = a.shape[0] if packed else lengths(q_lengths, n, a.shape[0])[i]
        added = None if pse is None else pse[i if pse.shape[0] > 1 else 0, :, :rows, :k.shape[0]].to(F32)
        y, top, total = scored(a[:rows], k, v, scale, hidden(mode, i, rows, k.shape[0], mask, pre, after, None), added)
        ys.append(torch.cat([y, torch.zeros(a.shape[0] - rows, *y.shape[1:])]).to(query.dtype))
        sums.append(torch.log(total) + top)
    y = torch.cat(ys) if packed else closed(torch.stack(ys), last)
    if post is not None:
        y = torch.round(y.to(F32) * post[0] + post[1]).clamp(-128, 127).to(torch.int8)
    if not lse:
        return y, torch.zeros(0)
    return y, torch.cat(sums, 1).transpose(0, 1).contiguous() if packed else torch.stack(sums)


def prompt_flash_attention(query, key, value, *, pse_shift=None, atten_mask=None, actual_seq_lengths=None, quant_scale2=None,
                           quant_offset2=None, num_heads=1, scale_value=1.0, pre_tokens=2147483647, next_tokens=0,
                           input_layout="BSH", num_key_value_heads=0, actual_seq_lengths_kv=None, sparse_mode=0):
    post = None if quant_scale2 is None else (quant_scale2, quant_offset2)
    return infer_attention(query, key, value, layout=input_layout, heads=num_heads, key_heads=num_key_value_heads, scale=scale_value,
                           mask=atten_mask, mode=sparse_mode, pre=pre_tokens, after=next_tokens, pse=pse_shift,
                           q_lengths=actual_seq_lengths, k_lengths=actual_seq_lengths_kv, post=post)[0]


def incre_flash_attention(query, key, value, *, atten_mask=None, actual_seq_lengths=None, antiquant_scale=None, antiquant_offset=None,
                          block_table=None, num_heads=1, scale_value=1.0, input_layout="BSH", num_key_value_heads=0, block_size=0):
    anti = None
    if antiquant_scale is not None:
        anti = (antiquant_scale[0], antiquant_offset[0], antiquant_scale[1], antiquant_offset[1])
    return infer_attention(query, key, value, layout=input_layout, heads=num_heads, key_heads=num_key_value_heads, scale=scale_value,
                           mask=atten_mask, k_lengths=actual_seq_lengths, table=block_table, size=block_size, anti=anti)[0]


def fused_infer_attention_score(query, key, value, *, atten_mask=None, actual_seq_lengths=None, actual_seq_lengths_kv=None,
                                key_antiquant_scale=None, key_antiquant_offset=None, value_antiquant_scale=None,
                                value_antiquant_offset=None, block_table=None, query_rope=None, key_rope=None, num_heads=1, scale=1.0,
                                pre_tokens=2147483647, next_tokens=2147483647, input_layout="BSH", num_key_value_heads=0,
                                sparse_mode=0, block_size=0, softmax_lse_flag=False):
    anti = None
    if key_antiquant_scale is not None:
        anti = (key_antiquant_scale, key_antiquant_offset, value_antiquant_scale, value_antiquant_offset)
    return infer_attention(query, key, value, layout=input_layout, heads=num_heads, key_heads=num_key_value_heads, scale=scale,
                           mask=atten_mask, mode=sparse_mode, pre=pre_tokens, after=next_tokens, q_lengths=actual_seq_lengths,
                           k_lengths=actual_seq_lengths_kv, table=block_table, size=block_size, anti=anti, lse=softmax_lse_flag,
                           rope=None if query_rope is None else (query_rope, key_rope))


def geglu(x, dim=-1, approximate=1, activate_left=False):
    a, b = x.to(F32).chunk(2, dim)
    if activate_left:
        a, b = b, a
    gelu = torch.nn.functional.gelu(b, approximate="tanh" if approximate else "none")
    return (a * gelu).to(x.dtype), gelu.to(x.dtype)


def scaled_masked_softmax(x, mask, scale=1.0, fixed_triu_mask=False):
    if fixed_triu_mask:
        mask = torch.ones(mask.shape, dtype=torch.bool).triu(1)
    return torch.softmax((x.to(F32) * scale).masked_fill(mask, -1e4), -1).to(x.dtype)


def moe_gating_top_k_softmax(x, finished=None, k=1):
    weights, ids = torch.softmax(x.to(F32), -1).topk(k)
    rows = torch.arange(ids.numel(), dtype=torch.int32).reshape(k, -1).t().contiguous()
    return weights.to(x.dtype), ids.to(torch.int32), rows.reshape(ids.shape)


def moe_init_routing(x, row_idx, expert_idx, active_num):
    ids, order = torch.sort(expert_idx.flatten(), stable=True)
    rows = row_idx.flatten()[order]
    back = torch.zeros_like(rows)
    back[rows.long()] = torch.arange(len(rows), dtype=back.dtype)
    n = min(active_num, len(x)) * expert_idx.shape[1]
    return x[rows[:n].long() % len(x)], back, ids


def moe_finalize_routing(rows, skip1, skip2, bias, scales, places, experts, drop_pad_mode=0, k=1):
    rows = rows.to(F32).flatten(0, -2)
    k = k if scales is None else scales.shape[1]
    n = len(places) // k
    out = []
    for i in range(n):
        y = torch.zeros(rows.shape[1])
        for j in range(k):
            p = places[i * k + j if drop_pad_mode >= 2 else j * n + i]
            row = rows[p] if p >= 0 else torch.zeros(rows.shape[1])
            row = row if bias is None else row + bias[experts[i, j]].to(F32)
            y = y + (row if scales is None else row * scales[i, j].to(F32))
        out.append(y)
    y = torch.stack(out)
    for skip in (skip1, skip2):
        y = y if skip is None else y + skip.to(F32)
    return y


def moe_token_permute(tokens, indices, num_out_tokens=None, padded_mode=False):
    order = torch.sort(indices.flatten(), stable=True).indices
    back = torch.argsort(order).to(torch.int32)
    return tokens[(order // (indices.numel() // len(tokens)))[:num_out_tokens]], back


def moe_token_unpermute(permuted_tokens, sorted_indices, probs=None):
    y = permuted_tokens[sorted_indices.long()]
    if probs is None:
        return y
    return (y.to(F32).unflatten(0, probs.shape) * probs.to(F32)[..., None]).sum(1).to(y.dtype)


def grouped_matmul(x, weight, *, bias=None, scale=None, per_token_scale=None, antiquant_scale=None, antiquant_offset=None,
                   group_list=None, split_item=0, group_type=0, group_list_type=0, output_dtype=None):
    tokens = [None] * len(x)
    if group_list is not None:
        at = [int(n) for n in group_list]
        sizes = at if group_list_type else [b - a for a, b in zip([0] + at, at)]
        if group_type == 2:
            return [torch.stack([a @ w for a, w in zip(x[0].split(sizes, 1), weight[0].split(sizes, 0))])]
        x = x[0].split(sizes)
        tokens = [None] * len(x) if per_token_scale is None else per_token_scale[0].split(sizes)
    item = lambda of, i: None if of is None else of[0][i] if len(of) == 1 and len(x) > 1 else of[i]
    weight = list(weight[0]) if len(weight) == 1 and weight[0].dim() == 3 else weight
    out = []
    for i, a in enumerate(x):
        if scale is not None:
            out.append(quantized_matmul(a, weight[i], item(scale, i), tokens[i], item(bias, i), output_dtype))
        elif antiquant_scale is not None:
            out.append(weight_quant_matmul(a, weight[i], item(antiquant_scale, i), item(antiquant_offset, i), item(bias, i)))
        else:
            y = a.to(F32) @ weight[i].to(F32)
            out.append((y if bias is None else y + item(bias, i).to(F32)).to(a.dtype))
    return [torch.cat(out)] if split_item >= 2 else out


def quant_matmul(x1, x2, scale, *, offset=None, pertoken_scale=None, bias=None, output_dtype=None):
    y = quantized_matmul(x1, x2, scale, pertoken_scale, bias, F32)
    y = y if offset is None else y + offset
    return torch.round(y).clamp(-128, 127).to(torch.int8) if output_dtype is None else y.to(output_dtype)


def weight_quant_batchmatmul(x, weight, antiquant_scale, antiquant_offset=None, quant_scale=None, quant_offset=None, bias=None,
                             antiquant_group_size=0):
    y = weight_quant_matmul(x, weight, antiquant_scale, antiquant_offset, bias, antiquant_group_size)
    if quant_scale is None:
        return y
    return torch.round(y.to(F32) * quant_scale + quant_offset).clamp(-128, 127).to(torch.int8)


def smooth_quant(x, *, smooth_scales=None, group_index=None, dst_type=torch.int8):
    wide = x.to(F32)
    if group_index is not None:
        at = group_index.tolist()
        sizes = torch.tensor([b - a for a, b in zip([0] + at, at)])
        wide = wide * smooth_scales.to(F32).repeat_interleave(sizes, 0)
    elif smooth_scales is not None:
        wide = wide * smooth_scales.to(F32)
    return dynamic_quant(wide, dst_type)


def confusion_transpose(x, perm, shape, transpose_first):
    return x.permute(perm).reshape(shape) if transpose_first else x.reshape(shape).permute(perm)


def scatter_nd_update(x, indices, updates):
    x = x.clone()
    for at, row in zip(indices.tolist(), updates):
        x[tuple(at)] = row
    return x


def layer_norm_eval(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    wide = [None if p is None else p.to(F32) for p in (weight, bias)]
    return torch.nn.functional.layer_norm(x.to(F32), normalized_shape, *wide, eps).to(x.dtype)


def apply_adam_w(beta1_power, beta2_power, lr, weight_decay, beta1, beta2, epsilon, grad, max_grad_norm, amsgrad, maximize, *, out):
    var, m, v = (t.to(F32) for t in out)
    g = -grad.to(F32) if maximize else grad.to(F32)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    root = torch.maximum(max_grad_norm.to(F32), v) if amsgrad else v
    step = lr * m / (1 - beta1_power * beta1) / (torch.sqrt(root / (1 - beta2_power * beta2)) + epsilon)
    for t, new in zip(out, (var * (1 - lr * weight_decay) - step, m, v)):
        t.copy_(new)
    return tuple(t.clone() for t in out)


def half_sides(b):
    return b[..., 2] - b[..., 0] + torch.tensor(0.01, dtype=F16), b[..., 3] - b[..., 1] + torch.tensor(0.01, dtype=F16)


def iou(bboxes, gtboxes, mode=0):
    a, b = bboxes.to(F16)[None], gtboxes.to(F16)[:, None]
    near, far = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    inter = (far - near).clamp(0).prod(-1)
    (wa, ha), (wb, hb) = half_sides(a), half_sides(b)
    return (inter / (wb * hb if mode else wa * ha + wb * hb - inter)).to(bboxes.dtype)


def overlap_parts(x, y, trans, is_cross):
    def corners(b, dim):
        b = b.to(F32)
        lo, hi = (b[:2] - b[2:] / 2, b[:2] + b[2:] / 2) if trans else (b[:2], b[2:])
        return lo.unsqueeze(dim), hi.unsqueeze(dim)
    (lo1, hi1), (lo2, hi2) = corners(x, 1), corners(y, 2 if is_cross else 1)
    inter = (torch.minimum(hi1, hi2) - torch.maximum(lo1, lo2)).clamp(0).prod(0)
    around = torch.maximum(hi1, hi2) - torch.minimum(lo1, lo2)
    union = (hi1 - lo1).prod(0) + (hi2 - lo2).prod(0) - inter
    apart = ((lo2 + hi2 - lo1 - hi1) ** 2).sum(0) / 4 / ((around ** 2).sum(0) + 1e-9)
    angle = lambda lo, hi: torch.atan((hi - lo)[0] / (hi - lo)[1])
    v = 4 / torch.pi ** 2 * (angle(lo2, hi2) - angle(lo1, hi1)) ** 2
    return inter / union, union, around.prod(0), apart, v


def giou(x, y, trans=False, is_cross=False, mode=0):
    iou, union, around, _, _ = overlap_parts(x, y, trans, is_cross)
    return (iou - (around - union) / around).to(x.dtype).t()


def diou(x, y, trans=False, is_cross=False, mode=0):
    iou, _, _, apart, _ = overlap_parts(x, y, trans, is_cross)
    return (iou - apart).to(x.dtype)


def ciou(x, y, trans=False, is_cross=True, mode=0, atan_sub_flag=False):
    iou, _, _, apart, v = overlap_parts(x, y, trans, is_cross)
    with torch.no_grad():
        alpha = v / (1 + 1e-9 - iou + v)
    return (iou - apart - alpha * v).to(x.dtype)


def centred(b):
    return (b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2] + 1


def bounding_box_encode(anchor, truth, *numbers):
    means, stds = torch.tensor(numbers[:4], dtype=F16), torch.tensor(numbers[4:], dtype=F16)
    (c1, s1), (c2, s2) = centred(anchor.to(F16)), centred(truth.to(F16))
    return ((torch.cat([(c2 - c1) / s1, torch.log(s2 / s1)], 1) - means) / stds).to(anchor.dtype)


def bounding_box_decode(rois, deltas, *numbers):
    means, stds, (max_shape, clip) = torch.tensor(numbers[:4]), torch.tensor(numbers[4:8]), numbers[8:]
    (c, s), d = centred(rois.to(F32)), deltas.to(F32) * stds + means
    most = abs(math.log(clip))
    c, s = c + s * d[:, :2], s * torch.exp(d[:, 2:].clamp(-most, most)) / 2 - 0.5
    limit = torch.tensor([max_shape[1], max_shape[0]], dtype=F32) - 1
    return torch.cat([torch.minimum((c - s).clamp(0), limit), torch.minimum((c + s).clamp(0), limit)], 1).to(rois.dtype)


def turned_corners(b, trans):
    x, y, w, h, t = b.double().tolist()
    if trans:
        x, y, w, h = (x + w) / 2, (y + h) / 2, w - x, h - y
    turn = cmath.rect(1, math.radians(t))
    return [complex(x, y) + z * turn for z in (complex(-w, -h) / 2, complex(w, -h) / 2, complex(w, h) / 2, complex(-w, h) / 2)], w * h


def shared_area(p, q):
    """Of two convex polygons of complex numbers: by the corners inside of the other and the crossings of sides."""
    cross = lambda a, b: (a.conjugate() * b).imag
    sides = lambda p: list(zip(p, p[1:] + p[:1]))
    points = [a for p, q in ((p, q), (q, p)) for a in p if all(cross(v - u, a - u) >= 0 for u, v in sides(q))]
    for a, b in sides(p):
        for c, d in sides(q):
            det = cross(b - a, d - c)
            if det:
                s, t = cross(c - a, d - c) / det, cross(c - a, b - a) / det
                if 0 <= s <= 1 and 0 <= t <= 1:
                    points.append(a + s * (b - a))
    if len(points) < 3:
        return 0.0
    middle = sum(points) / len(points)
    points.sort(key=lambda z: cmath.phase(z - middle))
    return abs(sum(cross(a, b) for a, b in sides([z - middle for z in points]))) / 2


def rotated(boxes, queries, trans, f):
    return torch.tensor([[[f(turned_corners(a, trans), turned_corners(b, trans)) for b in q] for a in p] for p, q in zip(boxes, queries)]).to(boxes.dtype)


def rotated_overlaps(boxes, queries, trans=False):
    return rotated(boxes, queries, trans, lambda a, b: shared_area(a[0], b[0]))


def turned_iou(a, b):
    both = shared_area(a[0], b[0])
    return both / (a[1] + b[1] - both) if both else 0.0


def rotated_iou(boxes, queries, trans=False, mode=0, is_cross=True, v_threshold=0.0, e_threshold=0.0):
    return rotated(boxes, queries, trans, turned_iou)


def kept(scores, limit, least, most, overlap):
    keep = []
    for i in torch.argsort(scores, descending=True).tolist():
        if scores[i] > least and len(keep) != most and all(overlap(i, k) <= limit for k in keep):
            keep.append(i)
    return keep


def nms_rotated(dets, scores, iou_threshold, scores_threshold=0.0, max_output_size=-1, mode=0):
    if mode == 1:
        dets = dets * torch.tensor([1, 1, 1, 1, -1], dtype=dets.dtype)
    boxes = [turned_corners(b, mode == 1) for b in dets]
    keep = kept(scores, iou_threshold, scores_threshold, max_output_size, lambda i, j: turned_iou(boxes[i], boxes[j]))
    return torch.tensor(keep, dtype=torch.int32), torch.tensor([len(keep)], dtype=torch.int32)


def nms_v4(boxes, scores, max_output_size, iou_threshold, scores_threshold, pad_to_max_output_size=False):
    lo, hi = torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])
    def overlap(i, j):
        both = (torch.minimum(hi[i], hi[j]) - torch.maximum(lo[i], lo[j])).clamp(0).prod()
        return both / ((hi[i] - lo[i]).prod() + (hi[j] - lo[j]).prod() - both)
    keep = kept(scores, iou_threshold, scores_threshold, max_output_size, overlap)
    out = torch.zeros(max_output_size, dtype=torch.int32)
    out[:len(keep)] = torch.tensor(keep, dtype=torch.int32)
    return out, torch.tensor(len(keep), dtype=torch.int32)


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
        plain = lambda *shape: t(dt, *shape, grad=False)
        fusion = lambda *args, **more: ("npu_fusion_attention", fusion_attention, args, {"scale": 0.5, **more})
        q, k, v = t(dt, 2, 3, 8), t(dt, 2, 4, 4), t(dt, 2, 4, 4)
        seen = torch.zeros(4, 4, dtype=torch.bool)
        holes = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 1]], dtype=torch.bool)
        yield fusion(q, k, v, 2, "BSH")
        yield fusion(q, k, v, 2, "BSH", atten_mask=holes)
        yield fusion(q, k, v, 2, "BSH", atten_mask=seen, sparse_mode=2)
        yield fusion(q, k, v, 2, "BSH", atten_mask=seen, sparse_mode=3, sink=t(F32, 2))
        yield fusion(q, k, v, 2, "BSH", atten_mask=seen, sparse_mode=4, pre_tockens=1, next_tockens=1)
        yield fusion(q, k, v, 2, "BSH", atten_mask=seen, sparse_mode=4, pre_tockens=3, next_tockens=-1)
        yield fusion(q, k, v, 2, "BSH", atten_mask=seen, sparse_mode=6, prefix=[2, 3])
        yield fusion(t(dt, 3, 2, 8), t(dt, 3, 2, 8), t(dt, 3, 2, 8), 2, "SBH")
        yield fusion(t(dt, 2, 2, 3, 4), t(dt, 2, 1, 4, 4), t(dt, 2, 1, 4, 4), 2, "BNSD", pse=t(dt, 1, 2, 3, 4))
        batch = torch.stack([holes, holes.flip(0)])[:, None]
        yield fusion(t(dt, 2, 3, 2, 4), t(dt, 2, 4, 2, 4), t(dt, 2, 4, 2, 3), 2, "BSND", pse=t(dt, 2, 2, 3, 4), atten_mask=batch)
        ends = {"actual_seq_qlen": [2, 5], "actual_seq_kvlen": [3, 6]}
        for mode, more in ((3, {}), (2, {"softmax_layout": "TND"}), (7, {"pre_tockens": 3, "next_tockens": -1}),
                           (8, {"pre_tockens": 3, "next_tockens": 1})):
            yield fusion(t(dt, 5, 2, 4), t(dt, 6, 1, 4), t(dt, 6, 1, 4), 2, "TND", atten_mask=seen, sparse_mode=mode, **ends, **more)
        two = {"num_heads": 2, "num_key_value_heads": 1}
        prompt = lambda *args, **more: ("npu_prompt_flash_attention", prompt_flash_attention, args, {"scale_value": 0.5, **two, **more})
        pq, pk, pv = plain(2, 3, 8), plain(2, 3, 4), plain(2, 3, 4)
        yield prompt(pq, pk, pv, atten_mask=seen, sparse_mode=2)
        yield prompt(pq, pk, pv, actual_seq_lengths=[2, 3], actual_seq_lengths_kv=[3, 1])
        yield prompt(plain(2, 2, 3, 4), plain(2, 1, 3, 4), plain(2, 1, 3, 4), input_layout="BNSD_BSND", pse_shift=plain(1, 2, 3, 3))
        yield prompt(pq, pk, pv, atten_mask=seen, sparse_mode=3, quant_scale2=t(F32, 8, grad=False) * 40, quant_offset2=t(F32, 8, grad=False))
        table = torch.tensor([[2, 0], [1, 0]], dtype=torch.int32)
        incre = lambda *args, **more: ("npu_incre_flash_attention", incre_flash_attention, args, {"scale_value": 0.5, **two, **more})
        one = plain(2, 1, 8)
        yield incre(one, pk, pv, actual_seq_lengths=[2, 3])
        yield incre(one, pk, pv, atten_mask=torch.tensor([0, 0, 1, 0, 1, 0], dtype=torch.bool).reshape(2, 1, 1, 3))
        yield incre(one, plain(3, 2, 4), plain(3, 2, 4), block_table=table, block_size=2, actual_seq_lengths=[3, 2])
        int8 = lambda *shape: d.ints(torch.int8, -9, 9, *shape)
        yield incre(one, int8(2, 3, 4), int8(2, 3, 4), antiquant_scale=plain(2, 4) / 9, antiquant_offset=plain(2, 4))
        infer = lambda *args, **more: ("npu_fused_infer_attention_score", fused_infer_attention_score, args, {"scale": 0.5, **two, **more})
        yield infer(pq, pk, pv, softmax_lse_flag=True)
        tnd = {"input_layout": "TND", "sparse_mode": 3, "atten_mask": seen, "softmax_lse_flag": True, "actual_seq_lengths": [1, 4]}
        yield infer(plain(4, 2, 4), plain(3, 2, 4), plain(3, 2, 4), block_table=table, block_size=2, actual_seq_lengths_kv=[2, 3], **tnd)
        yield infer(plain(4, 2, 4), plain(5, 1, 4), plain(5, 1, 4), actual_seq_lengths_kv=[2, 5], **tnd)
        yield infer(plain(2, 2, 1, 4), int8(2, 1, 3, 4), int8(2, 1, 3, 4), input_layout="BNSD", key_antiquant_scale=plain(1, 4) / 9,
                    key_antiquant_offset=plain(1, 4), value_antiquant_scale=plain(1, 4), value_antiquant_offset=plain(1, 4))
        yield infer(plain(2, 3, 8), plain(2, 3, 4), plain(2, 3, 4), query_rope=plain(2, 3, 4), key_rope=plain(2, 3, 2))
        for approximate, left in ((1, False), (0, True)):
            yield "npu_geglu", geglu, (t(dt, 2, 6), -1, approximate, left), {}
        for triangle in (False, True):
            yield "npu_scaled_masked_softmax", scaled_masked_softmax, (t(dt, 1, 2, 3, 4), holes[None, None], 0.5, triangle), {}
        yield "npu_moe_gating_top_k_softmax", moe_gating_top_k_softmax, (plain(3, 6),), {"k": 2}
        experts = torch.tensor([[1, 0], [0, 3], [2, 1]], dtype=torch.int32)
        rows = torch.arange(6, dtype=torch.int32).reshape(2, 3).t().contiguous()
        for n in (3, 2):
            yield "npu_moe_init_routing", moe_init_routing, (plain(3, 4), rows, experts, n), {}
        places = torch.tensor([3, 0, 5, 1, -1, 2], dtype=torch.int32)
        for mode in (0, 2):
            yield ("npu_moe_finalize_routing", lambda *args, **kwargs: moe_finalize_routing(*args, **kwargs).to(args[0].dtype),
                   (plain(6, 4), plain(3, 4), plain(3, 4) if mode else None, plain(4, 4), plain(3, 2), places, experts, mode), {})
        yield "npu_moe_token_permute", moe_token_permute, (t(dt, 3, 4), experts.long()), {"num_out_tokens": 4 if dt == F32 else None}
        yield "npu_moe_token_unpermute", moe_token_unpermute, (t(dt, 6, 4), torch.tensor([3, 0, 5, 1, 4, 2], dtype=torch.int32), t(dt, 3, 2)), {}
        yield "npu_moe_token_unpermute", moe_token_unpermute, (t(dt, 3, 4), torch.tensor([2, 0, 1], dtype=torch.int32)), {}
        grouped = lambda x, w, **more: ("npu_grouped_matmul", grouped_matmul, (x, w), more)
        at = torch.tensor([2, 5])
        yield grouped([t(dt, 5, 4)], [t(dt, 2, 4, 3)], group_list=at, split_item=2)
        yield grouped([t(dt, 5, 4)], [t(dt, 4, 3), t(dt, 4, 3)], group_list=[2, 3], group_list_type=1, bias=[t(dt, 3), t(dt, 3)])
        yield grouped([t(dt, 2, 4), t(dt, 3, 2)], [t(dt, 4, 3), t(dt, 2, 3)])
        yield grouped([t(dt, 3, 5)], [t(dt, 5, 2)], group_list=at, group_type=2, split_item=2)
        eight = lambda *shape: d.ints(torch.int8, -128, 128, *shape)
        unit = lambda *shape: torch.rand(*shape, generator=d.g)
        yield grouped([eight(5, 8)], [eight(2, 8, 3)], scale=[unit(2, 3) / 99], per_token_scale=[unit(5)], group_list=at, split_item=2,
                      output_dtype=dt, bias=[d.ints(torch.int32, -99, 99, 2, 3)])
        yield grouped([plain(5, 4)], [eight(2, 4, 3)], antiquant_scale=[plain(2, 3)], antiquant_offset=[plain(2, 3)], group_list=at, split_item=2)
        product = lambda *args, **more: ("npu_quant_matmul", quant_matmul, args, more)
        a, b = eight(3, 8), eight(8, 4)
        yield product(a, b, unit(4) / 500)
        yield product(a, b, unit(4) / 500, offset=t(F32, 4, grad=False))
        yield product(a, b, unit(4) / 99, pertoken_scale=unit(3), bias=d.ints(torch.int32, -99, 99, 4), output_dtype=dt)
        yield product(a, b, unit(1) / 99, bias=plain(4), output_dtype=dt)
        weighted = lambda *args, **more: ("npu_weight_quant_batchmatmul", weight_quant_batchmatmul, args, more)
        yield weighted(plain(3, 8), int8(8, 5), plain(5), plain(5), bias=plain(5))
        yield weighted(plain(3, 8), int8(8, 5), plain(2, 5), plain(2, 5), antiquant_group_size=4)
        yield weighted(plain(3, 8), int8(8, 5), plain(5), quant_scale=unit(5), quant_offset=t(F32, 5, grad=False))
        yield "npu_dynamic_quant", smooth_quant, (plain(4, 8),), {}
        yield "npu_dynamic_quant", smooth_quant, (plain(4, 8),), {"smooth_scales": plain(8)}
        yield "npu_dynamic_quant", smooth_quant, (plain(4, 8),), {"smooth_scales": plain(2, 8), "group_index": torch.tensor([1, 4], dtype=torch.int32)}
        yield "npu_linear", torch.nn.functional.linear, (t(dt, 3, 4), t(dt, 2, 4), t(dt, 2)), {}
        for first in (True, False):
            yield "npu_confusion_transpose", confusion_transpose, (t(dt, 2, 3, 4), [0, 2, 1], [4, 3, 2], first), {}
        yield "npu_dtype_cast", lambda x, dtype: x.to(dtype), (t(F32, 3), dt), {}
        yield "npu_format_cast", lambda x, f: x.clone(), (t(dt, 3), 29), {}
        yield ("npu_scatter_nd_update", scatter_nd_update, (plain(2, 3, 4), torch.tensor([[1, 0], [0, 2], [1, 2]]), plain(3, 4)), {})
        yield "npu_layer_norm_eval", layer_norm_eval, (plain(2, 3, 4), [3, 4]), {}
        yield "npu_layer_norm_eval", layer_norm_eval, (plain(3, 8), [8], plain(8), plain(8)), {}
        for ams in (False, True):
            out = [plain(3, 4), plain(3, 4), unit(3, 4).to(dt)]
            yield ("npu_apply_adam_w", apply_adam_w, (0.81, 0.98, 0.01, 0.1, 0.9, 0.99, 1e-3, plain(3, 4), unit(3, 4).to(dt) if ams else None,
                                                      ams, ams), {"out": out})
    yield "npu_rms_norm", rms_norm, (t(BF16, 2, 2, 4), t(F32, 2, 4), 1e-2), {}
    yield "npu_rotary_mul", rotary_mul, (t(F32, 2, 2, 4), t(F32, 1, 2, 4), t(F32, 1, 2, 4)), {"rotate": t(F32, 4, 4)}

    for dt in (F32, F16, BF16):
        boxes = lambda *shape: torch.rand(*shape, generator=d.g)
        def corners(n):
            lo = 6 * boxes(n, 2)
            return torch.cat([lo, lo + 1 + 4 * boxes(n, 2)], 1).to(dt)
        for mode in (0, 1):
            for name in ("npu_iou", "npu_ptiou"):
                yield name, iou, (corners(4), corners(3), mode), {}
        for name, f in (("npu_giou", giou), ("npu_diou", diou), ("npu_ciou", ciou)):
            for trans, cross in ((True, False), (False, False), (True, True)):
                x, y = (corners(n).t().contiguous().requires_grad_() for n in (3, 2 if cross else 3))
                yield name, f, (x, y, trans, cross), {}
        yield "npu_bounding_box_encode", bounding_box_encode, (corners(4), corners(4), 0.0, 0.1, 0.0, -0.1, 0.1, 0.1, 0.2, 0.2), {}
        yield ("npu_bounding_box_decode", bounding_box_decode,
               (corners(4), (boxes(4, 4) - 0.5).to(dt), 0.0, 0.1, 0.0, -0.1, 1.0, 1.0, 0.5, 2.0, [9, 11], 0.25), {})
        turns = lambda *shape: (boxes(*shape, 5) * torch.tensor([4.0, 4, 4, 4, 360]) + torch.tensor([0, 0, 2.0, 2, 0])).to(dt)
        yield "npu_rotated_iou", rotated_iou, (turns(2, 3), turns(2, 4)), {}
        yield "npu_rotated_overlaps", rotated_overlaps, (turns(2, 3), turns(2, 4)), {}
        ranks = (torch.randperm(12, generator=d.g) / 16 + 0.1).to(dt)
        for more in ((0.3,), (0.2, 0.25, 4)):
            yield "npu_nms_rotated", nms_rotated, (turns(12), ranks, *more), {}
        yield "npu_nms_v4", nms_v4, (corners(12), ranks, 8, torch.tensor(0.3), torch.tensor(0.2)), {}
    for dt in (F32, F16, BF16):
        for way in ("none", "tanh"):
            yield ("npu_gelu", lambda self, approximate="none": torch.nn.functional.gelu(self.to(F32), approximate=approximate).to(self.dtype),
                   (t(dt, 3, 4),), {"approximate": way})
        labels = torch.softmax(t(F32, 3, 5).detach(), -1).to(dt).requires_grad_()
        yield "npu_softmax_cross_entropy_with_logits", softmax_cross_entropy, (t(dt, 3, 5), labels), {}
        yield "npu_group_norm_silu", group_norm_silu, (t(dt, 2, 6, 4, 3), t(dt, 6), t(dt, 6), 3), {}
        yield "npu_group_norm_silu", group_norm_silu, (t(dt, 2, 4, 5), None, None, 2, 1e-2), {}
        yield "npu_transpose", lambda self, perm, require_contiguous=True: self.permute(perm).contiguous(), (t(dt, 2, 3, 4), [1, 2, 0]), {}
        yield "npu_slice", lambda self, offsets, size: self[1:3, 2:3], (t(dt, 4, 5), [1, 2], [2, 1]), {}


if __name__ == "__main__":
    record.write("torch_npu", ((op, ["torch_npu." + op, "torch.ops.npu." + op], *call) for op, *call in calls()))
