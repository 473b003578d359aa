"""Records one step in float32, in bfloat16 and in bfloat16 with a wrong relu: python3 record.py. torch 2.15 wrote what is here."""

import os
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "hook"))
import optool_capture  # noqa: E402


def step(out, dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4)).to(dtype)
    x, y = torch.randn(8, 6).to(dtype), torch.arange(8) % 4
    with optool_capture.record(out, model=model):
        F.cross_entropy(model(x).float(), y).backward()


step("float32", torch.float32)
step("bfloat16", torch.bfloat16)
library = torch.library.Library("aten", "IMPL")
library.impl("relu", lambda x: torch.maximum(x, x * 0.1), "CPU")
step("leaky", torch.bfloat16)
