"""Records one forward pass four ways, for compare of what different recorders keep: python3 record.py (torch 2.15,
mindstudio-probe 26.2)."""

import glob
import json
import os
import shutil
import sys

import torch
import torch.nn.functional as F
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.realpath(os.path.join(HERE, "..", "..", "..", "..", "hook")))
import optool_capture  # noqa: E402


class Silu(TorchDispatchMode):
    """A kernel below the recorders that gives 2 % too much."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        y = op(*args, **(kwargs or {}))
        return y * 1.02 if op is torch.ops.aten.silu.default else y


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)
        self.again = False

    def forward(self, x):
        h = F.silu(self.up(x))
        if self.again:
            h = h * 1.0
        return (x + self.down(h)) * 2.0


os.chdir(HERE)
torch.manual_seed(0)
model, x = Model(), torch.randn(2, 4)
shutil.rmtree("tree", ignore_errors=True)
with torch.no_grad(), optool_capture.record("tree"):
    model(x)
for name, again, plant in ("log", False, False), ("wrong", False, True), ("more", True, False):
    model.again = again
    with torch.no_grad():
        if plant:
            mode = Silu()
            mode.__enter__()
        with DebugMode() as log, DebugMode.log_tensor_hashes(hash_inputs=True):
            model(x)
        with open(f"{name}.txt", "w") as f:
            f.write(log.debug_string() + "\n")
        with open("config.json", "w") as f:
            json.dump({"task": "statistics", "dump_path": f"statistics_{name}", "rank": [], "step": [], "level": "L1",
                       "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}}, f)
        shutil.rmtree(f"statistics_{name}", ignore_errors=True)
        from msprobe.pytorch import PrecisionDebugger

        PrecisionDebugger._instance = None
        debugger = PrecisionDebugger(config_path="config.json")
        debugger.start(model)
        model(x)
        debugger.stop()
        debugger.step()
        if plant:
            mode.__exit__(None, None, None)
os.remove("config.json")
for path in glob.glob("statistics_*/*/*/*.json"):
    if not path.endswith("dump.json"):
        os.remove(path)  # lines of files, wherever they are
for path in glob.glob("tree/*/*/calls.jsonl"):
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace(HERE + "/", "").replace(HERE, "testdata"))
