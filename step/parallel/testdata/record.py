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
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g, None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, None


def part(n, dim, *shape):
    torch.manual_seed(n)
    t = torch.randn(shape)
    return torch.nn.Parameter(t if dim is None else t.chunk(2, dim)[dist.get_rank()].clone())


def work(rank, name, directory, port):
    import optool_capture

    dist.init_process_group("gloo", init_method="file://" + port, rank=rank, world_size=2)
    group, kind = dist.group.WORLD, name.split("-")[0]
    split = kind == "tensor"
    model = torch.nn.Module()
    model.norm = part(1, None, 4)
    model.up, model.down = part(2, 0 if split else None, 6, 4), part(3, 1 if split else None, 4, 6)
    model.bias = part(4, None, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(5)
    x = torch.randn(4, 4)
    if not split:
        x = x.chunk(2)[rank].clone()
    with optool_capture.record(directory, model=model):
        h = F.layer_norm(x, (4,), model.norm)
        if split and name != "tensor-unreduced":
            h = Copy.apply(h, group)
        h = F.gelu(F.linear(h, model.up))
        if name == "tensor-bias":
            h = Reduce.apply(F.linear(h, model.down, model.bias), group)
        elif split:
            h = Reduce.apply(F.linear(h, model.down), group) + model.bias
        else:
            h = F.linear(h, model.down, model.bias)
        (h + x).square().mean().backward()
        for p in model.parameters():
            if not split and not (name == "data-unreduced" and p is model.up):
                dist.all_reduce(p.grad, group=group)
                p.grad.div_(4 if name == "data-scaled" else 2)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    port = os.path.abspath(sys.argv[2] + ".port")
    mp.start_processes(work, (sys.argv[1], sys.argv[2], port), nprocs=2, start_method="fork")
    os.remove(port)
