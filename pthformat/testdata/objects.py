#!/usr/bin/env python3
"""Writes objects/a, objects/b (one value of each file is another) and objects/n (that value is nan, or none where the
file holds integers only).

Run with torch 2.15 and numpy 2.4 in this folder: python3 objects.py
"""
import os, re, sys, zipfile
import numpy as np, torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

folder = "objects/a"


def values(*shape):
    t = torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float32).reshape(shape)
    if folder[-1] != "a":
        t.view(-1)[-1] = {"b": 100.0, "n": float("nan")}[folder[-1]]
    return t


def number():
    return {"a": 1.5, "b": 2.5, "n": float("nan")}[folder[-1]]


class Wrapper(torch.Tensor):
    """A tensor of int8 with a scale, as quantization libraries make them."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32)

    def __init__(self, data, scale):
        self.int_data, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["int_data", "scale"], []

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls(args[0].int_data, args[0].scale)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1, bias=False)])
        self.register_buffer("count", torch.tensor(3))
        with torch.no_grad():
            self.layers[0].weight.copy_(values(2, 2))
            self.layers[0].bias.fill_(1)
            self.layers[1].weight.fill_(1)

    def forward(self, x):
        return self.layers[1](self.layers[0](x)) + self.count


def without_paths(path):
    """Leaves out of an archive of a program what names files of this machine."""
    with zipfile.ZipFile(path) as old:
        records = [(i, old.read(i)) for i in old.infolist() if not i.filename.endswith(".debug_pkl")]
    with zipfile.ZipFile(path, "w") as new:
        for info, b in records:
            if info.filename.endswith("models/model.json"):
                b = re.sub(rb'/[^"]*/site-packages/', b"", re.sub(rb'File \\"/[^"]*', b'File \\"', b))
            new.writestr(zipfile.ZipInfo(info.filename), b)


class Record:
    def __init__(self, **items):
        self.__dict__.update(items)


def attributed():
    p = nn.Parameter(torch.ones(2))
    p.scale = values(2)
    return p


def looped():
    r = Record(x=values(2), items=[1, "two"])
    r.me = r
    return r


def sharded(path):
    """A checkpoint of two processes: w is split, the second also saves its part alone."""
    w = distribute_tensor(values(4, 2), init_device_mesh("cpu", (2,)), [Shard(0)])
    dcp.save({"w": w, "step": 3}, checkpoint_id=path)
    if dist.get_rank() == 1:
        torch.save({"w": w}, os.path.join(folder, "dtensor.pt"))


def write():
    save = lambda name, x, **kw: torch.save(x, os.path.join(folder, name), **kw)
    x = values(2, 2)
    save("sparse.pt", {"coo": x.to_sparse(), "csr": x.to_sparse_csr(), "bsr": x.to_sparse_bsr((2, 2))})
    scales = {"scale": torch.tensor([0.5, number()], dtype=torch.float64)} if folder[-1] == "n" else {}
    save("quantized.pt", {"tensor": torch.quantize_per_tensor(values(2, 2), 0.5, 3, torch.quint8) if not scales else scales,
                          "channel": torch.quantize_per_channel(torch.ones(2, 2), torch.tensor([0.5, 0.25]).double(),
                                                                torch.tensor([0, 1]), 0, torch.qint8)})
    save("nested.pt", {"strided": torch.nested.nested_tensor([values(1, 2), torch.ones(2, 2)]),
                       "jagged": torch.nested.nested_tensor([torch.ones(1, 2), values(2, 2)], layout=torch.jagged)})
    save("subclass.pt", {"w": nn.Parameter(Wrapper(torch.ones(2, dtype=torch.int8), values(2)), requires_grad=False),
                         "p": attributed()})
    save("module.pt", Net())
    save("record.pt", looped())
    opt = torch.optim.SGD([nn.Parameter(values(2))], lr=0.5)
    save("optimizer.pt", opt)
    save("arrays.pt", {"o": np.array([number(), None], dtype=object), "t": np.array([1, 2], dtype="datetime64[D]"),
                       "m": np.ma.array([1.0, 2.0], mask=[True, False])})
    save("meta.pt", {"m": torch.ones(2, device="meta"), "x": values(2)})
    torch.jit.script(nn.Sequential(Net().layers[0])).save(os.path.join(folder, "script.pt"))
    torch.export.save(torch.export.export(Net().layers[0], (torch.ones(1, 2),)), os.path.join(folder, "export.pt2"))
    without_paths(os.path.join(folder, "script.pt"))
    without_paths(os.path.join(folder, "export.pt2"))
    day = {"a": "2026-01-01", "b": "2026-01-02", "n": "NaT"}[folder[-1]]
    np.savez(os.path.join(folder, "arrays.npz"), time=np.array(["2025-01-01", day], dtype="datetime64[D]"),
             record=np.array([(1, [1, number()], "a")], dtype=[("i", ">i2"), ("f", "<f4", (2,)), ("s", "U2")]),
             object=np.array([1, None, number()], dtype=object), text=np.array(["ab", "c"]))


def process(rank):
    global folder
    for folder in ("objects/a", "objects/b", "objects/n"):
        os.makedirs(folder, exist_ok=True)
        if rank == 0:
            torch.manual_seed(0)
            write()
        sharded(os.path.join(folder, "dcp"))


if len(sys.argv) > 1:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK=sys.argv[1], WORLD_SIZE="2")
    dist.init_process_group("gloo")
    process(int(sys.argv[1]))
    dist.destroy_process_group()
else:
    children = [os.spawnl(os.P_NOWAIT, sys.executable, sys.executable, __file__, str(r)) for r in range(2)]
    sys.exit(any(os.waitpid(c, 0)[1] for c in children))
