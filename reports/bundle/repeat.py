"""Repeat the recorded call with PyTorch and compare with the expected results.

    python repeat.py [--device cpu] [--function MODULE:FUNCTION] [--import MODULE] [--atol A] [--rtol R] [--trust]

Needs torch 1.13 or newer. --function runs this function, not the one that has the operator's name: a program may have
put its own in the place of torch's. --import names a module that brings the operator. An element may be off by what
expected/allowed_*.pth say; --atol and --rtol set another tolerance. Where the recorded values are wrong only all
together, what they have in common is bounded, too (expected/names.json). Nothing in the files is executed (weights_only)
unless --trust is given, which torch 1.13 needs for floats and devices among the arguments. Exit code 0: no element is
further off, 1: one is, or all together are, 3: the call cannot be run here, or it draws random numbers and nothing is
wrong without them.
"""
import argparse
import contextlib
import importlib
import json
import os
import pickle
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TRUSTED = False


def load(*names):
    path = os.path.join(HERE, *names)
    if not os.path.exists(path):
        return None
    try:
        return torch.load(path, map_location="cpu", weights_only=not TRUSTED)
    except pickle.UnpicklingError as e:
        print(f"{path}: {str(e).splitlines()[-1]}\nwith --trust it is loaded without this check", file=sys.stderr)
        sys.exit(3)


def tensors(value):
    """The tensors in lists, tuples and dicts, in order; None for None."""
    if isinstance(value, torch.Tensor) or value is None:
        return [value]
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__") and not isinstance(value, str):
        return [t for item in value for t in tensors(item)]
    return []


def to_device(value, device, fresh, seen):
    """The value with its tensors on the device, laid out as they were recorded."""
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            t = value.detach()
            if device != "cpu" or fresh:
                t = torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=device).copy_(t)
            if value.requires_grad:
                t.requires_grad_()
            seen[id(value)] = t
        t = seen[id(value)]
        return t.clone() if fresh and t.requires_grad else t
    if isinstance(value, torch.device):
        return torch.device(device)
    if isinstance(value, dict):
        return {k: to_device(v, device, fresh, seen) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple, torch.Size):
        return type(value)(to_device(v, device, fresh, seen) for v in value)
    return value


