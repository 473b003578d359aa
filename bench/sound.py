#!/usr/bin/env python3
"""Sound programs of today, recorded and judged: what fails, and what is not judged.

  sound.py [--optool bin/optool] [--only REGEXP] [--dtypes LIST] [--modes LIST] [--recorders LIST]
           [--seed N] [--keep DIR] [--budget SECONDS] [--set N] [--once] [--list]

Records a training step of each program of programs.py in each dtype, with the modes (checkpointing, torch.compile,
padding, ...) and optimizers spread over them so that each program meets several and each dtype all, runs
`optool replay --acc_check` on the recordings and prints, by dtype, how many values were judged, and by kind every value
that fails or is not judged. Exit status 1 if anything fails.

Each program runs in a process of its own. With --keep its recording and its results stay in DIR; what DIR has results
of is not run again, so that a run that was stopped goes on. --rejudge judges the kept recordings anew. What torch refuses
(float16 kernels it does not have) and packages that are missing are said and do not count.

Needs torch, 1.13 or newer; transformers, timm, torchvision and peft where they are there; op_tools where it can be
imported (PYTHONPATH). --set runs another set of programs, --once each of them in one dtype only.
"""
import argparse, collections, contextlib, json, math, os, re, shutil, signal, subprocess, sys, tempfile, time, traceback

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import loops, programs

DTYPES = ("float32", "bfloat16", "float16", "autocast", "scaler")
MODES = ("eager", "checkpoint", "compile", "accumulate", "left-padding", "right-padding", "channels-last", "lora", "fsdp", "tensor-parallel")
LIMIT = 180  # seconds of one program
SETS = (*programs.SETS[:-1], {**loops.LOOPS, **programs.SETS[-1]})
PROGRAMS = {n: p for programs in SETS for n, p in programs.items()}

# Class and options of the optimizers that programs take in turn; those of sharded programs are known to DTensor.
SHARDED = [("AdamW", dict(foreach=True)), ("SGD", dict(momentum=.9, foreach=False)), ("Adam", dict(fused=True))]
OPTIMIZERS = [
    ("AdamW", dict(fused=True)), ("SGD", dict(momentum=.9, fused=True)), ("Adam", dict(foreach=False, amsgrad=True)),
    ("AdamW", dict(foreach=True)), ("Adagrad", dict(fused=True)), ("RMSprop", dict(foreach=True, momentum=.5)), ("NAdam", dict(foreach=False)),
    ("SGD", dict(foreach=False, momentum=.9, nesterov=True, weight_decay=.01)), ("RAdam", dict(foreach=True)), ("Adam", dict(fused=True)),
    ("Adamax", dict(foreach=True)), ("Adafactor", dict()), ("Adadelta", dict(foreach=True)), ("AdamW", dict(foreach=False)), ("Rprop", dict(foreach=True)),
    ("ASGD", dict(foreach=False)), ("Muon", dict()),
]
# Those of programs in float16 alone. Adaptive ones keep squares of gradients, most of which are 0 in float16: eps of Adam, 1e-8,
# is too, and weights become NaN. So nobody trains with them in float16 without weights and state in float32, as `scaler` does.
HALF = [("SGD", dict(momentum=.9, fused=True)), ("SGD", dict(foreach=False, momentum=.9, nesterov=True, weight_decay=.01)),
        ("SGD", dict(foreach=True, momentum=.9)), ("ASGD", dict(foreach=False)), ("Muon", dict())]


