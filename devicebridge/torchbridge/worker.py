"""Runs operator calls that optool sends on a PyTorch device.

worker.py DEVICE OPTIONS: OPTIONS is JSON, {"import": [module, ...], "map": {name: "module:function"}}.

A request is a line of JSON on descriptor 3, an answer a line on descriptor 4, tensors lie in the
file on descriptor 5; wire.go says what is in them. Standard library and torch >= 1.13 alone. Nothing
is unpickled, and only functions are called that optool knows by name, or that its user maps.
"""
import hashlib
import importlib
import json
import mmap
import os
import platform
import struct
import sys
import time

# Memory that grows in so many runs, by so much in each, is not given back.
LEAK_RUNS, LEAK_BYTES = 3, 4096


class Refusal(Exception):
    """A sentence about a request that cannot be carried out here."""


class Absent(Refusal):
    """There is no function of that name."""


class Memory:
    """The file that both sides see. What was mapped before it grew stays valid."""

    def __init__(self, fd):
        self.fd, self.map = fd, None

    def bytes(self, torch, at, count):
        end = at + count
        if self.map is None or len(self.map) < end:
            size = os.fstat(self.fd).st_size
            if size < end:
                os.ftruncate(self.fd, end)
                size = end
            self.map = mmap.mmap(self.fd, size)
        if count == 0:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(self.map, dtype=torch.uint8, count=count, offset=at)

    def typed(self, torch, at, count, dtype):
        size = torch.empty(0, dtype=dtype).element_size()
        self.bytes(torch, at, count * size)
        return torch.frombuffer(self.map, dtype=dtype, count=count, offset=at)


