#!/usr/bin/env python3
"""Whole training steps of small programs, half of them with one planted fault, and what `optool step` says of them.

  steps.py record DIR [NAME...]                      records them: DIR/NAME and DIR/NAME.step.json, the truth
  steps.py check DIR [--optool bin/optool] [NAME...]  compares `optool step` with the truth; exit status 1 if anything is wrong
  steps.py pack DIR OUT [NAME...]                    makes OUT/NAME.tar.gz of them, without the paths of this machine
  steps.py list                                      says what there is

--small records them without attention and with small tensors, as step/testdata/programs has some of them.

The truth is the first finding (`rules`, `op`, `target`, and `module` where it tells one call from another; null if nothing is
wrong), and each loss as it was recorded and in float64, from the same weights and inputs without the fault.

Each program runs in a process of its own. Needs torch 2.2 or newer.
"""
import argparse, contextlib, copy, ctypes, functools, glob, gzip, io, json, math, os, shutil, subprocess, sys, tarfile, warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook"))
import optool_capture  # noqa: E402

SMALL = "STEPS_SMALL" in os.environ
BATCH, LENGTH, WORDS, DIM = (2, 4, 16, 8) if SMALL else (2, 8, 32, 16)


# --- faults -----------------------------------------------------------------------------------------------------------

def address(t):
    with torch._C.DisableTorchFunction():
        return t.data_ptr()


def held(t):
    """The bytes of a contiguous tensor, read behind the recorder's back."""
    with torch._C.DisableTorchFunction():
        return ctypes.string_at(t.data_ptr(), t.numel() * t.element_size())


def overwrite(t, raw):
    """Writes bytes to a contiguous tensor behind the recorder's back."""
    assert len(raw) == len(held(t))
    ctypes.memmove(address(t), raw, len(raw))