def optimizer(number, model, known):
    """The number-th optimizer of those that are known, or the next one that this torch has."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if any(p.dtype == torch.float16 for p in parameters):
        known = HALF if known is OPTIMIZERS else SHARDED[1:2]
    while True:
        name, options = known[number % len(known)]
        number += 1
        given = [p for p in parameters if p.dim() == 2] if name == "Muon" else parameters
        if not given:
            continue
        with contextlib.suppress(AttributeError, TypeError, RuntimeError, ValueError):
            return getattr(torch.optim, name)(given, lr=1e-2, **options), name + "".join(f" {k}={v}" for k, v in options.items())


# --- one program ------------------------------------------------------------------------------------------------------

def converted(v, dtype):
    if isinstance(v, torch.Tensor):
        return v.to(dtype) if v.is_floating_point() else v
    if isinstance(v, dict):
        return {k: converted(x, dtype) for k, x in v.items()}
    return type(v)(converted(x, dtype) for x in v) if isinstance(v, (list, tuple)) else v


def padded(inputs, side):
    """The second sequence is shorter."""
    mask = inputs["attention_mask"].clone()
    n = mask.shape[1] // 3
    hidden = slice(None, n) if side == "left" else slice(-n, None)
    mask[1, hidden] = 0
    out = dict(inputs, attention_mask=mask)
    if "input_ids" in inputs and inputs.get("labels") is not None and inputs["labels"].shape == mask.shape:
        out["labels"] = inputs["labels"].masked_fill(mask == 0, -100)
    return out


def group(path, rank):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    from torch.distributed.device_mesh import init_device_mesh
    return init_device_mesh("cpu", (2,))


def shard(model, mesh):
    from torch.distributed.fsdp import fully_shard
    for part in model.modules():
        if isinstance(part, torch.nn.ModuleList):
            for block in part:
                if sum(p.numel() for p in block.parameters()) > 0 and not isinstance(block, torch.nn.ModuleList):
                    fully_shard(block, mesh=mesh)
        if isinstance(part, torch.nn.ModuleList):
            break
    return fully_shard(model, mesh=mesh)


def split(model, mesh):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    for part in model.modules():
        if isinstance(part, programs.Block):
            parallelize_module(part, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def arranged(example, name, mode, mesh):
    """Model and inputs as the mode has them."""
    model, inputs = example.model, example.inputs
    if mode == "checkpoint":
        if hasattr(model, "gradient_checkpointing_enable"):
            with contextlib.suppress(ValueError):
                model.gradient_checkpointing_enable(dict(use_reentrant=False))
        elif hasattr(model, "set_grad_checkpointing"):
            model.set_grad_checkpointing(True)
        else:
            from torch.utils.checkpoint import checkpoint
            for part in list(model.children()):
                part.forward = (lambda f: lambda *a, **k: checkpoint(f, *a, use_reentrant=False, **k))(part.forward)
    elif mode == "compile":
        model = torch.compile(model, backend="aot_eager")
    elif mode in ("left-padding", "right-padding"):
        inputs = padded(inputs, mode.split("-")[0])
    elif mode == "channels-last":
        model = model.to(memory_format=torch.channels_last)
        inputs = changed(inputs, lambda t: t.to(memory_format=torch.channels_last) if t.dim() == 4 else t)
    elif mode == "lora":
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    elif mode == "fsdp":
        model = shard(model, mesh)
    elif mode == "tensor-parallel":
        model = split(model, mesh)
    return model, inputs


def changed(v, f):
    if isinstance(v, torch.Tensor):
        return f(v)
    if isinstance(v, dict):
        return {k: changed(x, f) for k, x in v.items()}
    return type(v)(changed(x, f) for x in v) if isinstance(v, (list, tuple)) else v


def trained(job, out, mesh=None):
    """Makes the program and gives the function that trains one step, and the optimizer's name."""
    torch.manual_seed(job.seed)
    example = PROGRAMS[job.name]()
    model = example.model.train()
    half = {"autocast": torch.bfloat16, "scaler": torch.float16}.get(job.dtype)
    dtype = torch.float32 if half else getattr(torch, job.dtype)
    if dtype != torch.float32:
        model, example.inputs = model.to(dtype), converted(example.inputs, dtype)
    if job.number % 2 and hasattr(model, "set_attn_implementation"):
        with contextlib.suppress(ValueError):
            model.set_attn_implementation("eager")
    model, inputs = arranged(example, job.name, job.mode, mesh)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if job.dtype == "scaler" else None

    def amp():
        return torch.autocast("cpu", dtype=half) if half else contextlib.nullcontext()

    def backward(loss):
        (scaler.scale(loss) if scaler else loss).backward()

    def moved(opt):
        if scaler:
            scaler.unscale_(opt)
        if job.mode != "tensor-parallel":  # DTensors and tensors mixed
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        opt.zero_grad()

    if example.train:
        def update(loss, opt):
            backward(loss)
            moved(opt)
        step = example.train(model, inputs, amp, update)
        return lambda: float(step()), "its own"
    if example.optimizer:
        opt, opt_name = example.optimizer(model.parameters()), "its own"
    else:
        opt, opt_name = optimizer(job.number, model, SHARDED[1:2] if job.mode == "tensor-parallel" else SHARDED if mesh else OPTIMIZERS)

    def step():
        for _ in range(2 if job.mode == "accumulate" else 1):
            with amp():
                loss = example.loss(model, inputs)
            backward(loss)
        moved(opt)
        return float(loss)
    return step, opt_name