class Worker:
    def __init__(self, device, options):
        self.memory = Memory(5)
        try:
            import torch
        except ModuleNotFoundError as e:
            raise Refusal("this Python has no module %s; --python names another" % e.name)
        self.torch = torch
        own = self.operators()
        plugins = [importlib.import_module(m) for m in options["import"]]
        self.device = torch.device(device)
        self.maps = options["map"]
        self.warm(own)
        self.found = {}
        self.backend = getattr(torch, self.device.type, None)
        probe = torch.empty(1, device=self.device)  # an unusable device is told at once
        self.sync()
        del probe
        self.info = {
            "python": platform.python_version(), "executable": sys.executable, "torch": torch.__version__,
            "name": self.device_name(), "driver": str(getattr(torch.version, "cuda", None) or ""),
            "plugins": {m.__name__: str(getattr(m, "__version__", "")) for m in plugins},
            "threads": torch.get_num_threads(), "events": self.has_events(),
        }

    def operators(self):
        """Names of the operators of torch.library.custom_op that are known by now."""
        return set(getattr(sys.modules.get("torch._library.custom_ops"), "OPDEFS", ()))

    def warm(self, own):
        """Imports what the first call would: modules of mapped functions, and what operators beside own need."""
        for path in self.maps.values():
            try:
                importlib.import_module(path.split(":")[0])
            except Exception:  # the call tells it
                pass
        if self.operators() - own:
            importlib.import_module("torch._dynamo")

    def device_name(self):
        try:
            return str(self.backend.get_device_name(self.device))
        except Exception:
            return platform.processor() or platform.machine()

    def has_events(self):
        return self.device.type != "cpu" and hasattr(self.backend, "Event")

    def sync(self):
        """Waits for the device, so that an error is told of the call that made it."""
        f = getattr(self.backend, "synchronize", None)
        if self.device.type != "cpu" and f is not None:
            f()

    def function(self, name):
        """What a name stands for: a function, or a property, which is read from its argument."""
        if name not in self.found:
            try:
                self.found[name] = self.find(name, self.maps.get(name, name))
            except Refusal as e:  # looking for modules takes time
                self.found[name] = e
        if isinstance(self.found[name], Refusal):
            raise self.found[name]
        return self.found[name]

    def find(self, name, path):
        """The function at a path, "module:function" or dotted; the name is for what is said of it."""
        parts = path.replace(":", ".").split(".")
        try:
            f = importlib.import_module(parts[0])
        except ImportError as e:
            raise Absent("%s: this Python has no module %s (%s)" % (name, parts[0], e))
        for i, p in enumerate(parts[1:], 2):
            module = None
            if not hasattr(f, p):
                try:  # a module that its package deleted, as torch.optim.adam, is not an attribute of that again
                    module = importlib.import_module(".".join(parts[:i]))
                except Exception:
                    pass
            try:
                f = getattr(f, p, module) if module else getattr(f, p)
            except (AttributeError, RuntimeError):
                hint = "" if parts[1:2] != ["ops"] else "; --torch-import names the module that brings it"
                raise Absent("this torch %s has no %s%s" % (self.torch.__version__, ".".join(parts[:i]), hint))
        if not callable(f):
            if not hasattr(f, "__get__"):
                raise Refusal("%s is no function" % name)
            f = f.__get__
        return f

    # Values.

    def value(self, v, tensors):
        """The Python value that optool wrote as v."""
        torch = self.torch
        if isinstance(v, list):
            return [self.value(x, tensors) for x in v]
        if not isinstance(v, dict):
            return v
        (kind, x), = v.items()
        if kind == "tensor":
            return tensors[x]
        if kind == "float":
            return float.fromhex(x)
        if kind == "int":
            return int(x)
        if kind == "complex":
            return complex(float.fromhex(x[0]), float.fromhex(x[1]))
        if kind == "tuple":
            return tuple(self.value(y, tensors) for y in x)
        if kind == "set":
            return set(self.value(y, tensors) for y in x)
        if kind == "size":
            return torch.Size(self.value(y, tensors) for y in x)
        if kind == "dict":
            return {self.value(k, tensors): self.value(y, tensors) for k, y in x}
        if kind == "slice":
            return slice(*[self.value(y, tensors) for y in x])
        if kind == "ellipsis":
            return Ellipsis
        if kind == "bytes":
            return bytes.fromhex(x)
        if kind == "device":
            return self.device
        if kind in ("dtype", "layout", "memory_format"):
            try:
                return getattr(torch, x)
            except AttributeError:
                raise Refusal("this torch %s has no torch.%s" % (torch.__version__, x))
        raise Refusal("a value of kind %s" % kind)

    def place(self, r):
        """The memory of a request on the device: a buffer for each block, guards around it."""
        torch = self.torch
        self.buffers = [self.memory.bytes(torch, b["at"], b["bytes"]).to(self.device, copy=True)
                        for b in r["blocks"]]
        tensors, leaves = [], []
        for t in r["tensors"]:
            dtype = self.value({"dtype": t["dtype"]}, None)
            buf = self.buffers[t["block"]]
            x = buf[t["start"]:t["end"]].view(dtype)
            x = x.as_strided(t["shape"], t["stride"])
            leaves.append(x)
            if t["grad"]:
                x.requires_grad_()
                if t["written"]:  # a leaf must not be written in place; a copy may
                    x = x.clone()
            tensors.append(x)
        return tensors, leaves

    def flat(self, v):
        """The tensors of a result, in order, and None where a tuple has None."""
        if isinstance(v, (list, tuple)):
            return [x for y in v for x in self.flat(y)]
        if isinstance(v, dict):
            return [x for y in v.values() for x in self.flat(y)]
        if v is None or isinstance(v, self.torch.Tensor):
            return [v]
        if hasattr(v, "__array_interface__"):  # of Tensor.numpy()
            return [self.torch.as_tensor(v)]
        return []

    def results(self, v):
        """The tensors of a result; a number alone is one of no dimensions."""
        return [self.torch.tensor(v)] if isinstance(v, (bool, int, float)) else self.flat(v)

    # Results.

    def store(self, x):
        """Writes a tensor behind what is used of the memory and says where."""
        torch = self.torch
        if x is None:
            return None
        x = x.detach()
        if x.layout != torch.strided or x.is_quantized:
            raise Refusal("the result is %s" % (x.layout if x.layout != torch.strided else "quantized"))
        size = x.numel() * x.element_size()
        if size > self.limit:
            raise Refusal("the result has %d bytes, more than the %d that are left" % (size, self.limit))
        dtype = str(x.dtype)[len("torch."):]
        on = x.device.type
        y = x.resolve_conj().resolve_neg().to("cpu").contiguous()
        at = (self.top + 255) // 256 * 256
        if y.numel():
            self.memory.typed(torch, at, y.numel(), y.dtype).copy_(y.reshape(-1))
        self.top = at + size
        return {"at": at, "dtype": dtype, "shape": list(x.shape), "device": on}

    def damaged(self, r):
        """What was written that must not be: guards around tensors, and arguments that are only read."""
        torch, found = self.torch, []
        for i, b in enumerate(r["blocks"]):
            now, before = self.buffers[i].cpu(), self.memory.bytes(torch, b["at"], b["bytes"])
            if torch.equal(now, before):
                continue
            where = (now != before).nonzero().flatten()
            lo, hi = b["start"], b["end"]
            outside = int(((where < lo) | (where >= hi)).sum())
            inside = where[(where >= lo) & (where < hi)]
            if outside:
                found.append("%d bytes written outside of %s" % (outside, b["name"]))
            if len(inside) and not b["written"]:
                found.append("%d bytes of the input %s changed, the first at byte %d"
                             % (len(inside), b["name"], int(inside[0]) - lo))
        return found

    def aliases(self, r, args, outs):
        """Results that must be the argument they are written to, and are not."""
        written = [i for i, t in enumerate(r["tensors"]) if t["written"]]
        if r["inplace"] and written and outs and outs[0] is not None:
            if outs[0].data_ptr() != args[written[0]].data_ptr():
                return ["the result of the in-place call is not the tensor it is written to"]
        shared = self.shared(r, outs)
        if r["op"] in self.maps and shared:
            own = self.shared_by_torch(r)
            return ["output[%d] shares the memory of the input %s, which torch's own %s copies" % (i, block, r["op"])
                    for i, block in shared if own is not None and (i, block) not in own]
        return []

    def shared(self, r, outs):
        """Which results lie in the memory of which arguments that are only read: (index, name) of each."""
        return [(i, b["name"]) for i, x in enumerate(outs) if x is not None and x.layout == self.torch.strided
                for b, buf in zip(r["blocks"], self.buffers)
                if x.numel() and not b["written"] and 0 <= x.data_ptr() - buf.data_ptr() < buf.numel()]

    def shared_by_torch(self, r):
        """What shared says of torch's function of the call's name; None if it does not run here."""
        buffers = self.buffers
        try:
            tensors, _ = self.place(r)
            args, kwargs = self.value(r["args"], tensors), {k: self.value(v, tensors) for k, v in r["kwargs"].items()}
            with self.torch.no_grad():
                result = self.find(r["op"], r["op"])(*args, **kwargs)
            self.sync()
            return self.shared(r, self.results(result))
        except Exception:
            return None
        finally:
            self.buffers = buffers

    # Requests.

    def run(self, r):
        self.top, self.limit = r["top"], r["limit"]
        call = self.function(r["op"])
        answer = self.once(call, r)
        if r["repeat"] == 1:
            return answer
        first, used = self.digest(r["top"]), []
        for n in range(1, r["repeat"]):
            self.top = r["top"]
            self.once(call, r)
            used.append(self.used())
            if self.digest(r["top"]) != first:
                answer["faults"].append("other bits for the same inputs in run %d of %d" % (n + 1, r["repeat"]))
                break
        grown = [b - a for a, b in zip(used, used[1:])]
        if len(grown) >= LEAK_RUNS and min(grown) >= LEAK_BYTES:
            answer["faults"].append("memory grows by %d bytes with every run" % min(grown))
        return answer

    def used(self):
        """Bytes of the device's memory in use, of the process on the processor."""
        try:
            if self.device.type != "cpu":
                return self.backend.memory_allocated()
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * mmap.PAGESIZE
        except Exception:
            return 0

    def once(self, call, r):
        torch = self.torch
        tensors, leaves = self.place(r)
        args = self.value(r["args"], tensors)
        kwargs = {k: self.value(v, tensors) for k, v in r["kwargs"].items()}
        mode = floating_point_mode()
        with torch.set_grad_enabled(bool(r["need"])):
            result = call(*args, **kwargs)
        if result is NotImplemented:  # an operator's method that leaves the arguments to the other operand
            raise TypeError("NotImplemented: it does not take these arguments")
        self.sync()
        outs = self.results(result)
        answer = {"faults": []}
        if floating_point_mode() != mode:
            answer["faults"].append("the thread that called it is left in another floating-point mode (rounding, "
                                    "flushing of subnormal numbers)")
            answer["worn"] = True
        answer["faults"] += self.aliases(r, tensors, outs)
        answer["faults"] += self.damaged(r)
        answer["outputs"] = [self.store(x) for x in outs]
        answer["after"] = [self.store(tensors[i]) for i in r["after"]]
        if r["need"]:
            answer["backward"] = self.backward(r, tensors, leaves, outs)
        return answer

    def time(self, r):
        """The times of runs of a pass, in nanoseconds, and whose clock they are of."""
        torch, t = self.torch, r["time"]
        call, grad = self.function(r["op"]), bool(r["need"])
        fresh, runs, flush = True, [], None
        if t["flush"]:
            flush = torch.empty(t["flush"], dtype=torch.uint8, device=self.device)
        for _ in range(t["runs"]):
            if fresh:
                tensors, leaves = self.place(r)
                args = self.value(r["args"], tensors)
                kwargs = {k: self.value(v, tensors) for k, v in r["kwargs"].items()}
                fresh = any(b["written"] for b in r["blocks"])
            work = lambda: call(*args, **kwargs)
            with torch.set_grad_enabled(grad):
                if grad:
                    given = [(o, tensors[g]) for o, g in zip(self.flat(work()), r["grad_outputs"])
                             if g is not None and o is not None and o.requires_grad]
                    if not given:
                        raise Refusal("no result of the forward pass has a gradient")
                    outs, grads = [o for o, _ in given], [g for _, g in given]
                    wanted = [leaves[i] for i in r["need"]]
                    work = lambda: torch.autograd.grad(outs, wanted, grads, allow_unused=True)
                if flush is not None:
                    flush.fill_(1)
                elapsed, memory = self.stopwatch(work)
                runs.append(elapsed)
        return {"runs": runs, "clock": "device" if self.has_events() else "host", "memory": memory}

    def stopwatch(self, work):
        """How long some work takes, between two events of the device or until it has been waited for, and
        what memory it takes."""
        self.sync()
        before = self.allocated()
        if self.has_events():
            begin, end = (self.backend.Event(enable_timing=True) for _ in range(2))
            begin.record()
            result = work()
            end.record()
            self.sync()
            elapsed = int(begin.elapsed_time(end) * 1e6)
        else:
            begin = time.perf_counter_ns()
            result = work()
            self.sync()
            elapsed = time.perf_counter_ns() - begin
        memory = self.taken(before)
        del result
        return elapsed, memory

    def allocated(self):
        """The statistics of the device's allocator, its peak counted from now; None where there are none."""
        try:
            if self.device.type == "cpu":
                return None
            self.backend.reset_peak_memory_stats(self.device)
            return self.backend.memory_stats(self.device)
        except Exception:
            return None

    def taken(self, before):
        """What was taken from the allocator since, in bytes."""
        if before is None:
            return None
        after = self.backend.memory_stats(self.device)
        held = before.get("allocated_bytes.all.current", 0)
        return {"peak": after.get("allocated_bytes.all.peak", held) - held,
                "kept": after.get("allocated_bytes.all.current", held) - held,
                "requests": after.get("allocation.all.allocated", 0) - before.get("allocation.all.allocated", 0)}

    def digest(self, since):
        """What the results of a run are, bit for bit."""
        if self.top <= since:
            return ""
        return hashlib.sha256(memoryview(self.memory.map)[since:self.top]).hexdigest()

    def backward(self, r, tensors, leaves, outs):
        """The gradients of the arguments that want one, or why there are none."""
        torch = self.torch
        try:
            given = [(o, tensors[g]) for o, g in zip(outs, r["grad_outputs"])
                     if g is not None and o is not None and o.requires_grad]
            if not given:
                return {"status": "missing", "reason": "no result has a gradient, though an argument wants one"}
            grads = torch.autograd.grad([o for o, _ in given], [leaves[i] for i in r["need"]],
                                        [g for _, g in given], allow_unused=True)
            self.sync()
            faults = self.damaged(r)
            return {"grads": [self.store(g) for g in grads], "faults": faults}
        except Exception as e:
            return failure(e)

    def serve(self):
        requests = os.fdopen(3, "rb")
        for line in requests:
            r = json.loads(line)
            try:
                answer = self.time(r) if r["time"] else self.run(r)
            except Exception as e:
                answer = failure(e)
            self.buffers = []
            reply(answer, r["number"])
            if answer.get("fatal") or answer.get("worn"):
                return


