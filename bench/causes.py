#!/usr/bin/env python3
"""How often the cause that is printed for a planted mistake is the right one.

  causes.py [--optool bin/optool] [--only PATTERN] [--seed N] [--random N] [--keep DIR] [--all]

Plants a mistake in a kernel of torch, records a call of it with its gradients, in float32 and in 16 bits, and has
`optool replay` find the cause. Each mistake has a pattern that a right cause matches. Prints the causes that do not,
and a table: right, wrong, none. A pattern of errors ("wrong only where ...") is none. --random plants so many random
mistakes (noise, flipped bits, another seed), which have no cause at all. Needs torch 2.
"""
import argparse, collections, concurrent.futures, json, math, os, re, shutil, subprocess, sys, tempfile, time

import torch
import torch.nn.functional as F

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
G = torch.Generator()
ROWS = []  # (name, op, arguments, wrong, pattern, grads, dtypes)
DT = F32


def x(*shape, k=1.0, grad=True, dt=None):
    return (k * torch.randn(shape, generator=G)).to(dt or DT).requires_grad_(grad)


def pos(*shape, grad=True):
    return (torch.rand(*shape, generator=G) + 0.5).to(DT).requires_grad_(grad)


def ints(low, high, *shape, dt=torch.int64):
    return torch.randint(low, high, shape, generator=G).to(dt)


def bits(*shape):
    return torch.rand(*shape, generator=G) > 0.5


class Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, change):
        ctx.change = change
        return t.view_as(t)

    @staticmethod
    def backward(ctx, g):
        return ctx.change(g), None


def back(t, change):
    """t, whose gradient is changed."""
    return Back.apply(t, change)


def row(name, op, args, wrong, pattern, dts="fh", kwargs=None):
    ROWS.append((name, op, args, wrong, pattern, dts, kwargs or {}))


def storage(t, shape=None):
    """t read as if it were contiguous, from its offset on."""
    return t.as_strided(shape or t.shape, torch.empty(shape or t.shape).stride(), t.storage_offset())


def dim(t):
    return t.transpose(-1, -2)


def zeroed(t, where):
    m = torch.ones_like(t)
    m[where] = 0
    return t * m