def recorded(job, out):
    """Records the second step of the program below out."""
    mesh = rank = None
    if job.mode in ("fsdp", "tensor-parallel"):
        rank = 0 if os.fork() else 1
        os.environ["RANK"] = str(rank)
        mesh = group(out + "/group", rank)
    step, name = trained(job, out, mesh)
    first = step()
    if job.recorder == "hook":
        import optool_capture
        with optool_capture.record(out + "/recording"):
            loss = step()
    else:
        import op_tools, op_tools.base_hook
        # It leaves calls on the CPU alone, and takes those for such that have no tensor.
        op_tools.base_hook.is_cpu_op = lambda *a, **k: (not any(True for _ in programs.tensors([a, k])), torch.device("cpu"))
        os.makedirs(out + "/recording", exist_ok=True)
        os.chdir(out + "/recording")
        with op_tools.OpCapture():
            loss = step()
    if rank is not None:
        torch.distributed.destroy_process_group()
    if rank == 1:
        os._exit(0)
    if rank == 0:
        os.wait()
    return dict(optimizer=name, losses=[first, loss])


class Job(collections.namedtuple("Job", "name dtype mode recorder number seed")):
    @property
    def path(self):
        return f"{self.name}.{self.dtype}.{self.mode}.{self.recorder}"


