#!/usr/bin/env python3
"""Golden values: what torch gives for a few calls of every operator, forward and backward.

  go test ./ops -run TestGoldenCalls -calls /tmp/calls.jsonl
  python3 ops/testdata/golden/record.py /tmp/calls.jsonl

The first command writes calls, one JSON object a line, from the operators' own cases; the second adds those of CALLS
below, makes every call with torch under every name of its operator and writes, beside this file,

  <family>.jsonl   a header, then one line for each call: the names under which torch gave just this, the arguments,
                   the results ("out"), the arguments it changed otherwise ("after", by number) and the gradients of
                   the arguments ("grads", by number) for the results "from"
  missing.tsv      names and operators without a value, and why

  go test ./ops -run TestEdgeCalls -calls /tmp/edges.jsonl
  python3 ops/testdata/golden/record.py --edges /tmp/edges.jsonl

writes the same for calls with NaN, infinity and negative zero, into edges/.

  go test ./ops -run TestPointwiseCalls -calls /tmp/pointwise.jsonl
  python3 ops/testdata/golden/record.py --pointwise /tmp/pointwise.jsonl

writes the same for pointwise operators on the extremes of each dtype, into pointwise/.

Arguments are numbered as tensors, in order, keywords after the rest. The incoming gradient of result k is
((5*i + 3*k) % 8 - 3.5) / 4 at element i, of complex results with the same, negated, as imaginary part. Numbers are the
shortest that give the value back in its dtype. Of random operators ("random") only dtypes and shapes are kept.
Needs torch 2 alone and is deterministic: one thread, one seed, the same file for the same torch.
"""
import json, os, sys, warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 7331
DTYPES = {str(d)[6:]: d for d in vars(torch).values() if isinstance(d, torch.dtype)}


def tensor(values, dtype, grad=False):
    """The JSON of a tensor written by hand."""
    t = torch.tensor(values, dtype=dtype)
    return dict(encode(t), **({"grad": True} if grad else {}))