def plant():
    fn = "torch.nn.functional."
    # reading operands: layout, offset, views
    strided = lambda *s: dim(x(*s, grad=False)).detach().requires_grad_(True)
    row("strides ignored", "torch.mul", lambda: (strided(12, 20), x(20, 12)), lambda a, b: storage(a) * b, "strides of self|self is read as if")
    row("strides ignored matmul", "torch.matmul", lambda: (strided(24, 16), x(24, 10)), lambda a, b: storage(a) @ b, "strides of self|self is read as if")
    row("strides of mask ignored", "torch.where", lambda: (dim(bits(12, 20)), x(20, 12), x(20, 12)), lambda m, a, b: torch.where(storage(m), a, b), "strides of condition|condition is read as if")
    row("strides of mask ignored", "torch.masked_fill", lambda: (x(20, 12), dim(bits(12, 20)), 2.0), lambda a, m, v: a.masked_fill(storage(m), v), "strides of mask|mask is read as if")
    row("strides of index ignored", "torch.gather", lambda: (x(30, 12), 0, dim(ints(0, 30, 12, 20))), lambda a, d, i: torch.gather(a, d, storage(i)), "strides of index|index is read as if")
    row("strides of integers ignored", "torch.add", lambda: (dim(ints(0, 99, 12, 20)), ints(0, 99, 20, 12)), lambda a, b: storage(a) + b, "strides of self|self is read as if", "f")
    row("offset ignored", "torch.exp", lambda: (x(40, 8, grad=False)[10:30].detach().requires_grad_(True),), lambda a: a.as_strided(a.shape, a.stride(), 0).exp(), "offset", "fh")
    row("offset ignored", "torch.nn.functional.linear", lambda: (x(40, 16, grad=False)[10:30], x(8, 16), x(8)), lambda a, w, b: F.linear(a.as_strided(a.shape, a.stride(), 0), w, b), "offset", "fh")
    row("strides ignored in the backward pass", "torch.mul", lambda: (x(20, 12), strided(12, 20)),
        lambda a, b: Mul.apply(a, b, storage), "strides of other|other is read as if|backward", "fh")
    row("incoming gradient transposed", "torch.tanh", lambda: (x(16, 16),), lambda a: back(a, lambda g: g).tanh() if 0 else GradIn.apply(a, dim), "incoming gradient", "fh")
    row("conj ignored", "torch.mul", lambda: (cx(6, 20).conj(), cx(6, 20)), lambda a, b: a.conj() * b, "conj", "f")
    row("imaginary part dropped", "torch.mul", lambda: (cx(6, 20), cx(6, 20)), lambda a, b: torch.complex(a.real, torch.zeros_like(a.real)) * b, "imaginary|real part", "f")
    row("broadcast wrong dim", "torch.add", lambda: (x(12, 12), x(12)), lambda a, b: a + b[:, None], "along dimension 0|each element 12 times")
    # values
    nan = lambda: with_(x(20, 12, grad=False), 7, float("nan"))
    row("NaN lost", "torch.relu", lambda: (nans(20, 12),), lambda a: torch.nan_to_num(a, 0.0).relu(), "NaN")
    row("NaN lost in max", "torch.amax", lambda: (nans(20, 12, grad=False), 1), lambda a, d: torch.nan_to_num(a, -9.0).amax(d), "NaN")
    row("Inf replaced by the bound", "torch.mul", lambda: (infs(20, 12), pos(20, 12)), lambda a, b: torch.nan_to_num(a * b, 0.0, *bounds()), "Inf|inf|largest")
    row("overflow saturates", "torch.exp", lambda: (x(30, 12, k=60.0),), lambda a: torch.nan_to_num(a.exp(), 0.0, *bounds()), "Inf|inf|largest|limited", "fh")
    row("denormals flushed", "torch.mul", lambda: ((x(30, 12, grad=False) * tiny()).requires_grad_(True), x(30, 12)), lambda a, b: a * b + (flush(flush(a) * b) - a * b).detach(), "subnormal|denormal|flush|small", "fh")
    row("abs of operand", "torch.mul", lambda: (x(20, 12), x(20, 12)), lambda a, b: a.abs() * b, "absolute|magnitude|abs")
    row("sign lost", "torch.sub", lambda: (x(20, 12), x(20, 12)), lambda a, b: (a - b).abs(), "magnitude|absolute|sign")
    row("negated", "torch.sin", lambda: (x(20, 12),), lambda a: -a.sin(), "negated|multiplied by -1")
    # unwritten
    row("all zero", "torch.add", lambda: (x(20, 12), x(20, 12)), lambda a, b: (a + b) * 0, "nothing was written")
    row("all one value", "torch.mul", lambda: (x(20, 12), x(20, 12)), lambda a, b: (a * b) * 0 + 3, "all .*elements are 3")
    row("all NaN", "torch.add", lambda: (x(20, 12), x(20, 12)), lambda a, b: a + b + float("nan"), "all .*NaN")
    row("tail not written", "torch.add", lambda: (x(20, 12), x(20, 12)), lambda a, b: zeroed((a + b).flatten(), slice(200, None)).view(20, 12), "elements 200 to 239.*not written")
    row("tail NaN", "torch.mul", lambda: (x(20, 12), x(20, 12)), lambda a, b: torch.cat([(a * b).flatten()[:200], torch.full((40,), float("nan"), dtype=DT)]).view(20, 12), "NaN")
    row("tile not written", "torch.matmul", lambda: (x(48, 20), x(20, 48)), lambda a, b: zeroed(a @ b, (slice(16, 32), slice(32, 48))), "at indices 16 to 31.*not written")
    row("copy of input", fn + "gelu", lambda: (x(20, 12),), lambda a: a * 1, "it is self|self is returned|computed as (clone|contiguous)")
    row("copy of other", "torch.add", lambda: (x(20, 12), x(20, 12)), lambda a, b: b * 1 + a * 0, "it is other|other is returned|self is (taken for 0|left out)")
    row("every fourth zero", "torch.exp", lambda: (x(20, 16),), lambda a: zeroed(a.exp(), (slice(None), slice(3, None, 4))), "not written")
    # integer division, rounding
    row("floor as trunc", "torch.div", lambda: (ints(-99, 99, 300), ints(1, 9, 300)), lambda a, b, rounding_mode: torch.div(a, b, rounding_mode="trunc"), "trunc", "f", dict(rounding_mode="floor"))
    row("remainder as fmod", "torch.remainder", lambda: (x(20, 12, k=5.0, grad=False), pos(20, 12, grad=False)), torch.fmod, "fmod")
    row("integer division off by one", "torch.floor_divide", lambda: (ints(0, 99, 300), ints(1, 9, 300)), lambda a, b: (a - 1) // b, "one too low|self is one", "f")
    row("cast toward zero", "torch.Tensor.to", lambda: (x(300, grad=False, dt=F32), BF16), lambda a, d: rtz(a), "toward zero|cut off", "f")
    row("round half up", "torch.round", lambda: (ints(-40, 40, 300).to(DT) / 2,), lambda a: torch.floor(a + 0.5), "half|0\\.5")
    row("result to bfloat16 first", "torch.exp", lambda: (x(20, 12),), lambda a: a.exp().to(BF16).to(DT), "rounded to bfloat16", "f")
    row("operands to TF32", "torch.matmul", lambda: (x(40, 60), x(60, 40)), lambda a, b: tf32(a) @ tf32(b), "TF32", "f")
    # sums
    row("last row of the sum lost", "torch.matmul", lambda: (x(40, 60), x(60, 40)), lambda a, b: a[:, :-1] @ b[:-1], "last of the|last 1|left out")
    row("split-K part lost", "torch.matmul", lambda: (x(40, 64), x(64, 40)), lambda a, b: torch.cat([a[:, :32], a[:, 48:]], 1) @ torch.cat([b[:32], b[48:]]), "32 to 47|left out")
    row("split-K part twice", "torch.matmul", lambda: (x(40, 64), x(64, 40)), lambda a, b: a @ b + a[:, 32:48] @ b[32:48], "twice")
    row("sum of half", "torch.sum", lambda: (x(20, 64), 1), lambda a, d: a[:, :32].sum(d), "left out")
    row("mean as sum", "torch.mean", lambda: (x(20, 64), 1), lambda a, d: a.sum(d), "sum")
    row("mean by n-1", "torch.mean", lambda: (x(20, 64), 1), lambda a, d: a.sum(d) / 63, "63|n - 1|1\\.0(2|1)|terms less 1")
    row("variance by n", "torch.var", lambda: (x(20, 64), 1), lambda a, d: a.var(d, unbiased=False), "unbiased|correction|n - 1|divided")
    row("std as var", "torch.std", lambda: (x(20, 64), 1), lambda a, d: a.var(d), "squared|var")
    row("sum over the other dim", "torch.sum", lambda: (x(24, 24), 1), lambda a, d: a.sum(0), "dim is \\[?0|transposed")
    row("prod as sum", "torch.prod", lambda: (pos(20, 6), 1), lambda a, d: a.sum(d), "sum")
    row("cumsum exclusive", "torch.cumsum", lambda: (x(20, 32), 1), lambda a, d: a.cumsum(d) - a, "exclusive|itself|self is subtracted|before")
    row("cumsum reversed", "torch.cumsum", lambda: (x(20, 32), 1), lambda a, d: a.flip(1).cumsum(d).flip(1), "revers|backwards|other direction|end|from the last")
    row("cumsum gradient not reversed", "torch.cumsum", lambda: (x(20, 32), 1), lambda a, d: GradFix.apply(a.cumsum(d).detach(), a, lambda g: g.cumsum(1)), "not its transpose|revers")
    row("cumprod exclusive", "torch.cumprod", lambda: (pos(20, 12), 1), lambda a, d: a.cumprod(d) / a, "exclusive|itself|before|result / ")
    row("logsumexp without log", "torch.logsumexp", lambda: (x(20, 32), 1), lambda a, d: a.exp().sum(d), "log|exp")
    row("norm squared", "torch.linalg.vector_norm", lambda: (x(20, 32),2, 1), lambda a, o, d: (a * a).sum(d), "squared")
    row("argmax as argmin", "torch.argmax", lambda: (x(50, 32, grad=False), 1), lambda a, d: a.argmin(d), "argmin|self is negated")
    row("argmax last of ties", "torch.argmax", lambda: (ints(0, 4, 50, 32).to(DT), 1), lambda a, d: 31 - a.flip(1).argmax(d), "last|tie")
    row("topk smallest", "torch.topk", lambda: (x(20, 32), 4, 1), lambda a, k, d: a.topk(k, d, largest=False), "largest is False")
    row("sort descending", "torch.sort", lambda: (x(20, 32), 1), lambda a, d: a.sort(d, descending=True), "descending is True")
    # scatter, embedding, index
    row("duplicates counted once", "torch.scatter_add", lambda: (x(20, 8), 0, ints(0, 20, 60, 8), x(60, 8)), lambda a, d, i, s: a + lastwrite(i, s, 20), "once|last|duplicate")
    row("index_add once", "torch.index_add", lambda: (x(20, 8), 0, ints(0, 20, 50), x(50, 8)), lambda a, d, i, s: a + lastwrite(i[:, None].expand(50, 8), s, 20), "once|last|duplicate")
    row("embedding gradient once", fn + "embedding", lambda: (ints(0, 20, 60), x(20, 8)), lambda i, w: GradFix.apply(F.embedding(i, w).detach(), w, lambda g: lastwrite(i[:, None].expand(60, 8), g, 20)), "once|last|duplicate")
    row("index_select gradient once", "torch.index_select", lambda: (x(20, 8), 0, ints(0, 20, 60)), lambda a, d, i: GradFix.apply(a.index_select(0, i).detach(), a, lambda g: lastwrite(i[:, None].expand(60, 8), g, 20)), "once|last|duplicate")
    row("embedding one off", fn + "embedding", lambda: (ints(0, 19, 60), x(20, 8)), lambda i, w: F.embedding(i + 1, w), "one too high|one further")
    row("padding_idx ignored", fn + "embedding", lambda: (ints(0, 20, 60), x(20, 8), 3), lambda i, w, p: F.embedding(i, w), "padding_idx")
    row("scatter adds", "torch.scatter", lambda: (x(20, 8), 0, perm(20, 8), x(20, 8)), lambda a, d, i, s: a.scatter_add(d, i, s), "add")
    row("index_put not accumulated", "torch.index_put", lambda: (x(20, 8), (ints(0, 20, 60),), x(60, 8), True), lambda a, i, v, acc: a + lastwrite(i[0][:, None].expand(60, 8), v, 20), "once|last|duplicate|accumulate")
    row("int32 index wraps", "torch.take", lambda: (x(300), ints(0, 300, 40)), lambda a, i: a.take(i & 255), "modulo 256")
    # norms
    ln = lambda: (x(16, 24), [24], x(24), x(24), 1e-5)
    row("layer_norm n-1", fn + "layer_norm", ln, lambda a, s, w, b, e: (a - a.mean(-1, True)) / (a.var(-1, keepdim=True) + e).sqrt() * w + b, "n - 1", "f")
    row("layer_norm no mean", fn + "layer_norm", ln, lambda a, s, w, b, e: a / (a.pow(2).mean(-1, True) + e).sqrt() * w + b, "mean")
    row("layer_norm eps outside", fn + "layer_norm", lambda: (x(16, 24, k=0.1), [24], x(24), x(24), 1e-2), lambda a, s, w, b, e: (a - a.mean(-1, True)) / (a.var(-1, keepdim=True, unbiased=False).sqrt() + e) * w + b, "eps")
    row("layer_norm bias twice", fn + "layer_norm", ln, lambda a, s, w, b, e: F.layer_norm(a, s, w, b, e) + b, "bias is (added|multiplied by 2)|twice")
    row("layer_norm 1+weight", fn + "layer_norm", ln, lambda a, s, w, b, e: F.layer_norm(a, s, w + 1, b, e), "1 \\+|weight")
    row("group_norm groups", fn + "group_norm", lambda: (x(4, 12, 6), 3, x(12), x(12)), lambda a, n, w, b: F.group_norm(a, 4, w, b), "num_groups is 4")
    row("batch_norm training stats", fn + "batch_norm", lambda: (x(8, 6, 5), x(6, grad=False), pos(6, grad=False), x(6), x(6), False), lambda a, m, v, w, b, t: F.batch_norm(a, None, None, w, b, True), "training is True|statistics")
    row("rms_norm with mean", fn + "rms_norm", lambda: (x(16, 24), [24], x(24), 1e-6), lambda a, s, w, e: F.layer_norm(a, s, w, None, e), "mean")
    row("grad of weight from last row lost", fn + "layer_norm", ln, lambda a, s, w, b, e: F.layer_norm(a, s, back(w, lambda g: g), b, e) if 0 else LN.apply(a, w, b, e), "left out|last")
    # softmax & attention
    row("softmax other dim", fn + "softmax", lambda: (x(24, 24), -1), lambda a, d: a.softmax(0), "dim is|transposed")
    row("softmax no sum", fn + "softmax", lambda: (x(16, 24), -1), lambda a, d: (a - a.amax(-1, True)).exp(), "sum|divide|normal")
    row("softmax online not rescaled", fn + "softmax", lambda: (x(16, 32, k=2.0), -1), online, "rescal|largest|maximum")
    row("softmax base 2", fn + "softmax", lambda: (x(16, 24), -1), lambda a, d: (a * math.log(2)).softmax(d), "2|0.69")
    row("softmax tail left out", fn + "softmax", lambda: (x(16, 40), -1), lambda a, d: torch.cat([a[:, :32].softmax(d), a[:, :32].softmax(d)[:, :8] * 0], 1), "last 8|left out|not written")
    row("log_softmax as softmax", fn + "log_softmax", lambda: (x(16, 24), -1), lambda a, d: a.softmax(d), "softmax|exp")
    row("softmax gradient without sum", fn + "softmax", lambda: (x(16, 24), -1), lambda a, d: GradFix.apply(a.softmax(d).detach(), a, lambda g: g * a.detach().softmax(-1)), "sum|times the result|term")
    at = lambda *more: (x(2, 4, 16, 8), x(2, 4, 24, 8), x(2, 4, 24, 8), *more)
    sd = F.scaled_dot_product_attention
    row("attention no scale", fn + "scaled_dot_product_attention", at, lambda q, k, v: sd(q, k, v, scale=1.0), "scale")
    row("attention scale 1/d", fn + "scaled_dot_product_attention", at, lambda q, k, v: sd(q, k, v, scale=1 / 8), "scale|0.125")
    row("attention last key", fn + "scaled_dot_product_attention", at, lambda q, k, v: sd(q, k[:, :, :-1], v[:, :, :-1]), "last")
    row("attention not causal", fn + "scaled_dot_product_attention", lambda: at()[:1] + at(None, 0.0, True)[1:], lambda q, k, v, m, p, c: sd(q, k, v), "causal")
    row("attention heads", fn + "scaled_dot_product_attention", at, lambda q, k, v: sd(q, k.roll(1, 1), v.roll(1, 1)), "key and value.*(one back|further)|dimension 1")
    row("attention mask sign", fn + "scaled_dot_product_attention", lambda: at(x(16, 24, grad=False)), lambda q, k, v, m: sd(q, k, v, -m), "negat|multiplied by -1")
    row("attention mask inverted", fn + "scaled_dot_product_attention", lambda: at(bits(16, 24)), lambda q, k, v, m: sd(q, k, v, ~m), "other way round")
    row("attention dK dV swapped", fn + "scaled_dot_product_attention", at, lambda q, k, v: swapgrads(sd, q, k, v), "gradients|exchanged|swapped")
    row("attention row sums of fp8", fn + "scaled_dot_product_attention", at, lambda q, k, v: sd(fp8(q), fp8(k), v), "float8|8 bits", "fh")
    # losses
    row("mse as sum", fn + "mse_loss", lambda: (x(20, 12), x(20, 12)), lambda a, b: F.mse_loss(a, b, reduction="sum"), "sum", "fh")
    row("smooth_l1 as huber", fn + "smooth_l1_loss", lambda: (x(20, 12), x(20, 12)), lambda a, b, reduction, beta: F.huber_loss(a, b, reduction="none", delta=0.5), "huber|multiplied by 0.5", "fh", dict(reduction="none", beta=0.5))
    row("huber as smooth_l1", fn + "huber_loss", lambda: (x(20, 12), x(20, 12)), lambda a, b, reduction, delta: F.smooth_l1_loss(a, b, reduction="none", beta=0.5), "smooth_l1|multiplied by 2", "fh", dict(reduction="none", delta=0.5))
    row("cross_entropy label smoothing", fn + "cross_entropy", lambda: (x(20, 12), ints(0, 12, 20)), lambda a, t, label_smoothing, reduction: F.cross_entropy(a, t, reduction="none"), "label_smoothing", "fh", dict(label_smoothing=0.1, reduction="none"))
    row("cross_entropy ignore_index counted", fn + "cross_entropy", lambda: (x(20, 12), ints(0, 12, 20).index_fill(0, torch.arange(5), -100)), lambda a, t: F.cross_entropy(a, t, reduction="sum") / 20, "ignore|20|mean|divided", "fh")
    row("nll weight ignored", fn + "nll_loss", lambda: (x(20, 12), ints(0, 12, 20), pos(12, grad=False)), lambda a, t, w, reduction: F.nll_loss(a, t, reduction="none"), "weight is left out", "fh", dict(reduction="none"))
    row("bce without log", fn + "binary_cross_entropy", lambda: (torch.rand(20, 12, generator=G).to(DT).clamp(0.05, 0.95).requires_grad_(), bits(20, 12).to(DT)), lambda a, b, reduction: F.binary_cross_entropy(a, 1 - b, reduction="none"), "target|1 -|one minus", "f", dict(reduction="none"))
    row("kl log_target", fn + "kl_div", lambda: (x(20, 12), x(20, 12)), lambda a, b, reduction, log_target: F.kl_div(a, b, reduction="none", log_target=False), "log_target", "f", dict(reduction="none", log_target=True))
    row("kl batchmean", fn + "kl_div", lambda: (x(20, 12), pos(20, 12)), lambda a, b, reduction: F.kl_div(a, b, reduction="mean"), "mean", "f", dict(reduction="batchmean"))
    row("clamp bounds swapped", "torch.clamp", lambda: (x(20, 12), -0.3, 0.8), lambda a, l, h: a.clamp(min=h).clamp(max=l) if 0 else torch.minimum(torch.maximum(a, torch.tensor(h, dtype=DT)), torch.tensor(l, dtype=DT)) * 1, "exchanged|swapped|all .*elements are")
    row("clamp max ignored", "torch.clamp", lambda: (x(20, 12), -0.3, 0.8), lambda a, l, h: a.clamp(min=l), "max is")
    row("clamp gradient passed", "torch.clamp", lambda: (x(20, 12), -0.3, 0.8), lambda a, l, h: GradFix.apply(a.clamp(l, h).detach(), a, lambda g: g), "passed on|passes everywhere")
    row("dropout scale missing", fn + "dropout", lambda: (x(40, 30), 0.25, True), lambda a, p, t: a * (torch.rand(40, 30, generator=G) > 0.25).to(DT), "scale|1 - p|1/\\(1-p\\)|1/\\(1|0.75|not scaled")
    # convolution, pooling, padding
    cv = lambda **k: (x(2, 4, 9, 9), x(6, 4, 3, 3), x(6))
    row("conv flipped", fn + "conv2d", cv, lambda a, w, b: F.conv2d(a, w.flip(2, 3), b), "backwards")
    row("conv dilation ignored", fn + "conv2d", cv, lambda a, w, b, dilation, padding: F.conv2d(a, w, b, padding=2)[..., :9, :9], "dilation", "fh", dict(dilation=2, padding=2))
    row("conv stride ignored", fn + "conv2d", cv, lambda a, w, b, stride: F.conv2d(a, w, b)[..., :4, :4], "stride", "fh", dict(stride=2))
    row("conv groups order", fn + "conv2d", lambda: (x(2, 4, 9, 9), x(6, 2, 3, 3), x(6), 1, 1, 1, 2), lambda a, w, b, *r: F.conv2d(a[:, [0, 2, 1, 3]], w, b, *r), "input is read|interleaved|order")
    row("conv groups: first group for all", fn + "conv2d", lambda: (x(2, 4, 9, 9), x(6, 2, 3, 3), x(6), 1, 1, 1, 2), lambda a, w, b, *r: F.conv2d(torch.cat([a[:, :2]] * 2, 1), w, b, *r), "first half")
    row("conv padding replicate", fn + "conv2d", cv, lambda a, w, b, padding: F.conv2d(F.pad(a, (1, 1, 1, 1), mode="replicate"), w, b), "replicated", "fh", dict(padding=1))
    row("conv padding off", fn + "conv2d", cv, lambda a, w, b, padding: F.conv2d(F.pad(a, (2, 0, 2, 0)), w, b), "pad|border|one|shift|rolled", "fh", dict(padding=1))
    row("conv bias gradient of one image", fn + "conv2d", cv, lambda a, w, b: F.conv2d(a, w) + GradFix.apply(b.detach()[None, :, None, None].expand(2, 6, 7, 7), b, lambda g: g[0].sum((1, 2))), "left out|last")
    row("conv_transpose flipped", fn + "conv_transpose2d", lambda: (x(2, 4, 7, 7), x(4, 6, 3, 3), x(6)), lambda a, w, b: F.conv_transpose2d(a, w.flip(2, 3), b), "backwards")
    row("max_pool gradient to the first", fn + "max_pool2d", lambda: (x(2, 3, 8, 8), 2), lambda a, k: GradFix.apply(F.max_pool2d(a, 2).detach(), a, lambda g: up2(g, 0)), "first|another|index")
    row("max_pool gradient to all", fn + "max_pool2d", lambda: (x(2, 3, 8, 8), 2), lambda a, k: GradFix.apply(F.max_pool2d(a, 2).detach(), a, lambda g: g.repeat_interleave(2, 2).repeat_interleave(2, 3)), "all|avg|every")
    row("max_pool as avg", fn + "max_pool2d", lambda: (x(2, 3, 8, 8), 2), lambda a, k: F.avg_pool2d(a, k), "avg_pool")
    row("avg_pool count_include_pad", fn + "avg_pool2d", lambda: (x(2, 3, 8, 8), 3, 1, 1), lambda a, k, s, p: F.avg_pool2d(a, k, s, p, count_include_pad=False), "count_include_pad")
    row("pad value", fn + "pad", lambda: (x(6, 10), [2, 1], "constant", 1.5), lambda a, p, m, v: F.pad(a, p, m, 0.0), "value")
    row("pad exchanged", fn + "pad", lambda: (x(6, 10), [2, 1]), lambda a, p: F.pad(a, [1, 2]), "pad is")
    row("pad reflect as replicate", fn + "pad", lambda: (x(2, 6, 10), [2, 1], "reflect"), lambda a, p, m: F.pad(a, p, "replicate"), "replicate")
    row("interpolate align_corners", fn + "interpolate", lambda: (x(2, 3, 6, 6),), lambda a, size, mode, align_corners: F.interpolate(a, size=(9, 9), mode=mode, align_corners=True), "align_corners", "fh", dict(size=(9, 9), mode="bilinear", align_corners=False))
    row("cat gradients swapped", "torch.cat", lambda: ([x(6, 10), x(6, 10)], 1), lambda ts, d: torch.cat(swap2(*ts), d), "exchanged|swapped|gradient")
    row("cat order", "torch.cat", lambda: ([x(6, 10), x(6, 10)], 1), lambda ts, d: torch.cat(ts[::-1], d), "swapped|exchanged|halves|rolled")
    row("permute other", "torch.permute", lambda: (x(6, 6, 6), (1, 2, 0)), lambda a, d: a.permute(2, 0, 1), "dims is|dimensions")
    row("flip other dim", "torch.flip", lambda: (x(6, 6), [0]), lambda a, d: a.flip(1), "dims is")
    row("roll direction", "torch.roll", lambda: (x(6, 20), 3, 1), lambda a, s, d: a.roll(-3, 1), "shifts is \\[?-3")
    row("tril as triu", "torch.tril", lambda: (x(12, 12),), lambda a: a.triu(), "triu|transposed")
    row("tril diagonal", "torch.tril", lambda: (x(12, 12),), lambda a: a.tril(-1), "diagonal is -1")
    # activations
    row("gelu tanh", fn + "gelu", lambda: (x(30, 20),), lambda a: F.gelu(a, approximate="tanh"), "tanh", "f")
    row("silu as gelu", fn + "silu", lambda: (x(30, 20),), lambda a: F.gelu(a), "gelu")
    row("silu gradient without x", fn + "silu", lambda: (x(30, 20),), lambda a: GradFix.apply(F.silu(a).detach(), a, lambda g: g * a.detach().sigmoid()), "product rule|term|addition .* left out")
    row("tanh gradient without square", "torch.tanh", lambda: (x(30, 20),), lambda a: GradFix.apply(a.tanh().detach(), a, lambda g: g * (1 - a.detach().tanh())), "1 - |square|result")
    row("sigmoid gradient of x", "torch.sigmoid", lambda: (x(30, 20),), lambda a: GradFix.apply(a.sigmoid().detach(), a, lambda g: g * a.detach() * (1 - a.detach())), "self|input|sigmoid is left out")
    row("leaky slope", fn + "leaky_relu", lambda: (x(30, 20), 0.2), lambda a, s: F.leaky_relu(a, 0.01), "negative_slope")
    row("elu alpha", fn + "elu", lambda: (x(30, 20), 1.5), lambda a, s: F.elu(a, 1.0), "alpha")
    row("softplus threshold", fn + "softplus", lambda: (x(30, 20), 1.0, 1.0), lambda a, b, t: F.softplus(a), "threshold is (20|\\+Inf)")
    row("glu halves", fn + "glu", lambda: (x(30, 20), -1), lambda a, d: torch.cat([a[:, 10:], a[:, :10]], 1).sigmoid()[:, 10:] * a[:, 10:], "halves|exchanged")
    row("hardtanh bounds", fn + "hardtanh", lambda: (x(30, 20), -0.5, 0.7), lambda a, l, h: a.clamp(-0.5, 0.5), "max_val|limited")
    row("exp2 as exp", "torch.exp2", lambda: (x(30, 20),), torch.exp, "exp")
    row("log1p as log", "torch.log1p", lambda: (pos(30, 20),), torch.log, "log")
    row("pow square", "torch.pow", lambda: (x(30, 20), 3), lambda a, n: a ** 2, "exponent")
    row("rsqrt as sqrt", "torch.rsqrt", lambda: (pos(30, 20),), torch.sqrt, "sqrt")
    row("div reversed", "torch.div", lambda: (pos(30, 20), pos(30, 20)), lambda a, b: b / a, "swapped")
    row("div gradient sign", "torch.div", lambda: (pos(30, 20), pos(30, 20)), lambda a, b: a / back(b, lambda g: -g), "negated|multiplied by -1")
    row("sub alpha", "torch.sub", lambda: (x(30, 20), x(30, 20)), lambda a, b, alpha: a - b, "alpha is 1", "fh", dict(alpha=2.0))
    row("addcmul value", "torch.addcmul", lambda: (x(30, 20), x(30, 20), x(30, 20)), lambda a, b, c, value: a + b * c, "value is 1", "fh", dict(value=0.3))
    row("addmm beta", "torch.addmm", lambda: (x(30, 20), x(30, 8), x(8, 20)), lambda a, b, c, beta, alpha: a + alpha * (b @ c), "beta", "fh", dict(beta=0.3, alpha=0.7))
    row("baddbmm batch", "torch.bmm", lambda: (x(4, 10, 8), x(4, 8, 12)), lambda a, b: a @ b[:1], "index|first")
    row("lerp reversed", "torch.lerp", lambda: (x(30, 20), x(30, 20), 0.3), lambda a, b, w: torch.lerp(b, a, w), "swapped|0.7")
    row("where inverted", "torch.where", lambda: (bits(30, 20), x(30, 20), x(30, 20)), lambda m, a, b: torch.where(~m, a, b), "other way|swapped")
    row("maximum as minimum", "torch.maximum", lambda: (x(30, 20), x(30, 20)), torch.minimum, "minimum")
    row("atan2 reversed", "torch.atan2", lambda: (x(30, 20), x(30, 20)), lambda a, b: torch.atan2(b, a), "swapped")
    row("broadcast gradient not summed over batch", "torch.add", lambda: (x(8, 12), x(12)), lambda a, b: a + GradFix.apply(b.detach().expand(8, 12), b, lambda g: g[0]), "left out|first|index|last")
    row("gradient of linear weight scaled by batch", fn + "linear", lambda: (x(16, 12), x(8, 12), x(8)), lambda a, w, b: F.linear(a, back(w, lambda g: g / 16), b), "1/16|0.0625|multiplied")
    row("linear weight gradient transposed", fn + "linear", lambda: (x(16, 12), x(12, 12), x(12)), lambda a, w, b: F.linear(a, back(w, lambda g: g.t().contiguous()), b), "exchanged|transposed|order of dimensions")
    row("linear bias left out", fn + "linear", lambda: (x(16, 12), x(8, 12), x(8)), lambda a, w, b: F.linear(a, w), "bias is left out")
    row("linear input gradient zero", fn + "linear", lambda: (x(16, 12), x(8, 12), x(8)), lambda a, w, b: F.linear(back(a, lambda g: g * 0), w, b), "nothing was written")
    row("factor 1.02", fn + "linear", lambda: (x(32, 24), x(24, 24), x(24)), lambda a, w, b: F.linear(a, w, b) * 1.02, "1\\.02")
    row("one row of many", fn + "linear", lambda: (x(300, 24), x(24, 24), x(24)), lambda a, w, b: zeroed(F.linear(a, w, b), (299,)), "not written|last")
    row("rows shifted", fn + "linear", lambda: (x(32, 24), x(24, 24), x(24)), lambda a, w, b: F.linear(a.roll(1, 0), w, b), "rolled|one back|further")
    row("heads transposed", "torch.matmul", lambda: (x(2, 4, 10, 8), x(2, 4, 8, 12)), lambda a, b: (a @ b).transpose(1, 2).contiguous().view(2, 4, 10, 12), "order of dimensions|exchanged|in the order")


class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, read):
        ctx.save_for_backward(a, read(b))
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a, None