def run(job, out):
    """Records in a process of its own; gives what it says of itself."""
    os.makedirs(out)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            log = os.open(out + "/log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            try:
                said = dict(status="recorded", **recorded(job, out))
            except programs.Missing as e:
                said = dict(status="missing", error=str(e))
            except BaseException as e:
                traceback.print_exc()
                said = dict(status="refused", error=f"{type(e).__name__}: {e}".split("\n")[0][:200])
            with open(out + "/said.json", "w") as f:
                json.dump(said, f)
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + LIMIT
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return dict(status="refused", error=f"it took more than {LIMIT} s")
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # a second rank that waits for the first
    if not os.path.exists(out + "/said.json"):
        return dict(status="refused", error="the process died")
    return json.load(open(out + "/said.json"))


# --- judging ----------------------------------------------------------------------------------------------------------

WRONG = ("fail", "error", "invalid", "crash", "timeout")
TORCHS = {  # faults of torch itself (docs/verdicts.md), by operator, phase and dtype, or by program, operator and phase
    ("torch.nn.functional.conv_transpose1d", "backward", "bfloat16"): "oneDNN's gradient is wrong",
    ("clap", "torch.nn.functional.batch_norm", "backward"): "the gradient is read in another layout",
}
JUDGED = ("pass", "warn", "fail", "torch's")


def kind(reason):
    """A reason without its numbers."""
    reason = re.sub(r"\[[-\d, ]*\]|\([-\d, ]*\)", "[]", reason)
    return re.sub(r"[-+]?\b\d[\d.]*(e[-+]?\d+)?\b", "#", reason)[:140]


def judge(optool, out):
    """Replays a recording; gives counts of its values by operator, phase, verdict and reason, with an example of each."""
    done = subprocess.run([optool, "replay", "--acc_check", "--quiet", "--color", "never", "--json", out + "/run.jsonl", out + "/recording"], cwd=out,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10 * LIMIT)
    counts, examples = collections.Counter(), {}
    if os.path.exists(out + "/run.jsonl"):
        for line in open(out + "/run.jsonl"):
            r = json.loads(line)
            if r["kind"] == "result":
                phase = "backward" if r["phase"] == "backward" else "forward"
                reason = "" if r["verdict"] == "pass" else kind(r.get("reason") or "")
                call = r["op"], phase, r["dtype"]
                fault = r["verdict"] == "fail" and (TORCHS.get(call) or TORCHS.get((os.path.basename(out).split(".")[0], *call[:2])))
                key = (r["op"], phase, "torch's" if fault else r["verdict"], fault or reason)
                counts[key] += 1
                examples.setdefault(key, f'{r["capture"]} {r["target"]} {r.get("dtype", "")}: {r.get("reason")}')
            if r["kind"] == "summary":
                for s in r.get("systematic") or ():
                    key = (s["op"], s["phase"], s["verdict"], "all calls: " + kind(s["reason"]))
                    counts[key] += 1
                    examples[key] = s["reason"]
    if not counts:
        counts["", "forward", "error", kind(done.stdout.decode()[-140:])] += 1
    return [[*k, n, examples.get(k, "")] for k, n in counts.items()]


def resolved(job, optool, keep, rejudge):
    out = os.path.join(keep, job.path)
    result = out + "/result.json"
    if os.path.exists(result):
        said = json.load(open(result))
        if not rejudge or "values" not in said or not os.path.exists(out + "/recording"):
            return said
    else:
        shutil.rmtree(out, ignore_errors=True)
        begun = time.monotonic()
        said = dict(job._asdict(), torch=torch.__version__, **run(job, out), seconds=round(time.monotonic() - begun, 1))
    if said["status"] == "recorded":
        said["values"] = judge(optool, out)
    with open(result + ".new", "w") as f:
        json.dump(said, f)
    os.rename(result + ".new", result)
    return said


# --- what is run, and what is said of it ------------------------------------------------------------------------------

def modes_of(name, chosen):
    """The modes that make sense for a program."""
    text = name in programs.TEXT
    allowed = {"eager", "checkpoint", "accumulate"}
    allowed |= {"compile"} if hasattr(torch, "compile") else set()
    allowed |= {"left-padding", "right-padding"} if text else set()
    allowed |= {"channels-last"} if name in programs.IMAGES | loops.IMAGES else set()
    with contextlib.suppress(ImportError):
        import peft
        allowed |= {"lora"} if name in programs.LANGUAGE else set()
    with contextlib.suppress(ImportError, ValueError):  # torch 1.13 has dataclasses that Python 3.11 refuses
        from torch.distributed.fsdp import fully_shard
        allowed |= {"fsdp"} | ({"tensor-parallel"} if name in programs.BLOCKS else set())
    return [m for m in MODES if m in allowed and m in chosen]


def jobs(o):
    recorders = [r for r in o.recorders.split(",")]
    for d, dtype in enumerate(DTYPES):
        if dtype not in o.dtypes.split(",") or dtype == "scaler" and not hasattr(torch.amp, "GradScaler"):
            continue
        for p, name in enumerate(SETS[o.set - 1]):
            modes = modes_of(name, o.modes.split(","))
            if not modes or not re.fullmatch(o.only, name) or o.once and (p + d) % len(DTYPES):
                continue
            for recorder in recorders:
                if recorder == "op_tools" and len(recorders) > 1 and (p + d) % len(DTYPES):  # each program in one dtype
                    continue
                mode = modes[(p + 2 * d) % len(modes)] if recorder == "hook" else "eager"
                if mode == "compile" and name not in programs.QUICK:  # it takes minutes to compile
                    mode = "eager"
                yield Job(name, dtype, mode, recorder, p + 7 * d, o.seed)


def failed(result):
    """How many values of a result are wrong."""
    return sum(n for _, _, verdict, _, n, _ in result.get("values", ()) if verdict in WRONG)


def empty(result):
    """Whether a loss is not finite, or most gradients are 0 or NaN: what overflows or underflows shows little."""
    gradients = collections.Counter()
    for _, phase, _, reason, n, _ in result["values"]:
        if phase == "backward":
            gradients[reason.endswith(("zero on both sides", "NaN on both sides"))] += n
    return not all(map(math.isfinite, result.get("losses", ()))) or gradients[True] > gradients[False]


def share(counts, phase):
    n = sum(c for (p, v), c in counts.items() if p == phase)
    return f"{100 * sum(c for (p, v), c in counts.items() if p == phase and v in JUDGED) / n:.1f} % of {n:,}" if n else ""


def report(results, versions):
    done = [r for r in results if "values" in r]
    print(f"\ntorch {torch.__version__}{versions}: {len({r['name'] for r in done})} programs, {len(done)} recordings\n")
    print("| dtype | recordings | values judged, forward | gradients judged | fail | error | unsupported |\n|---|---|---|---|---|---|---|")
    rows = [(dtype, [r for r in done if r["dtype"] == dtype]) for dtype in DTYPES]
    for dtype, of in (*rows, ("all", done), ("all but those below", [r for r in done if not empty(r)])):
        c = collections.Counter()
        for r in of:
            for _, phase, verdict, reason, n, _ in r["values"]:
                c[phase, verdict] += n
        if of:
            each = [sum(n for (_, v), n in c.items() if v in w) for w in (("fail", "invalid", "crash", "timeout"), ("error",), ("unsupported",))]
            print(f"| {dtype} | {len(of)} | {share(c, 'forward')} | {share(c, 'backward')} | " + " | ".join(map(str, each)) + " |")
    for r in done:
        if empty(r):
            print(f"not finite, or most gradients are 0: {r['name']}.{r['dtype']}.{r['mode']}, losses {r.get('losses')}")
    kinds = collections.defaultdict(lambda: [0, set(), ""])
    for r in done:
        for op, phase, verdict, reason, n, example in r["values"]:
            if verdict not in ("pass", "warn"):
                k = kinds[verdict, op, phase, reason]
                k[0] += n
                k[1].add(f"{r['name']}.{r['dtype']}.{r['mode']}.{r['recorder']}")
                k[2] = k[2] or f"{r['name']}.{r['dtype']}.{r['mode']}.{r['recorder']}: {example}"
    order = {v: i for i, v in enumerate((*WRONG, "torch's", "unsupported", "skipped", "mistrusted"))}
    reasons = collections.Counter()
    for (verdict, op, phase, reason), (n, where, example) in sorted(kinds.items(), key=lambda k: (order[k[0][0]], -k[1][0])):
        if verdict not in JUDGED:
            reasons[verdict, phase, reason] += n
        print(f"{verdict:11} {n:6} in {len(where):3}  {phase:8} {op}: {reason}")
        if verdict in WRONG or verdict == "unsupported":
            print(f"{'':11} {example[:300]}")
    print("\nNot judged, by reason:")
    for (verdict, phase, reason), n in reasons.most_common(40):
        print(f"{n:7}  {verdict:11} {phase:8} {reason}")
    for status in ("refused", "missing"):
        said = collections.defaultdict(list)
        for r in results:
            if r["status"] == status:
                said[kind(r["error"])].append(f"{r['name']}.{r['dtype']}.{r['mode']}")
        for error, names in said.items():
            print(f"{status}: {error}: {', '.join(names[:6])}{' ...' if len(names) > 6 else ''} ({len(names)})")
    return any(v in WRONG for v, *_ in kinds)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--optool", default="bin/optool")
    ap.add_argument("--only", default=".*", metavar="REGEXP", help="programs whose whole name matches")
    ap.add_argument("--dtypes", default=",".join(DTYPES))
    ap.add_argument("--modes", default=",".join(MODES))
    ap.add_argument("--recorders", default="hook", help="hook, op_tools or both: op_tools then gets each program in one dtype")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--keep", metavar="DIR", help="where recordings and results stay")
    ap.add_argument("--rejudge", action="store_true", help="judge recordings of --keep anew")
    ap.add_argument("--budget", type=float, metavar="SECONDS", help="start no program after that")
    ap.add_argument("--set", type=int, choices=range(1, 1 + len(SETS)), default=1, help="which set of programs")
    ap.add_argument("--once", action="store_true", help="each program in one dtype")
    ap.add_argument("--list", action="store_true", help="print what would be run")
    ap.add_argument("--shard", default="0/1", metavar="I/N", help="every N-th recording, from the I-th")
    o = ap.parse_args()
    todo = list(jobs(o))
    part, parts = map(int, o.shard.split("/"))
    todo = todo[part::parts]
    if o.list:
        print(*(f"{j.path} {OPTIMIZERS[j.number % len(OPTIMIZERS)][0]}" for j in todo), sep="\n")
        return 0
    torch.set_num_threads(1)
    keep = os.path.abspath(o.keep or tempfile.mkdtemp())
    os.makedirs(keep, exist_ok=True)
    optool = os.path.abspath(o.optool)
    tool = tempfile.mkdtemp()
    subprocess.run([optool, "hook", "--out", tool + "/optool_capture.py"], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, tool)
    versions = ""
    for package in ("transformers", "timm", "torchvision", "peft"):
        with contextlib.suppress(ImportError):
            versions += f", {package} {__import__(package).__version__}"
    results, late, begun = [], 0, time.monotonic()
    for i, job in enumerate(todo):
        if o.budget is not None and time.monotonic() - begun > o.budget and not os.path.exists(os.path.join(keep, job.path, "result.json")):
            late += 1
            continue
        r = resolved(job, optool, keep, o.rejudge)
        if not o.keep:
            shutil.rmtree(os.path.join(keep, job.path), ignore_errors=True)
        results.append(r)
        wrong = failed(r)
        print(f"{i + 1}/{len(todo)} {job.path}: {r['status']}" + (f", {wrong} wrong" if wrong else "") + f" {r.get('error', '')}", file=sys.stderr)
    wrong = report(results, versions)
    if late:
        print(f"{late} recordings were not made: the budget is used up")
    shutil.rmtree(tool)
    if not o.keep:
        shutil.rmtree(keep)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
