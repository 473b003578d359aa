#!/usr/bin/env python3
"""Golden values of torchaudio's rnnt_loss, from torchaudio itself.

  python3 ops/testdata/golden/torchaudio.py

writes torchaudio.jsonl beside this file, in the form of record.py. Needs torch 2 and torchaudio, of which the kernel for
the CPU is used: it does not matter for which CUDA either was built.
"""
import os, sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != here]  # this file has torchaudio's name
import torch

torch.version.cuda = None  # torchaudio would refuse another than its own
import torchaudio

sys.path.append(here)
import record

rnnt_loss = torchaudio.functional.rnnt_loss


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def ints(*v):
        return torch.tensor(v, dtype=torch.int32)

    def call(logits, targets, *args, **kwargs):
        return "rnnt_loss", ["torchaudio.functional.rnnt_loss"], rnnt_loss, (logits, targets, *args), kwargs

    def logits(*shape, log=False):
        x = torch.randn(*shape, generator=g)
        return (x.log_softmax(-1) if log else x).requires_grad_()

    targets = torch.randint(0, 4, (2, 2), generator=g, dtype=torch.int32)
    for reduction in ("none", "mean", "sum"):
        yield call(logits(2, 4, 3, 5), targets, ints(4, 3), ints(2, 1), reduction=reduction)
        yield call(logits(2, 4, 3, 5, log=True), targets, ints(4, 3), ints(2, 1), reduction=reduction,
                   fused_log_softmax=False)
    yield call(logits(2, 4, 3, 5), targets + 1, ints(4, 2), ints(2, 0), 0)
    yield call(logits(2, 4, 3, 5), targets, ints(4, 4), ints(2, 2), -1, 0.05)
    yield call(logits(1, 1, 3, 6), targets[:1], ints(1), ints(2), 5, -1, "none")
    yield call(logits(1, 3, 1, 4), targets[:1, :0], ints(3), ints(0), reduction="sum")


if __name__ == "__main__":
    record.write("torchaudio", calls())