def cast(value, dtypes):
    """The value with its tensors in the dtypes of an iterator, which has None for those that keep theirs."""
    if isinstance(value, torch.Tensor):
        dtype = next(dtypes, None)
        return value.to(getattr(torch, dtype)) if dtype else value
    if isinstance(value, dict):
        return {k: cast(v, dtypes) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(cast(v, dtypes) for v in value)
    return value


def find(name, modules, own):
    """torch.nn.functional.linear, torch.Tensor.add_, and what other packages bring.

    The program that was recorded is "__main__": its functions are looked for in the modules. own: --function gave the
    name.
    """
    root, *rest = name.split(".")
    roots = modules if root == "__main__" else [root]
    for root in roots:
        try:
            found = importlib.import_module(root)
            for part in rest:
                if not hasattr(found, part):
                    if not hasattr(found, "__path__"):
                        raise AttributeError(f"{found.__name__} has no {part}")
                    importlib.import_module(found.__name__ + "." + part)
                found = getattr(found, part)
            return found
        except (ImportError, AttributeError) as e:
            why = f" ({e})"
    raise LookupError(f"there is no {name} here{why if roots else ''}; " + (
        "--function reaches what a module has by name, and nothing that is defined inside a function" if own else
        "name the module that brings it: --import MODULE"))


def own_function(name):
    """Whose function has the name of an operator: "torch's own", "mylib's own"."""
    if name.startswith("torch.ops."):
        name = name[len("torch.ops."):]
    owner = name.split(".")[0]
    return {"__main__": "the program's own", "aten": "torch's own"}.get(owner, owner + "'s own")


def due(what, names):
    """The expected values of a kind, how far their elements may be off, what these may have in common, and which of the
    recorded ones the verdict calls worst."""
    wide = load("expected", what + "_float64.pth")
    if wide is None:
        return None
    return list(zip(wide, load("expected", "allowed_" + what + ".pth"), names["together"][what], names["worst"][what]))


def together(what, got, y, limits):
    """Print a factor or an offset that all elements share; return whether neither is larger than it may be."""
    near = y.to(got.dtype).double()
    x, y, near = got.double().flatten(), y.flatten(), near.flatten()
    fine = torch.isfinite(x) & torch.isfinite(near)
    x, y, near = x[fine], y[fine], near[fine]
    if torch.finfo(got.dtype).eps > 1e-6:  # elements of one exact value are rounded alike: they count once
        values, place = torch.unique(y, return_inverse=True)
        first = torch.full_like(values, len(y), dtype=torch.int64).scatter_reduce(0, place, torch.arange(len(y)), "amin")
        x, y, near = x[first], y[first], near[first]
    n, squares = len(y), float((y * y).sum())
    if n < 8 or squares == 0:
        return True
    d = x - near
    factor = float((y * d).sum()) / squares
    of_factor = float((y * (d - factor * y)).square().sum()) ** 0.5 / squares
    size = (squares / n) ** 0.5
    offset = float(d.mean()) / size
    of_offset = float(d.var(unbiased=False) / n) ** 0.5 / size
    ok = True
    for name, is_, sigma, most in (("scaled by 1 +", factor, of_factor, limits[0]),
                                   ("shifted, in units of their root mean square, by", offset, of_offset, limits[1])):
        if abs(is_) > most and abs(is_) > 8 * sigma:
            print(f"{what}: wrong, all elements together are {name} {is_!r}, may be {most!r}")
            ok = False
    return ok


def compare(what, got, expected, args, recorded=False):
    """Print the worst element; return whether none is further off than it may be."""
    want, allowed, limits, worst = expected
    if got is None or want is None:
        return True
    got = got.detach().cpu()
    if got.shape != want.shape:
        print(f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}")
        return False
    x, y = (t.to(torch.complex128 if want.is_complex() else torch.float64) for t in (got, want))
    own = args.atol is not None or args.rtol is not None
    if own:
        allowed = (args.atol or 0.0) + (args.rtol or 0.0) * y.abs()
    if allowed is None:
        print(f"{what}: not compared, it is not known how far it may be off")
        return True
    if x.is_complex():
        x, y, allowed = torch.view_as_real(x), torch.view_as_real(y), allowed.unsqueeze(-1).expand(*y.shape, 2)
    error = torch.where((x == y) | (torch.isnan(x) & torch.isnan(y)) | torch.isinf(allowed), torch.zeros_like(y), (x - y).abs())
    share = torch.where(error == 0, error, error / allowed).nan_to_num(nan=float("inf"), posinf=float("inf"))
    wrong = ~(error <= allowed)
    if wrong.dim() > want.dim():
        wrong = wrong.any(-1)
    text = f"{what}: {int(wrong.sum())} of {want.numel()} elements are wrong"
    if want.numel():
        at, index = int(share.argmax()), []
        for size in reversed(x.shape):
            index.insert(0, at % size)
            at //= size
        here = tuple(worst if recorded and worst is not None and not own and not x.dim() > want.dim() else index)
        text += (f"; worst at {list(here[:want.dim()])}: got {x[here].item()!r} want {y[here].item()!r}, may be off by "
                 f"{allowed[here].item()!r}")
    print(text)
    ok = not wrong.any()
    if limits is not None and not own:
        ok = together(what, got, want.double(), limits) and ok
    return ok


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cpu", help="cpu, cuda, npu, ...; packages that bring one are imported by name")
    p.add_argument("--atol", type=float)
    p.add_argument("--rtol", type=float)
    p.add_argument("--import", dest="modules", metavar="MODULE", action="append", default=[],
                   help="a module that brings the operator, on PYTHONPATH or in this directory; may be repeated")
    p.add_argument("--function", metavar="MODULE:FUNCTION",
                   help="run this function; the module is on PYTHONPATH or in this directory")
    p.add_argument("--trust", action="store_true", help="load the files without weights_only")
    args = p.parse_args()
    global TRUSTED
    TRUSTED = args.trust
    sys.path.append(os.getcwd())

    call = load("call", "input.pth")
    print(f"{call['name']} on {args.device}, torch {torch.__version__}")
    ok = True
    with open(os.path.join(HERE, "expected", "names.json")) as f:
        names = json.load(f)
    if args.function:
        print(f"this runs {args.function}")
    elif names.get("replaced"):
        print(f"note: {names['replaced']}. This runs {own_function(call['name'])}" +
              (f": --function {names['function']} runs the recorded one" if names["function"] else
               ": the recorded one is defined inside a function, where no --function reaches it"
               if "<locals>" in names["replaced"] else ""))
    without = names.get("without")
    if without:
        without["value"] = float(without["value"])
    if names.get("random") and not without:
        print(f"it cannot be repeated: it {names['random']}, and another run draws others; optool replay --tables call "
              "judges what was recorded", file=sys.stderr)
        return 3
    expected, after, wanted = due("output", names), due("arguments", names) or [], due("gradients", names)
    for file, then, named in (
            ("output.pth", expected, [f"output[{i}]" for i in range(len(expected))]),
            ("after.pth", after, [f"{n} after the call" for n in names["arguments"]]),
            ("grad_inputs.pth", due("recorded_gradients", names) or [], names["recorded_gradients"])):
        recorded = load("call", file)
        if recorded is not None and not without:
            for r, e, n in zip(tensors((recorded["args"], recorded["kwargs"])), then, named):
                compare(f"recorded {n}", r, e, args, recorded=True)
    name = call["name"]
    in_place = name.endswith("_") and not name.endswith("__") or call["kwargs"].get("inplace") is True
    up = load("call", "grad_outputs.pth")
    seen = {}
    vendor = {"npu": "torch_npu", "mlu": "torch_mlu", "musa": "torch_musa"}.get(args.device.split(":")[0])
    for module in args.modules + ([vendor] if vendor else []):
        try:
            importlib.import_module(module)
        except Exception as e:  # whatever the module raises
            print(f"it cannot be run here: {module} cannot be imported ({type(e).__name__}: {e}). It must be on PYTHONPATH or "
                  "in this directory", file=sys.stderr)
            return 3
    try:
        function = find((args.function or name).replace(":", "."), args.modules, bool(args.function))
        if without:
            print(f"the call {names['random']}: it is repeated with {without['name']}={without['value']}, not "
                  f"{without['recorded']}, and draws none")
            if without["place"] < 0:
                call["kwargs"][without["name"]] = without["value"]
            else:
                call["args"] = list(call["args"])
                call["args"][without["place"]] = without["value"]
        given = to_device((call["args"], call["kwargs"]), args.device, in_place, seen)
        # The program's own function gets what it got: its arguments under torch.autocast, as far as that was recorded.
        inside = names.get("recorded_autocast") if args.function else names.get("autocast")
        if names.get("casts") and not inside:
            given = cast(given, iter(names["casts"]))
            print("arguments are cast as under torch.autocast: to " + max(filter(None, names["casts"])))
        around = contextlib.nullcontext()
        if inside:
            around = torch.autocast(args.device.split(":")[0], getattr(torch, inside))
            print("under torch.autocast in " + inside)
        with torch.set_grad_enabled(not after or wanted is not None), around:
            output = function(*given[0], **given[1])
    except (AttributeError, LookupError, RuntimeError, TypeError) as e:
        print(f"it cannot be run here: {e}", file=sys.stderr)
        return 3
    outputs = tensors(output)
    if len(outputs) != len(expected):
        print(f"{len(outputs)} results, expected {len(expected)}")
        ok = False
    for i, (g, e) in enumerate(zip(outputs, expected)):
        ok = compare(f"output[{i}]", g, e, args) and ok
    for g, e, n in zip(tensors(given), after, names["arguments"]):
        ok = compare(f"{n} after the call", g, e, args) and ok
    if wanted is not None and up is not None:
        leaves = [seen[id(t)] for t in tensors((call["args"], call["kwargs"]))
                  if t is not None and t.requires_grad and id(t) in seen]
        leaves = list({id(t): t for t in leaves}.values())
        ups = tensors(up["args"])
        pairs = [(o, u.to(args.device)) for o, u in zip(outputs, ups) if u is not None and o.requires_grad]
        grads = torch.autograd.grad([o for o, _ in pairs], leaves, [u for _, u in pairs], allow_unused=True)
        for g, e, n in zip(grads, wanted, names["gradients"]):
            ok = compare(f"gradient of {n}", g, e, args) and ok
    if ok and without:
        print(f"nothing is wrong with {without['name']}={without['value']}; with {without['recorded']} it cannot be "
              "repeated: optool replay --tables call judges what was recorded")
        return 3
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
