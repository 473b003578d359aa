#!/usr/bin/env python3
"""How often an attention with dropout that is wrong is found, and a sound one is not believed.

  dropout.py [--optool bin/optool] [--samples N] [--seed N]

Writes calls of torch's own scaled_dot_product_attention with dropout, forward and backward, and of
multi_head_attention_forward ("heads"), and calls of kernels that each have one error, runs
`optool replay` on them and prints a table: of how many calls of a kind was one found. With --sound N
it writes N times as many sound calls, and no others. Needs torch 2.
"""
import argparse, collections, json, os, shutil, subprocess, sys, tempfile

import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
NAME = "torch.nn.functional.scaled_dot_product_attention"

# batch, heads, queries, keys, length of a head
SHAPES = [(2, 4, 16, 16, 32), (4, 8, 64, 64, 16), (2, 12, 128, 128, 64), (8, 4, 48, 48, 64)]


def kernel(q, k, v, p, causal, error):
    """Attention with dropout that has the error; of "" it is sound."""
    x, y, z = q.float(), k.float(), v.float()
    scores = x @ y.transpose(-1, -2) / x.shape[-1] ** (1 if error == "scores divided by E" else 0.5)
    if causal:
        ahead = 2 if error == "causal mask off by one" else 1
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(ahead)
        scores = scores.masked_fill(hidden, float("-inf"))
    w = scores.softmax(-1)
    rate = {"twice the rate": min(2 * p, 0.9), "half the rate": p / 2}.get(error, p)
    shape = list(w.shape)
    if error == "one mask for all queries":
        shape[-2] = 1
    if error == "one mask for all heads":
        shape[1] = 1
    keep = (torch.rand(shape) >= rate).float()
    if error == "outputs dropped, not weights":
        y = w @ z
        return (y * (torch.rand(y.shape) >= p) / (1 - p)).to(q.dtype)
    if error == "nothing dropped":
        keep = 1 - 0 * keep + 0 * (rate := 0)
    if error == "the last key left out":
        w = torch.cat([w[..., :-1], 0 * w[..., -1:]], -1)
    scale = {"not divided by 1-p": 1, "multiplied by 1-p": 1 - p, "divided by p": 1 / p}.get(error, 1 / (1 - rate))
    if error == "backward with another mask":
        return Recomputed.apply(q, k, v, w.detach(), keep, (torch.rand(shape) >= rate).float(), scale)
    if error == "scores dropped, not weights":
        return ((scores * keep * scale).softmax(-1) @ z).to(q.dtype)
    if error == "divided by the sum that is kept":
        w = w * keep
        return (w / w.sum(-1, keepdim=True).clamp_min(1e-9) @ z).to(q.dtype)
    w = w * keep * scale
    if error == "heads of values swapped":
        z = z.flip(1)
    y = w @ z
    if error == "last query not written":
        y = torch.cat([y[..., :-1, :], 0 * y[..., -1:, :]], -2)
    if error == "2 % too large":
        y = y * 1.02
    return y.to(q.dtype)


