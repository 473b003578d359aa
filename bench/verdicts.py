#!/usr/bin/env python3
"""How often planted errors are found, and sound results are not believed.

  verdicts.py [--optool bin/optool] [--samples N] [--seed N] [--curve]

Calls torch's own kernels on random arguments, writes the calls as captures, sound
ones and copies with one error planted in the result, runs `optool replay` on
them and prints a table by kind of error and dtype: of how many planted errors was
one found (fail or warn), and of how many sound calls. A last table has the largest
common factors that sound kernels show, in eps of their dtype, next to what is
allowed. What torch does not implement in a dtype is left out. Needs torch (1.13 or 2).

With --curve: by the size of a common factor, how often one call of so many elements is
found to be wrong, and how often so many calls of 256 elements are all together.
"""
import argparse, collections, json, os, shutil, subprocess, sys, tempfile

import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def calls(dt, gen):
    """Name, function, arguments and keywords of sound calls."""
    def x(*s):
        return torch.randn(*s, generator=gen).to(dt)
    a, b, w = x(64, 96), x(64, 96), x(48, 96)
    yield "torch.add", torch.add, (a, b), {}
    yield "torch.mul", torch.mul, (a, b), {}
    yield "torch.div", torch.div, (a, b.abs() + 1), {}
    yield "torch.exp", torch.exp, (a,), {}
    yield "torch.tanh", torch.tanh, (a,), {}
    yield "torch.sigmoid", torch.sigmoid, (a,), {}
    yield "torch.rsqrt", torch.rsqrt, (a.abs() + 1,), {}
    yield "torch.nn.functional.gelu", F.gelu, (a,), {}
    yield "torch.nn.functional.silu", F.silu, (a,), {}
    yield "torch.nn.functional.softmax", F.softmax, (a,), {"dim": -1}
    yield "torch.nn.functional.log_softmax", F.log_softmax, (a,), {"dim": -1}
    yield "torch.nn.functional.layer_norm", F.layer_norm, (a, (96,), x(96), x(96)), {}
    yield "torch.nn.functional.group_norm", F.group_norm, (x(8, 12, 6, 6), 4, x(12), x(12)), {}
    yield "torch.nn.functional.linear", F.linear, (a, w, x(48)), {}
    yield "torch.matmul", torch.matmul, (a, w.t().contiguous()), {}
    yield "torch.bmm", torch.bmm, (x(4, 16, 32), x(4, 32, 24)), {}
    yield "torch.nn.functional.conv2d", F.conv2d, (x(2, 4, 12, 12), x(6, 4, 3, 3), x(6)), {}
    yield "torch.cumsum", torch.cumsum, (a, 1), {}
    yield "torch.sum", torch.sum, (x(96, 512), 1), {}
    yield "torch.mean", torch.mean, (x(96, 512), 1), {}
    yield "torch.transpose", torch.transpose, (a, 0, 1), {}
    yield "torch.clone", torch.clone, (a,), {}


ARITHMETIC = {"torch.transpose", "torch.clone"}  # all others compute


def toward_zero(exact, dt):
    near = exact.to(dt)
    bits = near.view({2: torch.int16, 4: torch.int32}[near.element_size()])
    down = (bits - (near.double().abs() > exact.abs()).to(bits.dtype)).view(dt)
    return torch.where(near == 0, near, down)


def up(exact, dt):
    near = exact.to(dt)
    bits = near.view({2: torch.int16, 4: torch.int32}[near.element_size()])
    step = (near.double() < exact).to(bits.dtype)
    return torch.where(near == 0, near, torch.where(near > 0, bits + step, bits - step).view(dt))


