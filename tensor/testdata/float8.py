#!/usr/bin/env python3
"""What torch makes of every float16, as code of each float8 dtype, and of every code, as float32.

  python3 tensor/testdata/float8.py

writes float8.tsv beside this file: dtype, SHA-256 of the codes of all 65,536 float16 values in the order of their
bits, with NaNs as code 255, and the same of the bits of the 256 codes' values, with NaNs as 0x7fc00000, as
little-endian uint32. Magnitudes beyond 464, which this torch makes 448 in float8_e4m3fn, and optool NaN, are code 255
there too. Needs torch 2 alone.
"""
import hashlib, os

import torch

NAMES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


def line(name):
    dtype = getattr(torch, name)
    halves = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).roll(1 << 15).view(torch.float16)
    stored = halves.to(dtype)
    codes = torch.where(stored.float().isnan() | (name == "float8_e4m3fn") & (halves.abs() > 464), 255, stored.view(torch.uint8).int()).to(torch.uint8)
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    bits = torch.where(values.isnan(), 0x7FC00000, values.view(torch.int32))
    digest = [hashlib.sha256(t.numpy().tobytes()).hexdigest() for t in (codes, bits)]
    return "\t".join([name] + digest) + "\n"


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "float8.tsv"), "w") as f:
    f.writelines(line(name) for name in NAMES)