def rolled(t, rows):
    raw, row = held(t), t.element_size() * (t.numel() // len(t))
    return raw[-rows * row:] + raw[:-rows * row]


class Broken:
    """A kernel of the CPU whose n-th result of those that `which` picks is changed by `how`."""

    def __init__(self, name, how, which=lambda *a: True, n=0, skips=False):
        self.name, self.how, self.which, self.n, self.seen, self.skips = name, how, which, n, 0, skips
        self.library = torch.library.Library("aten", "IMPL")
        packet, _, overload = name.partition(".")
        self.op = getattr(getattr(torch.ops.aten, packet), overload or "default")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.library.impl(name, self.run, "CPU")
        self.saved = None

    def run(self, *args, **kwargs):
        self.library._destroy()  # the kernel itself, while this call runs
        with torch._C.DisableTorchFunction():
            skips = self.skips and self.which(args[0], *args) and self.seen == self.n
            out = args[0] if skips else self.op(*args, **kwargs)  # a call in place that does nothing
            if self.which(out, *args):
                if self.seen == self.n:
                    out = self.how(out, *args)
                    self.seen += 1
                    return out
                self.seen += 1
        self.library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.library.impl(self.name, self.run, "CPU")
        return out


# --- models -----------------------------------------------------------------------------------------------------------

class Square(torch.autograd.Function):
    """The program's own operator, whose kernel no recorder sees: relu(x)^2."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with torch._C.DisableTorchFunction():
            return torch.relu(x.to(torch.promote_types(x.dtype, torch.float32))) ** 2

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        with torch._C.DisableTorchFunction():
            return (2 * g * torch.relu(x)).to(x.dtype)


class Drop(nn.Module):
    """Dropout whose masks a second run of the model can use again."""

    def __init__(self):
        super().__init__()
        self.masks, self.again = [], None

    def forward(self, x):
        if self.again is not None:
            return x * self.again.pop(0).double()
        y = F.dropout(x, 0.25)
        with torch._C.DisableTorchFunction():
            self.masks.append((y.detach() != 0) / 0.75)
        return y


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        q, k, v = self.qkv(x).view(BATCH, -1, 3, 2, DIM // 2).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(DIM // 2)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = torch.matmul(F.softmax(scores.masked_fill(mask, -1e4), -1), v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Linear(nn.Linear):
    def __init__(self, *sizes, bias=True):
        super().__init__(*sizes, bias=bias and not SMALL)


class MLP(nn.Module):
    def __init__(self, square=False, dropout=False):
        super().__init__()
        self.up, self.down, self.square = Linear(DIM, 2 * DIM), Linear(2 * DIM, DIM), square
        self.drop = Drop() if dropout else nn.Identity()

    def forward(self, x):
        x = self.up(x)
        return self.down(self.drop(Square.apply(x) if self.square else F.gelu(x)))


class Experts(nn.Module):
    """Each word goes to the expert that the router gives most."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(DIM, 3), nn.ModuleList(MLP() for _ in range(3))

    def forward(self, x):
        flat = x.reshape(-1, DIM)
        weight, chosen = self.router(flat).softmax(-1).max(-1)
        y = torch.zeros_like(flat)
        for i, e in enumerate(self.experts):
            at, = torch.where(chosen == i)
            if len(at):
                y = y.index_add(0, at, (e(flat[at]) * weight[at, None]).to(y.dtype))
        return y.view(x.shape)


class Block(nn.Module):
    def __init__(self, **more):
        super().__init__()
        if not SMALL:
            self.norm1, self.attention = nn.LayerNorm(DIM), Attention()
        self.norm2 = nn.LayerNorm(DIM)
        self.mlp = Experts() if more.pop("moe", False) else MLP(**more)

    def forward(self, x):
        if not SMALL:
            x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LM(nn.Module):
    def __init__(self, tied=False, checkpointed=None, **more):
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(WORDS, DIM), nn.ModuleList(Block(**more) for _ in range(2))
        self.norm, self.head, self.checkpointed = nn.LayerNorm(DIM), nn.Linear(DIM, WORDS, bias=False), checkpointed
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.through(self.embedding(tokens))

    def through(self, x):
        for b in self.blocks:
            if self.checkpointed is not None and self.head.weight.dtype != torch.float64:
                x = checkpoint(b, x, **dict(dict(use_reentrant=False), **self.checkpointed))
            else:
                x = b(x)
        return self.head(self.norm(x))


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return F.rms_norm(x, (DIM,), self.weight, 1e-6)


class GatedMLP(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((DIM, 3 * DIM), (DIM, 3 * DIM), (3 * DIM, DIM)))
        self.drop = Drop() if dropout else nn.Identity()

    def forward(self, x):
        return self.down(self.drop(F.silu(self.gate(x)) * self.up(x)))


class GatedBlock(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.q, self.k, self.v, self.out = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.mlp = GatedMLP(dropout)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (f(h).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Gated(LM):
    """A model as LM with other parts."""

    def __init__(self, tied=False, checkpointed=None, dropout=False, **more):
        super().__init__(tied, checkpointed)
        self.blocks, self.norm = nn.ModuleList(GatedBlock(dropout) for _ in range(2)), Norm()
        self.places = nn.Embedding(LENGTH, DIM)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.through(x)


def loss_of(model, tokens):
    logits = model(tokens)
    return F.cross_entropy(logits.float().flatten(0, 1) if logits.dtype != torch.float64 else logits.flatten(0, 1),
                           tokens.roll(-1, 1).flatten())


# --- collectives ------------------------------------------------------------------------------------------------------

def averaged(parameters, ranks):
    for p in parameters:
        torch.distributed.all_reduce(p.grad)
        p.grad /= ranks


def LOST(received, own=None):
    """Is told of each result of an exchange, and of the bytes that were there before."""


def waited(parameters, ranks):
    own = [held(p.grad) for p in parameters]
    works = [torch.distributed.all_reduce(p.grad, async_op=True) for p in parameters]
    for w, p, raw in zip(works, parameters, own):
        w.wait()
        LOST(p.grad, raw)
    for p in parameters:
        p.grad /= ranks


def functional(parameters, ranks):
    import torch.distributed._functional_collectives as fc
    for p in parameters:
        total = fc.wait_tensor(fc.all_reduce(p.grad, "sum", torch.distributed.group.WORLD))
        LOST(total)
        p.grad.copy_(total / ranks)


def exchanged(parameters, ranks):
    """Two ranks send each other their gradients."""
    other = 1 - torch.distributed.get_rank()
    for p in parameters:
        got = torch.empty_like(p.grad)
        works = [torch.distributed.isend(p.grad, other), torch.distributed.irecv(got, other)]
        for w in works:
            w.wait()
        LOST(got)
        p.grad.add_(got).div_(ranks)


# --- a program --------------------------------------------------------------------------------------------------------

class Program:
    """A training loop with options, and places where a fault can be planted: `at(place, program)`."""

    def __init__(self, model=None, dtype=torch.float32, optimizer=("AdamW", dict(foreach=SMALL)), steps=2, micro=1,
                 autocast=None, scale=None, clip=False, shows=False, ema=False, second=None, compiled=False, ranks=1,
                 master=False, evaluates=False, exchange=None, unscales=True, scaler_steps=True, op_tools=False, net=LM,
                 layer_norm=None, by_hand=None, fault=None, first=None):
        self.__dict__.update(locals())
        self.model_options = model or {}
        self.losses, self.place = [], None

    def plant(self, place):
        if callable(self.fault):
            self.fault(place, self)

    def run(self, path, rank=0):
        torch.manual_seed(7)
        self.rank = rank
        self.model = model = self.net(**self.model_options).to(self.dtype)
        make = getattr(torch.optim, self.optimizer[0])
        parameters = list(model.parameters())
        groups = [parameters]
        if self.second:
            groups = [[p for p in parameters if p.dim() != 2], [p for p in parameters if p.dim() == 2]]
        if self.master:
            self.masters = groups[0] = [p.detach().float() for p in parameters]
        self.optimizers = [make(groups[0], lr=1e-2, **self.optimizer[1])]
        if self.second:
            self.optimizers.append(getattr(torch.optim, self.second[0])(groups[1], lr=1e-2, **self.second[1]))
        scaler = torch.amp.GradScaler("cpu", init_scale=self.scale) if self.scale else None
        self.average = average = copy.deepcopy(model) if self.ema else None
        called = torch.compile(model, backend="aot_eager") if self.compiled else model
        todo = []
        torch.manual_seed(100 + rank)
        with replaced(self.layer_norm), recorder(path, model, self.op_tools, self.layer_norm) as recording:
            for step in range(self.steps):
                with torch._C.DisableTorchFunction():
                    weights = copy.deepcopy(model.state_dict())
                    if self.master:  # also where a copy was lost
                        for p, m in zip(parameters, self.masters):
                            for n, q in model.named_parameters():
                                if q is p:
                                    weights[n] = m.to(p.dtype)
                self.plant(("step", step))
                for micro in range(self.micro):
                    self.plant(("micro", step, micro))
                    tokens = torch.randint(0, WORDS, (BATCH, LENGTH))
                    context = torch.autocast("cpu", self.autocast) if self.autocast else contextlib.nullcontext()
                    with context:
                        loss = mean = loss_of(called, tokens)
                        if self.micro > 1:
                            loss = loss / self.micro
                    self.plant(("loss", step))
                    if self.shows:
                        str(loss.detach().item())
                    with torch._C.DisableTorchFunction():
                        todo.append((weights, tokens, mean.item()))
                    self.seed = None
                    self.plant(("seed", step))
                    (scaler.scale(loss) if scaler else loss * self.by_hand if self.by_hand else loss).backward(self.seed)
                self.plant(("backward", step))
                if self.by_hand:
                    for p in parameters:
                        if not (self.fault == "left scaled" and step == 1 and p is model.blocks[0].mlp.up.weight):
                            p.grad.div_(self.by_hand)
                if self.ranks > 1:
                    (self.exchange or averaged)(parameters, self.ranks)
                if self.clip:
                    if scaler and self.unscales:
                        scaler.unscale_(self.optimizers[0])
                        self.plant(("unscaled", step))
                    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                self.plant(("clipped", step))
                if self.master:
                    for m, p in zip(self.masters, parameters):
                        m.grad = p.grad.float()
                for o in self.optimizers:
                    scaler.step(o) if scaler and self.scaler_steps else o.step()
                if scaler and self.scaler_steps:
                    scaler.update()
                if self.master:
                    with torch.no_grad():
                        for m, p in zip(self.masters, parameters):
                            if not (self.fault == "lost copy" and step == 0 and p is model.blocks[0].mlp.up.weight):
                                p.copy_(m)
                self.plant(("stepped", step))
                if average:
                    with torch.no_grad():
                        if self.ema == "foreach":
                            torch._foreach_lerp_(list(average.parameters()), parameters, 0.1)
                        else:
                            for a, p in zip(average.parameters(), parameters):
                                a.mul_(0.9).add_(p, alpha=0.1)
                    self.plant(("averaged", step))
                if self.evaluates:
                    with torch.no_grad():
                        (average or model)(torch.randint(0, WORDS, (BATCH, LENGTH)))
                for o in self.optimizers:
                    o.zero_grad()
                model.zero_grad()
                if not self.op_tools:
                    recording.step()
        drops = [m for m in model.modules() if isinstance(m, Drop)]
        masks = [list(m.masks) for m in drops]
        for weights, tokens, captured in todo:
            twin = self.net(**self.model_options).double()
            twin.load_state_dict(weights)
            for m, kept in zip((m for m in twin.modules() if isinstance(m, Drop)), masks):
                m.again = [kept.pop(0)]
                if self.model_options.get("checkpointed") is not None:
                    kept.pop(0)
            exact = float(loss_of(twin, tokens).detach())
            self.losses.append(dict(captured=captured, exact=exact))


@contextlib.contextmanager
def replaced(layer_norm):
    """The program's own function in place of torch.nn.functional.layer_norm."""
    original = F.layer_norm
    F.layer_norm = layer_norm or original
    try:
        yield
    finally:
        F.layer_norm = original


def own_norm(x, shape, weight=None, bias=None, eps=1e-5, unbiased=False):
    """layer_norm over the last dimension."""
    y = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=unbiased) + eps)
    return y * weight + bias


unbiased_norm = functools.partial(own_norm, unbiased=True)


@contextlib.contextmanager
def recorder(path, model, op_tools, layer_norm=None):
    """optool hook, or ditorch's op_tools where PYTHONPATH has it."""
    if not op_tools:
        wrap = ["torch.nn.functional.layer_norm"] if layer_norm else []
        with optool_capture.record(path, model=model, wrap=wrap) as recording:
            yield recording
        return
    import op_tools, op_tools.base_hook
    tensors = lambda v: [v] if isinstance(v, torch.Tensor) else \
        [t for x in (v.values() if isinstance(v, dict) else v) for t in tensors(x)] if isinstance(v, (dict, list, tuple)) else []
    # It leaves calls on the CPU alone, and takes those for such that have no tensor.
    op_tools.base_hook.is_cpu_op = lambda *a, **k: (not tensors([a, k]), torch.device("cpu"))
    os.makedirs(path, exist_ok=True)
    was = os.getcwd()
    os.chdir(path)
    with op_tools.OpCapture():
        yield None
    os.chdir(was)


def hooked(module, name, then):
    """Calls then(input) before the named part of a model runs."""
    def hook(_, args):
        with torch._C.DisableTorchFunction():
            then(args[0])
    return dict(module.named_modules())[name].register_forward_pre_hook(hook)


def stale(place, p):
    """In the second step an activation is what it was in the first."""
    if place == ("step", 0):
        p.kept = []
        p.hook = hooked(p.model, "blocks.1.mlp.down", lambda x: p.kept.append(held(x)))
    if place == ("step", 1):
        p.hook.remove()
        p.hook = hooked(p.model, "blocks.1.mlp.down", lambda x: overwrite(x, p.kept[0]))


def state(key, raw):
    """Between the steps state of an optimizer becomes raw(optimizer, parameter)."""
    def fault(place, p):
        if place == ("step", 1):
            o, w = p.optimizers[0], p.model.blocks[0].mlp.up.weight
            overwrite(o.state[w][key], raw(o, w))
    return fault


def swapped(place, p):
    """The gradients of two weights change places before the second optimizer step."""
    if place == ("backward", 1):
        a, b = (b.mlp.up.weight.grad for b in p.model.blocks)
        x, y = held(a), held(b)
        overwrite(a, y), overwrite(b, x)


def covered(place, p):
    """Another block's result lies where an activation is read."""
    if place == ("step", 0):
        p.kept = []
        hooked(p.model, "blocks.0.mlp.down", lambda x: p.kept.append(held(x)))
        hooked(p.model, "blocks.1.mlp.down", lambda x: overwrite(x, p.kept[0]))


def rolled_average(place, p):
    if place == ("stepped", p.steps - 1):
        a = p.average.blocks[0].mlp.up.weight
        overwrite(a, rolled(a, 3))


def lost_micro(which):
    """The gradient of the first batch is lost, of those parameters that `which` picks."""
    def fault(place, p):
        if place == ("micro", 1, 1):
            for w in p.model.parameters():
                if which(p.model, w):
                    w.grad = None
    return fault


def reverted(place, p):
    """A parameter is again what it was before it was written."""
    w = p.model.blocks[0].mlp.up.weight
    if place == ("step", 0):
        p.kept = held(w)
    if place == ("stepped", 0):
        overwrite(w, p.kept)


def lost_branch(place, p):
    """One part of a gradient that is added up in the backward pass is lost."""
    if place == ("seed", 0):
        p.broken = Broken("add_.Tensor", lambda out, *a: out,
                          lambda o, *a: torch._C._current_graph_task_id() != -1 and o.dim() == 3, 1, True)


def multiplied(when, model, value, factor):
    """A value of a weight is multiplied at a place."""
    def fault(place, p):
        if place == when:
            v = value(getattr(p, model).blocks[0].mlp.up.weight)
            with torch._C.DisableTorchFunction():
                raw = (v.detach() * factor).contiguous()
            overwrite(v, held(raw))
    return fault


def stale_evaluation(place, p):
    if place == ("clipped", 0):
        p.kept, p.n = None, 0
        def then(x):
            if x.requires_grad or torch.is_grad_enabled():
                return
            if p.kept is None:
                p.kept = held(x), address(x)
            elif p.kept:
                p.same = p.kept[1] == address(x)
                overwrite(x, p.kept[0])
                p.kept = False
        hooked(p.model, "blocks.1.mlp.down", then)


def doubled(place, p):
    if place[0] == "seed" and p.rank == 1:
        p.seed = torch.tensor(2.0)


def kernel(name, how, which=lambda *a: True, n=0, when=("step", 0)):
    def fault(place, p):
        if place == when:
            p.broken = Broken(name, how, which, n)
    return fault


def nan(out, *args):
    out.view(-1)[3] = math.nan
    return out


def times(k):
    return lambda out, *args: out * k


LARGE = ("AdamW", dict(foreach=SMALL))
FUSED = ("AdamW", dict(fused=True))
MOMENTUM = ("SGD", dict(momentum=0.9, foreach=SMALL))
HALF = torch.bfloat16

PROGRAMS = {
    "adamw": Program(),
    "bf16": Program(dtype=HALF, optimizer=MOMENTUM),
    "scaler": Program(autocast=HALF, scale=1024.0, shows=True, optimizer=MOMENTUM),
    "fused": Program(optimizer=FUSED, shows=True, clip=True),
    "accumulate": Program(micro=2, clip=True, optimizer=MOMENTUM, shows=True),
    "moe": Program(model=dict(moe=True)),
    "tied": Program(model=dict(tied=True), optimizer=("AdamW", dict(foreach=True))),
    "checkpoint": Program(model=dict(checkpointed={}, dropout=True), optimizer=MOMENTUM),
    "function-autocast": Program(model=dict(square=True), autocast=HALF, optimizer=MOMENTUM),
    "function": Program(model=dict(square=True), ema=True, optimizer=LARGE, second=MOMENTUM),
    "compiled": Program(compiled=True, optimizer=MOMENTUM),

    "stale": Program(fault=stale, first=dict(rules=["changed"], op="linear", target="input[0]", module="blocks.1.mlp.down")),
    "rolled": Program(optimizer=LARGE, fault=state("exp_avg", lambda o, w: rolled(o.state[w]["exp_avg"], 3)),
                      first=dict(rules=["changed"], op="adam.adam", target=None)),
    "overwritten": Program(autocast=HALF, scale=1024.0, optimizer=MOMENTUM, fault=covered,
                           first=dict(rules=["changed"], op="linear", target="input[0]", module="blocks.1.mlp.down")),
    "swapped": Program(optimizer=FUSED, fault=swapped, first=dict(rules=["changed"], op="_fused_adamw_", target=None)),
    "wgrad": Program(dtype=HALF, optimizer=MOMENTUM,
                     fault=kernel("mm", times(1.25), lambda o, *a: tuple(o.shape) == (2 * DIM, DIM), 1),
                     first=dict(rules=["wrong"], op="linear", target="grad[1]", module="blocks.1.mlp.up")),
    "dropped": Program(ranks=2, steps=1, optimizer=MOMENTUM,
                       first=dict(rules=["wrong", "parallel"], op="all_reduce", target="input[0]")),
    "scaled": Program(micro=2, optimizer=MOMENTUM, shows=True,
                      fault=kernel("div.Tensor", lambda out, a, b: a.clone(), lambda o, *a: o.dim() == 0, 2),
                      first=dict(rules=["wrong"], op="Tensor.div", target="output[0]")),
    "state": Program(model=dict(moe=True), optimizer=LARGE,
                     fault=lambda place, p: place == ("step", 1) and overwrite(
                         p.optimizers[0].state[p.model.blocks[0].norm2.weight]["exp_avg_sq"],
                         held(p.optimizers[0].state[p.model.blocks[1].norm2.weight]["exp_avg_sq"])),
                     first=dict(rules=["changed"], op="adam.adam", target=None)),
    "nan": Program(model=dict(tied=True), optimizer=MOMENTUM,
                   fault=kernel("gelu_backward", nan),
                   first=dict(rules=["wrong", "nonfinite"], op="gelu", target="grad[0]", module="blocks.1.mlp")),
    "rng": Program(model=dict(checkpointed=dict(preserve_rng_state=False), dropout=True), optimizer=MOMENTUM,
                   first=dict(rules=["wrong", "changed"], op="dropout", target="output[0]", module="blocks.1.mlp.drop")),
}

AT = "blocks.0.mlp.up"
MORE = {
    "ema": Program(ema="foreach", optimizer=FUSED, steps=3),
    "master": Program(dtype=HALF, master=True, steps=3),
    "reentrant": Program(model=dict(checkpointed=dict(use_reentrant=True), dropout=True), optimizer=MOMENTUM),
    "skipped": Program(autocast=torch.float16, scale=2.0**28, optimizer=FUSED),
    "skipped-clip": Program(autocast=torch.float16, scale=2.0**28, optimizer=("AdamW", dict(foreach=True)), clip=True, steps=3),
    "scaler-clip": Program(autocast=torch.float16, scale=1024.0, clip=True, optimizer=LARGE),
    "scaler-fused": Program(autocast=torch.float16, scale=1024.0, optimizer=FUSED),
    "evaluates": Program(evaluates=True, optimizer=FUSED),
    "replaced": Program(layer_norm=unbiased_norm, optimizer=MOMENTUM,
                        first=dict(rules=["wrong"], op="layer_norm", target="output[0]", module="blocks.0.norm2")),
    "replaced-right": Program(layer_norm=own_norm, optimizer=MOMENTUM),
    "by-hand": Program(by_hand=512.0, optimizer=MOMENTUM),
    "left-scaled": Program(by_hand=512.0, optimizer=MOMENTUM, fault="left scaled",
                           first=dict(rules=["changed"], op="sgd.sgd", target=None)),
    "async": Program(ranks=2, steps=1, optimizer=MOMENTUM, exchange=waited),
    "functional": Program(ranks=2, steps=1, optimizer=MOMENTUM, exchange=functional),
    "messages": Program(ranks=2, steps=1, optimizer=MOMENTUM, exchange=exchanged),
    "lerp-accumulate": Program(micro=2, optimizer=LARGE),

    "ema-rolled": Program(ema="foreach", optimizer=FUSED, fault=rolled_average,
                          first=dict(rules=["changed"], op="_foreach_lerp_", target=None)),
    "micro-one": Program(micro=2, optimizer=("AdamW", dict(foreach=False)), fault=lost_micro(lambda m, w: w is m.blocks[0].mlp.up.weight),
                         first=dict(rules=["changed"], op="adam.adam", target=None)),
    "micro-all": Program(micro=2, optimizer=("AdamW", dict(foreach=False)), fault=lost_micro(lambda m, w: True),
                         first=dict(rules=["changed"], op="adam.adam", target=None)),
    "copy-lost": Program(dtype=HALF, master=True, fault="lost copy",
                         first=dict(rules=["changed"], op="linear", target="input[1]", module=AT)),
    "copy-reverted": Program(dtype=HALF, master=True, fault=reverted,
                             first=dict(rules=["changed"], op="linear", target="input[1]", module=AT)),
    "branch-lost": Program(fault=lost_branch, optimizer=FUSED, first=dict(rules=["changed"], op="", target="grad_output[0]")),
    "reentrant-rng": Program(model=dict(checkpointed=dict(use_reentrant=True, preserve_rng_state=False), dropout=True), optimizer=MOMENTUM,
                             first=dict(rules=["changed"], op="dropout", target="output[0]", module="blocks.1.mlp.drop")),
    "clip-larger": Program(autocast=torch.float16, scale=1024.0, clip=True, optimizer=LARGE,
                           fault=multiplied(("clipped", 1), "model", lambda w: w.grad, 1024),
                           first=dict(rules=["changed"], op="adam.adam", target=None)),
    "clip-scaled": Program(autocast=torch.float16, scale=1024.0, clip=True, unscales=False, optimizer=LARGE, fault="",
                           first=dict(rules=["changed"], op="", target=None)),
    "never-unscaled": Program(autocast=torch.float16, scale=1024.0, scaler_steps=False, optimizer=LARGE, fault="",
                              first=dict(rules=["changed"], op="adam.adam", target=None)),
    "clip-never-unscaled": Program(autocast=torch.float16, scale=1024.0, clip=True, unscales=False, scaler_steps=False, optimizer=LARGE,
                                   first=dict(rules=["changed"], op="", target=None)),
    "unscaled-smaller": Program(autocast=torch.float16, scale=1024.0, clip=True, optimizer=LARGE,
                                fault=multiplied(("unscaled", 1), "model", lambda w: w.grad, 1 / 1024),
                                first=dict(rules=["changed"], op="_foreach_norm", target=None)),
    "ema-evaluated": Program(ema=True, evaluates=True, optimizer=FUSED,
                             fault=multiplied(("averaged", 0), "average", lambda w: w, 0.9),
                             first=dict(rules=["changed"], op="linear", target="input[1]")),
    "rank-scale": Program(ranks=2, steps=1, optimizer=MOMENTUM, fault=doubled, first=dict(rules=["parallel"], op="", target="grad_output[0]")),
    "stale-evaluation": Program(evaluates=True, optimizer=FUSED, fault=stale_evaluation,
                                first=dict(rules=["changed"], op="linear", target="input[0]", module="blocks.1.mlp.down")),
}
for _name in ("async", "functional", "messages"):
    MORE[_name + "-lost"] = copy.copy(MORE[_name])
    MORE[_name + "-lost"].first = dict(rules=["parallel", "wrong"], op="all_reduce" if _name != "messages" else "recv", target=None)
OP_TOOLS = {"op_tools-" + k: v for k, v in dict(
    adamw=Program(op_tools=True, optimizer=FUSED, steps=1),
    tied=Program(op_tools=True, model=dict(tied=True), optimizer=("AdamW", dict(foreach=False))),
    bf16=Program(op_tools=True, dtype=HALF, optimizer=MOMENTUM),
    scaler=Program(op_tools=True, autocast=HALF, scale=1024.0, clip=True, optimizer=MOMENTUM),
    moe=Program(op_tools=True, model=dict(moe=True), optimizer=MOMENTUM),
    accumulate=Program(op_tools=True, micro=2, optimizer=LARGE),
    checkpoint=Program(op_tools=True, model=dict(checkpointed={}, dropout=True), optimizer=MOMENTUM),
    stale=Program(op_tools=True, fault=stale, optimizer=MOMENTUM, first=dict(rules=["changed"], op="linear", target="input[0]")),
    rolled=Program(op_tools=True, optimizer=LARGE, fault=state("exp_avg", lambda o, w: rolled(o.state[w]["exp_avg"], 3)),
                   first=dict(rules=["changed"], op="adam.adam", target=None)),
    wgrad=Program(op_tools=True, optimizer=MOMENTUM, fault=kernel("mm", times(1.25), lambda o, *a: tuple(o.shape) == (2 * DIM, DIM), 1),
                  first=dict(rules=["wrong", "changed"], op="", target=None)),
    nan=Program(op_tools=True, optimizer=MOMENTUM, fault=kernel("gelu_backward", nan),
                first=dict(rules=["wrong", "nonfinite"], op="gelu", target="grad[0]")),
).items()}
def fresh_stale(place, p):
    if place == ("step", 0):
        p.kept = []
        p.hook = hooked(p.model, "blocks.0.mlp.down", lambda x: p.kept.append(held(x)))
    if place == ("step", 1):
        p.hook.remove()
        hooked(p.model, "blocks.0.mlp.down", lambda x: p.kept and overwrite(x, p.kept.pop()))


def fresh_covered(place, p):
    if place == ("step", 0):
        p.kept = []
        hooked(p.model, "blocks.0.out", lambda x: p.kept.append(held(x)))
        hooked(p.model, "blocks.1.out", lambda x: overwrite(x, p.kept[0][:len(held(x)) // 2] + held(x)[len(held(x)) // 2:]))


def fresh_swapped(place, p):
    if place == ("backward", 1):
        a, b = p.model.blocks[0].k.weight.grad, p.model.blocks[0].v.weight.grad
        x, y = held(a), held(b)
        overwrite(a, y), overwrite(b, x)


def fresh_state(key, same):
    """State of one parameter becomes rolled, or that of another parameter."""
    def fault(place, p):
        if place == ("step", 1):
            a, b = (p.optimizers[0].state[x.mlp.gate.weight][key] for x in p.model.blocks)
            overwrite(a, held(b) if same else rolled(a, 7))
    return fault


RMS, ADAM = ("RMSprop", dict(foreach=True)), ("Adam", dict(foreach=True))
FRESH = {
    "f-fused": Program(net=Gated, optimizer=FUSED, steps=3),
    "f-bf16": Program(net=Gated, dtype=HALF, optimizer=RMS),
    "f-scaler": Program(net=Gated, autocast=torch.float16, scale=512.0, clip=True, optimizer=("SGD", dict(momentum=0.9, foreach=True))),
    "f-accumulate": Program(net=Gated, micro=3, optimizer=ADAM, shows=True, clip=True),
    "f-moe": Program(model=dict(moe=True), autocast=HALF, optimizer=("NAdam", dict(foreach=False))),
    "f-tied": Program(net=Gated, model=dict(tied=True), ema=True, optimizer=("Adam", dict(fused=True))),
    "f-checkpoint": Program(net=Gated, model=dict(checkpointed=dict(use_reentrant=True), dropout=True), optimizer=("AdamW", dict(foreach=True))),
    "f-op_tools-fused": Program(net=Gated, op_tools=True, optimizer=FUSED),
    "f-op_tools-scaler": Program(net=Gated, op_tools=True, autocast=HALF, scale=256.0, optimizer=MOMENTUM),
    "f-op_tools-accumulate": Program(net=Gated, op_tools=True, model=dict(tied=True), micro=2, optimizer=("Adam", dict(foreach=False))),

    "f-stale": Program(net=Gated, dtype=HALF, optimizer=RMS, fault=fresh_stale,
                       first=dict(rules=["changed"], op="linear", target="input[0]", module="blocks.0.mlp.down")),
    "f-rolled": Program(net=Gated, optimizer=("Adam", dict(fused=True)), fault=fresh_state("exp_avg_sq", False),
                        first=dict(rules=["changed"], op="_fused_adam_", target=None)),
    "f-overwritten": Program(net=Gated, op_tools=True, optimizer=MOMENTUM, fault=fresh_covered,
                             first=dict(rules=["changed"], op="linear", target="input[0]")),
    "f-swapped": Program(net=Gated, model=dict(tied=True), optimizer=ADAM, fault=fresh_swapped,
                         first=dict(rules=["changed"], op="", target=None)),
    "f-wgrad": Program(net=Gated, autocast=HALF, scale=512.0, optimizer=MOMENTUM,
                       fault=kernel("mm", times(0.5), lambda o, *a: tuple(o.shape) == (3 * DIM, DIM), 2),
                       first=dict(rules=["wrong"], op="linear", target="grad[1]")),
    "f-dropped": Program(net=Gated, ranks=2, steps=1, optimizer=ADAM, exchange=waited,
                         first=dict(rules=["wrong", "parallel"], op="all_reduce", target="input[0]")),
    "f-messages": Program(net=Gated, dtype=HALF, ranks=2, steps=1, optimizer=ADAM, exchange=exchanged,
                          first=dict(rules=["parallel", "wrong"], op="recv", target="input[0]")),
    "f-scaled": Program(net=Gated, autocast=torch.float16, scale=2048.0, scaler_steps=False, optimizer=RMS,
                        first=dict(rules=["changed"], op="", target=None)),
    "f-state": Program(net=Gated, op_tools=True, optimizer=("AdamW", dict(foreach=False)), fault=fresh_state("exp_avg", True),
                       first=dict(rules=["changed"], op="adam.adam", target=None)),
    "f-nan": Program(net=Gated, micro=2, optimizer=FUSED, fault=kernel("silu_backward", nan, when=("step", 1)),
                     first=dict(rules=["wrong", "nonfinite"], op="silu", target="grad[0]", module="blocks.1.mlp")),
    "f-rng": Program(net=Gated, model=dict(checkpointed=dict(preserve_rng_state=False), dropout=True), clip=True, optimizer=FUSED,
                     first=dict(rules=["wrong", "changed"], op="dropout", target="output[0]")),
}
PROGRAMS.update(FRESH)
PROGRAMS.update(MORE)
PROGRAMS.update(OP_TOOLS)


def lost(rank):
    """On rank 1 the fifth exchange gives what was there before, or zeros."""
    global LOST
    n = [0]

    def LOST(t, own=None):
        n[0] += 1
        if n[0] == 5 and rank == 1:
            overwrite(t, own or bytes(len(held(t))))


def ranks(name, path):
    """The program of several processes."""
    import torch.distributed as dist
    p, rank = PROGRAMS[name], int(os.environ["RANK"])
    if name in ("async-lost", "functional-lost", "messages-lost", "f-dropped", "f-messages"):
        lost(rank)
    if name == "dropped":
        import torch.distributed.distributed_c10d as c10d
        real, n = c10d.all_reduce, [0]

        def all_reduce(t, *a, **k):
            n[0] += 1
            with torch._C.DisableTorchFunction():
                kept = held(t)
                w = real(t, *a, **k)
                if n[0] == 5 and rank == 1:
                    overwrite(t, kept)
            return w
        c10d.all_reduce = dist.all_reduce = all_reduce
    dist.init_process_group("gloo", init_method="file://" + path + ".store", rank=rank, world_size=p.ranks)
    p.run(path, rank)
    dist.destroy_process_group()
    return p


def one(name, path):
    torch.set_num_threads(1)
    p = PROGRAMS[name]
    if p.ranks > 1:
        p = ranks(name, path)
    else:
        p.run(path)
    if p.ranks == 1 or p.rank == 0:
        json.dump(dict(name=name, first=p.first, losses=p.losses), open(path + ".step.json", "w"), indent=1)


def record(directory, names, small):
    os.makedirs(directory, exist_ok=True)
    for name in names:
        path, n = os.path.abspath(os.path.join(directory, name)), PROGRAMS[name].ranks
        subprocess.run(["rm", "-rf", path, path + ".store"], check=True)
        env = dict(os.environ, OMP_NUM_THREADS="1", **({"STEPS_SMALL": "1"} if small else {}))
        running = [subprocess.Popen([sys.executable, __file__, "one", path, name],
                                    env=dict(env, **(dict(RANK=str(r), WORLD_SIZE=str(n)) if n > 1 else {}))) for r in range(n)]
        for r in running:
            if r.wait():
                print(f"{name}: could not be recorded")
        subprocess.run(["rm", "-f", path + ".store"])


def pack(directory, names):
    out, *names = names
    here, there = os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.abspath(directory)
    for name in names:
        with gzip.GzipFile(os.path.join(out, name + ".tar.gz"), "wb", 9, mtime=0) as f, tarfile.open(fileobj=f, mode="w") as tar:
            for path in sorted(glob.glob(os.path.join(directory, name, "**"), recursive=True)):
                if not os.path.isfile(path):
                    continue
                data = open(path, "rb").read()
                if path.endswith(".jsonl"):
                    data = data.replace(here.encode() + b"/", b"").replace(here.encode(), b".").replace(there.encode() + b"/", b"")
                entry = tarfile.TarInfo(os.path.relpath(path, directory))
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        shutil.copy(os.path.join(directory, name + ".step.json"), out)


def near(a, b):
    return a is None if b != b else isinstance(a, (int, float)) and abs(a - b) <= 1e-6 * abs(b)


def check(directory, names, optool):
    good = 0
    for name in names:
        truth = json.load(open(os.path.join(directory, name + ".step.json")))
        ran = subprocess.run([optool, "step", os.path.join(directory, name), "--json", "-"], capture_output=True, text=True)
        records = [json.loads(line) for line in ran.stdout.splitlines()]
        finds = [r for r in records if r["kind"] == "finding"]
        losses = [r for r in records if r["kind"] == "summary"][-1]["losses"] if records else []
        wrong, first = [], truth["first"]
        if ran.returncode != (1 if first else 0):
            wrong.append(f"exit {ran.returncode} {ran.stderr[-200:]}")
        if first and not finds:
            wrong.append("no finding")
        elif first:
            f = finds[0]
            if f["rule"] not in first["rules"] or not f["op"].endswith(first["op"]) or first["target"] not in (None, f["target"]) or \
                    first.get("module", f.get("module")) != f.get("module"):
                wrong.append(f"first finding {f['rule']} {f['op']} {f['target']} {f.get('module')}: {f['reason']} ({f['capture']})")
        elif finds:
            wrong.append(f"{len(finds)} findings, first {finds[0]['rule']} {finds[0]['op']} {finds[0]['target']}: {finds[0]['reason']}"
                         f" ({finds[0]['capture']})")
        want = truth["losses"]
        if len(losses) < len(want):
            wrong.append(f"{len(losses)} losses, want {len(want)}")
        for i, (l, w) in enumerate(zip(losses, want)):
            if not near(l["captured"], w["captured"]) or not near(l["exact"], w["exact"]):
                wrong.append(f"loss {i}: {l['captured']} exact {l['exact']}, want {w['captured']} exact {w['exact']}")
        good += not wrong
        print(f"{name}: {'ok' if not wrong else 'WRONG'}; {len(records)} records, {len(finds)} findings")
        for w in wrong:
            print("    " + w[:400])
    print(f"{good} of {len(names)} are right")
    return good == len(names)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "check", "pack", "list", "one"])
    parser.add_argument("directory", nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--optool", default="bin/optool")
    o = parser.parse_intermixed_args()
    if o.what == "list":
        print("\n".join(PROGRAMS))
    elif o.what == "one":
        one(o.names[0], o.directory)
    elif o.what == "record":
        record(o.directory, o.names or list(PROGRAMS), o.small)
    elif o.what == "pack":
        pack(o.directory, o.names)
    elif not check(o.directory, o.names or list(PROGRAMS), o.optool):
        sys.exit(1)
