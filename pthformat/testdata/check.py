#!/usr/bin/env python3
"""Loads the files of testdata/write with torch, with weights_only=True where the value allows it, and compares them
with what was written. Run in this folder, with torch 1.13 and with torch 2.5."""
import collections, io, math, os, zipfile
import torch

NEW = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)
load = lambda name, safe: torch.load(os.path.join("write", name + ".pth"), map_location="cpu", weights_only=safe)
f32 = torch.tensor([[0, 1, -2.5], [1e-3, math.inf, 0.1]])
i16 = torch.arange(32, dtype=torch.uint8).view(torch.int16)
names = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64 complex128".split()


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.stride(), a.storage_offset(), a.requires_grad) == (b.dtype, b.shape, b.stride(), b.storage_offset(), b.requires_grad), (a, b)
        assert a.tolist() == b.tolist() if a.dtype not in (torch.float32,) else torch.equal(a, b), (a, b)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), (a, b)
        [same(x, y) for x, y in zip(a, b)]
    elif isinstance(a, dict):
        assert list(a) == list(b), (a, b)
        [same(a[k], b[k]) for k in a]
    else:
        assert a == b, (a, b)


def check(name, want, safe=True):
    got = load(name, safe)
    same(got, want)
    assert zipfile.ZipFile(os.path.join("write", name + ".pth")).testzip() is None
    print("ok", name, "weights_only" if safe else "")
    return got


g = check("capture", {"name": "torch.add", "args": (f32, f32), "kwargs": {"alpha": 2, "out": None}, "identifier": "1/2024-10-24-10-00-00/input"})
assert g["args"][0] is g["args"][1]
par = i16.as_strided((2, 2), (4, 1), 4)
g = load("shared", True)
same(g[0], par), same(g[1], i16)
assert g[0] is g[2] and g[0].data_ptr() == g[1].data_ptr() + 8
same(g[3], i16.view(torch.uint8).as_strided((1, 2), (9, 4), 3))
assert type(g[4]) is torch.nn.Parameter and g[4].requires_grad and torch.equal(g[4], f32)
print("ok shared weights_only")
if NEW:  # torch 1.13 has no such dtypes
    g = load("float8", True)
    assert g[0].dtype is torch.float8_e5m2 and g[0].float().tolist() == [1, -2] and g[1].dtype is torch.float8_e4m3fn and g[1].float().item() == 448
    print("ok float8 weights_only")
    g = load("dtypes", False)  # 2.5 allows uint16 to uint64 only without weights_only
    assert [str(t.dtype)[6:] for t in g] == names
    for t in g:
        want = [1 + 2j, -0.5] if t.is_complex() else [1.5, -2] if t.is_floating_point() else [1, 3]
        assert (t.to(torch.complex64) if t.is_complex() else t).tolist() == ([True, True] if t.dtype is torch.bool else want), t
    print("ok dtypes")
check("empty", (torch.empty(0, 3), torch.tensor(-7), (), [], {}))
check("integers", [0, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31) - 1, 2**63 - 1, -(2**63), -(1 << 70), 1 << 70])
g = check("many", [[i] for i in range(300)] + [[299], [0]])
assert g[300] is g[299] and g[301] is g[0]
check("size", torch.Size([2, 3]))
g = load("named", False)
assert type(g) is torch.return_types.max and g.values.item() == 3 and g.indices.item() == 1
g = check("ordered", collections.OrderedDict([(1, [1, "é"]), (("k", None), [1, "é"])]))
assert g[1] is g["k", None]
check("pythonic", (True, False, 2.5, -math.inf, 3 - 4j, b"\x00A\xff", slice(None, 3, None), ..., {1}), False)
check("torchlike", (torch.bfloat16, torch.bool, torch.device("cuda", 1), torch.device("cpu"), torch.strided), False)
print("torch", torch.__version__, "agrees")