def floating_point_mode():
    """The bits of sums that differ under another rounding, or where subnormal numbers are flushed."""
    one, tiny, least = 1.0, 1e-30, 5e-324
    return struct.pack("5d", one + tiny, one - tiny, -one - tiny, least * one, least + least)


UNSUPPORTED = ("not implemented for", "could not run", "not supported", "unsupported", "not currently implemented",
               "not yet implemented", "not implemented", "does not support", "doesn't support", "no kernel",
               "is now removed", "not compatible with input tensor's size and stride")


def failure(e):
    """What an exception means: that something is not there, or an error."""
    text = " ".join(str(e).split("\n", 1)[0].split()) or type(e).__name__
    if isinstance(e, Refusal):
        return {"status": "unsupported", "reason": text, "absent": isinstance(e, Absent)}
    low = str(e).lower()
    if isinstance(e, NotImplementedError) or any(s in low for s in UNSUPPORTED):
        return {"status": "unsupported", "reason": text}
    fatal = "illegal memory access" in low or "device-side assert" in low or "launch failure" in low
    return {"status": "error", "reason": "%s: %s" % (type(e).__name__, text), "fatal": fatal}


def reply(answer, number):
    answer["number"] = number
    data = (json.dumps(answer) + "\n").encode()
    while data:
        data = data[os.write(4, data):]


def main():
    os.dup2(2, 1)  # what operators print is no answer
    for fd in (3, 4, 5):
        os.set_inheritable(fd, False)
    try:
        worker = Worker(sys.argv[1], json.loads(sys.argv[2]))
    except Exception as e:
        reply(failure(e), 0)
        return
    reply(worker.info, 0)
    worker.serve()


if __name__ == "__main__":
    main()