def last(y):
    z = y.clone()
    z.view(-1)[-max(1, y.numel() // 8):] = 0
    return z


def one(y, f):
    z = y.clone()
    i = int(z.abs().flatten().argmax())
    z.view(-1)[i] = f(z.view(-1)[i])
    return z


def swap(y):
    z = y.clone()
    z[0], z[-1] = y[-1].clone(), y[0].clone()
    return z


def rows(y, f):
    z = y.clone()
    z[: max(1, len(z) // 4)] = f(z[: max(1, len(z) // 4)])
    return z


def clamped(y, limit):  # in float64: torch 1.13 clamps no float16
    return y.double().clamp(-limit, limit).to(y.dtype)


# Of each kind: which computing calls it is planted in, and the wrong result from the right
# one y, torch's result e in float64 and the dtype; None leaves the call out.
KINDS = {
    "rounded toward zero": lambda y, e, dt: toward_zero(e, dt),
    "rounded up": lambda y, e, dt: up(e, dt),
    "times 1+1e-5 (float32)": lambda y, e, dt: (e * (1 + 1e-5)).to(dt) if dt == torch.float32 else None,
    "times 1-1e-5 (float32)": lambda y, e, dt: (e * (1 - 1e-5)).to(dt) if dt == torch.float32 else None,
    "times 1-4e-3 (bfloat16)": lambda y, e, dt: (e * (1 - 4e-3)).to(dt) if dt == torch.bfloat16 else None,
    "times 1+1e-3 (float16)": lambda y, e, dt: (e * (1 + 1e-3)).to(dt) if dt == torch.float16 else None,
    **{f"times 1+{k} eps": lambda y, e, dt, k=k: (e * (1 + k * torch.finfo(dt).eps)).to(dt) for k in (0.125, 0.25, 0.5, 1, 4, 16, 64)},
    "times 1.02": lambda y, e, dt: (e * 1.02).to(dt),
    "times 1/sqrt(2)": lambda y, e, dt: (e * 0.5 ** 0.5).to(dt),
    "a quarter of the rows times 1.02": lambda y, e, dt: rows(y, lambda r: (r.double() * 1.02).to(dt)),
    "plus 2 eps of the root mean square": lambda y, e, dt: (e + 2 * torch.finfo(dt).eps * e.square().mean().sqrt()).to(dt)
        if dt != torch.float32 else (e + 20 * torch.finfo(dt).eps * e.square().mean().sqrt()).to(dt),
    "one element 2 % off": lambda y, e, dt: one(y, lambda v: v * 1.02),
    "one element negated": lambda y, e, dt: one(y, lambda v: -v),
    "one element NaN": lambda y, e, dt: one(y, lambda v: v * float("nan")),
    "one element infinite": lambda y, e, dt: one(y, lambda v: v + float("inf")),
    "one element zero": lambda y, e, dt: one(y, lambda v: v * 0),
    "an eighth not written": lambda y, e, dt: last(y),
    "all zero": lambda y, e, dt: torch.zeros_like(y),
    "all negated": lambda y, e, dt: -y,
    "magnitudes": lambda y, e, dt: y.abs() if (y < 0).any() else None,
    "first and last row swapped": lambda y, e, dt: swap(y),
    "rows in reverse": lambda y, e, dt: y.flip(0),
    "rows shifted by one": lambda y, e, dt: y.roll(1, 0),
    "elements shifted by one": lambda y, e, dt: y.flatten().roll(1).view(y.shape),
    "transposed data": lambda y, e, dt: y.transpose(0, -1).contiguous().view(y.shape) if y.dim() > 1 else None,
    "clamped to 99 % of the largest": lambda y, e, dt: clamped(y, 0.97 * float(y.abs().max())),
    "second half repeats the first": lambda y, e, dt: torch.cat([y[: len(y) // 2]] * 2) if len(y) % 2 == 0 else None,
    "another shape": lambda y, e, dt: y.flatten() if y.dim() > 1 else y.unsqueeze(0),
    "another dtype": lambda y, e, dt: y.to(torch.float64),
    "through a narrower dtype": lambda y, e, dt: y.to({torch.float32: torch.bfloat16}.get(dt, torch.float8_e4m3fn
        if hasattr(torch, "float8_e4m3fn") else torch.int8)).to(dt),
    "noise of 1 %": lambda y, e, dt: (e * (1 + 0.01 * torch.randn(e.shape, dtype=e.dtype))).to(dt),
    "sign of zero lost": lambda y, e, dt: None,  # see planted
}


def write(path, name, **files):
    os.makedirs(path)
    for kind, (args, kwargs) in files.items():
        torch.save({"name": name, "args": args, "kwargs": kwargs, "identifier": "1/2026-01-01-00-00-00/" + kind},
                   f"{path}/{kind}.pth")


def wide(v):
    return v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v


def sized(dt, gen, n):
    """Name, function, arguments and keywords of calls whose result has n elements."""
    def x(*s):
        return torch.randn(*s, generator=gen).to(dt)
    rows = n // 16
    yield "torch.add", torch.add, (x(n), x(n)), {}
    yield "torch.mul", torch.mul, (x(n), x(n)), {}
    yield "torch.exp", torch.exp, (x(n),), {}
    yield "torch.nn.functional.gelu", F.gelu, (x(n),), {}
    yield "torch.nn.functional.softmax", F.softmax, (x(rows, 16),), {"dim": -1}
    yield "torch.nn.functional.layer_norm", F.layer_norm, (x(rows, 16), (16,), x(16), x(16)), {}
    yield "torch.nn.functional.linear", F.linear, (x(rows, 64), x(16, 64), x(16)), {}
    yield "torch.mean", torch.mean, (x(n, 8), 1), {}


BIASES = (0, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16)  # in eps of the dtype
ELEMENTS, CALLS = (64, 512, 4096, 32768), (8, 32, 128)


def biased(path, dts, gen, n, bias, samples):
    """Writes so many calls of each kernel whose results have a common factor."""
    for dt in dts:
        for i in range(samples):
            for name, f, args, kwargs in sized(dt, gen, n):
                try:
                    y = f(*args, **kwargs)
                except RuntimeError as e:
                    if "not implemented for" in str(e):
                        continue
                    raise
                if bias:
                    y = (f(*[wide(v) for v in args], **kwargs) * (1 + bias * torch.finfo(dt).eps)).to(dt)
                write(f"{path}/{str(dt)[6:]}/{name}/{i}", name, input=(args, kwargs), output=((y,), {}))


def replayed(optool, work):
    """The records of a replay of what was written, which is then removed."""
    subprocess.run([optool, "replay", "--acc_check", "--quiet", "--json", f"{work}/run.jsonl", f"{work}/c"], cwd=work,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = [json.loads(line) for line in open(f"{work}/run.jsonl")]
    shutil.rmtree(f"{work}/c")
    return records


def curve(optool, samples, gen, work):
    names = [str(d)[6:] for d in DTYPES]
    one, all_of, ops = collections.Counter(), collections.Counter(), collections.Counter()
    for n in ELEMENTS:
        for bias in BIASES:
            biased(f"{work}/c", DTYPES, gen, n, bias, samples)
            for r in replayed(optool, work):
                if r["kind"] == "result":
                    ops[r["dtype"], n] += bias == 0
                    one[r["dtype"], n, bias] += r["verdict"] in ("fail", "warn")
    for n in CALLS:
        for bias in BIASES:
            biased(f"{work}/c", DTYPES, gen, 256, bias, n)
            wrong = set()
            for r in replayed(optool, work):
                if r["kind"] == "result" and r["verdict"] in ("fail", "warn"):
                    wrong.add((r["dtype"], r["op"]))
                for s in r.get("systematic", ()):
                    wrong.add((s["dtype"], s["op"]))
                if r["kind"] == "result" and not bias:
                    ops[r["dtype"], n, "calls"] += 1
            for dt, _ in wrong:
                all_of[dt, n, bias] += 1
    for dt in names:
        print(f"\n| {dt}, eps | " + " | ".join(f"{b:g}" for b in BIASES) + " |\n|---|" + "---|" * len(BIASES))
        for n in ELEMENTS:
            if ops[dt, n]:
                print(f"| one call of {n} | " + " | ".join(f"{100 * one[dt, n, b] / ops[dt, n]:.0f}" for b in BIASES) + " |")
        for n in CALLS:
            if ops[dt, n, "calls"]:
                print(f"| {n} calls of 256 | " + " | ".join(f"{100 * n * all_of[dt, n, b] / ops[dt, n, 'calls']:.0f}"
                                                       for b in BIASES) + " |")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--optool", default="bin/optool")
    ap.add_argument("--samples", type=int, default=2, help="draws of every call")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--curve", action="store_true", help="print how often a common factor is found, by its size")
    o = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(o.seed)
    gen = torch.Generator().manual_seed(o.seed)
    work = tempfile.mkdtemp()
    if o.curve:
        curve(os.path.abspath(o.optool), o.samples, gen, work)
        shutil.rmtree(work)
        return
    n = 0

    def put(kind, dt, name, args, kwargs, y):
        nonlocal n
        n += 1
        write(f"{work}/c/{kind.replace('/', '|')}/{str(dt)[6:]}/{name}/{n}", name, input=(args, kwargs), output=((y,), {}))

    for dt in DTYPES:
        for _ in range(o.samples):
            for name, f, args, kwargs in calls(dt, gen):
                try:
                    y = f(*args, **kwargs).contiguous()
                except RuntimeError as e:
                    if "not implemented for" in str(e):  # float16 on the CPU of torch 1.13
                        continue
                    raise
                put("sound", dt, name, args, kwargs, y)
                if name in ARITHMETIC:
                    zero = args[0].clone()
                    zero[::3] = -0.0
                    put("sign of zero lost", dt, name, (zero, *args[1:]), kwargs, f(zero, *args[1:], **kwargs).contiguous() + 0)
                    continue
                e = f(*[wide(v) for v in args], **kwargs).contiguous()
                for kind, plant in KINDS.items():
                    z = plant(y, e, dt)
                    if z is not None and not (z.shape == y.shape and z.dtype == y.dtype and torch.equal(z, y)):
                        put(kind, dt, name, args, kwargs, z)
    seen, found, missed = collections.Counter(), collections.Counter(), collections.Counter()
    factors = collections.defaultdict(float)
    for r in replayed(os.path.abspath(o.optool), work):
        if r["kind"] != "result":
            continue
        kind, dt, name = r["capture"].split("/")[:3]
        seen[kind, dt] += 1
        bad = r["verdict"] in ("fail", "warn")
        found[kind, dt] += bad
        if bad == (kind == "sound"):
            missed[kind, dt, name, r["verdict"]] += 1
        e = r.get("errors")
        if kind == "sound" and e and not isinstance(e["factor_error"], str):
            eps = torch.finfo(getattr(torch, dt)).eps
            factors[dt] = max(factors[dt], abs(e["factor"]) / eps)
    names = [str(d)[6:] for d in DTYPES]
    print(f"torch {torch.__version__}, {n} calls, seed {o.seed}\n")
    print("| planted | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for kind in ["sound", *KINDS]:
        cells = [f"{found[kind.replace('/', '|'), d]} of {seen[kind.replace('/', '|'), d]}" if seen[kind.replace('/', '|'), d]
                 else "" for d in names]
        print(f"| {kind} | " + " | ".join(cells) + " |")
    print("\nlargest common factor of sound calls, in eps: " + ", ".join(f"{d} {f:.2f}" for d, f in factors.items()))
    for k, v in sorted(missed.items()):
        print("  ", *k, v, file=sys.stderr)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
