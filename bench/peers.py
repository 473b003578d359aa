#!/usr/bin/env python3
"""optool against what a user would run instead, on the same files in one run.

  peers.py [DIR]      (make bench-peers; needs torch, and Go for optool's side)

Prints one line per measurement: what, torch's time, optool's time, ratio, and
the ratio of the processor times (all threads, user and kernel) of the ops. Only
ratios of one run count; machines are noisy, so each time is the best of several.
With other work on the machine the processor times are the steadier measure.

  load      a 256 MiB .pth to its first value: torch.load against pthformat.Open
  compare   two tensors in memory: op_tools' formulas in torch against compare
            with all metrics on (device and host side given)
  ops       the torch call in float64, inputs widened, against optool's reference
"""
import json, os, re, shutil, subprocess, sys, tempfile, time

import torch

F = torch.nn.functional
HERE = os.path.dirname(os.path.abspath(__file__))


def record(path, name, args, kwargs=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    torch.save({"name": name, "args": tuple(args), "kwargs": kwargs or {}, "identifier": "1/2024-10-24-10-00-00/x"}, path)


def best(f, times=3, clock=time.perf_counter):
    t = []
    for _ in range(times):
        s = clock()
        f()
        t.append(clock() - s)
    return min(t)


def formulas(a, b, tol):
    """op_tools' numbers of one pair: worst difference, worst relative difference, allclose, cosine."""
    d = (a - b).abs()
    return (d.max().item(), (d / (a.abs() + 1e-6)).max().item(), torch.allclose(a, b, rtol=tol, atol=tol, equal_nan=True),
            F.cosine_similarity(a.float().view(-1), b.float().view(-1), dim=0).item())


def calls():
    r, bf = torch.randn, torch.bfloat16
    ids = torch.randint(0, 32000, (2048,))
    return {
        "linear-bf16": (F.linear, "torch.nn.functional.linear", [r(1, 2048, 2048).to(bf), r(2048, 2048).to(bf)], {}),
        "linear-f32": (F.linear, "torch.nn.functional.linear", [r(4, 512, 1024), r(4096, 1024), r(4096)], {}),
        "matmul-batched": (torch.matmul, "torch.matmul", [r(8, 16, 256, 64), r(8, 16, 64, 256)], {}),
        "softmax": (F.softmax, "torch.nn.functional.softmax", [r(16, 1024, 1024)], {"dim": -1}),
        "layer_norm": (F.layer_norm, "torch.nn.functional.layer_norm", [r(16, 1024, 1024), (1024,), r(1024), r(1024)], {}),
        "gelu": (F.gelu, "torch.nn.functional.gelu", [r(16, 1024, 1024)], {}),
        "silu-bf16": (F.silu, "torch.nn.functional.silu", [r(1, 4096, 4096).to(bf)], {}),
        "exp": (torch.exp, "torch.exp", [r(16 << 20)], {}),
        "add-broadcast": (torch.add, "torch.add", [r(1024, 16384), r(16384)], {}),
        "mul-bf16": (torch.mul, "torch.mul", [r(4096, 4096).to(bf), r(4096, 4096).to(bf)], {}),
        "sum": (torch.sum, "torch.sum", [r(4096, 4096)], {"dim": -1}),
        "mean-dim0": (torch.mean, "torch.mean", [r(4096, 4096)], {"dim": 0}),
        "cross_entropy": (F.cross_entropy, "torch.nn.functional.cross_entropy", [r(2048, 32000), ids], {}),
        "embedding": (F.embedding, "torch.nn.functional.embedding", [torch.randint(0, 32000, (4, 4096)), r(32000, 1024)], {}),
        "transpose-copy": (torch.Tensor.contiguous, "torch.Tensor.contiguous", [r(4096, 4096).t()], {}),
        "cat": (torch.cat, "torch.cat", [[r(2048, 4096), r(2048, 4096)]], {"dim": 1}),
        "sort": (torch.sort, "torch.sort", [r(4 << 20)], {}),
        "topk": (torch.topk, "torch.topk", [r(512, 32000), 50], {}),
        "argmax": (torch.argmax, "torch.argmax", [r(2048, 32000)], {"dim": -1}),
        "cumsum": (torch.cumsum, "torch.cumsum", [r(4096, 4096)], {"dim": 1}),
        "conv2d-3x3": (F.conv2d, "torch.nn.functional.conv2d", [r(8, 64, 56, 56), r(64, 64, 3, 3)], {"padding": 1}),
        "conv2d-7x7": (F.conv2d, "torch.nn.functional.conv2d", [r(8, 3, 224, 224), r(64, 3, 7, 7)], {"stride": 2, "padding": 3}),
        "conv2d-depthwise": (F.conv2d, "torch.nn.functional.conv2d", [r(8, 256, 56, 56), r(256, 1, 3, 3)], {"padding": 1, "groups": 256}),
        "batch_norm": (F.batch_norm, "torch.nn.functional.batch_norm",
                       [r(16, 256, 56, 56), torch.zeros(256), torch.ones(256), r(256), r(256), True], {}),
        "max_pool2d": (F.max_pool2d, "torch.nn.functional.max_pool2d", [r(16, 64, 112, 112), 3, 2, 1], {}),
        "interpolate": (F.interpolate, "torch.nn.functional.interpolate", [r(8, 64, 56, 56)],
                        {"scale_factor": 2.0, "mode": "bilinear", "align_corners": False}),
        "scatter_add": (torch.Tensor.scatter_add_, "torch.Tensor.scatter_add_",
                        [torch.zeros(32000, 256), 0, torch.randint(0, 32000, (65536, 256)), r(65536, 256)], {}),
        "gather": (torch.gather, "torch.gather", [r(32000, 256), 0, torch.randint(0, 32000, (65536, 256))], {}),
    }


def widen(x):
    if isinstance(x, torch.Tensor):
        return x.double() if x.is_floating_point() else x
    return [widen(v) for v in x] if isinstance(x, list) else x


def main(dir):
    torch.manual_seed(3)
    theirs, cpu = {}, {}
    tol = {torch.float32: 1e-5, torch.bfloat16: 1e-3, torch.float64: 1e-8}
    for dt in (torch.float32, torch.bfloat16, torch.float64):
        tag = str(dt).split(".")[1]
        n = (256 << 20) // torch.tensor([], dtype=dt).element_size()
        a = torch.randn(n).to(dt)
        b = (a.double() * (1 + 1e-7 * torch.randn(n, dtype=torch.float64))).to(dt)
        record(f"{dir}/pair/{tag}/device/output.pth", "torch.abs", [a])
        record(f"{dir}/pair/{tag}/cpu/output.pth", "torch.abs", [b])
        path = f"{dir}/pair/{tag}/device/output.pth"
        theirs[f"load/{tag}"] = best(lambda: torch.load(path)["args"][0][0].item())
        theirs[f"compare/{tag}"] = best(lambda: formulas(a, b, tol[dt]), 2)
        del a, b
    with torch.no_grad():
        for case, (fn, name, args, kwargs) in calls().items():
            record(f"{dir}/ops/{case}/input.pth", name, args, kwargs)
            out = fn(*[x.clone() if isinstance(x, torch.Tensor) else x for x in args], **kwargs)
            record(f"{dir}/ops/{case}/output.pth", name, [out])
            call = lambda: fn(*[widen(x) for x in args], **kwargs)
            theirs[f"ops/{case}"], cpu[f"ops/{case}"] = best(call), best(call, 2, time.process_time)
            del out
    go = subprocess.run(["go", "test", "-run", "^$", "-bench", ".", "-benchtime", "3x", "./bench"], cwd=os.path.dirname(HERE),
                        env=dict(os.environ, OPTOOL_BENCH_DIR=dir), capture_output=True, text=True)
    lines = [(m[1], float(m[2]) / 1e9, m[3]) for m in re.finditer(r"^BenchmarkPeers/(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op(.*)$", go.stdout, re.M)]
    ours = {k: t for k, t, _ in lines}
    our_cpu = {k: float(m[1]) / 1e9 for k, _, rest in lines if (m := re.search(r"([\d.e+]+) cpu-ns/op", rest)) and float(m[1])}
    if not ours:
        sys.exit("optool's benchmarks did not run:\n" + go.stdout + go.stderr)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{'':24}{'torch':>12}{'optool':>12}{'ratio':>9}{'cpu ratio':>11}")
    for k, t in theirs.items():
        o = ours.get(k)
        line = f"{k:24}{t * 1e3:9.2f} ms" + (f"{o * 1e3:9.2f} ms{t / o:9.1f}" if o else f"{'-':>12}")
        print(line + (f"{cpu[k] / our_cpu[k]:11.1f}" if k in cpu and k in our_cpu else ""))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        d = tempfile.mkdtemp(prefix="optool-peers-")
        try:
            main(d)
        finally:
            shutil.rmtree(d)