class GradIn(torch.autograd.Function):
    """tanh whose incoming gradient is read in another way"""

    @staticmethod
    def forward(ctx, a, read):
        ctx.save_for_backward(a.tanh())
        ctx.read = read
        return a.tanh()

    @staticmethod
    def backward(ctx, g):
        return ctx.read(g) * (1 - ctx.saved_tensors[0] ** 2), None


class GradFix(torch.autograd.Function):
    """The value y, whose gradient for t is made by a function of the incoming one."""

    @staticmethod
    def forward(ctx, y, t, change):
        ctx.change = change
        return y.clone()

    @staticmethod
    def backward(ctx, g):
        return None, ctx.change(g), None


class LN(torch.autograd.Function):
    """layer_norm whose weight's gradient lacks the last rows."""

    @staticmethod
    def forward(ctx, a, w, b, e):
        ctx.save_for_backward(a, w, b)
        ctx.e = e
        return F.layer_norm(a, w.shape, w, b, e)

    @staticmethod
    def backward(ctx, g):
        a, w, b = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            full = torch.autograd.grad(F.layer_norm(a, w.shape, w, b, ctx.e), (a, w, b), g)
            part = torch.autograd.grad(F.layer_norm(a[:12], w.shape, w, b, ctx.e), (w, b), g[:12])
        return full[0], *part, None


