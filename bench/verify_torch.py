#!/usr/bin/env python3
"""The reference against real torch in float64, on fresh random inputs for every op.

  verify_torch.py [--optool bin/optool] [--seed N] [--samples N] [--only NAME]

Takes every operator of torch's own test database (OpInfo), draws sample inputs
in float64 and complex128 with the given seed, calls torch, writes the calls as
captures, runs `optool replay --save-reference` and compares the saved,
unrounded reference with torch's float64 result by torch.allclose. Random
operators and results defined up to sign or order are left to `replay`'s own
comparers. Needs torch (1.13 or 2) with what its tests import: expecttest, numpy and,
since 2.0, packaging. Prints what disagrees, the counts of each namespace and dtype,
and a last line with versions and totals.
"""
import argparse, collections, json, os, shutil, subprocess, sys, tempfile, warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

warnings.simplefilter("ignore")
GAUGE = {"linalg.eig", "linalg.eigh", "linalg.qr", "linalg.svd", "svd", "qr", "symeig", "eig", "svd_lowrank", "pca_lowrank", "geqrf", "linalg.lstsq",
         "linalg.ldl_factor", "linalg.ldl_factor_ex", "triangular_solve", "lu", "linalg.lu"}
RANDOM = ("empty", "rand", "dropout", "bernoulli", "multinomial", "normal", "uniform", "exponential", "cauchy", "geometric", "log_normal", "poisson", "rrelu",
          "fractional")


def leaves(x):
    if isinstance(x, (list, tuple)):
        return [y for v in x for y in leaves(v)]
    return [x]


def plain(x):
    """x as a capture holds it: conjugation and negation carried out, since torch 1 saves neither flag."""
    if isinstance(x, torch.Tensor):
        return x.resolve_conj().resolve_neg()
    if isinstance(x, str):  # also numpy's, which torch 1 draws the sides of matrices with
        return str(x)
    if isinstance(x, (list, tuple)):
        return type(x)(plain(v) for v in x) if type(x) in (list, tuple) else x
    return x


def write(path, name, args, kwargs):
    kwargs = {k: plain(v) for k, v in kwargs.items()}
    torch.save({"name": name, "args": tuple(plain(list(args))), "kwargs": kwargs, "identifier": name + "/x"}, path)


def resolve(op):
    try:
        name = torch.overrides.resolve_name(op.op)
    except Exception:
        return None
    return name if name and name.startswith("torch.") else None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--optool", default="bin/optool")
    ap.add_argument("--seed", type=int, default=20241124)
    ap.add_argument("--samples", type=int, default=8)
    ap.add_argument("--only", default="")
    o = ap.parse_args()
    tmp = tempfile.mkdtemp(prefix="optool-verify-")
    torch.manual_seed(o.seed)
    want, names = {}, set()
    for op in op_db:
        name = resolve(op)
        if not name or o.only not in name or op.name in GAUGE or any(r in op.name for r in RANDOM):
            continue
        for dt in (torch.float64, torch.complex128):
            if dt not in op.supported_dtypes("cpu"):
                continue
            try:
                samples = list(op.sample_inputs("cpu", dt, requires_grad=False))
            except Exception:
                continue
            for i, s in enumerate(samples[: o.samples]):
                case = f"{name}/{str(dt)[6:]}-{op.variant_test_name or 'x'}-{i:02d}".replace(" ", "_")
                d = f"{tmp}/cases/{case}"
                try:
                    args = [s.input, *s.args]
                    os.makedirs(d, exist_ok=True)
                    write(d + "/input.pth", name, args, s.kwargs)
                    out = op.op(*args, **s.kwargs)
                    write(d + "/output.pth", name, [out], {})
                except Exception:
                    shutil.rmtree(d, ignore_errors=True)
                    continue
                want[case] = [x.detach().resolve_conj().resolve_neg().clone() if isinstance(x, torch.Tensor) else x for x in leaves(out)]
                names.add(name)
    ref = tmp + "/reference"
    run = subprocess.run([o.optool, "replay", "--acc_check", "--json", "-", "--out", tmp, "--save-reference", ref, tmp + "/cases"],
                         capture_output=True, text=True)
    verdicts = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        r = json.loads(line)
        if r["kind"] == "result":
            verdicts[r["capture"]].append((r["verdict"], r["reason"]))
    agree, wrong, missing = [], [], []
    for case, outs in want.items():
        path = f"{ref}/{case}/cpu/output.pth"
        if not os.path.exists(path):
            missing.append((case, verdicts[case][:1]))
            continue
        try:
            got = leaves(torch.load(path)["args"])
        except Exception as e:
            wrong.append((case, str(e)))
            continue
        ok = len(got) == len(outs)
        for a, b in zip(got, outs):
            if isinstance(b, torch.Tensor):
                ok = ok and isinstance(a, torch.Tensor) and a.shape == b.shape and torch.allclose(a, b.to(a.dtype), rtol=1e-7, atol=1e-9, equal_nan=True)
            elif isinstance(b, float):
                ok = ok and abs(a - b) <= 1e-7 * abs(b) + 1e-9
            else:
                ok = ok and a == b
        if ok or any(v == "pass" for v, _ in verdicts[case]):
            agree.append((case, None))
        else:
            wrong.append((case, verdicts[case][:1]))
    for title, rows in (("no reference", missing), ("differs", wrong)):
        for case, v in rows:
            print(f"{title}: {case}: {v}")
    counts = collections.defaultdict(collections.Counter)
    for title, rows in (("agree", agree), ("differ", wrong), ("no reference", missing)):
        for case, _ in rows:
            name, kind = case.split("/")
            counts[name.rpartition(".")[0], kind.split("-")[0]][title] += 1
    for (namespace, dtype), c in sorted(counts.items()):
        print(f"{namespace:24} {dtype:10} " + ", ".join(f"{c[t]} {t}" for t in ("agree", "differ", "no reference") if c[t]))
    print(f"torch {torch.__version__}, seed {o.seed}: {len(agree)} of {len(want)} calls of {len(names)} operators agree, {len(wrong)} differ, {len(missing)} without reference")
    shutil.rmtree(tmp)
    sys.exit(0 if not wrong and not missing else 1)


if __name__ == "__main__":
    main()
