"""What recording costs: one training step plain, recorded by optool's hook, and recorded by ditorch's op_tools.

    python3 bench/hook_overhead.py [--op-tools DIR]

DIR is a clone of DeepLink-org/ditorch (its op_tools needs prettytable and psutil); without it that row is left out.
There is no device here, so op_tools is told that host tensors are a device's. Each kind of step runs in turn, several
times; the least processor time (all processes) and wall time of each is printed, and what lies on disk after one step.
"""

import argparse
import contextlib
import io
import os
import resource
import shutil
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hook"))
import optool_capture  # noqa: E402


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        a = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
        x = x + self.out(a.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, d=256, layers=4, words=1000):
        super().__init__()
        self.embedding = nn.Embedding(words, d)
        self.blocks = nn.ModuleList(Block(d, 8) for _ in range(layers))
        self.head = nn.Linear(d, words)

    def forward(self, i):
        x = self.embedding(i)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def processor_time():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--op-tools", help="clone of DeepLink-org/ditorch")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        tokens, target = torch.randint(0, 1000, (8, 128)), torch.randint(0, 1000, (8 * 128,))
        loss = F.cross_entropy(model(tokens).view(-1, 1000), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def plain(path):
        step()

    def hook(path):
        with optool_capture.record(path):
            step()

    kinds = {"plain": plain, "optool": hook}
    if options.op_tools:
        sys.path.insert(0, options.op_tools)
        import op_tools
        import op_tools.apply_hook
        import op_tools.base_hook

        for module in (op_tools.apply_hook, op_tools.base_hook):
            module.is_cpu_op = lambda *args, **kwargs: (False, torch.device("cpu"))

        def recorder(path):
            before = os.getcwd()
            os.chdir(path)
            with contextlib.redirect_stdout(io.StringIO()), op_tools.OpCapture():
                step()
            os.chdir(before)

        kinds["op_tools"] = recorder

    step()
    best = {}
    for _ in range(options.rounds):
        for name, run in kinds.items():
            path = tempfile.mkdtemp()
            wall, cpu = time.perf_counter(), processor_time()
            run(path)
            wall, cpu = time.perf_counter() - wall, processor_time() - cpu
            size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files)
            shutil.rmtree(path)
            old = best.get(name, (wall, cpu, size))
            best[name] = (min(wall, old[0]), min(cpu, old[1]), size)
    print("torch %s, %d threads" % (torch.__version__, torch.get_num_threads()))
    print("%-10s %9s %9s %9s" % ("", "wall s", "cpu s", "MB"))
    for name, (wall, cpu, size) in best.items():
        print("%-10s %9.2f %9.2f %9.1f" % (name, wall, cpu, size / 1e6))


if __name__ == "__main__":
    main()
