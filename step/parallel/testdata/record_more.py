"""Records further programs of this directory: python record_more.py NAME DIRECTORY, with optool_capture.py on the path."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F


def seeded(m, seed=0):
    g = torch.Generator().manual_seed(seed)
    for p in m.parameters(): p.data = torch.randn(p.shape, generator=g) * 0.3
    return m
def pipeline(rank, rec, first, last, xs, ys, loss, after=None, steps=1):
    m = first if rank == 0 else last
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    with rec as recording:
        for step in range(steps):
            outs, ins = [], []
            n = len(xs)
            for i in range(n):
                if rank == 0:
                    y = m(xs[i]); dist.send(y.detach(), 1); outs.append(y)
                else:
                    x = torch.empty(*first.shape); dist.recv(x, 0); x.requires_grad_()
                    l = loss(m(x), ys[i]) / n; l.backward(); ins.append(x)
            for i in range(n):
                if rank == 0:
                    d = torch.empty_like(outs[i]); dist.recv(d, 1); outs[i].backward(d)
                else: dist.send(ins[i].grad, 0)
            if after: after(m)
            opt.step(); opt.zero_grad(); recording.step()
def leaf(rank, rec, kept=False):
    """One leaf takes all microbatches; its gradient is cleared for each, or adds up."""
    g = torch.Generator().manual_seed(3)
    xs, ys = torch.randn(3, 3, 6, generator=g), torch.randn(3, 3, 6, generator=g)
    m = seeded(Layer(), rank); opt = torch.optim.SGD(m.parameters(), lr=0.1, foreach=False)
    one = None
    with rec as recording:
        for x, t in zip(xs, ys):
            if rank == 0:
                y = m(x); dist.send(y.detach(), 1); d = torch.empty_like(y); dist.recv(d, 1); y.backward(d)
                continue
            h = torch.empty(3, 6); dist.recv(h, 0)
            if one is None: one = h.requires_grad_()
            else: one.data = h
            if not kept: one.grad = None
            (F.mse_loss(m(one), t) / 3).backward(); dist.send(one.grad, 0)
        opt.step(); opt.zero_grad(); recording.step()
def leafkept(rank, rec): leaf(rank, rec, True)
class Layer(nn.Module):
    def __init__(self): super().__init__(); self.fc = nn.Linear(6, 6)
    def forward(self, x): return x + torch.tanh(self.fc(x))
def copies(rank, rec):
    a, b = seeded(Layer()), seeded(Layer()); a.shape = (3, 6)
    g = torch.Generator().manual_seed(1)
    pipeline(rank, rec, a, b, [torch.randn(3, 6, generator=g) for _ in range(2)], [torch.randn(3, 6, generator=g) for _ in range(2)], F.mse_loss)
class Embed(nn.Module):
    shape = (2, 8, 6)
    def __init__(self): super().__init__(); self.table = nn.Embedding(11, 6)
    def forward(self, t): return self.table(t)
class Head(nn.Module):
    def __init__(self): super().__init__(); self.head = nn.Linear(6, 11, bias=False)
    def forward(self, x): return self.head(torch.tanh(x))
def ce(o, t): return F.cross_entropy(o.flatten(0, 1), t.flatten())
def stale(rank, rec, off=1):
    g = torch.Generator().manual_seed(1); t = [torch.randint(0, 11, (2, 9), generator=g) for _ in range(3)]
    pipeline(rank, rec, seeded(Embed()), seeded(Head(), 3), [x[:, :-1] for x in t], [t[max(i - off, 0)][:, 1:] for i in range(3)], ce)
def fresh(rank, rec): stale(rank, rec, 0)
def unused(rank, rec):
    g = torch.Generator().manual_seed(1); t = [torch.randint(0, 11, (2, 9), generator=g) for _ in range(2)]
    def after(m):
        p = next(m.parameters()); s = p.grad.clone(); dist.all_reduce(s)
        if rank == 0: p.grad = s
    pipeline(rank, rec, seeded(Embed()), seeded(Head()), [x[:, :-1] for x in t], [x[:, 1:] for x in t], ce, after)
class Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.view_as(x)
    @staticmethod
    def backward(ctx, d): d = d.clone(); dist.all_reduce(d); return d
class Half(nn.Module):
    def __init__(self, rank):
        super().__init__(); g = torch.Generator().manual_seed(2)
        self.bias = nn.Parameter(torch.randn(24, generator=g))
        self.up = nn.Parameter(torch.randn(2, 10, 24, generator=g)[rank].mul(0.2).clone()); self.down = nn.Parameter(torch.randn(2, 24, 10, generator=g)[rank].mul(0.2).clone())
    def forward(self, x):
        h = x + self.bias
        return h + F.linear(torch.tanh(F.linear(Enter.apply(h), self.up)), self.down)
def apart(rank, rec):
    m = Half(rank)
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    g = torch.Generator().manual_seed(5)
    with rec as recording:
        for step in range(2):
            x = torch.randn(5, 24, generator=g); y = torch.randn(5, 24, generator=g)
            loss = F.mse_loss(m(x), y); loss.backward()
            opt.step(); opt.zero_grad(); recording.step()
def ring(rank, rec, late=False, count=False):
    g = torch.Generator().manual_seed(2)
    q, k = (torch.randn(8, 8, generator=g).mul(0.4).requires_grad_() for _ in range(2)); pos = torch.randn(12, 8, generator=g).requires_grad_(); head = torch.randn(5, 8, generator=g).requires_grad_()
    opt = torch.optim.SGD([q, k, pos, head], lr=0.01)
    class Pass(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = torch.empty_like(x)
            for w in [dist.isend(x.contiguous(), 1 - rank), dist.irecv(out, 1 - rank)]: w.wait()
            return out
        @staticmethod
        def backward(ctx, d): return Pass.forward(ctx, d)
    with rec as recording:
        x = torch.randn(2, 12, 8, generator=g)[:, rank * 6: rank * 6 + 6]; y = torch.randint(0, 5, (2, 12), generator=g)[:, rank * 6: rank * 6 + 6].clone()
        if rank == 0: y[0, :3] = -100
        at = torch.arange(6) if late else rank * 6 + torch.arange(6)
        h = x + F.embedding(at, pos)
        a, b = F.linear(h, q), F.linear(h, k)
        c = Pass.apply(b)
        s = torch.stack([b, c]) if rank == 0 else torch.stack([c, b])
        o = (a[None] @ s.transpose(-1, -2)).softmax(-1) @ s
        n = (y >= 0).sum()
        if not count: dist.all_reduce(n)
        loss = F.cross_entropy(F.linear(h + o.mean(0), head).flatten(0, 1), y.flatten(), reduction="sum") / n
        loss.backward()
        for p in (q, k, pos, head): dist.all_reduce(p.grad)
        opt.step(); opt.zero_grad(); recording.step()
def ringlate(rank, rec): ring(rank, rec, late=True)
def ringcount(rank, rec): ring(rank, rec, count=True)
def chosen(rank, rec, wrong=True):
    g = torch.Generator().manual_seed(2)
    router = torch.randn(4, 6, generator=g).requires_grad_(); ws = [torch.randn(6, 6, generator=g).mul(0.4) for _ in range(4)][rank * 2: rank * 2 + 2]; ws = [w.requires_grad_() for w in ws]
    class A2A(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, out, inp):
            ctx.c = out, inp; y = x.new_empty(sum(out), 6); dist.all_to_all_single(y, x.contiguous(), out, inp); return y
        @staticmethod
        def backward(ctx, d):
            out, inp = ctx.c; y = d.new_empty(sum(inp), 6); dist.all_to_all_single(y, d.contiguous(), inp, out); return y, None, None
    opt = torch.optim.SGD([router] + ws, lr=0.01)
    with rec as recording:
        x = torch.randn(2, 9, 6, generator=g)[rank]; t = torch.randn(2, 9, 6, generator=g)[rank]
        x = torch.tanh(x)
        w, idx = F.linear(x, router).softmax(-1).topk(2, -1)
        flat = idx.flatten(); order = flat.argsort(stable=True)
        rows = x.repeat_interleave(2, 0)[order]
        send = torch.bincount(flat, minlength=4).view(2, 2); got = torch.empty_like(send); dist.all_to_all_single(got, send)
        inp, out = send.sum(1).tolist(), got.sum(1).tolist()
        r = A2A.apply(rows, out, inp)
        which = torch.arange(2).repeat_interleave(got.sum(0)) if wrong else torch.arange(2).repeat(2).repeat_interleave(got.flatten())
        res = torch.zeros_like(r)
        for e in range(2):
            sel = (which == e).nonzero()[:, 0]; res = res.index_add(0, sel, F.linear(r[sel], ws[e]))
        back = A2A.apply(res, inp, out); inv = torch.empty_like(order); inv[order] = torch.arange(18)
        y = (back[inv].view(9, 2, 6) * w[..., None]).sum(1)
        loss = F.mse_loss(y, t); loss.backward()
        dist.all_reduce(router.grad); router.grad /= 2
        for p in ws: p.grad /= 2
        opt.step(); opt.zero_grad(); recording.step()
def chosenright(rank, rec): chosen(rank, rec, False)
def clipped(rank, rec):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, Replicate, Partial, distribute_tensor
    mesh = init_device_mesh("cpu", (2,))
    g = torch.Generator().manual_seed(2)
    class Net(nn.Module):
        def __init__(self): super().__init__(); self.norm = nn.RMSNorm(6)
        def forward(self, x): return self.norm(x)
    m = Net()
    m.norm.weight = nn.Parameter(DTensor.from_local(torch.ones(6), mesh, [Replicate()]))
    opt = torch.optim.SGD(m.parameters(), lr=0.1, foreach=False)
    with rec as recording:
        x = distribute_tensor(torch.randn(4, 6, generator=g), mesh, [Shard(0)])
        loss = m(x).pow(2).mean(); loss = loss + m(x).exp().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 0.1, foreach=False)
        opt.step(); opt.zero_grad(); recording.step()
def wrapped(rank, rec, inside=False):
    """The loss calls DistributedDataParallel, or the module inside of it."""
    g = torch.Generator().manual_seed(2)
    m = torch.nn.parallel.DistributedDataParallel(seeded(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))))
    opt = torch.optim.SGD(m.parameters(), lr=0.1, foreach=False)
    with rec as recording:
        x = torch.randn(2, 5, 6, generator=g)[rank]; t = torch.randn(2, 5, 4, generator=g)[rank]
        loss = F.mse_loss((m.module if inside else m)(x), t); loss.backward()
        opt.step(); opt.zero_grad(); recording.step()
def inside(rank, rec): wrapped(rank, rec, True)
class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): x = x.clone(); dist.all_reduce(x); return x
    @staticmethod
    def backward(ctx, d): return d
def offsets(rank, rec, first=6, shard=1):
    """Parts of a table of 12 rows, looked up by the same ids."""
    g = torch.Generator().manual_seed(2)
    table = torch.randn(12, 4, generator=g); last = torch.randn(3, 4, generator=g).requires_grad_()
    ids, t = torch.randint(0, 12, (2, 7), generator=g), torch.randn(2, 7, 3, generator=g)
    off, part = (first, shard) if rank else (0, 0)
    w = table[part * 6:part * 6 + 6].clone().requires_grad_(); opt = torch.optim.SGD([w, last], lr=0.1, foreach=False)
    with rec as recording:
        hidden = (ids < off) | (ids >= off + 6)
        x = F.embedding((ids - off).masked_fill(hidden, 0), w).masked_fill(hidden[..., None], 0)
        loss = F.mse_loss(F.linear(Sum.apply(x), last), t); loss.backward()
        opt.step(); opt.zero_grad(); recording.step()
def offsetzero(rank, rec): offsets(rank, rec, 0)
def offsetcopied(rank, rec): offsets(rank, rec, 6, 0)
class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): y = [torch.empty_like(x) for _ in range(2)]; dist.all_gather(y, x.contiguous()); return torch.cat(y, 0)
    @staticmethod
    def backward(ctx, d): d = d.contiguous().clone(); dist.all_reduce(d); return d.chunk(2, 0)[dist.get_rank()]
def rotated(rank, rec, turn=None, mask=None):
    """Each rank has the outer or the inner quarters of a sequence: turn counts the positions of the rotation, mask those of the mask."""
    quarters = lambda r: torch.cat([torch.arange(3 * r, 3 * r + 3), torch.arange(9 - 3 * r, 12 - 3 * r)])
    turn, mask = turn or quarters, mask or quarters
    g = torch.Generator().manual_seed(2)
    table, w = torch.randn(16, 4, generator=g).requires_grad_(), torch.randn(12, 4, generator=g).requires_grad_()
    ids = torch.randint(0, 16, (13,), generator=g); opt = torch.optim.SGD([table, w], lr=0.1, foreach=False)
    t, y = ids[quarters(rank)], ids[quarters(rank) + 1]
    with rec as recording:
        q, k, v = F.linear(F.embedding(t, table), w).chunk(3, -1)
        a = turn(rank).float()[:, None] / torch.tensor([1.0, 7.0]); c, s = a.cos(), a.sin()
        def turned(x): return torch.cat([x[:, :2] * c - x[:, 2:] * s, x[:, 2:] * c + x[:, :2] * s], -1)
        q, k, v = turned(q), Rows.apply(turned(k)), Rows.apply(v)
        sees = mask(rank)[:, None] >= torch.cat([mask(0), mask(1)])[None]
        o = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=sees)[0]
        loss = F.cross_entropy(F.linear(o, table), y); loss.backward()
        for p in (table, w): dist.all_reduce(p.grad); p.grad /= 2
        opt.step(); opt.zero_grad(); recording.step()
def halves(r): return torch.arange(6 * r, 6 * r + 6)
def rotatedturn(rank, rec): rotated(rank, rec, turn=halves)
def rotatedmask(rank, rec): rotated(rank, rec, mask=halves)
def taken(rank, rec, other=None, targets=False):
    """Each rank takes rows of all data and labels, or compares with its own data."""
    g = torch.Generator().manual_seed(2); o = rank if other is None else other(rank)
    w = torch.randn(6, 6, generator=g).requires_grad_(); opt = torch.optim.SGD([w], lr=0.1, foreach=False)
    x, y = torch.randn(8, 6, generator=g), torch.randint(0, 6, (8,), generator=g)
    xs, ts = x[rank * 4:rank * 4 + 4].clone(), x[o * 4:o * 4 + 4].clone()
    with rec as recording:
        if targets: loss = F.mse_loss(F.linear(xs, w), ts)
        else: loss = F.cross_entropy(F.linear(x[rank * 4:rank * 4 + 4], w), y[o * 4:o * 4 + 4])
        loss.backward(); dist.all_reduce(w.grad); w.grad /= 2
        opt.step(); opt.zero_grad(); recording.step()
def takenother(rank, rec): taken(rank, rec, lambda r: 1 - r)
def targets(rank, rec): taken(rank, rec, None, True)
def targetsother(rank, rec): taken(rank, rec, lambda r: 0, True)
def swap(x, split, cat):
    parts = torch.stack(x.chunk(2, split)); y = torch.empty_like(parts); dist.all_to_all_single(y, parts); return torch.cat(list(y), cat)
class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, split, cat): ctx.dims = split, cat; return swap(x, split, cat)
    @staticmethod
    def backward(ctx, d): split, cat = ctx.dims; return swap(d, cat, split), None, None
def given(rank, rec, back=(0, 1)):
    """Ranks exchange parts of a sequence for heads, and back: back says along which dimensions."""
    g = torch.Generator().manual_seed(2)
    w, o = torch.randn(24, 8, generator=g).requires_grad_(), torch.randn(8, 8, generator=g).requires_grad_()
    x, t = torch.randn(8, 8, generator=g)[rank * 4:rank * 4 + 4], torch.randn(8, 8, generator=g)[rank * 4:rank * 4 + 4]
    opt = torch.optim.SGD([w, o], lr=0.1, foreach=False)
    with rec as recording:
        q, k, v = (Swap.apply(a.view(4, 4, 2), 1, 0).transpose(0, 1) for a in F.linear(x, w).chunk(3, -1))
        y = Swap.apply(F.scaled_dot_product_attention(q, k, v).transpose(0, 1), *back).reshape(4, 8)
        loss = F.mse_loss(x + F.linear(y, o), t); loss.backward()
        for p in (w, o): dist.all_reduce(p.grad); p.grad /= 2
        opt.step(); opt.zero_grad(); recording.step()
def givenswapped(rank, rec): given(rank, rec, (1, 0))

PROGRAMS = {"copied": copies, "leaf": leaf, "leaf-kept": leafkept, "labels": fresh, "labels-stale": stale, "tied-unused": unused, "apart-unsummed": apart,
            "around-ring": ring, "around-ring-late": ringlate, "around-ring-counts": ringcount,
            "chosen": chosenright, "chosen-other": chosen, "clip-placed": clipped, "offsets": offsets, "offsets-zero": offsetzero, "offsets-copied": offsetcopied,
            "rotated": rotated, "rotated-turn": rotatedturn, "rotated-mask": rotatedmask,
            "taken": taken, "taken-other": takenother, "targets": targets, "targets-other": targetsother,
            "given": given, "given-swapped": givenswapped,
            "wrapped": wrapped, "wrapped-inside": inside}


def work(rank, name, directory, port):
    import optool_capture

    dist.init_process_group("gloo", init_method="file://" + port, rank=rank, world_size=2)
    PROGRAMS[name](rank, optool_capture.record(directory, steps=[1] if name == "apart-unsummed" else [0]))
    dist.destroy_process_group()


if __name__ == "__main__":
    port = os.path.abspath(sys.argv[2] + ".port")
    mp.start_processes(work, (sys.argv[1], sys.argv[2], port), nprocs=2, start_method="fork")
    os.remove(port)
