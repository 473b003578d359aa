"""Records the programs of this directory: python record.py NAME DIRECTORY, with optool_capture.py on the path."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F


class Copy(torch.autograd.Function):
    """The same on all ranks; the gradient is summed."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g, group=ctx.group)
        return g, None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, None


class Both(torch.autograd.Function):
    """The sum of all ranks, and of their gradients."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class Exchange(torch.autograd.Function):
    """Rows for other ranks, as many as they say; the gradients go back."""

    @staticmethod
    def forward(ctx, x, give, take):
        ctx.sizes = give, take
        y = x.new_empty(sum(take), x.shape[1])
        dist.all_to_all_single(y, x.contiguous(), take, give)
        return y

    @staticmethod
    def backward(ctx, g):
        give, take = ctx.sizes
        x = g.new_empty(sum(give), g.shape[1])
        dist.all_to_all_single(x, g.contiguous(), give, take)
        return x, None, None


class Shift(torch.autograd.Function):
    """Each rank sends its value to the next one; the gradients go back, or on."""

    @staticmethod
    def shift(x, to, fr):
        y = torch.zeros_like(x)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x.contiguous(), to), dist.P2POp(dist.irecv, y, fr)]):
            work.wait()
        return y

    @staticmethod
    def forward(ctx, x, back):
        rank, size = dist.get_rank(), dist.get_world_size()
        ctx.peers = (rank + 1) % size, (rank - 1) % size
        ctx.back = back
        return Shift.shift(x, *ctx.peers)

    @staticmethod
    def backward(ctx, g):
        to, fr = ctx.peers
        return Shift.shift(g, *((fr, to) if ctx.back else (to, fr))), None


def ring(rank, name, directory):
    """The rows of all ranks pass each rank."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 4, 4)
    torch.manual_seed(5)
    x = torch.randn(6, 4).chunk(3)[rank]
    with optool_capture.record(directory, model=model):
        h = F.linear(x, model.up)
        total, passed = torch.zeros_like(h), h
        for _ in range(2):
            total = total + passed.sin()
            passed = Shift.apply(passed, name == "ring")
        ((total + passed).square().mean() / 3).backward()
        dist.all_reduce(model.up.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def blocks(rank, name, directory):
    """Attention to the keys and values of all ranks, which pass each rank; the sums over blocks are scaled anew."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 12, 4)
    torch.manual_seed(5)
    x = 2 * torch.randn(6, 4).chunk(3)[rank]
    with optool_capture.record(directory, model=model):
        q, k, v = F.linear(x, model.up).chunk(3, -1)
        for i in range(3):
            scores = q @ k.t()
            largest = scores.amax(-1, keepdim=True).detach()
            if i == 0:
                top, total = largest, 0
                p = (scores - top).exp()
                total, out = p.sum(-1, keepdim=True), p @ v
            else:
                now = torch.maximum(top, largest)
                p, scale, top = (scores - now).exp(), (top - now).exp(), now
                total = total * scale + p.sum(-1, keepdim=True)
                out = (out if name == "blocks-kept" else out * scale) + p @ v
            if i < 2:
                k = Shift.apply(k, True)
                v = v if name == "blocks-values" else Shift.apply(v, True)
        ((out / total).square().mean() / 3).backward()
        dist.all_reduce(model.up.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def routed(rank, name, directory):
    """Each rank has two experts; the rows that it gets may be told apart by other numbers.

    The rows may be shifted once they are back, or their weights be in another order, as on one device.
    """
    import optool_capture

    model = torch.nn.Module()
    model.gate, model.up = part(1, None, 4, 4), part(2, 0, 4, 4, 4)
    torch.manual_seed(5)
    x = torch.randn(16, 4).chunk(2)[rank]
    with optool_capture.record(directory, model=model):
        weight, expert = F.linear(x, model.gate).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        give = torch.bincount(expert, minlength=4)
        take = torch.empty_like(give)
        dist.all_to_all_single(take, give)
        sizes = give.view(2, 2).sum(1).tolist(), take.view(2, 2).sum(1).tolist()
        rows = Exchange.apply(x[order], *sizes)
        local = torch.arange(2).repeat(2)
        if name == "routed-other":
            local = torch.arange(2).repeat_interleave(2)
        local = local.repeat_interleave(take)
        at = local.argsort(stable=True)
        n = int((local == 0).sum())
        y = torch.cat([rows[at[:n]] @ model.up[0], rows[at[n:]] @ model.up[1]])[at.argsort()]
        y = torch.zeros_like(x).index_copy(0, order, Exchange.apply(y, *sizes[::-1]))
        if name == "routed-shifted":
            y = y.roll(1, 0)
        if name == "routed-weights":
            weight = weight[order]
        ((x + y * weight[:, None]).square().mean() / 2).backward()
        dist.all_reduce(model.gate.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def micro(rank, name, directory):
    """Three losses of one line; the last may not be divided by their number. micro-first: FSDP2 adds up over the ranks
    what the first gives, instead of the last."""
    import optool_capture

    if name == "micro-first":
        from torch.distributed.fsdp import fully_shard

        torch.manual_seed(1)
        model = fully_shard(torch.nn.Linear(8, 8))
        x = torch.randn(12, 8).chunk(2)[rank].chunk(3)
        with optool_capture.record(directory, model=model):
            for i in range(3):
                model.set_requires_gradient_sync(i == 0)
                (model(x[i]).square().mean() / 3).backward()
            torch.optim.SGD(model.parameters(), lr=0.1, foreach=False).step()
        return
    model = torch.nn.Module()
    model.up = part(2, None, 4, 4)
    torch.manual_seed(5)
    x = torch.randn(12, 4).chunk(2)[rank].chunk(3)
    with optool_capture.record(directory, model=model):
        for i in range(3):
            loss = F.linear(x[i], model.up).square().mean()
            if i < 2 or name == "micro":
                loss = loss / 3
            loss.backward()
        dist.all_reduce(model.up.grad)
        model.up.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Turns(torch.autograd.Function):
    """The rows of all ranks times a weight; they pass the ranks while others are multiplied."""

    @staticmethod
    def forward(ctx, x, w, turned, alone):
        ctx.alone = alone
        rank, parts, all = dist.get_rank(), [None] * 3, [None] * 3
        x = x.contiguous()
        for i in range(3):
            at = (rank - i) % 3
            all[at], parts[(rank + i) % 3 if turned else at] = x, x @ w.t()
            if i < 2:
                y = torch.empty_like(x)
                ops = [dist.P2POp(dist.isend, x, (rank + 1) % 3), dist.P2POp(dist.irecv, y, (rank - 1) % 3)]
                for r in dist.batch_isend_irecv(ops):
                    r.wait()
                x = y
        ctx.save_for_backward(torch.cat(all), w)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        d = g @ w
        if not ctx.alone:
            dist.all_reduce(d)
        return d.chunk(3)[dist.get_rank()].contiguous(), g.t() @ x, None, None


def turns(rank, name, directory):
    """The parts of a weight that the ranks have are multiplied by the rows of all ranks in turn."""
    import optool_capture

    model = torch.nn.Module()
    model.norm = part(1, None, 4)
    model.up = torch.nn.Parameter(part(2, None, 6, 4).detach().chunk(3)[rank].clone())
    model.down = torch.nn.Parameter(part(3, None, 4, 6).detach().chunk(3, 1)[rank].clone())
    torch.manual_seed(5)
    x = torch.randn(6, 4).chunk(3)[rank]
    with optool_capture.record(directory, model=model):
        h = Turns.apply(F.layer_norm(x, (4,), model.norm), model.up, name == "turns-order", name == "turns-back")
        h = F.linear(F.gelu(h), model.down)
        Reduce.apply(h, dist.group.WORLD).square().mean().backward()
        dist.all_reduce(model.norm.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Vocabulary(torch.autograd.Function):
    """The cross entropy of scores of which each rank has a part."""

    @staticmethod
    def forward(ctx, z, labels, low, masked):
        top = z.amax(-1)
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
        z = z - top[:, None]
        other = (labels < low) | (labels >= low + z.shape[1])
        at = (labels - low).masked_fill(other, 0)
        score = z.gather(1, at[:, None])[:, 0].masked_fill(other, 0.0)
        dist.all_reduce(score)
        e = z.exp()
        total = e.sum(-1)
        dist.all_reduce(total)
        ctx.save_for_backward(e / total[:, None], at, other)
        ctx.masked = masked
        return total.log() - score

    @staticmethod
    def backward(ctx, g):
        d, at, other = ctx.saved_tensors
        d = d.clone()
        d[torch.arange(len(at)), at] -= (~other).float() if ctx.masked else 1.0
        return d * g[:, None], None, None, None


def vocabulary(rank, name, directory):
    """Scores of a sharded vocabulary; their gradient may take the labels of other ranks for its first."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, 0, 8, 4)
    torch.manual_seed(5)
    x, labels = torch.randn(6, 4), torch.randint(8, (6,))
    with optool_capture.record(directory, model=model):
        z = F.linear(Copy.apply(x.requires_grad_(), dist.group.WORLD), model.up)
        Vocabulary.apply(z, labels, 4 * rank, name == "vocabulary").mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def batch(rank, name, directory):
    """Ranks with other experts, which they call by lines of their own, count the rows of all."""
    import optool_capture

    model = torch.nn.Module()
    model.gate = part(1, None, 2, 4)
    experts = torch.nn.ModuleDict({str(rank): torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 4))})
    model.experts = experts
    torch.manual_seed(5)
    x = torch.randn(10, 4).chunk(2)[rank]
    with optool_capture.record(directory, model=model):
        p = F.linear(x, model.gate).softmax(-1)
        weight, expert = p.max(-1)
        order = expert.argsort(stable=True)
        give = torch.bincount(expert, minlength=2)
        take = torch.empty_like(give)
        dist.all_to_all_single(take, give)
        rows = Exchange.apply(x[order], give.tolist(), take.tolist())
        if rank:
            rows = experts["1"](rows)
        else:
            rows = experts["0"](rows)
        y = torch.zeros_like(x).index_copy(0, order, Exchange.apply(rows, take.tolist(), give.tolist()))
        share = give.float()
        dist.all_reduce(share)
        loss = (x + y * weight[:, None]).square().mean() + (p.mean(0) * share / share.sum()).sum()
        (loss / 2).backward()
        dist.all_reduce(model.gate.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def context(rank, name, directory):
    """Attention of each rank's tokens to all of the sequence; positions of the second rank may be one too far."""
    import optool_capture

    model = torch.nn.Module()
    model.table = part(2, None, 6, 4)
    torch.manual_seed(5)
    ids = torch.randint(6, (8,)).chunk(2)[rank]
    with optool_capture.record(directory, model=model):
        x = F.embedding(ids, model.table)
        keys = Join.apply(x, 0)
        late = 1 if name.endswith("late") and rank else 0
        if "triangle" in name:
            mask = torch.ones(4, 8, dtype=torch.bool).tril(4 * rank - late)
        else:
            mask = torch.arange(8) <= torch.arange(4)[:, None] + (4 * rank + late)
        x = x + F.scaled_dot_product_attention(x[None], keys[None], keys[None], mask)[0]
        (x.square().mean() / 2).backward()
        dist.all_reduce(model.table.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Join(torch.autograd.Function):
    """The parts of all ranks; each gets the sum of the gradients of its part."""

    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        dist.all_reduce(g)
        return g.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()].contiguous(), None


def zero(rank, name, directory):
    """Each rank updates its part of all parameters, and gathers those of the others behind the step."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down, model.bias = part(2, None, 6, 4), part(3, None, 4, 6), part(4, None, 4)
    parameters = list(model.parameters())
    torch.manual_seed(5)
    x = torch.randn(4, 4).chunk(2)[rank].clone()
    whole = torch.cat([p.detach().flatten() for p in parameters])
    own = torch.nn.Parameter(whole.chunk(2)[rank].clone())
    if name == "zero-shifted":
        own = torch.nn.Parameter(whole[24 * rank:24 * rank + 26].clone())
    if name == "zero-clip":
        optimizer = torch.optim.SGD([own], lr=0.1)
    else:
        rate = 0.02 if name == "zero-rate" and rank == 1 else 0.01
        optimizer = torch.optim.AdamW([own], lr=rate, foreach=False)
    if name == "zero-late":
        dist.all_gather_into_tensor(whole, own.detach())
        own.data.mul_(1.5)  # a step before the recording, whose result was not gathered
    if name == "zero-early":  # the parameters lie in the buffer
        for p, data in zip(parameters, whole.split([p.numel() for p in parameters])):
            p.data = data.view_as(p)
    with optool_capture.record(directory, model=model):
        F.linear(F.gelu(F.linear(x, model.up)), model.down, model.bias).square().mean().backward()
        gradient = torch.cat([p.grad.flatten() for p in parameters])
        if name != "zero-alone":
            dist.all_reduce(gradient)
        own.grad = gradient.chunk(2)[rank].clone().div_(2)
        if name == "zero-global":
            squares = own.grad.square().sum()
            dist.all_reduce(squares)
            own.grad.mul_((0.05 / squares.sqrt()).clamp(max=1))
        if name == "zero-clip":
            torch.nn.utils.clip_grad_norm_([own], 0.05)
        if name == "zero-rolled":
            own.grad = own.grad.roll(2)
        if name == "zero-late":
            dist.all_gather_into_tensor(whole, own.detach())
        if name.startswith("zero-decay"):  # of the matrices
            decay = torch.cat([torch.full((p.numel(),), 0.1 * (p.dim() > 1)) for p in parameters])
            with torch.no_grad():
                own.sub_(decay.chunk(2)[1 if name == "zero-decay-last" else rank].clone() * own)
        if name == "zero-early":
            work = dist.all_gather_into_tensor(whole, own.detach().clone(), async_op=True)
        optimizer.step()
        if name == "zero-early":
            return work.wait()
        with torch.no_grad():
            if name != "zero-late":
                dist.all_gather_into_tensor(whole, own.detach())
            if name == "zero-order":
                whole = whole.roll(len(whole) // 2)
            for p, new in zip(parameters, whole.split([p.numel() for p in parameters])):
                if name != "zero-kept" or p is not model.down:
                    p.copy_(new.view_as(p))


def owner(rank, name, directory):
    """Each rank updates some parameters and passes them on."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    parameters = [model.up, model.down]
    torch.manual_seed(5)
    x = torch.randn(4, 4).chunk(2)[rank].clone()
    optimizer = torch.optim.AdamW([parameters[rank]], lr=0.01, foreach=False)
    if name.startswith("owner-left"):  # each rank sets the gradient of its own parameter to zero only
        F.linear(F.gelu(F.linear(x.flip(1), model.up)), model.down).square().mean().backward()
        optimizer.zero_grad()
    with optool_capture.record(directory, model=model):
        F.linear(F.gelu(F.linear(x, model.up)), model.down).square().mean().backward()
        for p in parameters:
            dist.all_reduce(p.grad)
            p.grad.div_({"owner-sum": 1, "owner-quarter": 4}.get(name, 2))
            if name == "owner-left-half" and p is model.down:
                p.grad.div_(2)
        if name in ("owner-clip", "owner-alone", "owner-quarter"):
            squares = parameters[rank].grad.square().sum()
            if name != "owner-alone":
                dist.all_reduce(squares)
            parameters[rank].grad.mul_((0.01 / squares.sqrt()).clamp(max=1))
        if name != "owner-stale":
            optimizer.step()
        for i, p in enumerate(parameters):
            dist.broadcast(p.detach(), 0 if name == "owner-source" else i)
        if name == "owner-stale":
            optimizer.step()


def lead(rank, name, directory):
    """Rank 0 updates all parameters and passes them on; or one rank behind another updates some."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    parameters = [model.up, model.down]
    torch.manual_seed(5)
    x = torch.randn(12, 4).chunk(dist.get_world_size())[rank].clone()
    turns = name == "lead-turns"
    optimizer = torch.optim.SGD(parameters[rank : rank + 1] if turns else parameters, lr=0.1, foreach=False)
    with optool_capture.record(directory, model=model):
        for _ in range(1 if name == "lead-three" else 2):
            model.zero_grad()
            F.linear(F.gelu(F.linear(x, model.up)), model.down).square().mean().backward()
            for p in parameters:
                dist.all_reduce(p.grad)
                p.grad.div_(4 if name == "lead-scaled" else dist.get_world_size())
            for i, some in enumerate([parameters[:1], parameters[1:]] if turns else [parameters]):
                if rank == i:
                    optimizer.step()
                for p in some:
                    dist.broadcast(p.detach(), i)


def clip(rank, name, directory):
    """Two steps of an optimizer that keeps earlier gradients, behind clipping by norm or value."""
    import optool_capture
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 3))
    for number, p in enumerate(model.parameters()):
        p.data = part(2 + number, None, *p.shape)
    outside = [torch.nn.Parameter(torch.tensor(1.5))] if name == "clip-outside" else []
    if name == "clip-value":
        model.bfloat16()
    if name == "clip-half":
        fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    before = name in ("clip-before", "clip-watched")
    if name in ("clip-outside", "clip-divided", "clip-once") or "scaled" in name or before:
        optimizer = torch.optim.SGD([*model.parameters(), *outside], lr=0.1, momentum=0.9, nesterov=True)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scaled = torch.amp.GradScaler("cpu", init_scale=1024.0) if "scaled" in name else None
    torch.manual_seed(5 + rank)
    with optool_capture.record(directory, model=model):
        for _ in range(1 if scaled or name == "clip-divided" or before else 2):
            x, y = torch.randn(5, 4), torch.randint(3, (5,))
            optimizer.zero_grad()
            h = model(x.bfloat16() if name == "clip-value" else x).float()
            loss = F.cross_entropy(h * outside[0] if outside else h, y)
            if name == "clip-divided":
                loss = loss * 1024
            (scaled.scale(loss) if scaled else loss).backward()
            parameters = [*model.parameters(), *outside]
            if name == "clip-before":
                torch.nn.utils.clip_grad_norm_(parameters, 100.0)  # of each rank's own, and all are smaller
            elif name == "clip-watched":
                torch.nn.utils.get_total_norm([p.grad for p in parameters]).item()
            if name != "clip-half":
                for p in parameters:
                    dist.all_reduce(p.grad)
                    p.grad.div_(2)
            if name == "clip-scaled":
                scaled.unscale_(optimizer)
            if name == "clip-value":
                torch.nn.utils.clip_grad_value_(parameters, 0.02)
            elif name == "clip-once":  # rank 0 counts what all have
                total = sum(p.grad.double().pow(2).sum() for p in parameters) * 1.0 if rank == 0 else torch.zeros((), dtype=torch.float64)
                dist.all_reduce(total)
                for p in parameters:
                    p.grad.mul_((0.1 / total.sqrt()).clamp(max=1.0).float())
            elif name != "clip-before":
                torch.nn.utils.clip_grad_norm_(parameters, 0.1)
            if name == "clip-divided":
                for p in parameters:
                    p.grad.div_(1024)
            if scaled:
                scaled.step(optimizer)
                scaled.update()
            else:
                optimizer.step()


def begun(rank, name, directory):
    """A step of replicas that earlier steps moved apart, as this one does by a gradient without an all_reduce, or by
    dropout, or does not. Each rank takes its own rows of the data. begun-sent: the step begins with a broadcast."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 6, 6)
    for p in model.parameters():
        p.data += rank * part(4, None, *p.shape).data / 50
        if name in ("begun-own", "begun-sent"):
            p.data = part(4 + rank, None, *p.shape).data
    torch.manual_seed(5)
    data = torch.randn(2, 5, 4)
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with optool_capture.record(directory, model=model):
        if name == "begun-sent":
            for p in model.parameters():
                dist.broadcast(p.data, 0)
        h = F.gelu(F.linear(data[0 if name == "begun-dropout" else rank], model.up))
        y = F.linear(h, model.down)
        if name == "begun-dropout":
            y = F.dropout(y, 0.5)
        (h + y).square().mean().backward()
        for p in model.parameters():
            if p is not model.up or name != "begun-alone":
                dist.all_reduce(p.grad)
                p.grad.div_(2)
        optimizer.step()


def weighed(rank, name, directory):
    """A loss on four ranks of two means, each of which counts half."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 4, 4)
    torch.manual_seed(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(2, 12, 4).chunk(4, 1)[rank]
    with optool_capture.record(directory, model=model):
        h = F.linear(x, model.up)
        loss = 0.5 * F.mse_loss(h, y) + 0.5 * F.smooth_l1_loss(torch.tanh(h), y)
        loss.backward()
        dist.all_reduce(model.up.grad)
        model.up.grad.div_(16 if name == "weighed-twice" else 4)
        optimizer.step()


def bank(rank, name, directory):
    """Two steps of contrasts with older keys, which a queue holds: the keys of all ranks, or each rank's own."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 4, 4)
    queue, at = part(3, None, 12, 4).data, 0
    torch.manual_seed(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.randn(2, 2, 3, 4)
    with optool_capture.record(directory, model=model) as recording:
        for batch in batches:
            x = batch[rank]
            q = F.linear(x, model.up)
            with torch.no_grad():
                own = F.normalize(q)
                keys = [torch.empty_like(own) for _ in range(2)]
                dist.all_gather(keys, own)
                keys = torch.cat(keys)
            loss = F.cross_entropy(q @ torch.cat([keys, queue]).t(), torch.arange(3) + 3 * rank)
            optimizer.zero_grad()
            loss.backward()
            dist.all_reduce(model.up.grad)
            model.up.grad.div_(2)
            optimizer.step()
            new = own if name == "bank-own" else keys
            queue[at:at + len(new)] = new
            at += len(new)
            recording.step()


def grid(rank, name, directory):
    """Data on two by two ranks: gradients are summed over both dimensions, or one is left out."""
    import optool_capture

    rows, columns = [[dist.new_group(g) for g in gs] for gs in ([[0, 1], [2, 3]], [[0, 2], [1, 3]])]
    model = torch.nn.Module()
    model.up = part(2, None, 4, 4)
    torch.manual_seed(5)
    x = torch.randn(4, 4).chunk(4)[rank].clone()
    with optool_capture.record(directory, model=model):
        (F.linear(x, model.up).square().mean() / 4).backward()
        loss = torch.ones(1)
        dist.all_reduce(loss, group=columns[rank % 2])
        dist.all_reduce(model.up.grad, group=rows[rank // 2])
        if name == "grid":
            dist.all_reduce(model.up.grad, group=columns[rank % 2])
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def several(rank, directory):
    """Tokens go to two of four experts, two on each rank, which weigh their results."""
    import optool_capture

    model = torch.nn.Module()
    model.table, model.router = part(1, None, 5, 4), part(3, None, 4, 4)
    model.first, model.second = part(4 + rank, None, 4, 4), part(6 + rank, None, 4, 4)
    torch.manual_seed(5)
    ids = torch.randint(5, (12,))
    with optool_capture.record(directory, model=model):
        ids = ids.chunk(2)[rank]
        x = F.embedding(ids, model.table)
        weight, expert = F.linear(x, model.router).softmax(-1).topk(2, -1)
        order = expert.flatten().argsort(stable=True)
        token = torch.arange(6).repeat_interleave(2)[order]
        count = torch.bincount(expert.flatten(), minlength=4)
        got = torch.empty_like(count)
        dist.all_to_all_single(got, count)
        give, take = count.view(2, 2).sum(1).tolist(), got.view(2, 2).sum(1).tolist()
        rows = Exchange.apply(x[token], give, take)
        local = torch.tensor([0, 1, 0, 1]).repeat_interleave(got)
        order2 = local.argsort(stable=True)
        a, b = rows[order2].split([int((local == 0).sum()), int((local == 1).sum())])
        y = torch.cat([F.linear(a, model.first), F.linear(b, model.second)])[order2.argsort()]
        y = Exchange.apply(y, take, give) * weight.flatten()[order][:, None]
        x = x + torch.zeros_like(x).index_add(0, token, y)
        (x.square().mean() / 2).backward()
        for p in (model.table, model.router):
            dist.all_reduce(p.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def experts(rank, directory):
    """Rows of one table go to an expert on each rank; equal rows cannot be told apart."""
    import optool_capture

    model = torch.nn.Module()
    model.table, model.expert = part(1, None, 5, 4), part(2, 0, 8, 4)
    torch.manual_seed(5)
    ids = torch.randint(5, (12,))
    with optool_capture.record(directory, model=model):
        ids = ids.chunk(2)[rank]
        order = (ids % 2).argsort(stable=True)
        give = torch.bincount(ids % 2, minlength=2)
        take = torch.empty_like(give)
        dist.all_to_all_single(take, give)
        give, take = give.tolist(), take.tolist()
        x = F.embedding(ids, model.table)
        y = Exchange.apply(F.linear(Exchange.apply(x[order], give, take), model.expert), take, give)
        x = x + torch.zeros_like(x).index_copy(0, order, y) * x[:, :1]
        (x.square().mean() / 2).backward()
        dist.all_reduce(model.table.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def dtensor(directory):
    """A row-parallel layer that adds its bias once."""
    import optool_capture
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4))
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(4, 4)
    with optool_capture.record(directory, model=model):
        model(x).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def table(rank, name, directory):
    """A table of which each rank has rows, as DTensor looks them up; table-grid: with other data under FSDP2."""
    import optool_capture
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)

    torch.manual_seed(1)
    if name == "table-grid":
        model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.LayerNorm(4))
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], {
            "0": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
            "1": SequenceParallel()})
        fully_shard(model, mesh=mesh["dp"])
        ids = torch.randint(8, (2, 2, 4))[rank // 2]
        with optool_capture.record(directory, model=model):
            mean = model(ids).mean(1).redistribute(placements=[Replicate()]).to_local()
            (mean * torch.randn(2, 4)).square().mean().backward()
            torch.optim.SGD(model.parameters(), lr=0.1, foreach=False).step()
        return
    model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.Linear(4, 6))
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallelize_module(model, mesh, {"0": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
                                     "1": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    ids = torch.randint(8, (2, 4))
    with optool_capture.record(directory, model=model):
        model(ids).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def columns(rank, name, directory):
    """FSDP2 over the data, DTensors over the tensor-parallel ranks."""
    import optool_capture
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4), torch.nn.LayerNorm(4))
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    x = torch.randn(4, 4).chunk(2)[rank // 2].clone()
    with optool_capture.record(directory, model=model):
        model(x).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Halo(torch.autograd.Function):
    """The rows of the other rank behind its own; the gradients of these go back and are added in place, or not."""

    @staticmethod
    def swap(x):
        y, o = torch.zeros_like(x), 1 - dist.get_rank()
        for work in dist.irecv(y, o), dist.isend(x, o):
            work.wait()
        return y

    @staticmethod
    def forward(ctx, x, kept):
        ctx.kept = kept
        return torch.cat([x, Halo.swap(x[:2].contiguous()), Halo.swap(x[-2:].contiguous())])

    @staticmethod
    def backward(ctx, g):
        if ctx.kept:
            return g[:-4].clone(), None
        first, last = Halo.swap(g[-4:-2].contiguous()), Halo.swap(g[-2:].contiguous())
        g = g[:-4].clone()
        g[:2] += first
        g[-2:] += last
        return g, None


def halo(rank, name, directory):
    """Rows of the other rank, whose backward pass adds to a view of a gradient."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 4, 4)
    torch.manual_seed(5)
    x = torch.randn(64, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        h = Halo.apply(F.linear(x, model.up), name == "halo-kept").tanh()
        (h * h.roll(1, 0)).mean().backward()
        dist.all_reduce(model.up.grad)
        model.up.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Fused(torch.autograd.Function):
    """A bias and gelu in one."""

    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(x, bias)
        return F.gelu(x + bias)

    @staticmethod
    def backward(ctx, g):
        x, bias = ctx.saved_tensors
        with torch.enable_grad():
            y = (x + bias).detach().requires_grad_()
            F.gelu(y).backward(g)
        return y.grad, y.grad.sum(0)


def fused(rank, name, directory):
    """Columns and rows with a bias of zeros, of which each rank has its part, as of the channels of a group norm."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, 0, 8, 4), part(3, 1, 4, 8)
    model.bias, model.gain, model.shift = (torch.nn.Parameter(torch.full((4,), x)) for x in (0.0, 1.0, 0.0))
    torch.manual_seed(5)
    x = torch.randn(6, 4)
    with optool_capture.record(directory, model=model):
        h = Fused.apply(F.linear(x, model.up), model.bias)
        h = F.group_norm(h, 2, model.gain, model.shift)  # of 4 of the whole
        h = Reduce.apply(F.linear(h, model.down), dist.group.WORLD)
        (h + x).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def kept(rank, name, directory):
    """Gradients of two batches, added up by the program itself; statistics of all ranks, which several calls read."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 6, 4)
    main = torch.zeros(6, 4)
    torch.manual_seed(5)
    batches = torch.randn(2, 8, 4).chunk(2, 1)[rank]
    with optool_capture.record(directory, model=model):
        for x in batches:
            h = F.linear(x, model.up)
            total = Both.apply(torch.stack([h.sum(0), h.square().sum(0)]))
            mean, square = total[0] / 8, total[1] / 8 - (total[0] / 8) ** 2
            (((h - mean) * (square + 1).rsqrt()).square().mean() / 2).backward()
            main.add_(model.up.grad)
            model.up.grad = None
        dist.all_reduce(main)
        model.up.grad = main / 2
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def masked(rank, name, directory):
    """Two by two ranks: local indices of a table that are set to 0 in place, and columns with a bias of zeros."""
    import optool_capture

    tensor, data = rank % 2, rank // 2
    group, across = ([dist.new_group(g) for g in gs] for gs in ([[0, 1], [2, 3]], [[0, 2], [1, 3]]))
    group, across = group[data], across[tensor]
    cut = lambda p, dim: torch.nn.Parameter(p.detach().chunk(2, dim)[tensor].clone())
    model = torch.nn.Module()
    model.table, model.up = cut(part(1, None, 6, 4), 0), cut(part(2, None, 8, 4), 0)
    model.down = cut(part(3, None, 4, 8), 1)
    model.bias = torch.nn.Parameter(torch.zeros(4))
    torch.manual_seed(5)
    ids = torch.randint(6, (4, 5)).chunk(2)[data]
    with optool_capture.record(directory, model=model):
        mask = (ids < 3 * tensor) | (ids >= 3 * tensor + 3)
        local = ids.clone() - 3 * tensor
        local[mask] = 0
        x = Reduce.apply(F.embedding(local, model.table).masked_fill(mask[..., None], 0.0), group)
        h = F.gelu(F.linear(Copy.apply(x, group), model.up, model.bias))
        (x + Reduce.apply(F.linear(h, model.down), group)).square().mean().backward()
        for p in model.parameters():
            if name != "masked-alone" or p is not model.bias:
                dist.all_reduce(p.grad, group=across)
            p.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def views(rank, name, directory):
    """A gain of ones that calls read as a column: parts of it, or replicas that are not reduced."""
    import optool_capture

    parts = name == "views"
    model = torch.nn.Module()
    model.up = part(2, 0 if parts else None, 8, 4)
    model.gain = torch.nn.Parameter(torch.ones(len(model.up)))
    torch.manual_seed(5)
    x = torch.randn(6, 4)
    with optool_capture.record(directory, model=model):
        h = F.linear(x if parts else x.chunk(2)[rank], model.up).T * model.gain[:, None]
        (h.sin().sum() / 48).backward()
        if not parts:
            dist.all_reduce(model.up.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class InOrder(torch.autograd.Function):
    """The early parts of both ranks, then their late parts; the gradients are summed, or not."""

    @staticmethod
    def forward(ctx, x, kept):
        ctx.kept = kept
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x.contiguous())
        (a, d), (b, c) = (t.chunk(2, 1) for t in parts)
        return torch.cat([a, b, c, d], 1)

    @staticmethod
    def backward(ctx, g):
        g = g.contiguous().clone()
        if not ctx.kept:
            dist.all_reduce(g)
        a, b, c, d = g.chunk(4, 1)
        return torch.cat([a, d] if dist.get_rank() == 0 else [b, c], 1), None


def zigzag(rank, name, directory):
    """Each rank has an early and a late part of the sequence, whose tokens look at all before them."""
    import optool_capture

    model = torch.nn.Module()
    model.table, model.places, model.head = part(2, None, 6, 4), part(3, None, 16, 4), part(4, None, 6, 4)
    torch.manual_seed(5)
    cut = rank, 3 - rank
    ids, labels = (torch.cat([t.chunk(4, 1)[i] for i in cut], 1) for t in torch.randint(6, (2, 2, 16)))
    with optool_capture.record(directory, model=model):
        at = torch.cat([torch.arange(4 * i, 4 * i + 4) for i in cut])
        h = F.embedding(ids, model.table) + F.embedding(at, model.places)
        if name in ("zigzag-inside", "zigzag-kept"):
            keys = InOrder.apply(h, name == "zigzag-kept")
        else:
            keys = Join.apply(h, 1).chunk(4, 1)
            keys = torch.cat([keys[0], keys[2], keys[3], keys[1]], 1)
        seen = []
        for q, i in zip(h.chunk(2, 1), cut):
            k = keys[:, : 4 * i + 4]
            mask = torch.ones(4, 4 * i + 4, dtype=torch.bool).tril(4 * i)
            seen.append(F.scaled_dot_product_attention(q, k, k, mask))
        logits = F.linear(h + torch.cat(seen, 1), model.head)
        (F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / 32).backward()
        for p in model.parameters():
            if name != "zigzag-alone" or p is not model.places:
                dist.all_reduce(p.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def ragged(rank, name, directory):
    """Each rank has sequences of another length; or positions repeated for each row of its batch."""
    import optool_capture

    model = torch.nn.Module()
    model.table, model.places, model.head = part(2, None, 6, 4), part(3, None, 7, 4), part(4, None, 6, 4)
    torch.manual_seed(5)
    n = 7 if name == "ragged-not" else 5 + 2 * rank
    ids, labels = torch.randint(6, (2, 2, 2, n))[rank]
    with optool_capture.record(directory, model=model):
        h = F.embedding(ids, model.table) + F.embedding(torch.arange(n).repeat(2, 1), model.places)
        scores = (h @ h.mT).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), float("-inf"))
        logits = F.linear(h if name == "ragged-mean" else h + scores.softmax(-1) @ h, model.head)
        count = torch.tensor(2.0 * n)
        dist.all_reduce(count)
        if name == "ragged-mean":
            (F.cross_entropy(logits.flatten(0, 1), labels.flatten()) / 2).backward()
        else:
            (F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / count).backward()
        for p in model.parameters():
            if name != "ragged-alone" or p is not model.places:
                dist.all_reduce(p.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def flat(rank, name, parameters):
    """Each rank updates its part of all parameters, one behind the other, and gathers those of the others."""
    with torch.no_grad():
        whole = torch.cat([p.flatten() for p in parameters])
        gradient = torch.empty(len(whole) // 2)
        dist.reduce_scatter_tensor(gradient, torch.cat([p.grad.flatten() for p in parameters]))
        if name != "flat-sum":
            gradient.div_(2)
        own = whole.chunk(2)[rank].clone()
        if name == "flat-stale":
            dist.all_gather_into_tensor(whole, own)
        own.sub_(gradient, alpha=0.1)
        if name != "flat-stale":
            dist.all_gather_into_tensor(whole, own)
        for p, new in zip(parameters, whole.split([p.numel() for p in parameters])):
            p.copy_(new.view_as(p))


def losses(rank, name, directory):
    """Losses with numbers of the program's own, and gradients that are divided after the backward pass."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(5, 4)
    x = (x[:2], x[2:])[rank].clone() if name == "losses-uneven" else x[:4].chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        n = torch.tensor(float(len(x)))
        total = n.clone()
        if name in ("losses-uneven", "losses-count", "losses-count-sum"):
            dist.all_reduce(total)
        for _ in range(2 if name == "losses-micro" else 1):
            h = F.linear(F.gelu(F.linear(x, model.up)), model.down)
            value, extra = h.square().mean(), h.tanh().mean()
            if name.startswith("losses-sum"):  # of 4 rows of 4
                value = h.square().sum()
            if name.startswith("losses-count"):  # the ranks' mean count of rows
                value = h.square().sum() / (total / 2)
            if name == "losses-weight":
                value = value + 0.5 * extra
            elif name == "losses-own":
                value = value + extra * h.cos().mean()
            elif name == "losses-two":
                value = (value + extra) / 2
            elif name == "losses-scaled":
                value = value * 16
            elif name == "losses-uneven":
                value = value * (n / total)
            value.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            if name not in ("losses-uneven", "losses-count-sum"):
                p.grad.div_({"micro": 4, "third": 3, "scaled": 32, "sum": 4, "sum-seven": 7}.get(name[7:], 2))
        if name in ("losses-third", "losses-scaled"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()


def counted(rank, name, directory):
    """Two updates by sums that are divided by the rows of all ranks; counted-one divides by those of a rank."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    with optool_capture.record(directory, model=model) as recording:
        for _ in range(2):
            x = torch.randn(4, 4).chunk(2)[rank].clone()
            h = F.linear(F.gelu(F.linear(x, model.up)), model.down)
            (h.square().sum() / (4 if name == "counted" else 2)).backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
            optimizer.step()
            optimizer.zero_grad()
            recording.step()


def stages(rank, name, directory):
    """A pipeline of two stages, which clip by the norm of both, or of one."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2 + rank, None, 4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(3, 4)
    with optool_capture.record(directory, model=model):
        if rank == 0:
            h = F.linear(x, model.up).tanh()
            dist.send(h.detach(), 1)
            gradient = torch.empty_like(h)
            dist.recv(gradient, 1)
            h.backward(gradient)
        else:
            h = torch.empty(3, 4)
            dist.recv(h, 0)
            h.requires_grad_()
            F.linear(h, model.up).square().mean().backward()
            dist.send(h.grad, 0)
        squares = model.up.grad.square().sum()
        if name != "stages-alone":
            dist.all_reduce(squares)
        model.up.grad.mul_((0.01 / squares.sqrt()).clamp(max=1))
        if name != "stages-idle" or rank == 1:
            optimizer.step()


def pipeline(rank, name, directory):
    """torch's pipeline of two stages: it asks for shapes with uninitialised memory, and divides by the microbatches.

    One step is recorded, or two.
    """
    import optool_capture
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    model = torch.nn.Linear(4, 4)
    model.weight, model.bias = part(2 + rank, None, 4, 4), part(4 + rank, None, 4)
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, F.mse_loss, scale_grads=name != "pipeline-one" or rank == 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(8, 4)
    steps = range(2 if name == "pipeline-steps" else 1)
    with optool_capture.record(directory, model=model, steps=list(steps)) as recording:
        for _ in steps:
            optimizer.zero_grad()
            schedule.step(x) if rank == 0 else schedule.step(target=x.tanh())
            optimizer.step()
            recording.step()


def replicas(rank, name, directory):
    """Two replicas of a pipeline of two stages; the first stage may not divide by the replicas."""
    import optool_capture

    stage, group = rank % 2, [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    model = torch.nn.Module()
    model.up = part(2 + stage, None, 4, 4)
    torch.manual_seed(5 + rank // 2)
    x = torch.randn(3, 4)
    with optool_capture.record(directory, model=model):
        if stage == 0:
            h = F.linear(x, model.up).tanh()
            dist.send(h.detach(), rank + 1)
            gradient = torch.empty_like(h)
            dist.recv(gradient, rank + 1)
            h.backward(gradient)
        else:
            h = torch.empty(3, 4)
            dist.recv(h, rank - 1)
            h.requires_grad_()
            F.linear(h, model.up).square().mean().backward()
            dist.send(h.grad, rank - 1)
        dist.all_reduce(model.up.grad, group=group)
        if name == "replicas" or stage:
            model.up.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def tokens(rank, name, directory):
    """A language model whose labels are the next tokens, or those of another rank."""
    import optool_capture

    model = torch.nn.Module()
    model.table = part(2, None, 7, 4)
    ids = torch.randint(7, (4, 9))
    labels = ids.roll(2, 0) if name == "tokens-other" else ids
    ids, labels = ids[:, :-1].chunk(2)[rank].clone(), labels[:, 1:].chunk(2)[rank].flatten().clone()
    with optool_capture.record(directory, model=model):
        x = F.embedding(ids, model.table)
        F.cross_entropy(F.linear(x, model.table).flatten(0, 1), labels).backward()
        dist.all_reduce(model.table.grad)
        model.table.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def own(rank, name, directory):
    """Data parallelism in which each rank makes something of its own batch: it normalizes, orders or mixes it, say."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.gain, model.shift = part(2, None, 4, 4), part(3, None, 4), torch.nn.Parameter(torch.zeros(4))
    x = torch.randn(10, 4).chunk(2)[rank].clone()
    y = torch.randn(10, 4).chunk(2)[rank].clone()
    micro = name.startswith("own-micro")
    with optool_capture.record(directory, model=model):
        for i in range(2 if micro else 1):
            h = F.linear(torch.cat([x, y]) if name == "own-views" else x + i, model.up)
            if name == "own-order":
                order = torch.arange(5).roll(1 + rank)
                h, y = h[order], y[order]
            if name == "own-some" and rank == 1:
                h = h + h.sum() * 0.5
            if name == "own-batch":
                h = F.batch_norm(h, None, None, model.gain, model.shift, True)
            if name == "own-labels":
                loss = F.cross_entropy(h, torch.arange(5) % 4)
            elif name == "own-pairs":
                h = F.normalize(h)
                loss = F.cross_entropy(h @ h.t(), torch.arange(5))
            elif name == "own-views":
                loss = F.mse_loss(*h.chunk(2))
            elif name == "own-mixed":
                weight = (0.3, 0.7)[rank]
                loss = weight * F.mse_loss(h, y) + (1 - weight) * F.mse_loss(h, y.flip(0))
            elif name == "own-packed":
                sums = torch.stack([F.mse_loss(h, y, reduction="sum"), torch.tensor(20.0)])
                all_sums = sums.detach().clone()
                dist.all_reduce(all_sums)
                loss = sums[0] / all_sums[1] * 2
            elif micro or name in ("own-batch", "own-order", "own-some", "own-steps"):
                loss = F.mse_loss(h, y)
            else:
                loss = F.mse_loss(h, y, reduction="sum") / (40 if name == "own-whole" else 20)
            if micro and name != "own-micro-added":
                loss = loss / (1 if i and name == "own-micro-last" else 2)
            loss.backward()
        for p in model.parameters():
            if p.grad is not None and name != "own-steps":
                dist.all_reduce(p.grad)
                if name not in ("own-whole", "own-sum"):
                    p.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def pooled(rank, name, directory):
    """The mean over tokens that the ranks share out: all give a bias the same half of its gradient."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.bias, model.head = part(2, None, 4, 4), part(3, None, 4), part(4, None, 3, 4)
    torch.manual_seed(5)
    x = torch.randn(3, 8, 4).chunk(2, 1)[rank]
    with optool_capture.record(directory, model=model):
        h = F.linear(x, model.up, model.bias) + x
        F.cross_entropy(F.linear(Reduce.apply(h.sum(1), None) / 8, model.head), torch.arange(3)).backward()
        for p in model.up, model.bias:
            if name != "pooled-alone" or p is not model.bias:
                dist.all_reduce(p.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def both(rank, name, directory):
    """A correlation of all ranks' rows, whose gradients are summed and then averaged, or not."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 4, 4), part(3, None, 4, 4)
    torch.manual_seed(5)
    x = torch.randn(12, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        h = F.linear(x, model.up)
        c = Both.apply(h.t() @ h / 12)
        F.linear(c, model.down).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            if name == "both" or p is model.down:
                p.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Column(torch.autograd.Function):
    """A product with a rank's columns; the gradient is added up in the backward pass."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x.matmul(w.t())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        d = g.matmul(w)
        dist.all_reduce(d)
        return d, g.t().matmul(x)


class Row(torch.autograd.Function):
    """A product with a rank's rows, added up over the ranks."""

    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        y = x.matmul(w.t())
        dist.all_reduce(y)
        return y + b

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g.matmul(w), g.t().matmul(x), g.sum(0)


class Centre(torch.autograd.Function):
    """Rows less the mean of all ranks' rows; the backward pass adds up over the ranks, or does not."""

    @staticmethod
    def forward(ctx, x, alone):
        total = x.sum(0)
        dist.all_reduce(total)
        y = (x - total / 8).tanh()
        ctx.save_for_backward(y)
        ctx.alone = alone
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        h = g * (1 - y * y)
        total = h.sum(0)
        if not ctx.alone:
            dist.all_reduce(total)
        return h - total / 8, None


class Beside(torch.autograd.Function):
    """The rows of a rank times those of the one before it; the gradient of these goes back, or on."""

    @staticmethod
    def forward(ctx, a, b, on):
        rank, size = dist.get_rank(), dist.get_world_size()
        ctx.peers = (rank - 1) % size, (rank + 1) % size
        other = Shift.shift(b, *ctx.peers[::-1])
        ctx.save_for_backward(a, other)
        ctx.on = on
        return a * other

    @staticmethod
    def backward(ctx, g):
        a, other = ctx.saved_tensors
        return g * other, Shift.shift(g * a, *(ctx.peers[::-1] if ctx.on else ctx.peers)), None


def joint(rank, name, directory):
    """Functions that compute and pass values between ranks in one: columns and rows, a mean, products in a ring."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, 0 if name == "joint-columns" else None, 6, 4)
    model.down, model.bias = part(3, 1 if name == "joint-columns" else None, 4, 6), part(4, None, 4)
    torch.manual_seed(5)
    x = torch.randn(12, 4)
    if name != "joint-columns":
        x = x.chunk(3)[rank].clone()
    with optool_capture.record(directory, model=model):
        if name == "joint-columns":
            h = F.gelu(Column.apply(x, model.up))
            Row.apply(h, model.down, model.bias).square().mean().backward()
        else:
            h = F.linear(x, model.up)
            if name.startswith("joint-ring"):
                h = Beside.apply(h, h.sin(), name == "joint-ring-on")
            else:
                h = Centre.apply(h, name == "joint-alone")
            F.linear(h, model.down, model.bias).square().mean().backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p.grad.div_(dist.get_world_size())
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Swap(torch.autograd.Function):
    """Each rank gets its part of every other; the gradients go back."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x)
        return y

    @staticmethod
    def backward(ctx, g):
        return Swap.forward(ctx, g)


def heads(rank, name, directory):
    """Ranks share out a sequence, and the heads of its attention; the mask may be that of a rank's own part, twice.

    Positions may turn queries and keys; each rank may count them from 0.
    """
    import optool_capture

    model = torch.nn.Module()
    model.table, model.places = part(1, None, 11, 8), part(2, None, 8, 8)
    model.qkv, model.out = part(3, None, 24, 8), part(4, None, 8, 8)
    torch.manual_seed(5)
    ids, labels = torch.randint(11, (2, 2, 8))
    keep = torch.ones(2, 8, dtype=torch.bool)
    keep[0, 6:], keep[1, 3] = False, False
    mine = slice(4 * rank, 4 * rank + 4)

    def swap(x, cut, join):
        return torch.cat(list(Swap.apply(torch.stack(x.chunk(2, cut))).unbind(0)), join)

    with optool_capture.record(directory, model=model):
        x = F.embedding(ids[:, mine], model.table) + model.places[mine]
        q, k, v = F.linear(x, model.qkv).unflatten(-1, (3, 2, 4)).unbind(2)
        if name.startswith("heads-turned"):
            at = torch.arange(4.0)[None, :, None, None] + (0 if name == "heads-turned-late" else 4 * rank)
            cos, sin = (at * torch.tensor([1, 0.3])).cos(), (at * torch.tensor([1, 0.3])).sin()
            turn = lambda x, y: torch.cat([x * cos - y * sin, x * sin + y * cos], -1)
            q, k = (turn(*t.chunk(2, -1)) for t in (q, k))
        q, k, v = (swap(t, 2, 1).transpose(1, 2) for t in (q, k, v))
        mask = torch.cat([keep[:, mine]] * 2, 1) if name == "heads-mask" else keep
        scores = (q @ k.transpose(-1, -2) / 2).masked_fill(~mask[:, None, None], -1e9)
        y = scores.softmax(-1) @ v
        if name.startswith("heads-causal"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=name == "heads-causal" or rank == 0)
        y = swap(y.transpose(1, 2), 1, 2).flatten(2)
        logits = F.linear(x + F.linear(y, model.out), model.table)
        F.cross_entropy(logits.flatten(0, 1), labels[:, mine].flatten()).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def unequal(rank, name, directory):
    """Two experts on the first rank and one on the second; the rows that come back may be put in order by its inverse."""
    import optool_capture

    own = [[0, 1], [2]][rank]
    model = torch.nn.Module()
    model.router, model.head = part(1, None, 3, 4), part(2, None, 5, 4)
    model.experts = torch.nn.ParameterList(part(3 + i, None, 4, 4) for i in own)
    torch.manual_seed(5)
    x, y = torch.randn(18, 4).chunk(2)[rank].clone(), torch.randint(5, (18,)).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        gain, to = F.linear(x, model.router).softmax(-1).max(-1)
        order, counts = torch.argsort(to, stable=True), torch.bincount(to, minlength=3)
        all = torch.empty(6, dtype=counts.dtype)
        dist.all_gather_into_tensor(all, counts)
        all = all.view(2, 3)
        give, take = [int(counts[:2].sum()), int(counts[2])], [int(all[r, own].sum()) for r in range(2)]
        h = Exchange.apply(x[order], give, take)
        if rank == 0:
            parts = h.split([int(all[r, i]) for r in range(2) for i in own])
            outs = [F.linear(torch.cat(parts[i::2]), w).tanh() for i, w in enumerate(model.experts)]
            h = torch.cat([o[s] for r in range(2) for i, o in enumerate(outs)
                           for s in [slice(int(all[:r, i].sum()), int(all[: r + 1, i].sum()))]])
        else:
            h = F.linear(h, model.experts[0]).tanh()
        h = Exchange.apply(h, take, give)
        h = h[order] if name == "unequal-back" else torch.zeros_like(h).index_copy(0, order, h)
        F.cross_entropy(F.linear(x + h * gain[:, None], model.head), y).backward()
        for n, p in model.named_parameters():
            if not n.startswith("experts"):
                dist.all_reduce(p.grad)
            p.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Fill(torch.autograd.Function):
    """Joins five rows and three, filled up to five. The gradients of all ranks are added up."""

    @staticmethod
    def forward(ctx, x):
        ctx.rows = x.shape[0]
        x = F.pad(x, (0, 0, 0, 5 - x.shape[0]))
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g[5 * dist.get_rank():][: ctx.rows]


def filled(rank, name, directory):
    """All ranks compute the loss of all rows, perhaps with those that fill up the smaller part."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    torch.manual_seed(5)
    x = torch.randn(8, 4).split([5, 3])[rank].clone()
    with optool_capture.record(directory, model=model):
        z = Fill.apply(F.linear(F.gelu(F.linear(x, model.up)), model.down))
        if name != "filled-kept":
            z = z[:8]
        c = z - z.mean(0)
        (c.t() @ c / z.shape[0] - torch.eye(4)).square().sum().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1, foreach=False).step()


def features(rank, name, directory):
    """Each rank compares the features of all ranks, and the backward pass of the gather adds up gradients. There may be
    older features."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.warmth = part(2, None, 4, 4), torch.nn.Parameter(torch.tensor(1.5))
    torch.manual_seed(5)
    x = torch.randn(6, 4).chunk(2)[rank].clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
    if name == "features-dealt":  # a second step: what the first one made of all parameters is read
        return dealt(rank, directory, model, x, optimizer)
    with optool_capture.record(directory, model=model):
        h = F.normalize(F.linear(torch.cat([x, x.flip(1)]), model.up))
        a, b = h.chunk(2)
        labels = torch.arange(6)
        if name in ("features-own", "features-labels"):  # each compares its own
            labels = torch.arange(3) + (3 * rank if name == "features-own" else 0)
        elif name in ("features-queue", "features-older"):
            labels = torch.arange(3)
        else:
            a = Join.apply(a, 0)
        all = Join.apply(b, 0)
        if name in ("features-queue", "features-older"):
            all = torch.cat([all if name == "features-queue" else b, part(7, None, 6, 4).detach()])
        F.cross_entropy(model.warmth.exp() * a @ all.t(), labels).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            if name != "features-sum":
                p.grad.div_(2)
        optimizer.step()


def dealt(rank, directory, model, x, optimizer):
    """Each rank computes the loss of all features and divides it by the number of ranks; the gradients are added up."""
    import optool_capture

    with optool_capture.record(directory, model=model, steps=[0, 1]) as recording:
        for _ in range(2):
            optimizer.zero_grad()
            a = Join.apply(F.normalize(F.linear(x, model.up)), 0)
            (F.cross_entropy(model.warmth.exp() * a @ a.flip(1).t(), torch.arange(6)) / 2).backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
            optimizer.step()
            recording.step()


def rounds(rank, name, directory):
    """Two updates in what the program counts as one step; the gradients of the second may not be reduced."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(6, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model, steps=[0, 1]) as recording:
        for _ in range(2):
            for epoch in range(2):
                optimizer.zero_grad()
                (F.linear(F.linear(x, model.up).tanh(), model.down) - x).square().mean().backward()
                for p in model.parameters():
                    if name == "rounds" or epoch == 0:
                        dist.all_reduce(p.grad)
                        p.grad.div_(2)
                optimizer.step()
            recording.step()


def bags(rank, name, directory):
    """Each rank has two of four tables, and looks up rows for all; an all_to_all gives each rank its rows of all tables."""
    import optool_capture

    model = torch.nn.Module()
    model.tables = torch.nn.ModuleDict({str(k): torch.nn.Embedding(5 + k, 4) for k in range(4) if k // 2 == rank})
    torch.manual_seed(5)
    for k, table in model.tables.items():
        table.weight = part(2 + int(k), None, 5 + int(k), 4)
    model.top = part(9, None, 1, 16)
    ids = [torch.randint(5 + k, (6,)) for k in range(4)]
    with optool_capture.record(directory, model=model):
        rows = torch.stack([table(ids[int(k)]) for k, table in model.tables.items()], 1)
        rows = Swap.apply(rows.view(2, 3, 2, 4)).transpose(0, 1).reshape(3, 16)
        (F.linear(rows, model.top).square().mean() / 2).backward()
        dist.all_reduce(model.top.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def stacked(rank, name, directory):
    """Columns and rows of a layer, with the sequence shared out along dimension 1 by functional collectives."""
    import optool_capture
    from torch.distributed import _functional_collectives as functional

    model = torch.nn.Module()
    model.norm, model.up, model.down = part(1, None, 4), part(2, 0, 6, 4), part(3, 1, 4, 6)
    torch.manual_seed(5)
    x = torch.randn(3, 4, 4).chunk(2, 1)[rank].clone()
    group = dist.group.WORLD
    with optool_capture.record(directory, model=model):
        h = functional.all_gather_tensor_autograd(F.layer_norm(x, (4,), model.norm), 1, group)
        h = F.linear(F.gelu(F.linear(functional.wait_tensor(h), model.up)), model.down)
        h = functional.wait_tensor(functional.reduce_scatter_tensor_autograd(h, "sum", 1, group))
        ((x + h).square().mean() / 2).backward()
        dist.all_reduce(model.norm.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Scatter(torch.autograd.Function):
    """Each rank takes its rows of a value that all have; the gradients are joined."""

    @staticmethod
    def forward(ctx, x):
        return x.chunk(dist.get_world_size())[dist.get_rank()].contiguous()

    @staticmethod
    def backward(ctx, g):
        parts = [torch.zeros_like(g) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, g.contiguous())
        return torch.cat(parts)


class Cut(torch.autograd.Function):
    """Each rank takes its own rows; the gradients are joined."""

    @staticmethod
    def forward(ctx, x):
        return [t.contiguous() for t in x.chunk(2)][dist.get_rank()].clone()

    @staticmethod
    def backward(ctx, g):
        parts = [torch.empty_like(g), torch.empty_like(g)]
        dist.all_gather(parts, g.contiguous())
        return torch.cat(parts)


def sequence(rank, name, directory):
    """Norms of each rank's rows with weights of ones, before columns and rows of all, and masks that each rank draws."""
    import optool_capture

    model = torch.nn.Module()
    model.norm, model.shift = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.zeros(4))
    model.up, model.down = part(2, 0, 8, 4), part(3, 1, 4, 8)
    torch.manual_seed(5)
    x = part(4, None, 6, 4)
    with optool_capture.record(directory, model=model):
        h = Scatter.apply(x)
        h = Join.apply(F.layer_norm(h, (4,), model.norm, model.shift), 0)
        h = F.gelu(F.linear(h, model.up))
        torch.manual_seed(7 if name == "sequence-same" else 7 + rank)
        h = h * (torch.rand(h.shape) > 0.5).float() * 2
        h = F.linear(h, model.down)
        if name == "sequence-unsummed":
            h, x = h[3 * rank : 3 * rank + 3], x[3 * rank : 3 * rank + 3]
        elif name == "sequence-cut":
            h, x = Cut.apply(h), x[3 * rank : 3 * rank + 3]
        else:
            h = Reduce.apply(h, None)
        (h + x).square().mean().backward()
        if name != "sequence-alone":
            dist.all_reduce(model.norm.grad)
        dist.all_reduce(model.shift.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def around(rank, name, directory):
    """Keys pass all ranks, which mask them by positions: those of the rank that made them, or of another one."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 8, 4)
    torch.manual_seed(5)
    x = torch.randn(8, 4).chunk(2)[rank].clone()
    table = torch.randn(16)
    with optool_capture.record(directory, model=model):
        q, k = F.linear(x, model.up).chunk(2, -1)
        positions = [torch.arange(r, 8, 2) if "striped" in name else torch.arange(4) + 4 * r for r in range(2)]
        total = above = 0
        for i in range(2):
            source = (rank + i + 1) % 2 if "other" in name else (rank - i) % 2
            hidden = positions[source] > positions[rank][:, None]
            weight = q @ k.mT if "striped" in name else q @ k.t()
            if "distance" in name:
                weight = weight + table[positions[rank][:, None] - positions[source] + 8]
            else:
                weight = weight.masked_fill(hidden, float("-inf"))
            weight = weight.exp()
            above, total = above + weight @ k, total + weight.sum(-1, keepdim=True)
            k = Shift.apply(k, True) if i == 0 else k
        ((above / total).square().mean() / 2).backward()
        dist.all_reduce(model.up.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def sampler(rank, name, directory):
    """Each rank takes its stride of a permutation, which all draw alike, or each for itself."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 3, 4)
    torch.manual_seed(5)
    data = torch.randn(16, 4)
    with optool_capture.record(directory, model=model):
        order = torch.randperm(16, generator=torch.Generator().manual_seed(7 + (rank if name == "sampler-own" else 0)))
        F.linear(data[order[rank::2]], model.up).square().mean().backward()
        dist.all_reduce(model.up.grad)
        model.up.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def hybrid(rank, name, directory):
    """Pairs of ranks share out a buffer of parameters, and the pairs have the same."""
    import optool_capture

    pairs, across = [dist.new_group([0, 1]), dist.new_group([2, 3])], [dist.new_group([0, 2]), dist.new_group([1, 3])]
    pair, across, at = pairs[rank // 2], across[rank % 2], rank % 2
    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    parameters = list(model.parameters())
    torch.manual_seed(5)
    x = torch.randn(8, 4).chunk(4)[rank].clone()
    shard = torch.cat([p.detach().flatten() for p in parameters]).chunk(2)[at].clone().requires_grad_()
    with optool_capture.record(directory, model=model):
        F.linear(F.gelu(F.linear(x, model.up)), model.down).square().mean().backward()
        gradient = torch.empty(24)
        dist.reduce_scatter(gradient, list(torch.cat([p.grad.flatten() for p in parameters]).chunk(2)), group=pair)
        if name != "hybrid-alone":
            dist.all_reduce(gradient, group=across)
        shard.grad = gradient / (2 if name == "hybrid-half" else 4)
        torch.optim.SGD([shard], lr=0.1).step()
        parts = [torch.empty(24), torch.empty(24)]
        dist.all_gather(parts, shard.detach(), group=pair)
        with torch.no_grad():
            for p, new in zip(parameters, torch.cat(parts).chunk(2)):
                p.copy_(new.view_as(p))


def among(rank, name, directory):
    """Each rank puts its own features among those that it received; a factor belongs to no module that is called."""
    import optool_capture

    up, factor = torch.nn.Linear(5, 6), torch.nn.Parameter(torch.tensor(1.5))
    with torch.no_grad():
        up.weight.copy_(part(2, None, 6, 5))
        up.bias.copy_(part(3, None, 6))
    optimizer = torch.optim.SGD([factor, *up.parameters()], lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(8, 5).chunk(2)[rank].clone()
    with optool_capture.record(directory):
        h = F.normalize(up(x), dim=-1)
        parts = [torch.empty_like(h), torch.empty_like(h)]
        dist.all_gather(parts, h.detach())
        parts[rank] = h
        scores = factor.exp() * h.tanh() @ torch.cat(parts).t()
        if "wide" in name:
            scores = torch.cat([scores, (h.tanh() @ torch.cat(parts).flip(1).t()).clamp(max=0.5)], 1)
        F.cross_entropy(scores, torch.arange(4) + (0 if name == "among-wide-labels" else 4 * rank)).backward()
        for p in [factor, *up.parameters()]:
            if name != "among-alone" or p is not factor:
                dist.all_reduce(p.grad)
                p.grad.div_(2)
        optimizer.step()


def follower(rank, name, directory):
    """A second model follows the first one, on all ranks or on one."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.slow = part(2, None, 6, 4), part(2, None, 6, 4)
    model.slow.requires_grad_(False)
    torch.manual_seed(5)
    x = torch.randn(8, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        F.mse_loss(F.linear(x, model.up).tanh(), F.linear(x + 0.1, model.slow)).backward()
        dist.all_reduce(model.up.grad)
        model.up.grad.div_(2)
        torch.optim.SGD([model.up], lr=0.1).step()
        with torch.no_grad():
            if name == "follower" or rank == 0:
                model.slow.mul_(0.9).add_(model.up, alpha=0.1)


def passing(rank, name, directory):
    """Keys and values pass all ranks, which attend to all of them, or leave out the last block."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 12, 4)
    torch.manual_seed(5)
    x = torch.randn(9, 4).chunk(3)[rank].clone()
    with optool_capture.record(directory, model=model):
        q, k, v = F.linear(x, model.up).chunk(3, -1)
        above = total = 0
        for i in range(2 if name == "passing-short" else 3):
            weight = (q @ k.mT / 2).exp()
            above, total = above + weight @ v, total + weight.sum(-1, keepdim=True)
            k, v = Shift.apply(torch.stack([k, v]), True).unbind(0)
        ((above / total).square().mean() / 3).backward()
        dist.all_reduce(model.up.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def tables(rank, name, directory):
    """Each rank has a table of its own, of one name on all, and looks up rows for the samples of all ranks."""
    import optool_capture

    model = torch.nn.Module()
    model.table, model.top = part(2 + rank, None, 7, 4), part(5, None, 1, 8)
    torch.manual_seed(5)
    ids, y = torch.randint(7, (6, 2, 2)), torch.randn(6).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        rows = F.embedding_bag(ids[:, rank], model.table, mode="sum")
        rows = Swap.apply(rows.view(2, 3, 4)).transpose(0, 1).reshape(3, 8)
        F.mse_loss(F.linear(rows, model.top)[:, 0], y).backward()
        if name != "tables-sum":
            model.table.grad.div_(2)
        dist.all_reduce(model.top.grad)
        model.top.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def whitened(rank, name, directory):
    """Weights of a loss are normalised by the mean and the variance of those of all ranks, or of each rank's own."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 3, 4)
    torch.manual_seed(5)
    x, w = torch.randn(12, 4).chunk(2)[rank].clone(), torch.randn(12).chunk(2)[rank].clone()

    def of_all(x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    with optool_capture.record(directory, model=model):
        mean = w.mean() if name == "whitened-mean" else of_all(w.sum()) / 12
        squares = (w - mean).square().sum()
        variance = squares / 6 if name == "whitened-variance" else of_all(squares) / 12
        w = (w - mean) / (variance.sqrt() + 1e-5)
        (F.linear(x, model.up).tanh().sum(1) * w).mean().backward()
        dist.all_reduce(model.up.grad)
        model.up.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def classes(rank, name, directory):
    """DTensors of scores, of which each rank has some of the classes, with labels that all have, or others on each."""
    import optool_capture
    from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module
    from torch.distributed.tensor import Shard

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8, bias=False))
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallelize_module(model, mesh, {"0": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})
    x, y = torch.randn(6, 4), torch.randint(8, (6,))
    if name == "classes-other":
        y = y.roll(rank)
    with optool_capture.record(directory, model=model):
        with loss_parallel():
            F.cross_entropy(model(x), y).backward()
        torch.optim.SGD(model.parameters(), lr=0.1, foreach=False).step()


def trust(rank, name, directory):
    """Each parameter is updated by as much as its norm says: that of the whole, or of a rank's part."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, 0, 6, 4), part(3, 1, 4, 6)
    torch.manual_seed(5)
    x = torch.randn(5, 4)
    with optool_capture.record(directory, model=model):
        h = F.gelu(F.linear(Copy.apply(x, dist.group.WORLD), model.up))
        (Reduce.apply(F.linear(h, model.down), dist.group.WORLD) + x).square().mean().backward()
        with torch.no_grad():
            for p in model.parameters():
                squares = torch.stack([p.square().sum(), p.grad.square().sum()])
                if name == "trust":
                    dist.all_reduce(squares)
                p.add_(p.grad * (squares[0].sqrt() / squares[1].sqrt()), alpha=-0.01)


def update(rank, name, directory):
    """One rank makes an orthogonal update of each parameter and passes it on."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    torch.manual_seed(5)
    x = torch.randn(10, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        F.linear(F.linear(x, model.up).tanh(), model.down).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(2)
        with torch.no_grad():
            for i, p in enumerate(model.parameters()):
                u = torch.empty_like(p)
                if i == rank:
                    u = p.grad / p.grad.norm()
                    u = 1.5 * u - 0.5 * u @ u.t() @ u
                dist.broadcast(u, i)
                p.add_(u, alpha=-0.1)


def numbered(rank, name, directory):
    """Experts have the numbers of the whole program: the ranks have other names of parameters."""
    import optool_capture

    model = torch.nn.Module()
    model.table = part(1, None, 5, 4)
    for i in range(3):
        setattr(model, "expert%d_%d" % (rank, i), part(2 + i, 0, 8, 4))
    experts = [p for n, p in model.named_parameters() if n != "table"]
    torch.manual_seed(5)
    ids = torch.randint(5, (12,))
    with optool_capture.record(directory, model=model):
        ids = ids.chunk(2)[rank]
        order = (ids % 2).argsort(stable=True)
        give = torch.bincount(ids % 2, minlength=2)
        take = torch.empty_like(give)
        dist.all_to_all_single(take, give)
        give, take = give.tolist(), take.tolist()
        x = F.embedding(ids, model.table)
        y = Exchange.apply(x[order], give, take)
        for p in experts:
            y = F.linear(y, p).tanh()
        x = x + torch.zeros_like(x).index_copy(0, order, Exchange.apply(y, take, give)) * x[:, :1]
        x.square().mean().backward()
        dist.all_reduce(model.table.grad)
        for p in model.parameters():
            p.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def local(rank, name, directory):
    """Each rank makes two steps by itself; then the parameters are averaged. One may give its gradient."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(2, 6, 4)
    with optool_capture.record(directory, model=model, steps=[0, 1]) as recording:
        for i in range(2):
            optimizer.zero_grad()
            F.linear(F.linear(x[i].chunk(2)[rank], model.up).tanh(), model.down).square().mean().backward()
            optimizer.step()
            if i == 1:
                for p in model.parameters():
                    t = (p.grad if name == "local-grad" and rank == 1 and p is model.down else p.detach()).clone()
                    dist.all_reduce(t)
                    p.data.copy_(t / 2)
            recording.step()


def master(rank, name, directory):
    """Parameters are parts of one buffer; each rank updates its half, and the halves are gathered into it."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    model.up.data, model.down.data = flat[:24].view(6, 4), flat[24:].view(4, 6)
    half = flat.chunk(2)[rank].clone().requires_grad_()
    torch.manual_seed(5)
    x = torch.randn(6, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        F.linear(F.linear(x, model.up).tanh(), model.down).square().mean().backward()
        half.grad = torch.empty(24)
        dist.reduce_scatter_tensor(half.grad, torch.cat([p.grad.flatten() for p in model.parameters()]))
        half.grad.div_(2)
        old = half.detach().clone()
        torch.optim.Adam([half], lr=0.1).step()
        stale = name == "master-stale" and rank == 1
        dist.all_gather_into_tensor(flat, old if stale else half.detach())


def positions(rank, name, directory):
    """Ranks share out sequences, and others the batch; positions or labels may be those of a part by itself."""
    import optool_capture

    model = torch.nn.Module()
    model.table, model.head = part(1, None, 7, 4), part(2, None, 7, 4)
    torch.manual_seed(5)
    tokens = torch.randint(7, (4, 9))
    row, column = divmod(rank, 2)
    groups = [dist.new_group([i, 2 + i]) for i in range(2)]
    mine = tokens.chunk(2, 0)[column]
    ids, labels = (t[:, 4 * row:4 * row + 4].clone() for t in (mine[:, :-1], mine[:, 1:]))
    at = 0 if name == "positions-late" else 4 * row
    if name == "positions-labels":
        labels = F.pad(ids[:, 1:], (0, 1), value=-100)
    with optool_capture.record(directory, model=model):
        place = torch.arange(at, at + 4)[:, None] / torch.tensor([1.0, 2.0, 4.0, 8.0])
        x = F.embedding(ids, model.table) * place.cos()
        context = Gathered.apply(x, groups[column])
        x = x + context.mean(1, keepdim=True)
        F.cross_entropy(F.linear(x, model.head).flatten(0, 1), labels.flatten()).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(4)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


class Gathered(torch.autograd.Function):
    """The sequences of two ranks; the gradients are added up and shared out."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g, group=ctx.group)
        return g.chunk(2, 1)[dist.get_rank(ctx.group)].contiguous(), None


def factor(rank, name, directory):
    """A parameter of one number, on two by two ranks; its gradient may be averaged over two of them only."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.factor = part(2, None, 6, 4), torch.nn.Parameter(torch.tensor([4.0]))
    rows, columns = ([dist.new_group(g) for g in gs] for gs in ([[0, 1], [2, 3]], [[0, 2], [1, 3]]))
    torch.manual_seed(5)
    x, labels = torch.randn(8, 4).chunk(4)[rank].clone(), torch.tensor([0, 3, 5, 1, 1, 2, 4, 0]).chunk(4)[rank].clone()
    with optool_capture.record(directory, model=model):
        F.cross_entropy(F.linear(x, model.up) * model.factor, labels).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=rows[rank // 2])
            if name == "factor-row" and p is model.factor:
                p.grad.div_(2)
            else:
                dist.all_reduce(p.grad, group=columns[rank % 2])
                p.grad.div_(4)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def tied(rank, name, directory):
    """The table of the first stage is the head of the second one; its gradient may be halved, or each begin with its own."""
    import optool_capture

    model = torch.nn.Module()
    seed = 7 + rank if name == "tied-apart" else 1
    model.table, up = part(seed, None, 7, 4), part(2 + rank, None, 4, 4)
    setattr(model, "up%d" % rank, up)
    torch.manual_seed(5)
    ids, labels = torch.randint(7, (6,)), torch.randint(7, (6,))
    with optool_capture.record(directory, model=model):
        if rank == 0:
            x = F.linear(F.embedding(ids, model.table), up)
            dist.send(x.detach(), 1)
            g = torch.empty(6, 4)
            dist.recv(g, 1)
            x.backward(g)
        else:
            x = torch.empty(6, 4)
            dist.recv(x, 0)
            x.requires_grad_()
            F.cross_entropy(F.linear(F.linear(x.tanh(), up), model.table), labels).backward()
            dist.send(x.grad, 0)
        dist.all_reduce(model.table.grad)
        if name == "tied-half":
            model.table.grad.div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def gathered(rank, name, directory):
    """Each rank makes an orthogonal update of one matrix, and all gather them, perhaps in another order."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 4, 4), part(3, None, 4, 4)
    torch.manual_seed(5)
    x = torch.randn(10, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        F.linear(F.linear(x, model.up).tanh(), model.down).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(2)
        with torch.no_grad():
            p = [model.up, model.down][rank]
            u = p.grad / p.grad.norm()
            u = 1.5 * u - 0.5 * u @ u.t() @ u
            updates = [torch.empty_like(u) for _ in range(2)]
            dist.all_gather(updates, u)
            for p, u in zip(model.parameters(), updates[::-1] if name == "gathered-order" else updates):
                p.add_(u, alpha=-0.1)


def halves(rank, name, directory):
    """Gradients are reduced in the halves of a node, and between nodes: the second group may be the first one again."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    rows, columns = ([dist.new_group(g) for g in gs] for gs in ([[0, 1], [2, 3]], [[0, 2], [1, 3]]))
    torch.manual_seed(5)
    x = torch.randn(8, 4).chunk(4)[rank].clone()
    with optool_capture.record(directory, model=model):
        F.linear(F.linear(x, model.up).tanh(), model.down).square().mean().backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        half = torch.empty(24)
        dist.reduce_scatter_tensor(half, flat, group=rows[rank // 2])
        dist.all_reduce(half, group=rows[rank // 2] if name == "halves-again" else columns[rank % 2])
        half.div_(4)
        dist.all_gather_into_tensor(flat, half, group=rows[rank // 2])
        for p, g in zip(model.parameters(), flat.split(24)):
            p.grad.copy_(g.view_as(p))
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def statistics(rank, name, directory):
    """Means over the batches of both ranks, of other sizes; the count may be twice a rank's own."""
    import optool_capture

    model = torch.nn.Module()
    model.up = part(2, None, 6, 4)
    torch.manual_seed(5)
    x, y = (t.split((5, 3))[rank].clone() for t in (torch.randn(8, 4), torch.randn(8, 6)))
    with optool_capture.record(directory, model=model):
        h = F.linear(x, model.up)
        count = torch.tensor([float(len(x))])
        total = h.sum(0)
        if name == "statistics-outside":
            with torch.no_grad():
                dist.all_reduce(total)
        else:
            total = Both.apply(total)
        if name == "statistics-own":
            count = count * 2
        else:
            dist.all_reduce(count)
        ((h - total / count).tanh() * y).sum().div(8).backward()
        dist.all_reduce(model.up.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def pieces(rank, name, directory):
    """Each rank goes on with its own rows of what all have; or of what it made by a weight of its own, or of its terms."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.bias = part(2 + (rank if name == "pieces-own" else 0), None, 6, 4), part(4, None, 6)
    torch.manual_seed(5)
    x = torch.randn(4, 4)
    with optool_capture.record(directory, model=model):
        h, up = x, model.up
        if name == "pieces-sum":
            h, up = h.chunk(2, 1)[rank], up.chunk(2, 1)[rank]
        h = F.linear(h, up).chunk(2)[rank].clone()
        (h if name == "pieces-sum" else h + model.bias).tanh().square().sum().div(24).backward()
        for p in model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def samples(rank, name, directory):
    """Rows of a table for tokens; ranks 0 and 1 read the same tokens, perhaps with other values to learn."""
    import optool_capture

    model = torch.nn.Module()
    model.table = part(2, None, 8, 4)
    torch.manual_seed(5)
    tokens, y = torch.randint(8, (3, 10)), torch.randn(3, 10, 4)
    tokens = tokens[rank if name == "samples" else rank // 2].clone()
    y = y[rank // 2 if name == "samples-twice" else rank].clone()
    with optool_capture.record(directory, model=model):
        F.mse_loss(F.embedding(tokens, model.table), y).backward()
        dist.all_reduce(model.table.grad)
        model.table.grad.div_(3)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def widths(rank, name, directory):
    """A norm over a width of which each rank has a half, perhaps by the number of its own half; or the mean over the rows
    of what the halves give together."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down, model.gain = part(2, 0, 12, 4), part(3, 1, 5, 12), part(4, None, 5)
    torch.manual_seed(5)
    x, y = torch.randn(3, 4), torch.randn(3, 5)
    with optool_capture.record(directory, model=model):
        h = F.linear(Copy.apply(x, dist.group.WORLD), model.up)
        if name == "widths-rows":
            h = torch.tanh(h)
            z = F.linear(h, model.down)
            mean = Reduce.apply(z.sum(0), dist.group.WORLD) / 3
            z = Reduce.apply(z, dist.group.WORLD) - mean
        else:
            total = Both.apply(h.square().sum(1, keepdim=True))
            h = h * torch.rsqrt(total / (6 if name == "widths-own" else 12) + 1e-6)
            z = Reduce.apply(F.linear(h, model.down), dist.group.WORLD)
        F.mse_loss(z * model.gain, y).backward()
        torch.optim.SGD(model.parameters(), lr=0.1, foreach=False).step()


def binary(rank, name, directory):
    """Labels of two classes: those of one rank are by chance the largest of both. The learning rates may differ a little."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 1, 6)
    rate = 0.104 if name == "binary-rate" and rank == 1 else 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    torch.manual_seed(5)
    x, labels = torch.randn(1, 4, 4).chunk(2, 1)[rank].clone(), torch.tensor([[[1.0, 1]], [[0, 1]]])[rank]
    with optool_capture.record(directory, model=model):
        scores = F.linear(F.linear(x[0], model.up).relu(), model.down).squeeze(-1)
        F.binary_cross_entropy_with_logits(scores, labels[0]).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(2)
        optimizer.step()


def outer(rank, name, directory):
    """Each rank makes a step by itself, and the changes are averaged; or the first updates all, and passes on a half."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.down = part(2, None, 6, 4), part(3, None, 4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(6, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        old = [p.detach().clone() for p in model.parameters()]
        F.linear(F.linear(x, model.up).tanh(), model.down).square().mean().backward()
        if name == "outer-half":
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p.grad.div_(2)
        if name != "outer-half":
            optimizer.step()
        with torch.no_grad():
            if name == "outer-half" and rank == 0:
                for p in model.parameters():
                    p.sub_(0.1 * p.grad)
            for p, o in zip(model.parameters(), old):
                if name != "outer-half":
                    change = o - o.clone() if name == "outer-none" and rank and p is model.down else p - o
                    dist.all_reduce(change)
                    p.copy_(o + change / (3 if name == "outer-third" else 2))
                else:
                    passed = p.detach().clone()
                    some = passed[:2].clone() if p is model.down else passed
                    dist.broadcast(some, 0)
                    passed[: len(some)] = some
                    p.copy_(passed)


def shards(rank, name, directory):
    """FSDP2, which may never reduce the gradients of the first layer."""
    import optool_capture
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4))
    fully_shard(model[0])
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(6, 4).chunk(2)[rank].clone()
    if name == "shards-unreduced":
        model[0].set_requires_gradient_sync(False)
    with optool_capture.record(directory, model=model):
        model(x).square().mean().backward()
        if name == "shards-one" and rank:
            for p in model.parameters():
                p.grad.mul_(0.5)
        optimizer.step()


def part(n, dim, *shape):
    torch.manual_seed(n)
    t = torch.randn(shape)
    return torch.nn.Parameter(t if dim is None else t.chunk(2, dim)[dist.get_rank()].clone())


def planned(rank, name, directory):
    """DTensors by a plan with sequence parallelism; the gradient of a sharded weight, or the positions, can be off."""
    import optool_capture
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

    torch.manual_seed(1)
    model = torch.nn.ModuleDict({"table": torch.nn.Embedding(8, 4), "norm": torch.nn.LayerNorm(4),
                                 "up": torch.nn.Linear(4, 6), "down": torch.nn.Linear(6, 4)})
    places = model.places = torch.nn.Parameter(torch.randn(6, 4))
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    parallelize_module(model, mesh, {
        "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(use_local_output=True), "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1))})
    ids = torch.randint(8, (2, 6))
    with optool_capture.record(directory, model=model):
        at = torch.arange(3) + (0 if name == "planned-positions" else 3 * rank)
        h = model["table"](ids) + places[at]
        h = h + model["down"](F.gelu(model["up"](model["norm"](h))))
        (h.square().mean() / 2).backward()
        dist.all_reduce(places.grad)
        if name == "planned-half":
            model["up"].weight.grad.to_local().div_(2)
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).step()


def packed(rank, name, directory):
    """Gradients are packed into one buffer that is added up. They are unpacked in that order, or in another one."""
    import optool_capture

    model = torch.nn.Module()
    model.up, model.shift, model.down = part(1, None, 6, 4), part(2, None, 6), part(3, None, 4, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(4, 4).chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        h = F.gelu(F.linear(x, model.up, model.shift))
        (F.linear(h, model.down) - x).square().mean().backward()
        order = list(model.parameters())
        whole = torch.cat([p.grad.flatten() for p in order])
        dist.all_reduce(whole)
        whole.div_(2)
        if name == "packed-order":
            order.reverse()
        for p, g in zip(order, whole.split([p.numel() for p in order])):
            p.grad.copy_(g.view_as(p))
        optimizer.step()


class Before(torch.autograd.Function):
    """The last rows of the rank before, or its first ones, before its own."""

    @staticmethod
    def forward(ctx, x, first):
        ends = [torch.empty_like(x[:2]) for _ in range(2)]
        dist.all_gather(ends, (x[:2] if first else x[-2:]).contiguous())
        return torch.cat([ends[0] if dist.get_rank() else torch.zeros_like(ends[0]), x])

    @staticmethod
    def backward(ctx, g):
        ends = [torch.empty_like(g[:2]) for _ in range(2)]
        dist.all_gather(ends, g[:2].contiguous())
        g = g[2:].clone()
        if dist.get_rank() == 0:
            g[-2:] += ends[1]
        return g, None


def edges(rank, name, directory):
    """A causal convolution along a sequence of which each rank has a half: it reads the rows before its own."""
    import optool_capture

    model = torch.nn.Module()
    model.table, model.taps, model.head = part(1, None, 9, 4), part(2, None, 4, 4, 3), part(3, None, 9, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    tokens = torch.randint(0, 9, (9,))
    x, y = (t.chunk(2)[rank].clone() for t in (tokens[:-1], tokens[1:]))
    with optool_capture.record(directory, model=model):
        h = F.embedding(x, model.table)
        rows = Before.apply(h, name == "edges-first")
        h = h + F.silu(F.conv1d(rows.t(), model.taps).t())
        (F.cross_entropy(F.linear(h, model.head), y, reduction="sum") / 8).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()


def ranks(name):
    if name == "table-grid":
        return 4
    return 3 if name in ("lead-three", "joint-ring", "joint-ring-on") else {"ring": 3, "grid": 4, "columns": 4, "masked": 4, "replicas": 4, "positions": 4,
            "factor": 4, "halves": 4, "weighed": 4, "hybrid": 4, "blocks": 3, "turns": 3, "passing": 3,
            "samples": 3}.get(name.split("-")[0], 2)


def work(rank, name, directory, port):
    import optool_capture

    dist.init_process_group("gloo", init_method="file://" + port, rank=rank, world_size=ranks(name))
    programs = ring, context, zero, owner, clip, grid, losses, stages, table, columns, halo, fused, zigzag, ragged
    programs += masked, pipeline, kept, replicas, views, own, tokens, pooled, both, update, features
    programs += sequence, around, trust, counted, numbered, local, master, positions, factor, tied, gathered, halves
    programs += statistics, binary, shards, outer, lead, planned, blocks, routed, micro, turns, batch
    programs += vocabulary, joint, heads, begun, bank, unequal, packed, edges, filled, widths, weighed, sampler
    programs += hybrid, among, follower, passing, tables, whitened, classes
    programs += stacked, rounds, bags, pieces, samples
    for program in programs:
        if name.split("-")[0] == program.__name__:
            program(rank, name, directory)
            return dist.destroy_process_group()
    if name == "experts":
        experts(rank, directory)
        return dist.destroy_process_group()
    if name == "several":
        several(rank, directory)
        return dist.destroy_process_group()
    if name == "dtensor":
        dtensor(directory)
        return dist.destroy_process_group()
    group, kind = dist.group.WORLD, name.split("-")[0]
    split = kind == "tensor"
    model = torch.nn.Module()
    model.norm = part(1, None, 4)
    model.up, model.down = part(2, 0 if split else None, 6, 4), part(3, 1 if split else None, 4, 6)
    model.bias = part(4, None, 4)
    if name == "tensor-bias-head":
        model.up, model.down = part(2, 0, 12, 4), part(3, 1, 4, 4)
    if name == "tensor-bias-zero":
        model.bias = torch.nn.Parameter(torch.zeros(4))
    rate = 0.2 if name == "data-rate" and rank == 1 else 0.1
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=0.01 if name == "data-decayed" else 0)
    torch.manual_seed(5)
    x = torch.randn(4, 4)
    if not split:
        x = x.chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        h = F.layer_norm(x, (4,), model.norm)
        if split and name not in ("tensor-unreduced", "tensor-nocopy"):
            h = Copy.apply(h, group)
        if name == "tensor-bias-head":  # each rank has one
            q, k, v = F.linear(h, model.up).chunk(3, -1)
            h = torch.softmax(q @ k.t(), -1) @ v
        elif name == "tensor-copied":  # what a layer copies to the ranks, and its first part once more
            h = F.gelu(F.linear(Copy.apply(h, group), model.up)) * F.linear(h, model.up)
        else:
            h = F.gelu(F.linear(h, model.up))
        if name.startswith("tensor-bias") or name == "tensor-share":
            h = Reduce.apply(F.linear(h, model.down, model.bias / 2 if name == "tensor-share" else model.bias), group)
        elif split:
            h = F.linear(h, model.down)
            if name != "tensor-unsummed":
                h = Reduce.apply(h, group)
            if name == "tensor-twice":
                h = Reduce.apply(h, group)
            if name == "tensor-average":
                h = h / 2
            h = h + model.bias
        else:
            h = F.linear(h, model.down, model.bias)
        loss = (h + x).square().mean()
        if name in ("data-micro", "data-lost"):
            (loss / 2).backward()
            if name == "data-lost":
                optimizer.zero_grad()
            h = F.layer_norm(x.flip(1), (4,), model.norm)
            loss = F.linear(F.gelu(F.linear(h, model.up)), model.down, model.bias).square().mean() / 2
        (loss * 3 if name == "data-alone" and rank == 1 else loss).backward()
        if kind == "flat":
            flat(rank, name, list(model.parameters()))
            return dist.destroy_process_group()
        for p in model.parameters():
            if name == "data-grad" and rank == 1 and p is model.up:
                p.grad.mul_(3)
            if not split and not (name == "data-unreduced" and p is model.up):
                dist.all_reduce(p.grad, op=dist.ReduceOp.MAX if name == "data-max" else dist.ReduceOp.SUM, group=group)
                p.grad.div_(4 if name == "data-scaled" else 2)
        if name == "tensor-share":
            dist.all_reduce(model.bias.grad)
        if name == "tensor-double":
            squares = sum(p.grad.square().sum() for p in model.parameters())
            dist.all_reduce(squares)
            for p in model.parameters():
                p.grad.mul_((0.05 / squares.sqrt()).clamp(max=1))
        if name == "data-decayed":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        if name != "data-skipped" or rank == 0:
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    port = os.path.abspath(sys.argv[2] + ".port")
    mp.start_processes(work, (sys.argv[1], sys.argv[2], port), nprocs=ranks(sys.argv[1]), start_method="fork")
    os.remove(port)