class Recomputed(torch.autograd.Function):
    """An attention whose backward pass draws its mask anew."""

    @staticmethod
    def forward(ctx, q, k, v, w, keep, other, scale):
        ctx.save_for_backward(q, k, v, w, other)
        ctx.scale = scale
        return (w * keep * scale @ v.float()).to(q.dtype)

    @staticmethod
    def backward(ctx, g):
        q, k, v, w, other = ctx.saved_tensors
        q2, k2, g = q.float(), k.float(), g.float()
        m = other * ctx.scale
        h = (g @ v.float().transpose(-1, -2)) * m
        d = w * (h - (w * h).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return ((d @ k2).to(q.dtype), (d.transpose(-1, -2) @ q2).to(q.dtype),
                ((w * m).transpose(-1, -2) @ g).to(q.dtype), None, None, None, None)


class Damaged(torch.autograd.Function):
    """The sound attention whose gradient has an error."""

    @staticmethod
    def forward(ctx, q, k, v, p, causal, error):
        with torch.enable_grad():
            ctx.leaves = [t.detach().requires_grad_() for t in (q, k, v)]
            ctx.y = kernel(*ctx.leaves, p, causal, "")
        ctx.p, ctx.error = p, error
        return ctx.y.detach()

    @staticmethod
    def backward(ctx, g):
        dq, dk, dv = torch.autograd.grad(ctx.y, ctx.leaves, g)
        if ctx.error == "value's gradient not divided by 1-p":
            dv = dv * (1 - ctx.p)
        elif ctx.error == "query's gradient without the scale":
            dq = dq * dq.shape[-1] ** 0.5
        elif ctx.error == "key's gradient 3 % too small":
            dk = dk * 0.97
        elif ctx.error == "value's gradient one key further":
            dv = dv.roll(1, -2)
        return dq, dk, dv, None, None, None


GRADIENTS = ["key's gradient 3 % too small", "value's gradient not divided by 1-p", "query's gradient without the scale",
             "value's gradient one key further", "backward with another mask"]
KINDS = ["not divided by 1-p", "multiplied by 1-p", "divided by p", "nothing dropped", "twice the rate", "half the rate",
         "outputs dropped, not weights", "scores dropped, not weights", "divided by the sum that is kept",
         "one mask for all queries", "one mask for all heads", "causal mask off by one", "the last key left out",
         "scores divided by E", "heads of values swapped", "last query not written", "2 % too large", *GRADIENTS]


def heads(x, p, m, error):
    """multi_head_attention_forward of module m in training, its results with the error."""
    def call(p, training=True):
        return F.multi_head_attention_forward(x, x, x, 64, 4, m.in_proj_weight, m.in_proj_bias, None, None, False, p,
                                              m.out_proj.weight, m.out_proj.bias, training=training)
    y, w = call({"twice the rate": min(2 * p, 0.9), "half the rate": p / 2}.get(error, p), error != "nothing dropped")
    if error == "not divided by 1-p":
        y = (y - m.out_proj.bias) * (1 - p) + m.out_proj.bias
    if error == "weights before the dropout":
        w = call(p, False)[1]
    if error == "bias left out":
        y = y - m.out_proj.bias
    if error == "batch reversed":
        y = y.flip(1)
    return y, w


HEADS = ["not divided by 1-p", "nothing dropped", "twice the rate", "half the rate", "weights before the dropout",
         "bias left out", "batch reversed"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--optool", default="bin/optool")
    ap.add_argument("--samples", type=int, default=2, help="draws of every call")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--sound", type=int, default=1, help="so many sound calls of each kind, and no others if more than 1")
    o = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(o.seed)
    work = tempfile.mkdtemp()
    n = 0

    def put_heads(kind, dt, p, queries):
        nonlocal n
        n += 1
        m = torch.nn.MultiheadAttention(64, 4, dropout=p).to(dt)
        torch.nn.init.normal_(m.out_proj.bias)
        x = torch.randn(queries, 4, 64).to(dt)
        with torch.no_grad():
            y, w = heads(x, p, m, kind)
        name = "torch.nn.functional.multi_head_attention_forward"
        args = (x, x, x, 64, 4, m.in_proj_weight.detach(), m.in_proj_bias.detach(), None, None, False, p,
                m.out_proj.weight.detach(), m.out_proj.bias.detach())
        path = f"{work}/c/heads: {kind}/{str(dt)[6:]}/{n}"
        os.makedirs(path)
        for part, values in (("input", args), ("output", (y, w))):
            torch.save({"name": name, "args": values, "kwargs": {}, "identifier": name + "/" + part}, f"{path}/{part}.pth")

    def put(kind, dt, q, k, v, p, causal, f):
        nonlocal n
        n += 1
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        y = f(*leaves)
        g = torch.randn(y.shape).to(dt)
        grads = torch.autograd.grad(y, leaves, g)
        path = f"{work}/c/{kind}/{str(dt)[6:]}/{n}"
        os.makedirs(path)
        for part, args, kwargs in (("input", leaves, {"dropout_p": p, "is_causal": causal}), ("output", (y.detach(),), {}),
                                   ("grad_inputs", grads, {}), ("grad_outputs", (g,), {})):
            torch.save({"name": NAME, "args": tuple(args), "kwargs": kwargs, "identifier": NAME + "/" + part},
                       f"{path}/{part}.pth")

    sdpa = F.scaled_dot_product_attention
    seen, found, said = collections.Counter(), collections.Counter(), collections.Counter()
    for dt in DTYPES:
        for _ in range(o.samples):
            for b, h, l, s, e in SHAPES:
                for causal in (False, True):
                    p = (0.1, 0.2, 0.5)[n % 3]
                    q, k, v = (torch.randn(b, h, m, e).to(dt) for m in (l, s, s))
                    for _ in range(o.sound):
                        put("sound", dt, q, k, v, p, causal, lambda q, k, v: sdpa(q, k, v, dropout_p=p, is_causal=causal))
                    if o.sound > 1:
                        continue
                    for kind in KINDS:
                        if kind == "causal mask off by one" and not causal or kind == "divided by p" and p == 0.5:
                            continue
                        if kind in GRADIENTS and kind != "backward with another mask":
                            put(kind, dt, q, k, v, p, causal, lambda q, k, v: Damaged.apply(q, k, v, p, causal, kind))
                        else:
                            put(kind, dt, q, k, v, p, causal, lambda q, k, v: kernel(q, k, v, p, causal, kind))
            for queries in (12, 60):
                for p in (0.1, 0.3):
                    for kind in ["sound"] * o.sound + (HEADS if o.sound == 1 else []):
                        put_heads(kind, dt, p, queries)
            subprocess.run([os.path.abspath(o.optool), "replay", "--acc_check", "--quiet", "--json", f"{work}/run.jsonl",
                            f"{work}/c"], cwd=work, stdout=subprocess.DEVNULL)
            bad, passed = set(), set()
            for line in open(f"{work}/run.jsonl"):
                r = json.loads(line)
                if r["kind"] != "result":
                    continue
                kind, dtype, i = r["capture"].split("/")[:3]
                (bad if r["verdict"] in ("fail", "warn", "error") else passed).add((kind, dtype, i))
                if kind.endswith("sound") and r["verdict"] != "pass":
                    said[kind, r["verdict"], r["reason"][:150]] += 1
            for c in bad | passed:
                seen[c[:2]] += 1
                found[c[:2]] += c in bad
            shutil.rmtree(f"{work}/c")
    names = [str(d)[6:] for d in DTYPES]
    print(f"torch {torch.__version__}, {n} calls, seed {o.seed}\n")
    print("| planted | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for kind in ["sound", *KINDS, "heads: sound", *("heads: " + k for k in HEADS)]:
        print(f"| {kind} | " + " | ".join(f"{found[kind, d]} of {seen[kind, d]}" for d in names) + " |")
    for k, c in said.most_common(20):
        print(c, *k, file=sys.stderr)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