def calls_by_hand():
    """Arguments of further calls, by operator: of those without generated cases, and where those do not suffice."""
    f, d, i = torch.float32, torch.float64, torch.int64
    x, one, ints = tensor([[1.5, -2, 0.25]], f), tensor([2.5], f), tensor([[3, -1], [0, 7]], i)
    grad, weight = tensor([[1.5, -2, 0.25], [0, 3, 7.5]], f, True), tensor([1, -0.5, 2], f, True)
    lower = [[2, 0, 0], [-0.5, 1.5, 0], [0.25, 1, 3]]
    state = [[tensor([0.5, -1.5], d)], [tensor([0.25, 2], d)], [tensor([0.125, -0.5], d)], [tensor([0.75, 0.5], d)]]
    step = [tensor(3.0, f)]
    adam = (*state, [], step), {"lr": 0.01, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-08, "amsgrad": False, "maximize": False}
    amsgrad = (*state, [tensor([1, 0.25], d)], step), dict(adam[1], amsgrad=True, maximize=True)
    sgd = tuple(state[:3]), {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.01, "dampening": 0.5, "nesterov": False, "maximize": False,
                             "is_first_step": False}
    kinds = [(v,) for v in (x, ints, tensor([True], torch.bool), tensor([1j], torch.complex64))]
    eight = lambda n, k: encode(((torch.arange(n * k) * 5 % 13 - 6.5) / 4).reshape(n, k).to(torch.float8_e4m3fn))
    unit, bfloat16 = tensor(0.5, f), {"dtype": "bfloat16"}
    rows, columns = tensor([[0.5], [2], [0.25]], f), tensor([[0.25 + n / 8 for n in range(16)]], f)
    a, ends = tensor([[(n * k % 5 - 2) / 2 for k in range(8)] for n in range(1, 4)], torch.bfloat16, True), tensor([1, 3], torch.int32)
    dtypes = lambda *pairs: [({"dtype": a}, {"dtype": b}) for a, b in pairs]
    return {
        "item": [(one,), (tensor([7], i),), (tensor([True], torch.bool),), (tensor([1 - 2j], torch.complex128),)],
        "tolist": [(x,), (ints,), (tensor(2.5, f),)],
        "is_complex": kinds, "is_floating_point": kinds, "is_signed": kinds, "is_tensor": [(x,), (3,)], "type.name": kinds,
        "is_nonzero": [(one,), (tensor([0], i),)], "is_contiguous": [(x,)], "is_same_size": [(x, ints), (x, x)],
        "__complex__": [(one,), (tensor(1 - 2j, torch.complex128),)], "__contains__": [(ints, 7), (x, 7.5)],
        "_has_compatible_shallow_copy_type": [(x, ints)],
        "numel": kinds, "dim": [(x,), (ints,), (one,)], "element_size": kinds, "storage_offset": [(x,)], "get_device": [(x,)],
        "__len__": [(x,), (ints,)], "__float__": [(one,), (tensor(3, i),)], "__int__": [(one,), (tensor(-3, i),)],
        "size": [(x,), (x, -1)], "stride": [(x,), (ints, 0)],
        "result_type": [(x, ints), (ints, 1.5), (tensor([1], torch.bfloat16), x), (x, 1)],
        "promote_types": dtypes(("float16", "bfloat16"), ("int8", "uint8"), ("int64", "float32"), ("complex64", "float64"), ("bool", "int16")),
        "can_cast": dtypes(("float64", "float32"), ("float32", "int64"), ("int64", "bool"), ("int8", "uint8")),
        "broadcast_shapes": [({"tuple": [3, 1]}, {"tuple": [4]})],
        "backward": [(tensor(2.5, f, True),)], "synchronize": [()],
        "allclose": [(one, tensor([2.50001], f)), (one, tensor([2.6], f)), (one, tensor([2.6], f), 0.0, 0.2)],
        "equal": [(x, x), (ints, tensor([[3, -1], [0, 6]], i))],
        "__setitem__": [(x, {"tuple": [0, 1]}, 7.0), (x, 0, tensor([4, 5, 6], f)), (ints, tensor([[True, False], [False, True]], torch.bool), 9),
                        (ints, {"tuple": [{"slice": [None, None, None]}, 1]}, tensor([8, -8], i))],
        "__deepcopy__": [(x, {"dict": {}})],
        "to.device": [(x, "cpu"), (ints, {"device": "cpu"}, {"dtype": "float32"})],
        "layer_norm": [(grad, [3], weight, weight, 0.1)], "group_norm": [(grad, 1, weight, weight, 0.1)],
        "init_sparse_": [(x, 0.5)],
        "lp_pool1d": [(tensor([[1.5, 2, 0.25, 3, 7, 0.5]], t, True), *rest) for t in (f, d, torch.bfloat16) for rest in ([2.0, 2], [3.0, 3, 1, True])],
        "cholesky_inverse": [(tensor(lower, t, True),) for t in (f, d)],
        "cholesky_solve": [(tensor([[1, -2], [0.5, 3], [2, 0.25]], t, True), tensor(lower, t, True)) for t in (f, d)],
        "_fused_adam_": [adam, amsgrad], "_fused_adamw_": [adam, amsgrad], "_fused_sgd_": [sgd, (sgd[0], dict(sgd[1], nesterov=True, dampening=0.0))],
        "_fused_adagrad_": [((state[0], state[1], [tensor([1, 0.25], d)], step),
                             {"lr": 0.01, "lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-10, "maximize": False})],
        "_amp_foreach_non_finite_check_and_unscale_": [([tensor(v, f), tensor([8, 4], f)], tensor([0], f), tensor([0.25], f))
                                                       for v in ([1, 2], [float("inf"), 2], [float("nan"), 1])],
        "_foreach_zero_": [([x, ints],)],
        "_scaled_mm": [(eight(3, 16), eight(16, 16), unit, unit, tensor([n / 4 - 2 for n in range(16)], torch.bfloat16), None, bfloat16),
                       (eight(3, 16), eight(16, 16), rows, columns, None, None, {"dtype": "float32"})],
        "_safe_softmax": [(tensor([[float("-inf")] * 3, [0.5, float("-inf"), -1]], f, True), -1)],
        "_grouped_mm": [(a, tensor([[[n / 4 - k for k in range(8)] for n in range(8)]] * 2, torch.bfloat16, True), ends)],
    }


def extremes_by_hand():
    """Operators and arguments of further calls with --pointwise: powers with special exponents, and reductions of rows."""
    inf, nan = float("inf"), float("nan")
    rows = [[nan, 1, 2, 3], [inf, 1, 2, 3], [-inf, 1, 2, 3], [0, 1, 2, 3], [0, 0, 2, 3], [-0.0, 0, 1, -1], [inf, inf, 1, 2], [nan, nan, 1, 2],
            [-inf] * 4, [0, 0, 0, 0]]
    for dtype in torch.float32, torch.bfloat16, torch.float16:
        largest = torch.finfo(dtype).max
        x = tensor([nan, inf, -inf, 0, -0.0, largest, -largest, 4, 1, -1, 0.25], dtype, True)
        for exponent in 0.5, -0.5, 1.5, 2, 3, -1, -2, 0, 1, 2.5:
            yield "pow", [x, exponent]
        for op in "amax", "amin", "sum", "mean", "prod":
            yield op, [tensor(rows, dtype, True), 1]
        yield "logsumexp", [tensor(rows, dtype, True), [1]]


# JSON to Python and back.

def decode(j):
    if isinstance(j, list):
        return [decode(v) for v in j]
    if not isinstance(j, dict):
        return j
    if "tensor" in j:
        dtype, shape = j["tensor"].rstrip("]").split("[")
        dtype, shape = DTYPES[dtype], [int(n) for n in shape.split(",") if n]
        part = float if dtype.is_floating_point or dtype.is_complex else int
        values = [complex(*map(float, s.split(","))) if dtype.is_complex else part(s) for s in j["data"].split()]
        wide = {float: torch.float64, int: dtype}[part] if not dtype.is_complex else dtype
        t = torch.tensor(values, dtype=wide).to(dtype).reshape(shape).clone()
        return t.requires_grad_() if j.get("grad") else t
    (kind, v), = j.items()
    return {"tuple": lambda: tuple(decode(v)), "dict": lambda: {k: decode(i) for k, i in v.items()}, "float": lambda: float(v), "complex": lambda: complex(*map(float, v.split(","))),
            "dtype": lambda: DTYPES[v], "slice": lambda: slice(*decode(v)), "ellipsis": lambda: ..., "device": lambda: torch.device(v),
            "memory_format": lambda: getattr(torch, v), "layout": lambda: getattr(torch, v)}[kind]()


def digits(values, dtype):
    """The shortest decimals that give values back when rounded to dtype."""
    texts = [None] * len(values)
    left = list(range(len(values)))
    for p in range(1, 18):
        tried = ["%.*g" % (p, values[i]) for i in left]
        back = torch.tensor([float(s) for s in tried], dtype=torch.float64).to(dtype).double().tolist()
        for i, s, b in zip(left, tried, back):
            if b == values[i] or b != b:
                texts[i] = s
        left = [i for i in left if texts[i] is None]
    return texts


def encode(v, data=True):
    if isinstance(v, torch.Tensor):
        if v.layout != torch.strided or v.is_quantized:
            raise ValueError("a tensor that is " + ("quantized" if v.is_quantized else "sparse"))
        j = {"tensor": f"{str(v.dtype)[6:]}[{','.join(map(str, v.shape))}]"}
        if not data:
            return j
        x = v.detach().resolve_conj().resolve_neg().flatten()
        if v.is_complex():
            real = torch.float64 if v.dtype == torch.complex128 else torch.float32 if v.dtype == torch.complex64 else torch.float16
            re, im = (digits(p.double().tolist(), real) for p in (x.real, x.imag))
            texts = [a + "," + b for a, b in zip(re, im)]
        elif v.is_floating_point():
            texts = digits(x.double().tolist(), v.dtype)
        else:
            texts = [str(int(n)) for n in x.tolist()]
        return dict(j, data=" ".join(texts))
    if isinstance(v, (tuple, torch.Size)):
        return {"tuple": [encode(i, data) for i in v]}
    if isinstance(v, list):
        return [encode(i, data) for i in v]
    if isinstance(v, float) and (v != v or abs(v) == float("inf")):
        return {"float": str(v)}
    if isinstance(v, complex):
        return {"complex": f"{v.real!r},{v.imag!r}"}
    if isinstance(v, torch.dtype):
        return {"dtype": str(v)[6:]}
    if v is None or isinstance(v, (bool, int, float, str)):
        return v
    raise ValueError(f"a value of type {type(v).__name__}")


def tensors(v):
    if isinstance(v, torch.Tensor):
        return [v]
    if isinstance(v, dict):
        v = v.values()
    return [t for i in v for t in tensors(i)] if isinstance(v, (list, tuple, type({}.values()))) else []


# One call.

def incoming(t, k):
    g = ((5 * torch.arange(t.numel()) + 3 * k) % 8 - 3.5) / 4
    return (torch.complex(g, -g) if t.is_complex() else g).to(t.dtype).reshape(t.shape)


def copied(v):
    """v with clones for the tensors that ask for a gradient, so that they can be written to."""
    if isinstance(v, torch.Tensor):
        return v.clone() if v.requires_grad else v
    return type(v)(copied(i) for i in v) if type(v) in (list, tuple) else v


def make(function, call, grads):
    """Results, changed arguments and gradients of one call, as JSON."""
    args, kwargs = decode(call["args"]), {k: decode(v) for k, v in call.get("kwargs", {}).items()}
    leaves = tensors(args) + tensors(kwargs)
    if not grads:
        for t in leaves:
            t.requires_grad_(False)
    before = [encode(t) for t in leaves]
    wanted = [i for i, t in enumerate(leaves) if t.requires_grad]
    args, kwargs = copied(args), {k: copied(v) for k, v in kwargs.items()}
    given = tensors(args) + tensors(kwargs)
    torch.manual_seed(SEED)
    out = function(*args, **kwargs)
    random = "random" in call
    r = {"out": encode(out, not random)}
    results = tensors(out)
    after = {str(i): encode(t, not random) for i, t in enumerate(given) if not any(t is o for o in results) and encode(t) != before[i]}
    if after:
        r["after"] = after
    in_place = isinstance(out, (list, tuple)) and all(any(t is o for t in given) for o in results)
    if not grads or random or in_place:  # operators on lists return nothing in place, or what they were given
        return r
    start = [k for k, o in enumerate(results) if o.requires_grad and (o.is_floating_point() or o.is_complex())]
    if not start:
        return r
    gs = torch.autograd.grad([results[k] for k in start], [leaves[i] for i in wanted], [incoming(results[k], k) for k in start],
                             allow_unused=True)
    r["from"] = start
    r["grads"] = {str(i): None if g is None else encode(g) for i, g in zip(wanted, gs)}
    return r


def resolve(name):
    f = torch
    for part in name.split(".")[1:]:
        f = getattr(f, part)
    return f if callable(f) else f.__get__  # a property


def first_line(e):
    return " ".join(str(e).split("\n")[0].split()).split(". ")[0][:160] or type(e).__name__


def family(name):
    parts = name.split(".")
    if parts[-1].startswith("_foreach") or parts[-1].startswith("_fused"):
        return "foreach"
    return parts[-2]


def record(call, missing):
    """The lines of a call: names that give the same share one."""
    lines = {}
    for name in call["names"] if "args" in call else []:
        try:
            function = resolve(name)
        except AttributeError:
            missing[name] = "torch has no such name"
            continue
        for attempt, grads in ways(call, name):
            try:
                result = make(function, attempt, grads)
            except Exception as e:
                missing.setdefault(name, first_line(e))
                continue
            lines.setdefault(json.dumps([attempt["args"], result]), []).append(name)
            break
    for line, names in lines.items():
        args, result = json.loads(line)
        yield {"op": call["op"], "names": names, **{k: call[k] for k in ("random",) if k in call}, "args": args,
               **{k: call[k] for k in ("kwargs",) if call.get(k)}, **result}


def ways(call, name):
    """The call with and without gradients, then with the items of its only argument as arguments of their own."""
    args = call["args"]
    no_grad = name.startswith("torch.nn.init.")  # writes without recording
    for a in [args] + ([args[:-1] + args[-1]] if len(args) == 1 and isinstance(args[0], list) else []):
        for grads in (False,) if no_grad else (True, False):
            yield dict(call, args=a), grads


def described(v):
    """encode, with the wish for a gradient."""
    if isinstance(v, (list, tuple)):
        items = [described(i) for i in v]
        return items if isinstance(v, list) else {"tuple": items}
    return dict(encode(v), grad=True) if isinstance(v, torch.Tensor) and v.requires_grad else encode(v)


def write(family, calls):
    """Writes the golden values of functions in plain torch: calls are (op, names, function, args, kwargs)."""
    torch.set_num_threads(1)
    with open(os.path.join(HERE, family + ".jsonl"), "w") as f:
        lines = [{"torch": torch.__version__, "seed": SEED, "command": family + ".py"}]
        for op, names, function, args, kwargs in calls:
            call = {"args": [described(a) for a in args], "kwargs": {k: described(v) for k, v in kwargs.items()}}
            grads = any(t.requires_grad for t in tensors(list(args)) + tensors(kwargs))
            lines.append({"op": op, "names": names, **call, **make(function, call, grads)})
        for line in lines:
            print(json.dumps(line, separators=(",", ":")), file=f)


def main(path, special=None):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if hasattr(torch.utils, "deterministic"):  # torch 2
        torch.utils.deterministic.fill_uninitialized_memory = False
    with open(path) as f:
        calls = [json.loads(line) for line in f]  # those without arguments only name an operator
    for call in calls:  # other libraries have scripts of their own
        call["names"] = [n for n in call["names"] if n.startswith("torch.") and (n.startswith("torch.ops.aten.") or not n.startswith("torch.ops."))]
    calls = [call for call in calls if call["names"]]
    names = {call["op"]: call["names"] for call in calls}
    for op, by_hand in [] if special else calls_by_hand().items():
        for args in by_hand:
            args, kwargs = args if len(args) == 2 and isinstance(args[1], dict) and "lr" in args[1] else (args, {})
            random = {"random": "draws random numbers"} if op == "init_sparse_" else {}
            calls.append({"op": op, "names": names[op], **random, "args": list(args), "kwargs": kwargs})
    if special == "pointwise":
        calls += [{"op": op, "names": ["torch." + op], "args": args} for op, args in extremes_by_hand()]
    families, missing, done = {}, {}, set()
    for call in calls:
        for line in record(call, missing):
            done.update(line["names"], [line["op"]])
            families.setdefault(family(call["names"][0]), []).append(line)
    for call in calls:
        if call["op"] not in done:
            missing["op " + call["op"]] = next((missing[n] for n in call["names"] if n in missing), "no call")
    here = os.path.join(HERE, special) if special else HERE
    os.makedirs(here, exist_ok=True)
    for name in os.listdir(here):
        if name.endswith(".jsonl"):
            with open(os.path.join(here, name)) as f:
                ours = json.loads(f.readline())["command"] == "record.py"
            if ours:
                os.remove(os.path.join(here, name))
    for name, lines in families.items():
        with open(os.path.join(here, name.strip("_") + ".jsonl"), "w") as f:
            for line in [{"torch": torch.__version__, "seed": SEED, "command": "record.py"}] + lines:
                f.write(json.dumps(line, separators=(",", ":")) + "\n")
    if not special:
        with open(os.path.join(HERE, "missing.tsv"), "w") as f:
            for name, why in sorted(missing.items()):
                if name not in done:
                    f.write(f"{name}\t{why}\n")
    print(f"torch {torch.__version__}: {sum(map(len, families.values()))} records of {len(calls)} calls")


if __name__ == "__main__":
    main(sys.argv[-1], next((a[2:] for a in sys.argv if a.startswith("--")), None))
