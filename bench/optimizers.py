#!/usr/bin/env python3
"""All optimizers of torch.optim, recorded and judged: what fails, and what is not judged.

  optimizers.py [--optool bin/optool] [--only REGEXP] [--keep DIR] [--list]

Trains a small network with each optimizer in its single, foreach and fused form, in several dtypes, with each option that
it knows (amsgrad, maximize, weight decay, nesterov, a learning rate in a tensor, ...), and clips gradients by norm or by
value. Two steps are recorded. Prints as sound.py does. Exit status 1 if anything fails.
"""
import argparse, inspect, itertools, os, re, shutil, subprocess, sys, tempfile

import torch
import torch.nn as nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sound

FORMS = dict(single=dict(foreach=False), foreach=dict(foreach=True), fused=dict(fused=True))
TYPES = ("float32", "bfloat16", "float16", "float64", "complex64", "scaler")
# Options that are tried if the optimizer knows all of them.
OPTIONS = dict(
    plain={}, decay=dict(weight_decay=.02), maximize=dict(maximize=True), amsgrad=dict(amsgrad=True), momentum=dict(momentum=.9),
    nesterov=dict(momentum=.9, nesterov=True, weight_decay=.01), dampening=dict(momentum=.5, dampening=.2, maximize=True), centered=dict(centered=True, momentum=.4),
    decoupled=dict(decoupled_weight_decay=True, weight_decay=.05), amsgrad_decay=dict(amsgrad=True, weight_decay=.1, maximize=True),
    betas=dict(betas=(.5, .7), eps=1e-5), lr_tensor=dict(lr=torch.tensor(.01)), lr_decay=dict(lr_decay=.1, initial_accumulator_value=.3),
    rho=dict(rho=.8, eps=1e-4), etas=dict(etas=(.4, 1.3)), averages=dict(lambd=1e-2, alpha=.6, t0=1), momentum_decay=dict(momentum_decay=.1, betas=(.8, .9)),
    factored=dict(beta2_decay=-.5, d=1.5), ns=dict(ns_steps=3, adjust_lr_fn="match_rms_adamw"), wolfe=dict(max_iter=3, line_search_fn="strong_wolfe"),
    history=dict(max_iter=4, history_size=2),
)


class Net(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.embed, self.conv = nn.Embedding(20, 8, sparse=sparse), nn.Conv1d(8, 12, 3, padding=1)
        self.norm, self.out, self.scale = nn.LayerNorm(12), nn.Linear(12, 5), nn.Parameter(torch.tensor(.7))

    def forward(self, ids, y):
        x = self.conv(self.embed(ids).transpose(1, 2)).transpose(1, 2)
        return nn.functional.cross_entropy((self.out(self.norm(x)) * self.scale).float().flatten(0, 1), y.flatten())


class Complex(nn.Module):
    def __init__(self, sparse):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8, dtype=torch.complex64), nn.Parameter(torch.randn(3, dtype=torch.complex64))

    def forward(self, ids, y):
        return ((self.a(torch.view_as_complex(torch.randn(4, 6, 2))) ** 2).abs().mean() + (self.b * self.b.conj()).real.sum()).float()


def jobs(only):
    number = 0
    for name, kind in sorted(vars(torch.optim).items()):
        if not inspect.isclass(kind) or not issubclass(kind, torch.optim.Optimizer) or kind is torch.optim.Optimizer:
            continue
        known = inspect.signature(kind.__init__).parameters
        for (form, given), (option, more), dtype in itertools.product(FORMS.items(), OPTIONS.items(), TYPES):
            if not set(given) <= set(known) and form != "single" or not set(more) <= set(known):
                continue
            number += 1
            if name in ("SparseAdam", "LBFGS") and dtype not in ("float32", "bfloat16", "float64"):
                continue
            job = sound.Job(f"{name}-{form}-{option}", dtype, "eager", "hook", number, 1)
            if re.fullmatch(only, job.name):
                yield job


def recorded(job, out):
    name, form, option = job.name.split("-")
    kind = getattr(torch.optim, name)
    torch.manual_seed(job.seed)
    model = (Complex if job.dtype == "complex64" else Net)(name == "SparseAdam")
    if job.dtype not in ("complex64", "scaler"):
        model = model.to(getattr(torch, job.dtype))
    given = {k: v for k, v in FORMS[form].items() if k in inspect.signature(kind.__init__).parameters}
    parameters = list(model.parameters())
    if name == "Muon":
        parameters = [p for p in parameters if p.dim() == 2]
    if name == "SparseAdam":
        parameters = [model.embed.weight]
    opt = kind(parameters, **{**(dict(lr=1e-2) if name != "LBFGS" else dict(lr=.1)), **given, **OPTIONS[option]})
    ids, y = torch.randint(0, 20, (4, 6)), torch.randint(0, 5, (4, 6))
    scaler = torch.amp.GradScaler("cpu", init_scale=256.) if job.dtype == "scaler" else None

    def step():
        def closure():
            opt.zero_grad()
            with torch.autocast("cpu", torch.float16, enabled=scaler is not None):
                loss = model(ids, y)
            (scaler.scale(loss) if scaler else loss).backward()
            return loss
        if name == "LBFGS":
            return float(opt.step(closure))
        loss = closure()
        # Fused optimizers unscale gradients themselves where these are not clipped.
        if scaler and job.number % 2:
            scaler.unscale_(opt)
        if name != "SparseAdam" and (not scaler or job.number % 2):
            if job.number % 3 == 0:
                nn.utils.clip_grad_value_(parameters, .05, foreach=form != "single")
            else:
                nn.utils.clip_grad_norm_(parameters, .5, norm_type=float("inf") if job.number % 3 == 1 and job.dtype != "complex64" else 2., foreach=form != "single")
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        return float(loss)
    import optool_capture
    first = step()
    with optool_capture.record(out + "/recording"):
        losses = [step(), step()]
    return dict(optimizer=job.name, losses=[first, *losses])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--optool", default="bin/optool")
    ap.add_argument("--only", default=".*", metavar="REGEXP", help="OPTIMIZER-FORM-OPTION that matches as a whole")
    ap.add_argument("--keep", metavar="DIR", help="where recordings and results stay")
    ap.add_argument("--list", action="store_true", help="print what would be run")
    o = ap.parse_args()
    todo = list(jobs(o.only))
    if o.list:
        print(*(j.path for j in todo), sep="\n")
        return 0
    torch.set_num_threads(1)
    sound.recorded, sound.DTYPES = recorded, TYPES
    keep, optool, tool = os.path.abspath(o.keep or tempfile.mkdtemp()), os.path.abspath(o.optool), tempfile.mkdtemp()
    os.makedirs(keep, exist_ok=True)
    subprocess.run([optool, "hook", "--out", tool + "/optool_capture.py"], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, tool)
    torch.optim.SGD([nn.Parameter(torch.zeros(1))]).step()  # imports what each process would import
    import optool_capture
    results = []
    for job in todo:
        results.append(sound.resolved(job, optool, keep, False))
        shutil.rmtree(os.path.join(keep, job.path) + ("" if not o.keep else "/recording" if not sound.failed(results[-1]) else "/none"), ignore_errors=True)
    wrong = sound.report(results, "")
    shutil.rmtree(tool)
    if not o.keep:
        shutil.rmtree(keep)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
