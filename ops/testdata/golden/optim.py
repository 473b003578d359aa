#!/usr/bin/env python3
"""Golden values of the functions of torch.optim that update a group of parameters by calls of single tensors or of
lists: torch's own, on a CPU.

  python3 ops/testdata/golden/optim.py

writes optim.jsonl beside this file, in the form of record.py. Needs torch 2.15 alone.
"""
import importlib

import torch

import record


def calls():
    d = torch.float64
    of = lambda *values: [torch.tensor(v, dtype=d) for v in values]
    adam = dict(amsgrad=False, beta1=0.8, beta2=0.9, lr=0.01, weight_decay=0.1, eps=1e-8, maximize=False)
    sgd = dict(weight_decay=0.1, momentum=0.9, lr=0.05, dampening=0.25, nesterov=False, maximize=False)
    lists = lambda: (of([1, -2], [0.5]), of([0.5, 0.25], [-1]), of([0.125, -0.5], [0.25]), of([0.25, 1], [2]))
    for name in "adam", "adamw":
        for more in dict(foreach=False), dict(foreach=True, has_complex=False), dict(foreach=False, amsgrad=True, maximize=True):
            largest = of([0.5, 0.75], [3]) if "amsgrad" in more else []
            yield name, [*lists(), largest, [torch.tensor(3.), torch.tensor(0.)]], dict(adam, **more)
    yield "adam", [*lists(), [], [torch.tensor(3.)] * 2], dict(adam, foreach=False, decoupled_weight_decay=True)
    for more in dict(foreach=False), dict(foreach=True, fused=None), dict(foreach=False, nesterov=True, dampening=0.0), dict(foreach=False, maximize=True):
        yield "sgd", [*lists()[:3]], dict(sgd, **more)
    yield "sgd", [*lists()[:2], [None, None]], dict(sgd, foreach=False)
    steps = lambda: [torch.tensor(3.), torch.tensor(0.)]
    forms = dict(foreach=False), dict(foreach=True, has_complex=False)
    rmsprop = dict(lr=0.05, alpha=0.8, eps=1e-6, weight_decay=0.1, momentum=0.0, centered=False)
    for more in *forms, dict(momentum=0.9, maximize=True), dict(momentum=0.9, centered=True):
        means = of([0.125, -0.5], [0.25]) if "centered" in more else []
        buffers = of([0.5, 1], [-0.25]) if "momentum" in more else []
        yield "rmsprop", [*lists()[:2], lists()[3], means, buffers, steps()], dict(rmsprop, **more)
    adadelta = dict(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=False)
    for more in *forms, dict(maximize=True):
        yield "adadelta", [*lists()[:2], lists()[3], of([0.5, 0.25], [0.75]), steps()], dict(adadelta, **more)
    adagrad = dict(lr=0.05, weight_decay=0.1, lr_decay=0.25, eps=1e-6, maximize=False)
    for more in *forms, dict(maximize=True):
        yield "adagrad", [*lists()[:2], lists()[3], steps()], dict(adagrad, **more)
    adamax = dict(lr=0.05, beta1=0.8, beta2=0.9, weight_decay=0.1, eps=1e-3)
    for more in *forms, dict(maximize=True):
        yield "adamax", [*lists(), steps()], dict(adamax, **more)
    rprop = dict(step_size_min=0.3, step_size_max=1.1, etaminus=0.5, etaplus=1.25)
    for more in *forms, dict(maximize=True):
        yield "rprop", [*lists(), steps()], dict(rprop, **more)
    radam = dict(lr=0.05, beta1=0.8, beta2=0.9, weight_decay=0.1, eps=1e-3)
    for more in *forms, dict(maximize=True, decoupled_weight_decay=True):
        yield "radam", [*lists(), [torch.tensor(7.), torch.tensor(1.)]], dict(radam, **more)
    nadam = dict(lr=0.05, beta1=0.8, beta2=0.9, weight_decay=0.1, momentum_decay=0.004, eps=1e-3)
    for more in *forms, dict(maximize=True, decoupled_weight_decay=True):
        products = [torch.tensor(0.0625, dtype=d), torch.tensor(1., dtype=d)]
        yield "nadam", [*lists(), products, [t.double() for t in steps()]], dict(nadam, **more)
    asgd = dict(lambd=0.01, lr=0.05, t0=2.0, alpha=0.75, weight_decay=0.1)
    for more in *forms, dict(maximize=True):
        mus, etas = [torch.tensor(0.5), torch.tensor(1.)], [torch.tensor(0.0625), torch.tensor(0.05)]
        yield "asgd", [*lists()[:3], mus, etas, steps()], dict(asgd, **more)


if __name__ == "__main__":
    record.write("optim", [(name, ["torch.optim.%s.%s" % (name, name)], getattr(importlib.import_module("torch.optim." + name), name), args, kwargs)
                           for name, args, kwargs in calls()])