def cx(*shape):
    return torch.complex(torch.randn(*shape, generator=G), torch.randn(*shape, generator=G))


def with_(t, every, v):
    t.view(-1)[::every] = v
    return t


def nans(*s, grad=True):
    return with_(x(*s, grad=False), 7, float("nan")).requires_grad_(grad)


def infs(*s):
    return with_(x(*s, grad=False), 7, float("inf")).requires_grad_(True)


def bounds():
    return torch.finfo(DT).max, torch.finfo(DT).min


def tiny():
    return torch.finfo(DT).tiny * 0.7


def flush(t):
    return torch.where(t.abs() < torch.finfo(DT).tiny, t * 0, t)


def rtz(a):
    return (a.view(torch.int32) & -65536).view(F32).to(BF16)


def tf32(a):
    return TF32.apply(a)


class TF32(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return ((a.view(torch.int32) + 0x1000) & ~0x1FFF).view(F32)

    @staticmethod
    def backward(ctx, g):
        return g


def fp8(t):
    return t + (t.detach().to(torch.float8_e4m3fn).to(t.dtype) - t.detach())


def lastwrite(i, s, n):
    """What is written at rows i by those of s, the last wins."""
    out = torch.zeros(n, s.shape[1], dtype=s.dtype)
    for r in range(s.shape[0]):
        for c in range(s.shape[1]):
            out[i[r, c], c] = s[r, c]
    return out


def perm(n, m):
    return torch.stack([torch.randperm(n, generator=G) for _ in range(m)], 1)


def online(a, d):
    h = a.shape[1] // 2
    m1, m2 = a[:, :h].amax(1, True), a.amax(1, True)
    s = (a[:, :h] - m1).exp().sum(1, True) + (a[:, h:] - m2).exp().sum(1, True)
    return torch.cat([(a[:, :h] - m1).exp(), (a[:, h:] - m2).exp()], 1) / s


def swapgrads(f, q, k, v):
    return f(q, *swap2(k, v))


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, change):
        ctx.change = change
        return a.clone(), b.clone()

    @staticmethod
    def backward(ctx, x, y):
        return *ctx.change(x, y), None


