#!/usr/bin/env python3
"""optool against what a user would run instead, on the same files in one run.

  peers.py [--keep DIR] [SECTION...]     (make bench-peers; needs torch, and Go for optool's side)

Sections, all of them if none is named:
  limits    what this machine could do at best: copying memory, multiplications in vector registers
  load      a 256 MiB .pth to its first value: torch.load against pthformat.Open
  compare   two tensors in memory, nearly equal and of which no element is: op_tools' formulas in torch against
            compare with all metrics and the verdict
  ops       calls of operators, forward alone and with gradients
  trees     each call of one forward pass of models of transformers and timm, where these are installed
  process   whole processes: one small capture, a hundred

Of ops and trees three things are measured: torch's operator in float64 on widened inputs; the whole that a user
would write: torch.load, operator in float64, op_tools' formulas; and optool's replay, which is load, reference,
comparison with all metrics, error bounds and verdict. The ratio "whole" is like with like. "limit" is the
share of optool's processor time that the call's bytes, copied once, or its multiplications would take at
the speed of "limits", whichever is longer.

Times are processor times of all threads, user and kernel, the least of several: on machines with other work they
are steadier than the time that passed, which stands beside. Only ratios of one run count.
"""
import argparse, functools, os, re, resource, shutil, subprocess, sys, tempfile, time

import torch

F = torch.nn.functional
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-3, torch.float16: 1e-3}


def clock():
    """Seconds that passed, and of all processors of this process."""
    return time.perf_counter(), time.process_time()


def best(f, times=3):
    least = [9e9, 9e9]
    for _ in range(times):
        start = clock()
        f()
        least = [min(l, e - s) for l, s, e in zip(least, start, clock())]
    return least


