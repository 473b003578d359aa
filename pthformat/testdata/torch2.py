#!/usr/bin/env python3
"""Writes torch/torch2-*.pth and, for every tensor in them, what torch reads: torch/torch2.truth.json.

Run with torch 2.5.1 and numpy 1.26 in this folder: python3 torch2.py
"""
import collections, hashlib, json, os
import numpy as np, torch

torch.manual_seed(0)
NAMES = """bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128
float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz""".split()


def content(t):
    t = t.detach().resolve_conj().resolve_neg()
    if t.dtype is torch.bool:
        return bytes(t.contiguous().numpy())
    return bytes(t.clone(memory_format=torch.contiguous_format).untyped_storage())


def dtypes():
    out = {}
    for n in NAMES:
        raw = torch.randint(0, 120, (48,), dtype=torch.uint8)
        t = raw % 2 == 0 if n == "bool" else raw.view(getattr(torch, n))
        out[n], out[n + "_view"] = t, t.as_strided((2, 1), (1, 2), 1)
    return out


def flags():
    c = torch.randn(3, 4, dtype=torch.complex64)
    return {"plain": c, "conj": c.conj(), "neg": torch._neg_view(torch.randn(3)), "both": torch._neg_view(c.conj())[1:],
            "double": torch.randn(3, dtype=torch.complex128).conj(), "int": torch._neg_view(torch.arange(-2, 3))}


OBJECTS = {
    "dtypes": dtypes(),
    "flags": flags(),
    "values": {
        "set": {1, 2, 3}, "frozenset": frozenset([1]), "ordered": collections.OrderedDict(a=1), "default": collections.defaultdict(list, {1: [2]}),
        "counter": collections.Counter("aab"), "bytes": b"\x00\xff", "bytearray": bytearray(b"xy"), "complex": 1 + 2j, "big": -(1 << 70),
        "device": torch.device("cuda", 1), "dtype": torch.float32, "layout": torch.strided, "size": torch.Size([1, 2]),
        "slice": slice(1, None, 2), "ellipsis": ..., "range": range(3), "float32": np.float32(1.5), "int64": np.int64(-3),
        "bool": np.bool_(True), "complex64": np.complex64(1 + 2j), "array": np.arange(6).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "big-endian": np.arange(3, dtype=">i4"), "0-d": np.array(2.5),
        "strings": np.array(["a", "b"]), "objects": np.array([1, None], dtype=object),
    },
    "returns": {"max": torch.ones(2, 2).max(0), "svd": torch.linalg.svd(torch.eye(2))},
    "storage": {"untyped": torch.ones(2).untyped_storage(), "typed": torch.ones(2).storage(), "meta": torch.ones(2, device="meta")},
}

truth = {}
for name, obj in OBJECTS.items():
    for protocol, zipped in ((2, True), (5, False)):
        file = f"torch2-{name}-{'zip' if zipped else 'legacy'}-{protocol}.pth"
        if name == "storage" and not zipped:
            continue
        torch.save(obj, os.path.join("torch", file), pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
        truth[file] = {
            k: {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "stride": list(t.stride()), "offset": t.storage_offset(),
                "sha256": hashlib.sha256(content(t)).hexdigest()}
            for k, t in obj.items() if type(t) is torch.Tensor and t.device.type == "cpu"
        }
with open("torch/torch2.truth.json", "w") as f:
    json.dump(truth, f, indent=1)