def pair(a, b, change):
    """a and b, whose gradients are changed together."""
    return list(Pair.apply(a, b, change))


def swap2(a, b):
    return pair(a, b, lambda x, y: (y, x))


def up2(g, at):
    out = torch.zeros(*g.shape[:2], 2 * g.shape[2], 2 * g.shape[3], dtype=g.dtype)
    out[..., at // 2 :: 2, at % 2 :: 2] = g
    return out


def op_name(op):
    return "fh"


def optimizers():
    """Name, op, arguments, keywords, wrong values of the arguments afterwards, pattern."""
    kw = dict(lr=0.01, beta1=0.9, beta2=0.999, weight_decay=0.1, eps=1e-4, amsgrad=False, maximize=False, grad_scale=None, found_inf=None)

    def adam(decoupled=True, correct=True, eps_inside=False, step_off=0, maximize=False, beta2=0.999, wd=0.1, sq=True, m2=True):
        def f(ps, gs, ms, vs, mx, steps, **k):
            for stored in zip(ps, gs, ms, vs, steps):
                p, g, m, v, s = (t.float().clone() for t in stored)
                t = float(s) + step_off
                if maximize:
                    g = -g
                if decoupled:
                    p.mul_(1 - k["lr"] * wd)
                else:
                    g = g + wd * p
                m.lerp_(g, 1 - k["beta1"])
                v.mul_(beta2).add_((1 - beta2) * (g * g))
                c1, c2 = (1 - k["beta1"] ** t, 1 - beta2**t) if correct else (1, 1)
                d = ((v + k["eps"]) / c2).sqrt() if eps_inside else (v / c2).sqrt() + k["eps"]
                p.sub_(k["lr"] / c1 * m / d)
                for t, made in zip((stored[0], *stored[2:4]), (p, m, v)):
                    t.copy_(made)
        return f

    def args():
        s = [(30, 8), (40,)]
        return ([x(*t, grad=False) for t in s], [x(*t, grad=False) for t in s], [x(*t, grad=False) * 0.1 for t in s],
                [x(*t, grad=False).abs() * 0.1 for t in s], [], [torch.tensor(5.0) for _ in s])

    for op, own in (("torch._fused_adamw_", True), ("torch._fused_adam_", False)):
        yield "decay coupled or not", op, args, kw, adam(decoupled=not own), "decay"
        yield "no bias correction", op, args, kw, adam(decoupled=own, correct=False), "correct"
        yield "eps inside of the root", op, args, kw, adam(decoupled=own, eps_inside=True), "eps|root"
        yield "step one late", op, args, kw, adam(decoupled=own, step_off=-1), "step"
        yield "maximize", op, args, kw, adam(decoupled=own, maximize=True), "maximize|grads.*(negated|-1)"
        yield "no decay", op, args, kw, adam(decoupled=own, wd=0.0), "weight_decay|decay"
        yield "beta2 is 0.99", op, args, kw, adam(decoupled=own, beta2=0.99), "beta2"

    kws = dict(weight_decay=0.1, momentum=0.9, lr=0.1, dampening=0.2, nesterov=False, maximize=False, is_first_step=False)

    def sgd(nesterov=False, damp=0.2, wd=0.1, mom=0.9, first=False, lr_in=False):
        def f(ps, gs, bs, **k):
            for stored in zip(ps, gs, bs):
                p, g, b = (t.float().clone() for t in stored)
                g = g + wd * p
                if first:
                    b.copy_(g)
                else:
                    b.mul_(mom).add_((1 - damp) * g)
                p.sub_(k["lr"] * (g + mom * b if nesterov else b))
                for t, made in zip((stored[0], stored[2]), (p, b)):
                    t.copy_(made)
        return f

    def sargs():
        s = [(30, 8), (40,)]
        return tuple([x(*t, grad=False) for t in s] for _ in range(3))

    yield "nesterov", "torch._fused_sgd_", sargs, kws, sgd(nesterov=True), "nesterov"
    yield "no nesterov", "torch._fused_sgd_", sargs, dict(kws, nesterov=True, dampening=0.0), sgd(damp=0.0), "nesterov"
    yield "no dampening", "torch._fused_sgd_", sargs, kws, sgd(damp=0.0), "dampening"
    yield "no decay", "torch._fused_sgd_", sargs, kws, sgd(wd=0.0), "weight_decay|decay"
    yield "first step", "torch._fused_sgd_", sargs, kws, sgd(first=True), "first_step|first step|momentum"
    yield "no momentum", "torch._fused_sgd_", sargs, kws, sgd(mom=0.0), "momentum"


def save(path, op, **files):
    os.makedirs(path)
    for kind, (args, kwargs) in files.items():
        torch.save({"name": op, "args": args, "kwargs": kwargs, "identifier": "1/2026-01-01-00-00-00/" + kind}, f"{path}/{kind}.pth")


def leaves(v):
    if isinstance(v, torch.Tensor):
        return [v]
    return [t for i in v for t in leaves(i)] if isinstance(v, (list, tuple)) else []


def call(path, op, args, kwargs, wrong):
    out = wrong(*args, **kwargs)
    outs = out if isinstance(out, tuple) else (out,)
    need = [t for t in leaves(args) if t.requires_grad]
    files = dict(input=(args, kwargs), output=((out,) if not isinstance(out, torch.Tensor) else (out.detach(),), {}))
    if isinstance(out, tuple):
        files["output"] = ((tuple(t.detach() for t in out),), {})
    if need and outs[0].requires_grad:
        g = torch.randn(outs[0].shape, generator=G).to(outs[0].dtype)
        grads = torch.autograd.grad(outs[0], need, g, allow_unused=True)
        files["grad_inputs"] = (tuple(None if t is None else t.contiguous() for t in grads), {})
        files["grad_outputs"] = ((g,) + (None,) * (len(outs) - 1), {})
    save(path, op, **files)


FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def random_calls():
    """Operators with arguments, of tensors of 1 to 20 elements or a few hundred; those of integers have none that is a gradient."""
    def size(*dims):
        if int(torch.randint(0, 2, (1,), generator=G)):
            return dims
        total = int(torch.randint(1, 21, (1,), generator=G))
        rows = [d for d in range(1, total + 1) if total % d == 0]
        at = rows[int(torch.randint(0, len(rows), (1,), generator=G))]
        return (at, total // at) if len(dims) == 2 else (total,)

    fn = "torch.nn.functional."
    one, two = (lambda: (x(*size(20, 12)),)), lambda: (lambda s: (x(*s), x(*s)))(size(20, 12))
    along = lambda: (x(*size(20, 24)), 1)
    whole = lambda: (lambda s: (ints(0, 50, *s), ints(1, 9, *s)))(size(20, 12))
    return [
        *((f"torch.{op}", one, None) for op in ("exp", "tanh", "sin", "sigmoid", "abs", "cos")), *((fn + op, one, None) for op in ("gelu", "relu", "silu")),
        *((f"torch.{op}", two, None) for op in ("add", "mul", "sub", "div", "maximum", "atan2")),
        *((f"torch.{op}", along, None) for op in ("sum", "mean", "cumsum", "logsumexp", "amax", "prod", "softmax")),
        ("torch.mean", lambda: (x(12),), None), ("torch.sum", lambda: (x(300),), None), ("torch.add", lambda: (x(), x()), None), ("torch.norm", lambda: (x(40),), None),
        ("torch.matmul", lambda: (x(24, 40), x(40, 16)), None), (fn + "linear", lambda: (x(3, 12), x(2, 12), x(2)), None),
        (fn + "layer_norm", lambda: (x(16, 24), [24], x(24), x(24)), None), (fn + "conv2d", lambda: (x(1, 2, 6, 6), x(3, 2, 3, 3)), None),
        (fn + "scaled_dot_product_attention", lambda: tuple(x(1, 2, 8, 8) for _ in range(3)), None),
        (fn + "mse_loss", lambda: (x(20), x(20)), None), (fn + "cross_entropy", lambda: (x(12, 5), ints(0, 5, 12)), None),
        (fn + "embedding", lambda: (ints(0, 9, 14), x(9, 4)), None), ("torch.gather", lambda: (x(6, 5), 1, ints(0, 5, 6, 3)), None),
        *((f"torch.{op}", whole, "int") for op in ("add", "mul", "bitwise_and", "maximum", "floor_divide")),
        ("torch.cumsum", lambda: (ints(0, 9, *size(20, 12)), 1), "int"), ("torch.argmax", lambda: (x(20, 12, grad=False), 1), "int"),
        ("torch.gt", lambda: (ints(0, 5, *(s := size(20, 12))), ints(0, 5, *s)), "bool"), ("torch.logical_or", lambda: (bits(*(s := size(20, 12))), bits(*s)), "bool"),
        *(("torch.Tensor.to", lambda d=d: (x(*size(20, 12), grad=False), d), "fp8") for d in FP8),
    ]


def random_error(y):
    """y with an error that nothing causes: noise, other numbers, flipped bits, one element."""
    pick = lambda n: int(torch.randint(0, n, (1,), generator=G))
    other = lambda y: torch.randint(0, 50, y.shape, generator=G).to(y.dtype) if not y.is_floating_point() else torch.randn(y.shape, generator=G).to(y.dtype)
    if y.dtype == torch.bool:
        return y ^ (torch.rand(y.shape, generator=G) < (0.1, 0.3, 0.5)[pick(3)])
    word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[y.element_size()]
    z, kind = y.clone(), pick(6)
    flat = z.view(-1)
    if kind == 0 and y.is_floating_point():
        return (y.double() * (1 + (0.01, 0.05, 0.3)[pick(3)] * torch.randn(y.shape, generator=G))).to(y.dtype)
    if kind == 1 and y.is_floating_point():
        return (y.double() + 0.1 * torch.randn(y.shape, generator=G)).to(y.dtype)
    if kind == 2:
        return other(y)
    if kind == 3:
        w, b = flat.view(word), 8 * y.element_size() - 1
        for i in torch.randint(0, z.numel(), (1 + pick(max(1, z.numel() // 4)),), generator=G).tolist():
            w[i] ^= 1 << (b // 2 + pick(b - b // 2) if y.is_floating_point() else pick(5))
        return z
    if kind == 4:
        return torch.where(torch.rand(y.shape, generator=G) > 0.5, y.float() if y.dtype in FP8 else y, (other(y).float() if y.dtype in FP8 else other(y))).to(y.dtype)
    at = pick(z.numel())
    flat[at : at + 1] = other(flat[at : at + 1])
    return z


def randoms(work, n):
    """Calls whose results, or gradients, are wrong at random."""
    global DT
    calls = random_calls()
    for i in range(n):
        DT = (F32, BF16, F16)[i % 3]
        op, args, kind = calls[(i // 3) % len(calls)]
        a = args()
        y = eval(op, {"torch": torch})(*a)
        out, files = y.detach(), {}
        need = [] if kind else [t for t in leaves(a) if t.requires_grad]
        if need and i // 3 // len(calls) % 3 == 0:
            g = torch.randn(y.shape, generator=G).to(y.dtype)
            wrong = [random_error(t.contiguous()) for t in torch.autograd.grad(y, need, g)]
            files = dict(grad_inputs=(tuple(wrong), {}), grad_outputs=((g,), {}))
        else:
            out = random_error(out)
        save(f"{work}/random/{i:05d}", op, input=(a, {}), output=((out,), {}), **files)


def main():
    global DT
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--optool", default="bin/optool")
    ap.add_argument("--only", default="", help="regular expression of name, operator and dtype")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--random", type=int, default=0, help="plant so many random mistakes instead")
    ap.add_argument("--fresh", type=int, choices=(1, 2, 3, 4, 5, 6, 7), help="a set of causes_fresh.py")
    ap.add_argument("--keep", help="directory for the captures")
    ap.add_argument("--all", action="store_true", help="print right causes too")
    o = ap.parse_args()
    torch.set_num_threads(1)
    G.manual_seed(o.seed)
    work = o.keep or tempfile.mkdtemp()
    tables = tempfile.mkdtemp()  # optool writes its tables into the working directory
    want = {}
    if o.random:
        randoms(work, o.random)
    else:
        if o.fresh:
            import causes_fresh

            (causes_fresh.plant, causes_fresh.plant2, causes_fresh.plant3, causes_fresh.plant4, causes_fresh.plant5, causes_fresh.plant6, causes_fresh.plant7)[o.fresh - 1](sys.modules[__name__])
        else:
            plant()
        for name, op, args, wrong, pattern, dts, kwargs in ROWS:
            for d in dts:
                DT = {"f": F32, "h": BF16, "s": F16}[d]
                key = f"{name}/{op}/{str(DT)[6:]}"
                if re.search(o.only, key):
                    try:
                        call(f"{work}/{len(want):04d}", op, args(), kwargs, wrong)
                    except Exception as e:
                        print(f"{key}: {e}", file=sys.stderr)
                        shutil.rmtree(f"{work}/{len(want):04d}", ignore_errors=True)
                        continue
                    want[f"{len(want):04d}"] = key, pattern
        for name, op, args, kwargs, wrong, pattern in optimizers() if o.fresh in (None, 1) else causes_fresh.optimizers7(sys.modules[__name__]) if o.fresh == 7 else ():
            for DT in (F32, BF16):
                key = f"{name}/{op}/{str(DT)[6:]}"
                if re.search(o.only, key):
                    a = args()
                    after = [[t.clone() for t in l] for l in a]
                    wrong(*after, **kwargs)
                    save(f"{work}/{len(want):04d}", op, input=(a, kwargs), output=((None,), {}), after=(tuple(after), kwargs))
                    want[f"{len(want):04d}"] = key, pattern
    causes, verdicts, took = collections.defaultdict(list), {}, {}

    def judged(path):
        start = time.monotonic()
        run = subprocess.run([os.path.abspath(o.optool), "replay", "--acc_check", "--json", "-", os.path.abspath(path)], capture_output=True, text=True, cwd=tables)
        return path, run.stdout, time.monotonic() - start

    root = f"{work}/random" if o.random else work
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, out, seconds in pool.map(judged, [f"{root}/{d}" for d in sorted(os.listdir(root))]):
            of = os.path.basename(path)
            took[of] = seconds
            for line in out.splitlines():
                r = json.loads(line)
                if r["kind"] == "cause" and not r.get("pattern"):
                    causes[of].append(r["text"])
                elif r["kind"] == "result":
                    verdicts.setdefault(of, []).append(r["verdict"])
    if o.random:
        print(f"{len(verdicts)} random mistakes, {sum('fail' in v for v in verdicts.values())} fail, {len(causes)} with a cause")
        for of, texts in causes.items():
            print(" ", of, texts[0])
        shutil.rmtree(tables)
        if not o.keep:
            shutil.rmtree(work)
        return
    table = collections.Counter()
    for of, (key, pattern) in want.items():
        v, c = verdicts.get(of, []), causes[of]
        parts = pattern.split(" && ")  # of the first cause, and of another one for the gradients
        right = len(c) >= len(parts) and all(re.search(p, t) for p, t in zip(parts, c))
        kind = "not failed" if "fail" not in v else "none" if not c else "right" if right else "wrong"
        table[kind, key.split("/")[-1]] += 1
        if kind != "right" or o.all:
            print(f"{of} {kind}: {key}: {c[:2] or sorted(set(v))}")
    print("\n| cause | float32 | bfloat16 | float16 |\n|---|---|---|---|")
    for kind in ("right", "wrong", "none", "not failed"):
        print(f"| {kind} | " + " | ".join(str(table[kind, d]) for d in ("float32", "bfloat16", "float16")) + " |")
    slow = max(took, key=took.get)
    print(f"\nslowest: {took[slow]:.1f} s, {want[slow][0]}")
    shutil.rmtree(tables)
    if not o.keep:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