def tensors(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for v in x:
            yield from tensors(v)
    elif isinstance(x, dict):
        yield from tensors(list(x.values()))


def mapped(x, f):
    if isinstance(x, torch.Tensor):
        return f(x)
    if isinstance(x, dict):
        return {k: mapped(v, f) for k, v in x.items()}
    return type(x)(mapped(v, f) for v in x) if type(x) in (list, tuple) else x


def widen(x):
    return mapped(x, lambda t: t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t)


def formulas(a, b):
    """op_tools' numbers of one pair: worst difference, worst relative difference, allclose, cosine."""
    tol = TOLERANCE.get(a.dtype, 1e-8)
    b = b.to(a.dtype)
    if not a.is_floating_point() or not a.numel():
        return torch.equal(a, b)
    d = (a - b).abs()
    return (d.max().item(), (d / (a.abs() + 1e-6)).max().item(), torch.allclose(a, b, rtol=tol, atol=tol, equal_nan=True),
            F.cosine_similarity(a.float().reshape(-1), b.float().reshape(-1), dim=0).item())


def run(fn, args, kwargs, grads):
    """Results and, given gradients of the results, those of the arguments that require them."""
    if grads is None:
        with torch.no_grad():
            return list(tensors(fn(*args, **kwargs))), []
    ins = [t for t in tensors([args, kwargs]) if t.requires_grad]
    own = torch.clone if kwargs.get("inplace") else lambda t: t.view_as(t)
    out = list(tensors(fn(*mapped(args, own), **mapped(kwargs, own))))
    pairs = [(o, g.to(o.dtype)) for o, g in zip(out, grads) if g is not None and o.requires_grad]
    if not pairs:
        return out, [None] * len(ins)
    return out, torch.autograd.grad([o for o, _ in pairs], ins, [g for _, g in pairs], allow_unused=True)


def record(path, name, fn, args, kwargs, backward):
    """One capture: files as op_tools writes them, gradients one for each tensor of the arguments."""
    os.makedirs(path, exist_ok=True)
    about = {"name": name, "identifier": f"{name}.0"}
    save = lambda file, args, kwargs={}: torch.save({**about, "args": args, "kwargs": kwargs}, f"{path}/{file}.pth")
    copy = lambda x, grad: mapped(x, lambda t: t.detach().clone().requires_grad_(grad and t.requires_grad))
    save("input", copy(args, backward), copy(kwargs, backward))
    with torch.no_grad():
        out = fn(*copy(args, False), **copy(kwargs, False))
    save("output", (copy(out, False),))
    given = list(tensors([args, kwargs]))
    if backward and any(t.requires_grad for t in given):
        ups = [torch.randn_like(o) if o.is_floating_point() else None for o in tensors(out)]
        _, grads = run(fn, copy(args, True), copy(kwargs, True), ups)
        if any(g is not None for g in grads):
            it = iter(grads)
            save("grad_outputs", tuple(ups))
            save("grad_inputs", tuple(next(it) if t.requires_grad else None for t in given))


def whole(path, fn):
    """What a user would write to check one capture with torch."""
    load = lambda file: torch.load(f"{path}/{file}.pth", weights_only=False)
    call, want = load("input"), load("output")["args"]
    ups = load("grad_outputs")["args"] if os.path.exists(f"{path}/grad_outputs.pth") else None
    out, grads = run(fn, widen(call["args"]), widen(call["kwargs"]), ups and [u if u is None else u.double() for u in ups])
    for a, b in zip(tensors(want), out):
        formulas(a, b)
    if ups:
        saved = [t for t, x in zip(load("grad_inputs")["args"], tensors([call["args"], call["kwargs"]])) if x.requires_grad]
        for a, b in zip(saved, grads):
            if a is not None and b is not None:
                formulas(a, b)


def calls():
    """Calls by name: function, its name, arguments, keywords, multiplications in units of 1e9."""
    r, bf = torch.randn, torch.bfloat16
    ids = torch.randint(0, 32000, (2048,))
    heads = lambda dt: [r(1, 16, 1024, 64).to(dt) for _ in range(3)]
    params = [r(1024, 1024) for _ in range(16)]
    norms = [r(16, 1024, 1024), (1024,), r(1024), r(1024)]
    conv = lambda *s, **kw: (F.conv2d, "torch.nn.functional.conv2d", [r(*s[0]), r(*s[1])], kw)
    return {
        "linear-bf16": (F.linear, "torch.nn.functional.linear", [r(1, 2048, 2048).to(bf), r(2048, 2048).to(bf)], {}, 8.6),
        "linear-f32": (F.linear, "torch.nn.functional.linear", [r(4, 512, 1024), r(4096, 1024), r(4096)], {}, 8.6),
        "matmul-batched": (torch.matmul, "torch.matmul", [r(8, 16, 256, 64), r(8, 16, 64, 256)], {}, .54),
        "attention-f32": (F.scaled_dot_product_attention, "torch.nn.functional.scaled_dot_product_attention", heads(torch.float32), {}, 2.1),
        "attention-bf16": (F.scaled_dot_product_attention, "torch.nn.functional.scaled_dot_product_attention", heads(bf), {"is_causal": True}, 2.1),
        "softmax": (F.softmax, "torch.nn.functional.softmax", [r(16, 1024, 1024)], {"dim": -1}),
        "layer_norm": (F.layer_norm, "torch.nn.functional.layer_norm", norms, {}),
        "rms_norm-bf16": (F.rms_norm, "torch.nn.functional.rms_norm", [r(4096, 4096).to(bf), (4096,), r(4096).to(bf), 1e-6], {}),
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
        "conv2d-3x3": conv((8, 64, 56, 56), (64, 64, 3, 3), padding=1) + (.92,),
        "conv2d-7x7": conv((8, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3) + (.94,),
        "conv2d-depthwise": conv((8, 256, 56, 56), (256, 1, 3, 3), padding=1, groups=256) + (.06,),
        "batch_norm": (F.batch_norm, "torch.nn.functional.batch_norm",
                       [r(16, 256, 56, 56), torch.zeros(256), torch.ones(256), r(256), r(256), True], {}),
        "max_pool2d": (F.max_pool2d, "torch.nn.functional.max_pool2d", [r(16, 64, 112, 112), 3, 2, 1], {}),
        "interpolate": (F.interpolate, "torch.nn.functional.interpolate", [r(8, 64, 56, 56)],
                        {"scale_factor": 2.0, "mode": "bilinear", "align_corners": False}),
        "scatter_add": (torch.Tensor.scatter_add_, "torch.Tensor.scatter_add_",
                        [torch.zeros(32000, 256), 0, torch.randint(0, 32000, (65536, 256)), r(65536, 256)], {}),
        "gather": (torch.gather, "torch.gather", [r(32000, 256), 0, torch.randint(0, 32000, (65536, 256))], {}),
        "_foreach_norm": (torch._foreach_norm, "torch._foreach_norm", [params, 2], {}),
        "_foreach_addcdiv": (torch._foreach_addcdiv, "torch._foreach_addcdiv",
                             [params, params, [p.abs() + 1 for p in params], -1e-3], {}),
    }


# Calls whose gradients are measured too.
BACKWARD = ("linear-f32 linear-bf16 matmul-batched attention-f32 attention-bf16 softmax layer_norm rms_norm-bf16 gelu silu-bf16 exp "
            "add-broadcast mul-bf16 sum mean-dim0 cross_entropy embedding transpose-copy cat sort topk cumsum conv2d-3x3 conv2d-7x7 "
            "conv2d-depthwise batch_norm max_pool2d interpolate gather _foreach_norm").split()


def make_ops(dir):
    """Writes the calls and times torch on them."""
    theirs, flops = {}, {}
    for case, (fn, name, args, kwargs, *mul) in calls().items():
        for i, t in enumerate(tensors([args, kwargs])):
            if t.is_floating_point() and not (case == "batch_norm" and i in (1, 2)):
                t.requires_grad_(case in BACKWARD)
        for label in [case] + [case + "+grad"] * (case in BACKWARD):
            path = f"{dir}/ops/{label}"
            record(path, name, fn, args, kwargs, label != case)
            ups = [u and None if u is None else u.double() for u in torch.load(f"{path}/grad_outputs.pth")["args"]] if label != case else None
            fresh = lambda: widen([args, kwargs])
            theirs[label] = best(lambda: run(fn, *fresh(), ups)) + best(lambda: whole(path, fn), 2)
            flops[label] = 2e9 * sum(mul) * (3 if ups else 1)
    return theirs, flops


class Recorder(torch.overrides.TorchFunctionMode):
    """Records each call of a forward pass, with gradients of random incoming ones."""
    skipped = re.compile(r"__get__|__set__|dropout|rand|empty|_like|requires_grad|is_|dim$|size$|new_|set_|__len__|detach|stride|"
                         r"__setitem__|format|numel|item$|arange|tensor$|zeros|ones|full")

    def __init__(self, dir):
        super().__init__()
        self.dir, self.functions = dir, {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = torch.overrides.resolve_name(func)
        with torch._C.DisableTorchFunction():
            if name and not self.skipped.search(name) and list(tensors([args, kwargs])):
                path = f"{self.dir}/{name}/1/{len(self.functions)}/2024-10-24-10-00-00"
                try:
                    record(path, name, func, list(args), kwargs, not name.endswith("_"))
                    self.functions[path] = func
                except Exception:
                    shutil.rmtree(path, ignore_errors=True)
            return func(*args, **kwargs)


def models():
    """Models with random weights, made when they are called; each gives a function that runs it forward."""
    out = {}
    try:
        import transformers as tr
        ids = torch.randint(0, 2000, (2, 128))
        small = dict(vocab_size=8000, hidden_size=512, num_hidden_layers=4, num_attention_heads=8)
        for label, make in {
            "gpt2": lambda: tr.GPT2LMHeadModel(tr.GPT2Config(vocab_size=8000, n_embd=512, n_layer=4, n_head=8)),
            "llama-bf16": lambda: tr.LlamaForCausalLM(tr.LlamaConfig(**small, intermediate_size=1408, num_key_value_heads=4)).bfloat16(),
            "mixtral": lambda: tr.MixtralForCausalLM(tr.MixtralConfig(**small, intermediate_size=896, num_key_value_heads=4, num_local_experts=4)),
        }.items():
            out[label] = lambda make=make: functools.partial(make().eval(), ids, labels=ids)
    except ImportError:
        print("transformers is not installed: its models are left out", file=sys.stderr)
    try:
        import timm
        for label in ("resnet18", "vit_small_patch16_224", "convnext_atto"):
            out[label] = lambda label=label: functools.partial(timm.create_model(label).train(), torch.randn(2, 3, 224, 224))
    except ImportError:
        print("timm is not installed: its models are left out", file=sys.stderr)
    return out


def children(argv):
    """Seconds that passed, processor seconds and MiB of a process, and what it printed."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["/usr/bin/env", "time", "-f", "%M", *argv] if shutil.which("time") else argv, capture_output=True, text=True)
    after, passed = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    peak = re.findall(r"^(\d+)$", done.stderr, re.M)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(peak[-1]) // 1024 if peak else 0, done.stdout


def trees(dir, optool):
    print(f"\n{'tree':24}{'calls':>7}{'MB':>7}{'torch s':>10}{'optool s':>10}{'ratio':>7}{'MiB':>14}  verdicts")
    for label, make in models().items():
        forward = make()
        recorder = Recorder(f"{dir}/trees/{label}/op_tools_results/op_capture_results")
        with recorder:
            forward()
        size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(recorder.dir) for f in fs)
        refused = 0
        start = clock()
        for path, fn in recorder.functions.items():
            try:
                whole(path, fn)
            except Exception:
                refused += 1
        theirs = clock()[1] - start[1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        ours = min((children([optool, "replay", "--acc_check", "--quiet", "--out", f"{dir}/out", f"{dir}/trees/{label}"]) for _ in range(2)),
                   key=lambda c: c[1])
        print(f"{label:24}{len(recorder.functions):7}{size / 1e6:7.0f}{theirs:10.2f}{ours[1]:10.2f}{theirs / ours[1]:7.1f}{ours[2]:6}, {peak:6}"
              f"  {ours[3].strip().splitlines()[-1] if ours[3].strip() else ''}" + f" ({refused} refused by torch)" * (refused > 0), flush=True)


def processes(dir, optool):
    for n in (1, 100):
        for i in range(n):
            x = torch.randn(8, 16)
            record(f"{dir}/process{n}/op_tools_results/op_capture_results/torch.add/1/{i}/2024-10-24-10-00-00", "torch.add", torch.add, [x, x], {}, False)
        ours = [children([optool, "replay", "--acc_check", "--quiet", "--out", f"{dir}/out", f"{dir}/process{n}"]) for _ in range(9)]
        torchs = [children([sys.executable, "-c", "import torch"]) for _ in range(2)]
        median = lambda runs, i: sorted(r[i] for r in runs)[len(runs) // 2]
        print(f"replay of {n:3} small captures, whole process: {median(ours, 0) * 1e3:.1f} ms, processor {min(r[1] for r in ours) * 1e3:.1f} ms, "
              f"{min(r[2] for r in ours)} MiB; `import torch` alone {min(r[0] for r in torchs) * 1e3:.0f} ms")


def benchmarks(dir, which):
    """optool's side: seconds that passed, processor seconds and bytes by benchmark."""
    env = dict(os.environ, OPTOOL_BENCH_DIR=dir)
    if subprocess.run(["go", "version"], env=dict(env, GOEXPERIMENT="simd"), capture_output=True).returncode == 0:
        env.setdefault("GOEXPERIMENT", "simd")  # as the Makefile has it
    go = subprocess.run(["go", "test", "-run", "^$", "-bench", which, "-benchtime", "3x", "-count", "2", "./bench"], cwd=ROOT, env=env,
                        capture_output=True, text=True)
    out = {}
    for name, ns, rest in re.findall(r"^Benchmark\w+/(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op(.*)$", go.stdout, re.M):
        number = lambda unit: float(m[1]) if (m := re.search(r"([\d.e+]+) " + unit, rest)) else 0
        one = float(ns) / 1e9, number("cpu-ns/op") / 1e9, number("MB/s") * 1e6 * float(ns) / 1e9, number("GFLOP/s")
        out[name] = min(out.get(name, one), one, key=lambda o: o[1] or o[0])
    if not out:
        sys.exit("optool's benchmarks did not run:\n" + go.stdout + go.stderr)
    return out


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--keep", metavar="DIR", help="write the files here and keep them")
    parse.add_argument("sections", nargs="*")
    o = parse.parse_args()
    known = "limits load compare ops trees process".split()
    if wrong := [s for s in o.sections if s not in known]:
        parse.error(f"unknown section {wrong[0]}; there are {', '.join(known)}")
    want = o.sections or known
    dir, optool = o.keep or tempfile.mkdtemp(prefix="optool-peers-"), f"{ROOT}/bin/optool"
    torch.manual_seed(3)
    try:
        print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; load average {os.getloadavg()[0]:.1f}", flush=True)
        limits = benchmarks(dir, "Limits") if {"limits", "ops"} & set(want) else {}
        copy, fma = (limits[k] for k in ("copy", "multiply-add")) if limits else (0, 0)
        if limits:
            print(f"limits of one core: copy {copy[2] / copy[1] / 1e9:.1f} GB/s, multiply-add in vector registers {fma[3]:.1f} GFLOP/s")
        if {"load", "compare"} & set(want):
            theirs = {}
            for dt in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
                tag = str(dt).split(".")[1]
                a = torch.randn((256 << 20) // torch.tensor([], dtype=dt).element_size()).to(dt)
                others = {"cpu": (a.double() * (1 + 1e-7 * torch.randn(a.numel(), dtype=torch.float64))).to(dt), "other": (a.double() * 1.01).to(dt)}
                for side, t in {"device": a, **others}.items():
                    os.makedirs(f"{dir}/pair/{tag}/{side}", exist_ok=True)
                    torch.save({"name": "torch.abs", "args": (t,), "kwargs": {}, "identifier": "1/2024-10-24-10-00-00/x"}, f"{dir}/pair/{tag}/{side}/output.pth")
                theirs[f"load/{tag}"] = best(lambda: torch.load(f"{dir}/pair/{tag}/device/output.pth")["args"][0][0].item())
                for kind, side in {"compare": "cpu", "differ": "other"}.items():
                    theirs[f"{kind}/{tag}"] = best(lambda: formulas(a, others[side]), 2)
            ours = benchmarks(dir, "Pairs")
            print(f"\n{'':24}{'torch ms':>10}{'optool ms':>11}{'ratio':>9}")
            for k, t in theirs.items():
                i = 0 if k.startswith("load") else 1
                speed = f"{ours[k][2] / ours[k][1] / 1e9:7.1f} GB/s of processor time" if i else ""
                print(f"{k:24}{t[i] * 1e3:10.1f}{ours[k][i] * 1e3:11.2f}{t[i] / ours[k][i]:9.1f}{speed}")
        if "ops" in want:
            theirs, flops = make_ops(dir)
            ours = benchmarks(dir, "Ops")
            print(f"\n{'processor time':24}{'torch ms':>10}{'whole ms':>10}{'optool ms':>11}{'ratio':>8}{'whole':>7}{'limit':>8}{'passed: torch, optool ms':>28}")
            for k, (passed, op, _, all) in theirs.items():
                w, c, size, _ = ours[k]
                least = max(size / (copy[2] / copy[1]), flops[k] / (fma[3] * 1e9))
                print(f"{k:24}{op * 1e3:10.0f}{all * 1e3:10.0f}{c * 1e3:11.0f}{op / c:8.1f}{all / c:7.1f}{least / c:8.0%}{passed * 1e3:16.0f}{w * 1e3:12.0f}")
        if {"trees", "process"} & set(want):
            subprocess.run(["make", "-s", "build"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        if "trees" in want:
            trees(dir, optool)
        if "process" in want:
            print()
            processes(dir, optool)
    finally:
        if not o.keep:
            shutil.rmtree(dir)


if __name__ == "__main__":
    main()
