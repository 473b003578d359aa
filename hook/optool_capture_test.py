"""Tests of optool_capture.py with whatever torch (1.13 or newer) runs them: python3 optool_capture_test.py"""

import contextlib
import ctypes
import functools
import glob
import importlib
import io
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import unittest
import unittest.mock
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

import optool_capture

HERE = os.path.dirname(os.path.abspath(optool_capture.__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fixtures", "hook"))
from record import Net, loss  # noqa: E402


time_of = time.strftime


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def train(model, optimizer):
    value = loss(model)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return value


class Scaled(torch.autograd.Function):
    """Writes its first argument, and asks whether both are one."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.factor = 3 if x is y else 2
        x.mul_(ctx.factor)
        ctx.mark_dirty(x)
        return x, torch.ones(2)

    @staticmethod
    def backward(ctx, g, _):
        return g * ctx.factor, torch.zeros_like(g)


class Named(torch.Tensor):
    """Counts the calls that it sees."""

    count = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.count += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class Recording(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.path = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.path)

    def directories(self, path=None):
        return sorted(glob.glob(os.path.join(path or self.path, "rank*", "*")))

    def calls(self, path=None):
        (directory,) = self.directories(path)
        return list(optool_capture.load(directory))

    def events(self):
        (directory,) = self.directories()
        with open(os.path.join(directory, "calls.jsonl")) as f:
            return [json.loads(line) for line in f]

    def named(self, name):
        return [c for c in self.calls() if c["name"] == name]

    def equal(self, a, b, message=""):
        self.assertEqual(a.dtype, b.dtype, message)
        self.assertTrue(torch.equal(a.detach(), b.detach()), message)

    # The program is not changed -----------------------------------------------------------------------------------------

    def test_same_training(self):
        results = []
        for recorded in (False, True):
            torch.manual_seed(1)
            model = Net()
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
            if recorded:
                with optool_capture.record(self.path):
                    losses = [train(model, optimizer).item() for _ in range(3)]
            else:
                losses = [train(model, optimizer).item() for _ in range(3)]
            results.append((losses, [p.detach().clone() for p in model.parameters()]))
        self.assertEqual(results[0][0], results[1][0])
        for a, b in zip(results[0][1], results[1][1]):
            self.equal(a, b)

    def test_a_call_that_returns_its_argument(self):
        x = torch.ones(3, requires_grad=True)
        with optool_capture.record(self.path):
            y = x.contiguous()
        self.assertIs(y, x)

    def test_everything_is_taken_back(self):
        before = (torch.Tensor.__getitem__, torch.autograd.Function.apply, torch.optim.SGD.step)
        with optool_capture.record(self.path):
            pass
        self.assertEqual(before[0], torch.Tensor.__getitem__)
        self.assertEqual(before[1], torch.autograd.Function.apply)
        self.assertEqual(before[2], torch.optim.SGD.step)
        torch.ones(2) + 1
        self.assertEqual(self.calls(), [])

    def test_a_program_sees_no_recorder(self):
        """Each of these programs, with and without a recorder, gives the same values, and no error."""
        def attention():  # computes the three projections at once if all arguments are one tensor
            m = nn.MultiheadAttention(16, 4, batch_first=True)
            x = torch.randn(2, 7, 16, requires_grad=True)
            m(x, x, x)[0].pow(2).sum().backward()
            return [x.grad, m.in_proj_weight.grad]

        def sums():  # rounded in the order in which they are added
            x = torch.randn(1000, requires_grad=True)
            torch.cat([x * 3, x, x, x]).mul(torch.randn(4000)).sum().backward()
            return [x.grad]

        def sparse():
            m = nn.Embedding(10, 4, sparse=True)
            m(torch.tensor([1, 3, 3])).pow(2).sum().backward()
            return [m.weight.grad.to_dense()]

        def functions():
            x = torch.randn(4, requires_grad=True)
            y, z = x * 3, x * 2
            a, b = Scaled.apply(y, x)
            c, _ = Scaled.apply(z, z)
            (a.sum() + y.exp().sum() + b.sum() + c.sum()).backward()
            return [a, y, z, x.grad]

        def subclass():
            Named.count = 0
            x = torch.ones(4).as_subclass(Named)
            y = (x * 2).exp() + torch.ones(4)
            return [torch.tensor(Named.count), y.as_subclass(torch.Tensor)]

        def device():  # the mode of a `with` that ends while ours is on
            with torch.device("meta") if hasattr(torch, "get_default_device") else contextlib.nullcontext():
                self.recording.step()
            return [torch.ones(2)]

        def traced():
            return [torch.jit.trace(nn.Linear(4, 4), torch.ones(2, 4))(torch.ones(2, 4))]

        def transforms():
            if not hasattr(torch, "func"):
                return []
            return [torch.func.vmap(torch.func.grad(lambda x: x.sin().sum()))(torch.ones(3, 2)),
                    torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(2),))[1]]

        for program in attention, sums, sparse, functions, subclass, device, traced, transforms:
            with self.subTest(program.__name__), warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                self.recording = unittest.mock.Mock()
                torch.manual_seed(2)
                wanted = program()
                torch.manual_seed(2)
                path = os.path.join(self.path, program.__name__)
                with optool_capture.record(path) as self.recording, contextlib.redirect_stderr(io.StringIO()):
                    got = program()
                    torch.ones(1)
                for a, b in zip(got, wanted):
                    self.equal(a, b)

    # What is recorded ---------------------------------------------------------------------------------------------------

    def test_each_gradient_is_that_of_its_call(self):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with optool_capture.record(self.path):
            train(model, optimizer)
        checked = 0
        for call in self.calls():
            if not call.get("grad_outputs") or "rng" in call:
                continue
            func = self.function(call["name"])
            if func is None:
                continue
            arguments = call["args"], call["kwargs"]
            inputs = optool_capture._tensors(arguments, torch, [])
            args, kwargs = optool_capture._replace(arguments, torch, torch.clone)  # a leaf is not changed in place
            result = func(*args, **kwargs)
            outputs = optool_capture._tensors(result, torch, [])
            wanted = [i for i, t in enumerate(inputs) if t.requires_grad]
            grads = torch.autograd.grad(outputs, [inputs[i] for i in wanted],
                                        [call["grad_outputs"].get(i, torch.zeros_like(o)) for i, o in enumerate(outputs)])
            for i, g in zip(wanted, grads):
                self.equal(call["grad_inputs"][i], g, "%s[%d]" % (call["name"], i))
                checked += 1
        self.assertGreaterEqual(checked, 15)

    def test_gradients_of_a_result_made_of_another(self):
        cell, x = nn.LSTMCell(4, 4), torch.randn(2, 4)
        with optool_capture.record(self.path):
            h, c = cell(x)
            cell(x, (h, c))[0].sum().backward()
        first, last = [call for call in self.calls() if call["name"] == "torch.lstm_cell"]
        self.assertEqual(list(last["grad_outputs"]), [0])  # nothing uses the last cell's state but its own result
        self.assertEqual(sorted(first["grad_outputs"]), [0, 1])

    def function(self, name):
        if name == "torch.Tensor.T.__get__":
            return lambda x: x.T
        owner = torch
        for part in name.split(".")[1:]:
            owner = getattr(owner, part, None)
        return owner

    def test_gradients_that_a_hook_of_the_program_gives(self):
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        with optool_capture.record(self.path):
            y = x.square()
            removed = y.register_hook(lambda g: g * 7)
            y.register_hook(lambda g: g * 5)
            y.register_hook(lambda g: g.clamp(max=12))
            removed.remove()
            (y * 3).sum().backward()
        (square,) = self.named("torch.Tensor.square")
        self.equal(square["grad_outputs"][0], torch.tensor([12.0, 12.0]))  # what the call got
        self.equal(square["grad_inputs"][0], torch.tensor([48.0, 72.0]))
        self.equal(x.grad, torch.tensor([48.0, 72.0]))

    def test_the_same_tensor_twice(self):
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        with optool_capture.record(self.path):
            (x * x).sum().backward()
        (mul,) = self.named("torch.Tensor.mul")
        self.equal(mul["grad_inputs"][0], torch.tensor([2.0, 3.0]))
        self.equal(mul["grad_inputs"][1], torch.tensor([2.0, 3.0]))
        self.equal(x.grad, torch.tensor([4.0, 6.0]))

    def test_gradients_of_calls_that_change_an_argument(self):
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        with optool_capture.record(self.path):
            y = x * 2
            y.mul_(x)  # nobody read y before
            z = x * 3
            w = z.exp()
            z.add_(1)  # exp did
            F.relu(z, inplace=True)
            v = torch.zeros(3)
            v[:2] = z
            (y + w + z + v[:2]).sum().backward()
        (mul_,) = self.named("torch.Tensor.mul_")
        self.equal(mul_["grad_inputs"][0], torch.tensor([2.0, 3.0]))
        self.equal(mul_["grad_inputs"][1], torch.tensor([4.0, 6.0]))
        self.equal(self.named("torch.Tensor.add_")[0]["grad_inputs"][0], torch.tensor([2.0, 2.0]))
        self.equal(self.named("torch.nn.functional.relu")[0]["grad_inputs"][0], torch.tensor([2.0, 2.0]))
        (setitem,) = self.named("torch.Tensor.__setitem__")
        self.equal(setitem["grad_inputs"][1], torch.tensor([1.0, 1.0]))
        self.equal(setitem["grad_outputs"][0], torch.tensor([1.0, 1.0, 0.0]))

    def test_gradients_of_views_that_are_changed(self):
        x = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
        with optool_capture.record(self.path):
            y = x * 2
            part = y.view(1, 3).t()[:2, 0]
            part[0] = x[2]
            part.mul_(3)
            (y.sum() + part.square().sum()).backward()
        after = 1 + 2 * torch.tensor([12.0, 18.0])  # of part once it was changed: from y and from the square
        (mul,) = self.named("torch.Tensor.mul_")
        self.equal(mul["grad_outputs"][0], after)
        self.equal(mul["grad_inputs"][0], 3 * after)
        (setitem,) = self.named("torch.Tensor.__setitem__")
        self.equal(setitem["grad_outputs"][0], 3 * after)
        self.equal(setitem["grad_inputs"][0], 3 * after * torch.tensor([0.0, 1.0]))
        self.equal(setitem["grad_inputs"][1], 3 * after[0])

    def test_where_a_call_stands(self):
        model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.ReLU())
        with optool_capture.record(self.path):
            model(torch.ones(1, 2))
        (linear,) = self.named("torch.nn.functional.linear")
        self.assertEqual(linear["module"], "0.0")
        self.assertRegex(linear["location"], r"optool_capture_test\.py:\d+$")
        call = [e for e in self.events() if e.get("name") == "torch.nn.functional.linear"][0]
        self.assertEqual([a["name"] for a in call["args"][1:]], ["0.0.weight", "0.0.bias"])

    def test_a_name_is_one_parameter(self):
        """Models that the program calls by themselves can have parameters of the same names."""
        class Critic(nn.Sequential):
            pass

        a, b, critic = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2)), Critic(nn.Linear(2, 2))
        tied = nn.Sequential(a[0], nn.Linear(2, 2))
        with optool_capture.record(self.path):
            for _ in range(2):
                tied(critic(b(a(torch.ones(1, 2)))))
        calls = [e for e in self.events() if e.get("name") == "torch.nn.functional.linear"]
        self.assertEqual([[e["module"], e["args"][1]["name"]] for e in calls], 2 * [
            ["0", "0.weight"], ["Sequential#2.0", "Sequential#2.0.weight"], ["Critic.0", "Critic.0.weight"],
            ["0", "0.weight"], ["1", "1.weight"]])

    def test_arguments_after_the_call(self):
        x, out = torch.ones(3), torch.zeros(3)
        norm = nn.BatchNorm1d(2)
        with optool_capture.record(self.path):
            x.add_(1)
            torch.add(x, 1, out=out)
            x[0] = 5.0
            norm(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.equal(self.named("torch.Tensor.add_")[0]["args"][0], torch.ones(3))
        self.equal(self.named("torch.Tensor.add_")[0]["after"][0], torch.full((3,), 2.0))
        self.equal(self.named("torch.add")[0]["after"][1], torch.full((3,), 3.0))
        self.equal(self.named("torch.Tensor.__setitem__")[0]["after"][0], torch.tensor([5.0, 2.0, 2.0]))
        after = self.named("torch.nn.functional.batch_norm")[0]["after"]
        self.equal(after[1], norm.running_mean)
        self.equal(after[2], norm.running_var)
        self.assertNotIn(0, after)

    def test_what_raises_no_version(self):
        """Fused kernels write without a new version; what they write is what their schema says."""
        g = lambda *values: torch.tensor(values)
        found, inverse = g(0.0), g(0.5)
        grads, scale, tracker = [g(2.0, 4.0), g(6.0)], g(8.0), torch.tensor(3, dtype=torch.int32)
        p, m, v = [g(1.0, 2.0)], [g(0.0, 0.0)], [g(0.0, 0.0)]
        adam = dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
        with optool_capture.record(self.path):
            with torch.inference_mode():
                x = torch.zeros(3)
                x[1:] = 5.0
            if not torch.__version__.startswith("1."):  # which has no kernels of the CPU for these
                torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
                torch.neg(grads[1])
                torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 4)
                torch._fused_adamw_(p, [grads[0]], m, v, [], [g(1.0)], **adam)
        after = {c["name"].split(".")[-1]: c.get("after", {}) for c in self.calls()}
        self.equal(after["__setitem__"][0], g(0.0, 5.0, 5.0))
        if torch.__version__.startswith("1."):
            return
        self.equal(after["_amp_foreach_non_finite_check_and_unscale_"][0], g(1.0, 2.0))
        self.equal(after["_amp_foreach_non_finite_check_and_unscale_"][1], g(3.0))
        self.equal(after["_amp_foreach_non_finite_check_and_unscale_"][2], found)
        self.equal(self.named("torch.neg")[0]["args"][0], g(3.0))
        self.equal(after["_amp_update_scale_"][0], g(16.0))
        self.equal(after["_amp_update_scale_"][1], torch.tensor(0, dtype=torch.int32))
        for i, t in enumerate(p + [grads[0]] + m + v):
            self.equal(after["_fused_adamw_"][i], t)

    def test_kernels_of_others(self):
        """What a kernel without a schema writes is found by content; one of the dispatcher says what it writes."""
        def kernel(chunk, lists, factor):
            for t in lists[1]:
                ctypes.memset(t.data_ptr(), 0, 4)

        sys.modules["amp_C"] = module = types.ModuleType("amp_C")
        self.addCleanup(sys.modules.pop, "amp_C")
        module.multi_tensor_zero = kernel
        a, b, c = torch.ones(2), torch.ones(2), torch.ones(3)
        with optool_capture.record(self.path, wrap=["amp_C.*"]):
            module.multi_tensor_zero(64, [[a], [b, c]], 2.0)
        (call,) = self.named("amp_C.multi_tensor_zero")
        self.equal(call["after"][1], torch.tensor([0.0, 1.0]))
        self.equal(call["after"][2], torch.tensor([0.0, 1.0, 1.0]))

        if not hasattr(torch.library, "custom_op"):
            return

        @torch.library.custom_op("optool_test::fill", mutates_args={"out"})
        def fill(x: torch.Tensor, out: torch.Tensor) -> None:
            out.copy_(x * 2)

        shutil.rmtree(os.path.join(self.path, "rank0"))
        with optool_capture.record(self.path):
            torch.ops.optool_test.fill(a, b)
        (call,) = self.named("torch.ops.optool_test.fill")
        self.equal(call["after"][1], torch.tensor([2.0, 2.0]))

    def test_views_and_properties(self):
        x = torch.arange(12.0).reshape(3, 4)
        with optool_capture.record(self.path):
            x[1:, 2]
            x.T
            x.data
            x.type(torch.float64) if x.type() == "torch.FloatTensor" else None
            x.expand(2, 3, 4).sum()
        (item,) = self.named("torch.Tensor.__getitem__")
        self.equal(item["args"][0], x)
        self.assertEqual(item["args"][1], (slice(1, None), 2))
        self.equal(item["result"], x[1:, 2])
        self.assertEqual(self.named("torch.Tensor.T.__get__")[0]["result"].stride(), (1, 4))
        self.assertEqual(len(self.named("torch.Tensor.data.__get__")), 1)
        self.assertEqual([c["result"].dtype for c in self.named("torch.Tensor.type")], [torch.float64])
        expanded = self.named("torch.Tensor.sum")[0]["args"][0]
        self.assertEqual(expanded.stride(), (0, 4, 1))
        self.equal(expanded, x.expand(2, 3, 4))

    def test_values_of_all_kinds(self):
        x = torch.ones(2, 3, 4, 4)
        with optool_capture.record(self.path):
            x.to(torch.float64)
            x.to(memory_format=torch.channels_last)
            torch.full((2,), float("-inf"))
            torch.full((2,), float("nan"), dtype=torch.float16)
            torch.max(x, 0)
            torch.mul(x, 1 + 2j)
            torch.zeros(3, device=torch.device("cpu"))
            torch.einsum("abcd->a", x)
            x[..., None, 0]
        self.assertIs(self.named("torch.Tensor.to")[0]["args"][1], torch.float64)
        self.assertIs(self.named("torch.Tensor.to")[1]["kwargs"]["memory_format"], torch.channels_last)
        self.assertEqual(self.named("torch.full")[0]["args"][1], float("-inf"))
        self.assertEqual(len(self.named("torch.max")[0]["result"]), 2)
        self.assertEqual(self.named("torch.mul")[0]["args"][1], 1 + 2j)
        self.assertEqual(self.named("torch.Tensor.__getitem__")[0]["args"][1], (Ellipsis, None, 0))

    def test_dtypes(self):
        names = [n for n in [*optool_capture.SAFETENSORS, "complex128"] if hasattr(torch, n)]
        saved = [torch.arange(i, i + 6.0).to(getattr(torch, n)) for i, n in enumerate(names)]  # none the bytes of another
        with optool_capture.record(self.path):
            for x in saved:
                x.clone()
        calls = self.named("torch.Tensor.clone")
        self.assertEqual(len(calls), len(saved))
        (file,) = glob.glob(os.path.join(self.directories()[0], "*.safetensors"))
        with open(file, "rb") as f:
            (n,) = struct.unpack("<Q", f.read(8))
            written = {e["dtype"] for e in json.loads(f.read(n)).values()}
        self.assertLessEqual({optool_capture.SAFETENSORS.get(n, "U8") for n in names}, written)
        for call, x in zip(calls, saved):
            self.assertEqual(call["result"].dtype, x.dtype)
            self.assertEqual(call["result"].numpy().tobytes() if x.dtype != torch.bfloat16 and "float8" not in str(x.dtype)
                             else call["result"].view(torch.uint8).numpy().tobytes(),
                             x.numpy().tobytes() if x.dtype != torch.bfloat16 and "float8" not in str(x.dtype)
                             else x.view(torch.uint8).numpy().tobytes())

    def test_dropout_can_be_repeated(self):
        x = torch.ones(100)
        with optool_capture.record(self.path):
            F.dropout(x, 0.3)
        (call,) = self.named("torch.nn.functional.dropout")
        state = [e for e in self.events() if e.get("name") == "torch.nn.functional.dropout"][0]["rng"]
        loaded = next(optool_capture.load(self.directories()[0]))
        self.assertEqual(state["dtype"], "uint8")
        torch.set_rng_state(loaded["rng_state"])
        self.equal(F.dropout(x, 0.3), call["result"])

    def test_functions_that_no_mode_sees(self):
        x = torch.ones(3, requires_grad=True)
        with optool_capture.record(self.path, wrap=["textwrap.dedent"]):
            Doubled.apply(x).sum().backward()
            torch.ops.aten.relu(x)
            textwrap.dedent("  a")
        (custom,) = self.named(__name__ + ".Doubled.apply")
        self.equal(custom["grad_inputs"][0], torch.full((3,), 2.0))
        inner = self.named("torch.Tensor.mul")[0]
        self.assertEqual(inner["within"], custom["id"])
        self.assertEqual(len(self.named("torch.ops.aten.relu")), 1)
        self.assertEqual(self.named("textwrap.dedent")[0]["result"], "a")

    def test_a_name_without_a_module_is_a_function_of_the_program(self):
        main = sys.modules["__main__"]
        main.optool_twice = lambda x: x * 2
        self.addCleanup(delattr, main, "optool_twice")
        with optool_capture.record(self.path, wrap=["optool_twice"]):
            main.optool_twice(torch.ones(3))
        (call,) = self.named("__main__.optool_twice")
        self.equal(call["result"], torch.full((3,), 2.0))

    def test_replaced_functions_of_torch_are_calls(self):
        def gelu(x, approximate="none"):
            return x * torch.sigmoid(1.702 * x)

        relu = F.relu
        for name, new in ("gelu", gelu), ("relu", functools.wraps(relu)(lambda x, inplace=False: relu(x))), ("silu", lambda x: x * 2):
            self.addCleanup(setattr, F, name, getattr(F, name))
            setattr(F, name, new)
        x = torch.ones(3, requires_grad=True)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            with optool_capture.record(self.path, wrap=["torch.nn.functional.silu"]):
                F.relu(F.silu(nn.GELU()(x))).sum().backward()
        (call,) = self.named("torch.nn.functional.gelu")
        self.assertEqual(self.named("torch.sigmoid")[0]["within"], call["id"])
        self.assertEqual(len(call["grad_inputs"]), 1)
        self.assertEqual(len(self.named("torch.nn.functional.silu")), 1)
        self.assertEqual(len(self.named("torch.nn.functional.relu")), 1)  # torch's own, in what passes for it
        self.assertRegex(call["replaced"], r"\.gelu$")
        self.assertTrue(call["params"])
        self.assertRegex(said.getvalue(), r"not torch's own, .*: torch.nn.functional.gelu \(optool_capture_test.py:\d+\); "
                         r"wrapped by the program, .*: torch.nn.functional.relu \(optool_capture_test.py:\d+\). To record one "
                         r"as one call: wrap=\['torch.nn.functional.relu'\]\n")
        self.assertIs(F.gelu, gelu)

    def test_replaced_methods_run_once(self):
        """torch's C++ methods look themselves up in torch.Tensor, where they find what replaced them."""
        own = {name: getattr(torch.Tensor, name) for name in ("softmax", "exp", "sigmoid", "norm", "__matmul__")}

        def halved(name, around=lambda f: f):
            return around(lambda self, *args, **kwargs: own[name](self, *args, **kwargs) / 2)

        new = {name: halved(name) for name in own}
        new["exp"] = halved("exp", functools.wraps(own["exp"]))
        for name, f in new.items():
            original = vars(torch.Tensor).get(name)
            self.addCleanup(*((delattr, torch.Tensor, name) if original is None else (setattr, torch.Tensor, name, original)))
            setattr(torch.Tensor, name, f)
        x = torch.rand(3, 3)

        def run():
            return [x.softmax(-1), x.exp(), x.sigmoid(), x.norm(), x @ x]

        want = run()
        with contextlib.redirect_stderr(io.StringIO()):
            with optool_capture.record(self.path, wrap=["torch.Tensor.sigmoid"]):
                got = run()
        for a, b in zip(got, want):
            self.equal(a, b)
        for name, calls in ("softmax", 2), ("exp", 1), ("sigmoid", 2), ("norm", 2), ("matmul", 1):
            self.assertEqual(len(self.named("torch.Tensor." + name)), calls, name)
        outer, inner = self.named("torch.Tensor.softmax")
        self.assertEqual((inner["within"], "replaced" in outer, "replaced" in inner), (outer["id"], True, False))

    def test_calls_inside_a_wrapper_name_it(self):
        def scaled(own):
            @functools.wraps(own)
            def inner(x, *args, **kwargs):
                return own(x * 2, *args, **kwargs)
            return inner

        def twice(x):
            return x + x

        for name in "selu", "relu", "silu":
            self.addCleanup(setattr, F, name, getattr(F, name))
            setattr(F, name, scaled(getattr(F, name)))
        selu, x = F.selu, torch.ones(3)  # the wrapper, too, under a name of the program's own
        with contextlib.redirect_stderr(io.StringIO()):
            with optool_capture.record(self.path, wrap=["torch.nn.functional.silu"]):
                twice(F.silu(F.relu(selu(x))))
        products = self.named("torch.Tensor.mul")
        for call, name in (products[0], "selu"), (self.named("torch.nn.functional.selu")[0], "selu"), (products[1], "relu"):
            (wrapped,) = call["wrapped"]
            self.assertEqual(wrapped["function"], "torch.nn.functional." + name)
            self.assertRegex(wrapped["by"], r"inner \(optool_capture_test.py:\d+\)$")
        for call in products[2], self.named("torch.Tensor.add")[0], self.named("torch.nn.functional.silu")[0]:
            self.assertNotIn("wrapped", call)  # silu is recorded as one call, and judged

    def test_torch_itself_replaces_nothing(self):
        self.assertEqual(optool_capture._replaced(torch), [])

    def test_a_replacement_is_told_inplace_by_keyword(self):
        own = F.leaky_relu
        self.addCleanup(setattr, F, "leaky_relu", own)

        def leaky_relu(x, slope=0.01, inplace=False):
            return x.mul_(1) if inplace else own(x, slope)

        F.leaky_relu = leaky_relu
        layer, x = nn.LeakyReLU(inplace=True), torch.ones(3, requires_grad=True)
        with optool_capture.record(self.path):
            layer(x * 2).sum().backward()
        (call,) = self.named("torch.nn.functional.leaky_relu")
        self.assertEqual(call["kwargs"], {"inplace": True})
        (product,) = self.named("torch.Tensor.mul")
        self.equal(call["args"][0], product["result"])

    def test_replaced_private_operators_are_calls(self):
        own = torch._foreach_add_
        self.addCleanup(setattr, torch, "_foreach_add_", own)

        def add(these, *others, **kwargs):
            for t in these:
                t.mul_(2)

        torch._foreach_add_ = add
        p = torch.ones(3, requires_grad=True)
        p.grad = torch.ones(3)
        with optool_capture.record(self.path):
            torch.optim.SGD([p], lr=1.0, foreach=True).step()
        (call,) = self.named("torch._foreach_add_")
        self.equal(call["args"][0][0], torch.ones(3))
        self.equal(call["after"][0], torch.full((3,), 2.0))
        self.assertEqual(self.named("torch.Tensor.mul_")[0]["within"], call["id"])
        self.assertIs(torch._foreach_add_, add)

    def test_compiled_below_mode(self):
        """A mode sees the calls of compiled functions below autograd: no gradient flows there, and results count."""
        if not hasattr(torch, "compile"):
            self.skipTest("this torch compiles nothing")
        from torch.utils._python_dispatch import TorchDispatchMode

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        w = torch.ones(3, requires_grad=True)
        f = torch.compile(lambda x: (x * w).exp().sum(), backend="aot_eager")
        with Mode(), optool_capture.record(self.path):
            f(torch.ones(3)).backward()
        self.assertEqual([e for e in self.events() if e["event"] == "lost"], [])
        self.assertEqual(len(self.named("torch.ops.aten.exp")), 1)

    def test_settings_of_generators(self):
        with contextlib.suppress(ImportError):  # it replaces torch.manual_seed
            importlib.import_module("torch._dynamo")
        before = torch.get_rng_state(), torch.manual_seed, torch.random.set_rng_state
        own = torch.Generator()
        with optool_capture.record(self.path):
            torch.manual_seed(3)
            torch.rand(2)
            with torch.random.fork_rng():
                torch.rand(2)
            torch.set_rng_state(before[0])
            torch.rand(2, generator=own)
            torch.rand(2)
        sets = [e for e in self.events() if e["event"] == "generator"]
        self.assertEqual([(e["name"], e.get("by"), e["before_call"]) for e in sets],
                         [("torch.manual_seed", None, 0), ("torch.set_rng_state", "fork_rng", 2), ("torch.set_rng_state", None, 2)])
        self.assertRegex(sets[0]["location"], r"optool_capture_test.py:\d+$")
        self.assertEqual([c.get("drawn_from") for c in self.calls()], [None, None, 1, None])
        self.assertIs(torch.manual_seed, before[1])
        self.assertIs(torch.random.set_rng_state, before[2])

    def test_updates_are_calls_that_make_others(self):
        class Plain(torch.optim.SGD):
            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    p.sub_(p.grad)

        for kind, options in (torch.optim.SGD, dict(momentum=0.9)), (torch.optim.Adam, {}), (torch.optim.AdamW, dict(amsgrad=True)), \
                (torch.optim.RMSprop, dict(centered=True)), (torch.optim.Adadelta, {}), (torch.optim.Adagrad, {}), \
                (torch.optim.Adamax, {}), (torch.optim.Rprop, {}), (torch.optim.RAdam, {}), (torch.optim.NAdam, {}), \
                (torch.optim.ASGD, {}), (Plain, {}):
            for foreach in False, True:
                runs, path = [], os.path.join(self.path, "%s-%s" % (kind.__name__, foreach))
                for recorded in False, True:
                    p = torch.tensor([1.0, -2.0], requires_grad=True)
                    optimizer = kind([p], lr=0.1, foreach=foreach, **options)
                    with optool_capture.record(path) if recorded else contextlib.nullcontext():
                        for step in range(2):
                            p.grad = torch.tensor([0.5, step + 1.0])
                            optimizer.step()
                    runs.append([p.detach(), *optimizer.state[p].values()])
                for a, b in zip(*runs):
                    self.assertTrue(a == b if not isinstance(a, torch.Tensor) else torch.equal(a, b), (kind, foreach))
                calls = list(optool_capture.load(glob.glob(os.path.join(path, "rank0", "*"))[0]))
                updates = [c for c in calls if c["name"].startswith("torch.optim.")]
                self.assertEqual(len(updates), 0 if kind is Plain else 2, (kind, foreach))
                for c in updates:
                    self.assertEqual(c["kwargs"].get("lr", 0.1), 0.1)  # Rprop has none
                    self.assertIn(0, c["after"])
                    self.assertTrue([i for i in calls if i.get("within") == c["id"]])
        self.assertNotIn("optool", sys.modules["torch.optim.sgd"].sgd.__code__.co_filename)

    def test_a_fused_update_is_one_call(self):
        p = torch.ones(3, requires_grad=True)
        p.grad = torch.ones(3)
        with optool_capture.record(self.path):
            try:
                torch.optim.AdamW([p], fused=True).step()
            except (RuntimeError, TypeError) as e:  # older torch has none on the CPU
                self.skipTest(str(e))
        self.assertEqual([c["name"] for c in self.calls() if "adam" in c["name"]], ["torch._fused_adamw_"])

    def test_replacements_run_once(self):
        own = F.layer_norm, F.relu

        def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
            return own[0](x, shape, weight, bias, eps) * 2

        @functools.wraps(own[1])
        def relu(x, inplace=False):
            return own[1](x, inplace) + 1

        for name, new in ("layer_norm", layer_norm), ("relu", relu):
            self.addCleanup(setattr, F, name, getattr(F, name))
            setattr(F, name, new)
        norm, x = nn.LayerNorm(4), torch.arange(4.0)
        want = F.relu(norm(x))
        for path in "found", "named":
            wrap = ("torch.nn.functional.layer_norm", "torch.nn.functional.relu") if path == "named" else ()
            path = os.path.join(self.path, path)
            with contextlib.redirect_stderr(io.StringIO()):
                with optool_capture.record(path, wrap=wrap):
                    self.assertTrue(torch.equal(F.relu(norm(x)), want))
            first, inner = (c for c in self.calls(path) if c["name"] == "torch.nn.functional.layer_norm")
            self.assertEqual(inner["within"], first["id"])

    def test_older_recordings_are_told(self):
        for said in "", "; %s holds 1 older recording, which is judged with it" % os.path.join(self.path, "rank0"):
            heard = io.StringIO()
            with contextlib.redirect_stderr(heard):
                with optool_capture.record(self.path):
                    torch.ones(3).sum()
            self.assertIn(said, heard.getvalue())
            self.assertEqual("older" in heard.getvalue(), bool(said))
            os.utime(self.directories()[0], (0, 0))

    def test_functions_that_nothing_called_are_named(self):
        dedent = textwrap.dedent
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            with optool_capture.record(self.path, wrap=["textwrap.dedent", "textwrap.indent"]):
                torch.ones(3).sum()
                dedent("  a")
                textwrap.indent("a", " ")
        self.assertIn("nothing called wrap='textwrap.dedent'", said.getvalue())
        self.assertIn("try wrap='dedent')", said.getvalue())
        self.assertNotIn("textwrap.indent", said.getvalue())

    def test_modules_that_hold_a_function_are_named(self):
        model = types.ModuleType("some_model")
        model.dedent = textwrap.dedent
        said = io.StringIO()
        with contextlib.redirect_stderr(said), unittest.mock.patch.dict(sys.modules, {"some_model": model}):
            with optool_capture.record(self.path, wrap=["textwrap.dedent"]):
                torch.ones(3).sum()
                model.dedent("  a")
        self.assertIn("wrap='some_model.dedent'", said.getvalue())

    def test_patterns_hold_for_functions_that_no_mode_sees(self):
        x = torch.ones(3, requires_grad=True)
        with optool_capture.record(self.path, wrap=["textwrap.dedent"], ops=["torch.Tensor.sum"]):
            Doubled.apply(x).sum()
            textwrap.dedent("  a")
        self.assertEqual([e["name"] for e in self.events() if "name" in e], ["torch.Tensor.sum"])

    def test_checkpointing(self):
        from torch.utils.checkpoint import checkpoint

        model = nn.Linear(2, 2)
        x = torch.ones(1, 2, requires_grad=True)
        with optool_capture.record(self.path):
            checkpoint(lambda v: model(v).relu(), x, use_reentrant=False).sum().backward()
            (g,) = torch.autograd.grad(checkpoint(lambda v: model(v).relu(), x, use_reentrant=False).sum(), x)
        linears = self.named("torch.nn.functional.linear")
        self.assertEqual(len(linears), 4)  # forward, and again during each backward
        self.assertEqual([len(c.get("grad_inputs", {})) for c in linears], [3, 0, 1, 0])
        self.equal(g, x.grad)
        shutil.rmtree(os.path.join(self.path, "rank0"))
        with optool_capture.record(self.path):
            checkpoint(lambda v: model(v).relu(), x, use_reentrant=True).sum().backward()
        linears = self.named("torch.nn.functional.linear")
        self.assertEqual([len(c.get("grad_inputs", {})) for c in linears], [0, 3])

    def test_no_grad_and_inference(self):
        model = nn.Linear(2, 2)
        with optool_capture.record(self.path):
            with torch.no_grad():
                model(torch.ones(1, 2))
            with torch.inference_mode():
                model(torch.ones(1, 2))
        for call in self.named("torch.nn.functional.linear"):
            self.assertFalse(call["grad_enabled"])
            self.assertIn("result", call)

    def test_autocast(self):
        model = nn.Linear(2, 2)
        with optool_capture.record(self.path), torch.autocast("cpu", dtype=torch.bfloat16):
            model(torch.ones(1, 2)).sum().backward()
        (linear,) = self.named("torch.nn.functional.linear")
        self.assertEqual(linear["autocast"], {"cpu": "bfloat16"})
        self.assertEqual(linear["args"][1].dtype, torch.float32)
        self.assertEqual(linear["result"].dtype, torch.bfloat16)
        self.assertEqual(linear["grad_inputs"][1].dtype, torch.float32)

    def test_gradient_accumulation(self):
        w = torch.ones(2, requires_grad=True)
        with optool_capture.record(self.path):
            (w * 2).sum().backward()
            (w * 3).sum().backward()
        self.assertEqual([c["grad_inputs"][0][0].item() for c in self.named("torch.Tensor.mul")], [2.0, 3.0])

    def test_optimizer(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with optool_capture.record(self.path, model=model):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        (event,) = [e for e in self.events() if e["event"] == "optimizer"]
        self.assertEqual(event["class"], "SGD")
        self.assertEqual(event["groups"][0]["lr"], 0.1)
        self.assertEqual(event["groups"][0]["params"], ["weight", "bias"])

    def test_a_call_that_raises(self):
        with optool_capture.record(self.path):
            with self.assertRaises(RuntimeError):
                torch.ones(2, 3) @ torch.ones(2, 3)
        (call,) = self.named("torch.Tensor.matmul")
        self.assertIn("RuntimeError", call["error"])
        self.assertNotIn("result", call)

    # What is left out ---------------------------------------------------------------------------------------------------

    def test_steps(self):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with optool_capture.record(self.path, steps=[1]):
            for _ in range(3):
                train(model, optimizer)
        self.assertEqual({c["step"] for c in self.calls()}, {1})
        self.assertEqual(len(self.named("torch.nn.functional.embedding")), 1)

    @unittest.skipUnless(os.path.exists("/proc/self/maps"), "needs /proc")
    def test_memory_of_recordings_that_ended(self):
        def mapped():
            with open("/proc/self/maps") as maps:
                return sum("(deleted)" in line for line in maps)
        before = mapped()
        for i in range(3):
            with optool_capture.record(os.path.join(self.path, str(i))):
                torch.relu(torch.ones(3))
        self.assertLessEqual(mapped(), before)  # those of earlier tests may end meanwhile

    @unittest.skipUnless(hasattr(torch._C, "_current_graph_task_id"), "this torch does not number backward passes")
    def test_backward_passes(self):
        linear, x = torch.nn.Linear(3, 1), torch.randn(4, 3, requires_grad=True)
        with optool_capture.record(self.path):
            (g,) = torch.autograd.grad(linear(x).sum(), x, create_graph=True)
            (g**2).sum().backward()
        passes = {}
        for name in glob.glob(os.path.join(self.path, "rank*", "*", "calls.jsonl")):
            with open(name) as lines:
                for e in map(json.loads, lines):
                    if e["event"] in ("grad_output", "grad_input") and e["id"] == 0:
                        passes.setdefault(e["pass"], []).append((e["event"], e["i"]))
        self.assertEqual([passes[n] for n in sorted(passes)],
                         [[("grad_output", 0), ("grad_input", 0)], [("grad_input", 1)]])

    def test_steps_by_hand(self):
        with optool_capture.record(self.path, steps=[2]) as recording:
            for k in range(4):
                torch.full((1,), k)
                recording.step()
        self.assertEqual([c["args"][1] for c in self.named("torch.full")], [2])

    @unittest.skipUnless(torch.distributed.is_available(), "torch without torch.distributed")
    def test_exchanges_behind_a_step(self):
        """What a rank does behind its update belongs to the step, up to the next forward pass."""
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method="file://" + os.path.join(self.path, "store"), rank=0, world_size=1)
        try:
            for by_hand in (False, True):
                path = os.path.join(self.path, "out%d" % by_hand)
                model = torch.nn.Linear(2, 2)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                with self.said(), optool_capture.record(path, steps=[0, 2]) as recording:
                    for _ in range(4):
                        model(torch.ones(1, 2)).sum().backward()
                        optimizer.step()
                        optimizer.zero_grad()
                        mean = model.weight.detach()
                        dist.all_reduce(mean)
                        if by_hand:
                            recording.step()
                calls = self.calls(path)
                steps = {name: [c["step"] for c in calls if c["name"].endswith(name)] for name in ("linear", "all_reduce")}
                # Without step() by hand, step 2 begins behind the update of step 1.
                self.assertEqual(steps, {"linear": [0, 2], "all_reduce": [0, 2] if by_hand else [0, 2, 2]})
        finally:
            dist.destroy_process_group()

    @unittest.skipUnless(torch.distributed.is_available(), "torch without torch.distributed")
    def test_results_that_arrive_late(self):
        """What a thread of an asynchronous collective writes after its return is read again when the program reads it."""
        import torch.distributed as dist
        try:
            from torch.distributed._functional_collectives import AsyncCollectiveTensor, all_reduce
        except Exception as e:  # torch 1.13 lacks them
            self.skipTest(str(e))
        dist.init_process_group("gloo", init_method="file://" + os.path.join(self.path, "store"), rank=0, world_size=1)
        try:
            path = os.path.join(self.path, "out")
            with self.said(), optool_capture.record(path):
                late = all_reduce(torch.zeros(4096), "sum", dist.group.WORLD)
                self.assertIsInstance(late, AsyncCollectiveTensor)
                time.sleep(0.2)
                with torch._C.DisableTorchFunction():  # the program does not ask for the address
                    at = late.elem.data_ptr()
                ctypes.c_float.from_address(at + 80).value = 1  # torch counts no write
                torch.add(late, 0)
            (read,) = [c["args"][0] for c in self.calls(path) if c["name"] == "torch.add"]
        finally:
            dist.destroy_process_group()
        self.assertEqual(read[20], 1)

    def test_who_counts_steps(self):
        """From the first step() on only these calls count, whatever optimizers do."""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            path = os.path.join(self.path, str(step))
            with self.said() as said, optool_capture.record(path, steps=[step]) as recording:
                for k in range(3):
                    torch.full((1,), k)
                    train(model, optimizer)
                    recording.step()
            self.assertEqual([c["args"][1] for c in self.calls(path) if c["name"] == "torch.full"], [step])
            self.assertRegex(said(), r"^optool_capture: recorded \d+ calls of step %d, [\d.]+ kB, in %s/rank0/" % (step, path))

    @unittest.skipUnless(hasattr(torch.Tensor, "register_post_accumulate_grad_hook"), "this torch has no such hooks")
    def test_optimizers_in_the_backward_pass(self):
        """A step that hooks make within a backward pass ends with the pass: the next one is recorded from its start."""
        for by_hand in False, True:
            model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
            optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
            for p in model.parameters():
                p.register_post_accumulate_grad_hook(lambda p: (optimizers[p].step(), optimizers[p].zero_grad()) and None)
            backward, path = torch.autograd.backward, os.path.join(self.path, str(by_hand))
            with optool_capture.record(path, steps=[1, 2]) as recording:
                for k in range(3):
                    model(torch.full((2, 3), float(k))).sum().backward()
                    if by_hand:
                        recording.step()
            self.assertIs(torch.autograd.backward, backward)
            calls = self.calls(path)
            self.assertEqual([(c["step"], c["args"][1]) for c in calls if c["name"] == "torch.full"], [(1, 1.0), (2, 2.0)])
            self.assertEqual([c["step"] for c in calls if c["name"] == "torch.nn.functional.linear"], [1, 1, 2, 2])
            self.assertEqual([c["step"] for c in calls if c["name"] == "torch.Tensor.add_"], [1] * 4 + [2] * 4)

    @contextlib.contextmanager
    def said(self):
        """What is printed and warned."""
        text = []
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(io.StringIO()) as printed:
            warnings.simplefilter("always")
            yield lambda: "".join(text)
            text += [printed.getvalue()] + [str(w.message) for w in warned if "optool_capture" in str(w.message)]

    def test_what_is_said_at_the_end(self):
        def program(recording, steps=2):
            for _ in range(steps):
                torch.ones(2) + 1
                recording.step()

        for options, steps, wanted in (
                (dict(steps=[0, 1, 3]), 4, r"recorded 6 calls of steps 0-1, 3, [\d.]+ bytes, in "),
                (dict(max_calls=1), 1, r"recorded 1 call of step 0, 8 bytes, in .*; it ended early at max_calls=1"),
                (dict(steps=[2, 5]), 2, r"nothing was recorded: steps=\[2, 5\] was asked for; the program made steps 0-1"),
                (dict(steps=[1]), 0, r"nothing was recorded: steps=\[1\] was asked for; no step ended"),
                (dict(ops="torch.cat"), 1, r"nothing was recorded: ops=\['torch.cat'\] was asked for; the program made step 0$"),
                (dict(max_calls=0), 1, r"nothing was recorded: max_calls=0 was reached; "),
                (dict(not_ops=".*"), 1, r"nothing was recorded: not_ops=\['.\*'\] was left out; "),
                ({}, 0, r"nothing was recorded: no call of torch was made; no step ended"),
                (dict(ranks=[1]), 1, r"nothing is recorded: ranks=\[1\] was asked for, the ranks are 0$")):
            with self.subTest(str(options)):
                with self.said() as said, optool_capture.record(self.path, **options) as recording:
                    program(recording, steps)
                self.assertRegex(said(), wanted)
                self.assertEqual(said().count("optool_capture: "), 1)

    def test_other_threads(self):
        model = nn.Linear(3, 2)
        for threads, wanted in (0, r"in \S+$"), (1, r"; calls of 1 other thread are"), (2, r"; calls of 2 other threads are"):
            with self.subTest(threads), self.said() as said, optool_capture.record(self.path):
                model(torch.ones(2, 3)).sum().backward()
                for _ in range(threads):
                    thread = threading.Thread(target=lambda: [model(torch.ones(2, 3)) for _ in range(2)])
                    thread.start()
                    thread.join()
            self.assertRegex(said(), wanted)

    def test_forms_of_steps(self):
        for given, wanted in (
                (None, None), (1, {1}), ([0, 2], {0, 2}), (range(2), {0, 1}), ((n for n in [3]), {3}), ("1-2", {1, 2}),
                ("0, 5-6", {0, 5, 6}), ("", None), (torch.tensor(2), {2}), (torch.tensor([1, 2]), {1, 2}), ([], set())):
            with self.subTest(str(given)):
                self.assertEqual(optool_capture.record(self.path, steps=given).steps, wanted)
                self.assertEqual(optool_capture.record(self.path, ranks=given if wanted != {3} else [3]).ranks, wanted)
        for given in True, 1.0, -1, [1.5], ["1"], [True], b"1", "a", "1,", "2-1", "-1", "1-", object(), [None]:
            with self.subTest(str(given)), self.assertRaisesRegex(TypeError, "steps has to be a number from 0, "):
                optool_capture.record(self.path, steps=given)

    def test_lists(self):
        with optool_capture.record(self.path, ops="torch.Tensor.*,torch.cat", not_ops=["torch.Tensor.exp"]):
            x = torch.ones(2)
            x.exp().sin()
            torch.cat([x, x])
        self.assertEqual([c["name"] for c in self.calls()], ["torch.Tensor.sin", "torch.cat"])

    def test_environment_of_op_tools(self):
        os.environ["OP_CAPTURE_LIST"] = "torch.cat"
        self.addCleanup(os.environ.pop, "OP_CAPTURE_LIST")
        with optool_capture.record(self.path):
            torch.cat([torch.ones(2), torch.ones(2)]).exp()
        self.assertEqual([c["name"] for c in self.calls()], ["torch.cat"])

    def test_ranks(self):
        os.environ["RANK"] = "3"
        self.addCleanup(os.environ.pop, "RANK")
        with optool_capture.record(self.path, ranks=[0]):
            torch.ones(2)
        self.assertEqual(self.directories(), [])
        with optool_capture.record(self.path, ranks=[3]):
            torch.ones(2)
        self.assertIn("rank3", self.directories()[0])

    def test_limits(self):
        with optool_capture.record(self.path, max_calls=2):
            for _ in range(5):
                torch.ones(2)
        self.assertEqual(len(self.calls()), 2)
        (cut,) = [e for e in self.events() if e["event"] == "cut"]
        self.assertEqual(cut["reason"], "max_calls=2")

    def test_repeated_calls(self):
        with optool_capture.record(self.path, repeats=(2, 4)):
            for k in range(10):
                torch.full((1,), k)
            torch.full((2,), 10)
        self.assertEqual([c["args"][1] for c in self.named("torch.full")], [0, 1, 4, 8])

    # Directories that cannot be written ----------------------------------------------------------------------------------

    def unwritable(self):
        path = os.path.join(self.path, "file")
        open(path, "w").close()
        return path

    def test_a_recorder_that_cannot_begin(self):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = torch.optim.SGD.step
        for steps in None, [1]:
            recording = optool_capture.record(self.unwritable(), steps=steps)
            with self.subTest(str(steps)), self.said() as said:
                with self.assertRaisesRegex(OSError, "optool_capture cannot record: "):
                    recording.start()
                self.assertIs(torch.optim.SGD.step, before)
                train(model, optimizer)
                recording.step()
                recording.stop()
            self.assertEqual(said(), "")

    def test_a_recorder_that_cannot_go_on(self):
        """Whether the directory vanishes before the step or the writing process ends later."""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = torch.optim.SGD.step
        for broken, steps in ("directory", [1, 3]), ("process", None), ("process", [1, 3]):
            path = os.path.join(self.path, broken)
            with self.subTest(broken=broken, steps=steps), self.said() as said:
                with optool_capture.record(path, steps=steps) as recording:
                    for step in range(4):
                        if step == 0 and broken == "directory":
                            shutil.rmtree(path)
                            open(path, "w").close()  # makedirs would make it again
                        if recording.channel and broken == "process":
                            recording.channel.writer.kill()
                            recording.channel.writer.wait()
                        train(model, optimizer)
            self.assertRegex(said(), "^optool_capture: recording ended: ")
            self.assertEqual(said().count("optool_capture: "), 1)
            self.assertIs(torch.optim.SGD.step, before)

    # Files --------------------------------------------------------------------------------------------------------------

    def test_each_content_is_stored_once(self):
        x = torch.randn(1 << 18)
        with optool_capture.record(self.path):
            for _ in range(8):
                x.clone()
        (file,) = glob.glob(os.path.join(self.directories()[0], "*.safetensors"))
        self.assertLess(os.path.getsize(file), (1 << 20) + (2 << 20))

    def test_what_is_written_past_torch(self):
        """A tensor that is read again is not copied again, unless its memory may have been written meanwhile."""
        x, running = torch.zeros(4096), torch.zeros(4)
        changes = [lambda: x.add_(1), lambda: x.detach().add_(1), lambda: x.data.add_(1), lambda: x.numpy().fill(7),
                   lambda: ctypes.memset(address, 0x40, 4 * 4096), lambda: F.batch_norm(x.view(-1, 4) + 9, running, running + 1,
                                                                                       training=True)]
        wanted = []
        address = x.data_ptr()
        with optool_capture.record(self.path):
            for change in changes:
                for _ in range(2):
                    wanted.append((x.clone(), running.clone()))
                    torch.cat([x[:8], running])
                    torch.neg(x), torch.neg(running)
                change()
        seen = [c["args"][0] for c in self.named("torch.neg")]
        self.assertEqual(len(seen), 4 * len(changes))
        for (a, b), got_a, got_b in zip(wanted, seen[::2], seen[1::2]):
            self.equal(got_a, a)
            self.equal(got_b, b)

    def test_copies_from_a_device(self):
        """No device is here: a stand-in says what is asked of it, and that nothing is read before the copy is done."""
        said = []

        class Event:
            def record(self):
                said.append("record")

            def synchronize(self):
                said.append("synchronize")
                host[0].copy_(values)

        class OnDevice(torch.Tensor):
            device = torch.device("xla")

        def empty(*args, pin_memory=False, **kwargs):
            said.append("pinned" if pin_memory else "pageable")
            host.append(torch.zeros(*args, **kwargs))
            return host[0]

        values, host = torch.arange(6.0).view(2, 3), []
        with optool_capture.record(self.path) as recording:
            channel = recording.channel
            with unittest.mock.patch.object(torch, "xla", types.SimpleNamespace(Event=Event), create=True), \
                    unittest.mock.patch.object(torch, "empty", empty):
                number = channel.tensor(torch.zeros(2, 3).as_subclass(OnDevice))
                channel.stage.close()
            channel.stage = None
            channel.line({"event": "call", "id": 0, "name": "torch.f", "kwargs": {}, "args": [
                {"tensor": number, "dtype": "float32", "shape": [2, 3]}]})
        self.assertEqual(said, ["pinned", "record", "synchronize"])
        self.equal(self.calls()[0]["args"][0], values)

    def test_larger_than_the_ring(self):
        x, y = torch.randn(1 << 20), torch.randn(1 << 20)
        with optool_capture.record(self.path, ring_bytes=1 << 20):
            x.clone()
            y.clone()
            torch.stack([x, y])
        clones = self.named("torch.Tensor.clone")
        self.equal(clones[0]["result"], x)
        self.equal(clones[1]["result"], y)
        self.equal(self.named("torch.stack")[0]["result"], torch.stack([x, y]))

    def test_safetensors(self):
        with optool_capture.record(self.path):
            torch.arange(5, dtype=torch.uint8) + torch.arange(5)
            torch.ones(3) * 2
        (file,) = glob.glob(os.path.join(self.directories()[0], "*.safetensors"))
        with open(file, "rb") as f:
            (n,) = struct.unpack("<Q", f.read(8))
            table = json.loads(f.read(n))
            rest = f.read()
        end = 0
        for entry in sorted(table.values(), key=lambda e: e["data_offsets"]):
            self.assertEqual(entry["data_offsets"][0], end)  # the format permits no holes
            end = entry["data_offsets"][1]
        self.assertEqual(end, len(rest))

    def test_each_recording_has_its_directory(self):
        """Also those of one second, and those of a process with the same number on another host."""
        again = optool_capture.record(self.path)
        with unittest.mock.patch("time.strftime", lambda form, *at: time_of(form, *at or (time.gmtime(0),))):
            for k in range(4):
                with again if k % 2 else optool_capture.record(self.path):
                    torch.full((1,), k)
        names = [os.path.basename(d) for d in self.directories()]
        self.assertEqual(names, ["%d-1970-01-01-00-00-00%s" % (os.getpid(), s) for s in ("", "-2", "-3", "-4")])
        calls = [list(optool_capture.load(d)) for d in self.directories()]
        self.assertEqual([[c["args"][1] for c in each] for each in calls], [[0], [1], [2], [3]])
        out = os.path.join(self.path, "out")
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(optool_capture._main(["", "export", self.path, out]), 0)
        files = glob.glob(os.path.join(out, "*/*/torch.full/%d/0/1970-01-01-00-00-0[0-3]/input.pth" % os.getpid()))
        self.assertEqual([torch.load(f, weights_only=True)["args"][1] for f in sorted(files)], [0, 1, 2, 3])

    def test_export(self):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with optool_capture.record(self.path):
            train(model, optimizer)
        out = os.path.join(self.path, "out")
        self.assertEqual(optool_capture.export(self.directories()[0], out), len(self.calls()))
        files = glob.glob(os.path.join(out, "op_tools_results/op_capture_results/torch.nn.functional.linear/*/*/*/*.pth"))
        self.assertEqual(len(files), 8)
        (update,) = [c["id"] for c in self.named("torch.optim.sgd.sgd")][:1]
        within = []
        for file in glob.glob(os.path.join(out, "*/*/torch*/*/*/*/call.json")):
            with open(file) as f:
                within.append(json.load(f).get("within"))
        self.assertIn(update, within)
        inputs = []
        for file in files:
            self.assertEqual(torch.load(file, weights_only=True)["name"], "torch.nn.functional.linear")
            with open(file + ".json") as f:
                said = json.load(f)["args"]
            self.assertTrue(all(v["data_ptr"] for v in said if isinstance(v, dict)), said)
            inputs += [said] * file.endswith("input.pth")
        self.assertTrue(any(said[1]["data_ptr"] == model.first.weight.data_ptr() and "version" in said[1] and
                            said[1]["name"] == "first.weight" and said[1]["shape"] == "(16, 8)" and said[1]["stride"] == [8, 1] for said in inputs), inputs)

    def test_export_after_the_call(self):
        x, mean = torch.ones(3), torch.zeros(3)
        with optool_capture.record(self.path):
            torch._foreach_add_([x], [mean + 2])
        out = os.path.join(self.path, "out")
        optool_capture.export(self.directories()[0], out)
        (file,) = glob.glob(os.path.join(out, "*/*/torch._foreach_add_/*/*/*/after.pth"))
        after = torch.load(file, weights_only=True)["args"]
        self.equal(after[0][0], torch.full((3,), 3.0))
        self.assertIsNone(after[1][0])  # not looked at

    # Other processes ----------------------------------------------------------------------------------------------------

    def run_program(self, text, env=None, out="out"):
        file = os.path.join(self.path, "program.py")
        with open(file, "w") as f:
            f.write(textwrap.dedent(text))
        return subprocess.run([sys.executable, file, os.path.join(self.path, out)], timeout=300, capture_output=True, text=True,
                              env=dict(os.environ, **{"PYTHONPATH": HERE, **(env or {})}))

    def test_imported_from_above(self):
        """The line of a call is the program's, however the recorder was found."""
        got = self.run_program("""
            import os, sys, torch
            sys.path.insert(0, os.environ["ABOVE"])
            import optool_capture
            with optool_capture.record(sys.argv[1]):
                torch.ones(2) + 1
        """, env={"PYTHONPATH": "", "ABOVE": os.path.join(HERE, "..", os.path.basename(HERE))})
        self.assertEqual(got.returncode, 0, got.stderr)
        for call in self.calls(os.path.join(self.path, "out")):
            self.assertRegex(call["location"], r"program\.py:\d+$")

    def test_a_crash(self):
        got = self.run_program("""
            import os, signal, sys, torch, optool_capture
            def crash(x):
                os.kill(os.getpid(), signal.SIGKILL)
            sys.modules["kernels"] = sys.modules["__main__"]
            optool_capture.record(sys.argv[1], wrap=["kernels.crash"]).start()
            y = torch.arange(100000.0) * 2
            import kernels
            kernels.crash(y)
        """)
        self.assertEqual(got.returncode, -signal.SIGKILL, got.stderr)
        path = os.path.join(self.path, "out")
        (directory,) = self.directories(path)
        for _ in range(300):  # the writing process may still be at it
            with open(os.path.join(directory, "calls.jsonl")) as f:
                if '"event":"end"' in f.read():
                    break
            time.sleep(0.1)
        crashed = self.calls(path)[-1]
        self.assertEqual(crashed["name"], "kernels.crash")
        self.equal(crashed["args"][0], torch.arange(100000.0) * 2)
        self.assertNotIn("result", crashed)

    def test_how_it_ended(self):
        """A program that dies leaves `complete` false, an exception is recorded, and a pause says that the steps are
        whole that were asked for."""
        loop = """
            import os, sys, torch, optool_capture
            with optool_capture.record(sys.argv[1], steps=[0]) as recording:
                for i in range(2):
                    torch.ones(2) + 1
                    if i == %d:
                        %s
                    recording.step()
        """
        for n, (step, end, want) in enumerate([
                (0, "os._exit(3)", {"end": False}), (1, "os._exit(3)", {"pause": 1, "end": False}),
                (0, "raise ValueError('device lost')", {"exception": "ValueError: device lost", "end": True}),
                (1, "raise ValueError('device lost')", {"pause": 1, "end": True}), (0, "sys.exit(0)", {"end": True}),
                (0, "sys.exit(3)", {"exception": "SystemExit: 3", "end": True})]):
            self.run_program(loop % (step, end), out="out%d" % n)
            self.assertEqual(self.ending("out%d" % n), want, end)
        loop = "import sys, torch, optool_capture\noptool_capture.record(sys.argv[1]).start()\ntorch.ones(2)\n%s"
        for n, (end, want) in enumerate([("1 / 0", {"exception": "ZeroDivisionError: division by zero", "end": True}),
                                         ("", {"end": True})]):
            self.run_program(loop % end, out="started%d" % n)
            self.assertEqual(self.ending("started%d" % n), want, end)

    def ending(self, out):
        """The events about the end of a recording, once it is written."""
        (directory,) = self.directories(os.path.join(self.path, out))
        for _ in range(300):  # the writing process may still be at it
            with open(os.path.join(directory, "calls.jsonl")) as f:
                events = {e["event"]: e for e in map(json.loads, f)}
            if "end" in events:
                break
            time.sleep(0.1)
        said = {"pause": "step", "exception": "error", "end": "complete"}
        return {event: events[event][field] for event, field in said.items() if event in events}

    def run_alone(self, text, **variables):
        """A program that doesn't know of the recorder."""
        site = os.path.join(self.path, "site")
        os.makedirs(site, exist_ok=True)
        shutil.copy(os.path.join(HERE, "optool_capture.py"), os.path.join(site, "sitecustomize.py"))
        env = {"OPTOOL_CAPTURE" + name: value for name, value in variables.items()}
        got = self.run_program(text, dict({"PYTHONPATH": site, "OPTOOL_CAPTURE": os.path.join(self.path, "out")}, **env))
        self.assertEqual(got.returncode, 0, got.stderr)
        return got

    def test_environment_alone(self):
        self.run_alone("""
            import torch
            torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
        """, _OPS=".*linear,.*sum")
        names = [c["name"] for c in self.calls(os.path.join(self.path, "out"))]
        self.assertEqual(names, ["torch.nn.functional.linear", "torch.Tensor.sum"])

    def test_environment_that_records_nothing(self):
        file = self.unwritable()
        for variables, wanted in (
                ({"_STEPS": "9"}, r"nothing was recorded: steps=\[9\] was asked for; the program made steps 0-1\n"),
                ({"": file}, "nothing is recorded: .*optool_capture cannot record: .*" + file),
                ({"": file, "_STEPS": "1"}, "nothing is recorded: .*optool_capture cannot record: .*" + file),
                ({"_STEPS": "x"}, "nothing is recorded: steps has to be a number"),
                ({"_MAX_CALLS": "x"}, "nothing is recorded: OPTOOL_CAPTURE_MAX_CALLS is no number: 'x'")):
            with self.subTest(str(variables)):
                got = self.run_alone("""
                    import torch
                    model = torch.nn.Linear(2, 2)
                    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                    for _ in range(2):
                        model(torch.ones(1, 2)).sum().backward()
                        optimizer.step()
                    print("trained")
                """, **variables)
                self.assertEqual(got.stdout, "trained\n")
                self.assertRegex(got.stderr, wanted)
                self.assertEqual(got.stderr.count("RuntimeWarning"), 1)
                self.assertEqual(self.directories(os.path.join(self.path, "out")), [])

    def test_a_fork(self):
        got = self.run_program("""
            import os, sys, torch, optool_capture
            with optool_capture.record(sys.argv[1]):
                a = torch.ones(2)
                child = os.fork()
                if child == 0:
                    torch.ones(3)
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                torch.ones(4)
        """)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual([c["args"][0] for c in self.calls(os.path.join(self.path, "out"))], [2, 4])

    def test_a_fork_before_the_step(self):
        """Each process has its own directory."""
        got = self.run_program("""
            import os, sys, torch, optool_capture
            with optool_capture.record(sys.argv[1], steps=[1]) as recording:
                child = os.fork()
                recording.step()
                torch.full((1,), 1 if child else 0)
                assert child == 0 or os.waitpid(child, 0)[1] == 0
        """)
        self.assertEqual(got.returncode, 0, got.stderr)
        directories = self.directories(os.path.join(self.path, "out"))
        self.assertEqual(sorted(c["args"][1] for d in directories for c in optool_capture.load(d)), [0, 1])
        self.assertEqual(len({os.path.basename(d).partition("-")[0] for d in directories}), 2)

    @unittest.skipUnless(torch.distributed.is_available(), "torch without torch.distributed")
    def test_distributed(self):
        got = self.run_program("""
            import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp, optool_capture
            def work(rank):
                os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["TEST_PORT"])
                dist.init_process_group("gloo", rank=rank, world_size=2)
                model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
                groups = [dist.new_group([0]), dist.new_group([1])]
                alone = groups[rank]
                with optool_capture.record(sys.argv[1], model=model.module):
                    model(torch.full((1, 2), rank + 1.0)).sum().backward()
                    t = torch.full((2,), rank + 1.0)
                    dist.all_reduce(t)
                    one = torch.full((2,), rank + 1.0)
                    torch.distributed.distributed_c10d.all_reduce(one, dist.ReduceOp.SUM, alone)
                    kind = dist.isend if rank == 0 else dist.irecv
                    for work in dist.batch_isend_irecv([dist.P2POp(kind, one, 1 - rank, tag=3)]):
                        work.wait()
                    dist.barrier()
                assert t[0] == 3 and one[0] == 1, (t, one)
                dist.destroy_process_group()
            if __name__ == "__main__":
                mp.spawn(work, nprocs=2)
        """, {"TEST_PORT": str(20000 + os.getpid() % 20000)})
        self.assertEqual(got.returncode, 0, got.stderr)
        directories = self.directories(os.path.join(self.path, "out"))
        self.assertEqual([os.path.basename(os.path.dirname(d)) for d in directories], ["rank0", "rank1"])
        for rank, directory in enumerate(directories):
            calls = {c["name"]: c for c in optool_capture.load(directory)}
            # Each once, whether it is called by its public name or not, with the group wherever it stands.
            self.assertEqual([c["group"] for c in optool_capture.load(directory) if c["name"].endswith("all_reduce")],
                             [[0, 1], [rank]])
            self.assertEqual([c["name"] for c in optool_capture.load(directory) if "distributed" in c["name"]],
                             ["torch.distributed." + name for name in (
                                 "Reducer.finalize_backward", "all_reduce", "all_reduce", ["isend", "irecv"][rank],
                                 "barrier")])
            # What DDP sums in C++ is there once the backward pass has ended.
            summed = calls["torch.distributed.Reducer.finalize_backward"]
            self.assertEqual(summed["kwargs"]["parameters"], ["weight", "bias"])
            self.equal(summed["args"][0][0], torch.full((2, 2), 1.5))
            with open(os.path.join(directory, "calls.jsonl")) as f:
                held = [e["parameters"] for e in map(json.loads, f) if e["event"] == "parameters"]
            self.assertEqual(held, [[{
                "name": name, "shape": shape, "whole": shape, "placements": ["Replicate()"], "mesh": [0, 1],
                "plan": "DistributedDataParallel"} for name, shape in (("weight", [2, 2]), ("bias", [2]))]])
            reduced = next(c for c in optool_capture.load(directory) if c["name"] == "torch.distributed.all_reduce")
            self.assertEqual(reduced["group"], [0, 1])
            self.equal(reduced["args"][0], torch.full((2,), rank + 1.0))
            self.equal(reduced["after"][0], torch.full((2,), 3.0))
            self.equal(calls["torch.nn.functional.linear"]["grad_inputs"][1], torch.full((2, 2), rank + 1.0))

    @unittest.skipUnless(hasattr(torch, "compile") and shutil.which("g++"), "torch.compile needs torch 2 and g++")
    def test_compile(self):
        text = """
            import os, sys, torch, optool_capture
            f = torch.compile(lambda x: (x * 2).sin().sum(), backend=os.environ["BACKEND"])
            x = torch.ones(4, requires_grad=True)
            with optool_capture.record(sys.argv[1]):
                y = x.exp()
                z = f(y)
                (z * 3).backward()
            assert torch.allclose(x.grad, 6 * torch.cos(2 * x.exp()) * x.exp()), x.grad
        """
        for backend in ("aot_eager", "inductor"):
            with self.subTest(backend):
                got = self.run_program(text, {"BACKEND": backend}, backend)
                self.assertEqual(got.returncode, 0, got.stderr)
                calls = {c["name"]: c for c in self.calls(os.path.join(self.path, backend))}
                self.assertIn("torch.Tensor.exp", calls)
                self.equal(calls["torch.Tensor.mul"]["grad_inputs"][0], torch.tensor(3.0))
                if backend == "aot_eager":  # the graphs of both passes
                    self.assertIn("torch.ops.aten.sin", calls)
                    self.assertIn("torch.ops.aten.cos", calls)

    @unittest.skipUnless(torch.distributed.is_available(), "torch without torch.distributed")
    def test_fsdp(self):
        try:
            import torch.distributed.fsdp
        except Exception as e:  # some builds of torch 1.13 lack what it imports
            self.skipTest(str(e))
        text = """
            import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp, optool_capture
            def work(rank):
                os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["TEST_PORT"])
                dist.init_process_group("gloo", rank=rank, world_size=2)
                torch.manual_seed(0)
                model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
                x = torch.full((1, 4), rank + 1.0)
                alone = torch.stack([model(torch.full((1, 4), r + 1.0)).sum() for r in range(2)]).sum()
                wanted = [g / 2 for g in torch.autograd.grad(alone, model.parameters())]
                if os.environ["KIND"] == "fully_shard":
                    from torch.distributed.fsdp import fully_shard
                    from torch.distributed.device_mesh import init_device_mesh
                    for layer in (model[0], model[2], model):
                        fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
                else:
                    from torch.distributed.fsdp import FullyShardedDataParallel
                    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
                with optool_capture.record(sys.argv[1]):
                    model(x).sum().backward()
                got = torch.cat([getattr(p.grad, "_local_tensor", p.grad).flatten() for p in model.parameters()
                                 if p.grad is not None])
                total = got.sum()
                dist.all_reduce(total)
                assert torch.allclose(total, sum(g.sum() for g in wanted)), (total, wanted)
                dist.destroy_process_group()
            if __name__ == "__main__":
                mp.spawn(work, nprocs=2)
        """
        for i, kind in enumerate(["flat"] + ["fully_shard"] * hasattr(torch.distributed.fsdp, "fully_shard")):
            with self.subTest(kind):
                got = self.run_program(text, {"TEST_PORT": str(20001 + i + os.getpid() % 20000), "KIND": kind}, kind)
                self.assertEqual(got.returncode, 0, got.stderr)
                self.assertNotIn("is not recorded", got.stderr)
                directories = self.directories(os.path.join(self.path, kind))
                self.assertEqual(len(directories), 2)
                for rank, directory in enumerate(directories):
                    if kind == "fully_shard":
                        with open(os.path.join(directory, "calls.jsonl")) as f:
                            text_of_calls = f.read()
                        for name in "0.weight", "0.bias", "2.weight", "2.bias":
                            self.assertIn('"name":"%s"' % name, text_of_calls)
                        self.assertTrue(re.search(r'"whole":\[8,4\],"placements":\["S[^"]*0\)"\],"mesh":\[0,1\],'
                                                  r'"plan":"fully_shard"', text_of_calls))
                        self.assertNotIn("as_strided", text_of_calls.partition('"event":"parameters"')[0])
                    linears = [c for c in optool_capture.load(directory) if c["name"] == "torch.nn.functional.linear"]
                    self.assertEqual(len(linears), 2)
                    first, last = linears
                    self.equal(first["args"][0], torch.full((1, 4), rank + 1.0))
                    self.assertEqual(list(first["args"][1].shape), [8, 4])
                    self.equal(last["grad_inputs"][1], last["args"][0].expand(2, -1))
                    self.equal(first["result"], F.linear(*first["args"]))

    @unittest.skipUnless(torch.distributed.is_available(), "torch without torch.distributed")
    def test_dtensor(self):
        try:
            from torch.distributed.tensor import distribute_tensor  # noqa: F401
        except ImportError as e:  # before torch 2.5
            self.skipTest(str(e))
        got = self.run_program("""
            import os, sys, torch, torch.distributed as dist, optool_capture
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import Replicate, Shard, distribute_tensor
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["TEST_PORT"])
            dist.init_process_group("gloo", rank=0, world_size=1)
            mesh = init_device_mesh("cpu", (1,))
            shard, whole = (distribute_tensor(torch.arange(4.0), mesh, [p]) for p in (Shard(0), Replicate()))
            weight = torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)]))
            last = distribute_tensor(torch.tensor([0.0, 0.0, 0.0, 1.0]), mesh, [Shard(0)])
            weight.register_hook(lambda grad: grad + grad)  # the call's gradient is what it was before
            compiled = torch.compile(lambda x: x + 1, backend="eager")
            with optool_capture.record(sys.argv[1]):
                torch._foreach_mul_([shard], 2.0)
                torch.neg(whole)
                loss = (weight * last).sum()
                compiled(torch.ones(2))  # leaves the hooks
                loss.backward()
                with torch.no_grad():
                    weight.add_(last)
            assert torch.equal(weight.grad.to_local(), 2 * last.to_local()), weight.grad
            dist.destroy_process_group()
        """, {"TEST_PORT": str(20010 + os.getpid() % 20000)})
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertNotIn("is not recorded", got.stderr)
        calls = {c["name"]: c for c in self.calls(os.path.join(self.path, "out"))}
        self.equal(calls["torch._foreach_mul_"]["args"][0][0], torch.arange(4.0))
        self.equal(calls["torch._foreach_mul_"]["after"][0], 2 * torch.arange(4.0))
        self.equal(calls["torch.neg"]["result"], -torch.arange(4.0))
        last = torch.tensor([0.0, 0.0, 0.0, 1.0])
        self.equal(calls["torch.Tensor.mul"]["grad_inputs"][0], last)
        self.equal(calls["torch.Tensor.add_"]["result"], torch.ones(4) + last)
        (directory,) = self.directories(os.path.join(self.path, "out"))
        with open(os.path.join(directory, "calls.jsonl")) as f:
            text = f.read()
        self.assertGreaterEqual(text.count('"placements":["Replicate()"],"whole":[4]'), 2)
        self.assertGreaterEqual(text.count('"placements":["S'), 2)

    @unittest.skipUnless(hasattr(torch, "compile"), "torch.compile needs torch 2")
    def test_compiled_whole(self):
        """fullgraph=True raises an error if the compiler meets a mode or a hook of ours."""
        model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4)
        wanted = model(x).exp()
        with optool_capture.record(self.path):
            got = torch.compile(model, backend="eager", fullgraph=True)(x).exp()
        self.equal(got, wanted)
        self.assertEqual([c["name"] for c in self.calls()], ["torch.Tensor.exp"])

    def test_the_writing_process_dies(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with optool_capture.record(self.path) as recording:
                torch.ones(2)
                recording.channel.writer.kill()
                recording.channel.writer.wait()
                for _ in range(3):
                    self.equal(torch.ones(2) + 1, torch.full((2,), 2.0))
        self.assertTrue(any("recording ended" in str(w.message) for w in said))

    def test_the_disk_is_full(self):
        """The recorded program says what ended the recording, not that the way to the writing process is closed."""
        got = self.run_program("""
            import resource, signal, sys, torch, optool_capture
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
            with optool_capture.record(sys.argv[1], ring_bytes=1 << 20):
                for i in range(50):
                    torch.full((1 << 18,), float(i)) + 1
        """)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("recording ended: File too large", got.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
