"""Records the operator calls of a PyTorch program, for optool.

    import optool_capture
    with optool_capture.record("captures", steps=[3]) as recording:
        for batch in loader:
            train(batch)
            recording.step()

or, without touching the program (this file saved as sitecustomize.py in DIR):

    OPTOOL_CAPTURE=captures OPTOOL_CAPTURE_STEPS=3 PYTHONPATH=DIR python train.py

Then, on any machine, without Python:

    optool replay --acc_check captures

Needs torch 1.13 or newer and nothing else; works on any device (cpu, cuda, npu, mlu, musa, ...). What is written is
described in docs/capture.md of optool: a directory for each process with calls.jsonl (one line an event) and
tensors-*.safetensors, where each content is stored once.

How it works. A TorchFunctionMode sees every call of the torch API made by the program (not those that torch makes
inside of another recorded call). Values are copied into a ring of shared memory; a second process, which never
imports torch, hashes them and writes those not seen before. That process outlives a crash of the program, so that
everything up to the crash is there, the arguments of the call that crashed included. Each floating-point argument that
needs a gradient reaches the call through a view of itself, whose hook sees the gradient of this use of it.

The commands of this file: `python optool_capture.py export DIR OUT` writes what was recorded as the .pth files of
ditorch's op_tools (torch.load(weights_only=True) reads them).
"""

import atexit
import calendar
import collections
import contextlib
import ctypes
import functools
import gc
import hashlib
import importlib
import itertools
import json
import math
import mmap
import operator
import os
import queue
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
import weakref

__version__ = "1"
__all__ = ["record", "load", "export"]

ALIGNMENT = 64  # of values in the ring and in files, bytes
_HEADER = 64  # of the ring: bytes consumed, bytes written to disk, number of the error that ended the writer
TIME = "%Y-%m-%d-%H-%M-%S"  # in names of directories
LOADED = time.time()
_TENSOR = struct.Struct("<QQQQQB")  # number, position in the ring, bytes used up to its end, size, hint, more parts follow
_NO_HINT = (1 << 64) - 1


# --- The writing process: standard library only -----------------------------------------------------------------------

SHARD_BYTES = 2 << 30  # a new file of tensors is begun after as many bytes
SAMPLE, SAMPLES = 1 << 10, 16  # pieces of a content that are hashed, bytes and number
SHARD_HEADER = 1 << 20  # room reserved for its table; the first files have less
SAFETENSORS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint16": "U16", "uint32": "U32", "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "complex64": "C64",
}  # other types are stored as bytes (U8)


class _Shard:
    """One safetensors file that grows: the table's room is reserved, and its text brought up to date now and then.
    The file is mapped, so that new values can be compared with those in it; while it grows it has a tail of zeros."""

    def __init__(self, path, room, header):
        self.file = open(path, "wb+", buffering=0)
        self.header = header
        self.file.truncate(header + 8 + room)
        self.map = mmap.mmap(self.file.fileno(), 0)
        self.address = _address(self.map)
        self.room = room
        self.entries = {}
        self.table_bytes = 2
        self.size = 0
        self.stale = 0
        self.save_table()

    def full(self, n):
        return self.size + n + ALIGNMENT > self.room or self.table_bytes > self.header - 1024

    def add(self, key, dtype, shape, data, n):
        """Writes data; returns where it begins in the file."""
        pad = -self.size % ALIGNMENT
        if pad:  # the format knows no holes
            self._entry("pad.%d" % self.size, "U8", [pad], pad)
        name = SAFETENSORS.get(dtype)
        if name is None:
            name, shape = "U8", [n]
        begin = self.header + 8 + self._entry(key, name, shape, n)
        done = 0
        while done < n:
            done += os.pwrite(self.file.fileno(), data[done:], begin + done)
        self.stale += n
        if self.stale > 64 << 20:
            self.save_table()
        return begin

    def _entry(self, key, dtype, shape, n):
        begin = self.size
        self.entries[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + n]}
        self.table_bytes += 90 + len(key) + len(str(shape))
        self.size += n
        return begin

    def save_table(self):
        text = json.dumps(self.entries, separators=(",", ":")).encode().ljust(self.header)
        os.pwrite(self.file.fileno(), struct.pack("<Q", self.header) + text, 0)
        self.stale = 0

    def close(self):
        self.save_table()
        self.file.truncate(self.header + 8 + self.size)
        self.file.close()


def _address(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class _Writer:
    """Reads frames from a pipe: T tensor in the ring, P part of a large one, L line, Q end. See _Channel.frame."""

    def __init__(self, directory, ring, pipe):
        self.directory = directory
        self.ring = mmap.mmap(ring, 0)
        self.memory = memoryview(self.ring)
        self.address = _address(self.ring)
        self.memcmp = ctypes.CDLL(None).memcmp
        self.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        self.pipe = pipe
        self.calls = open(os.path.join(directory, "calls.jsonl"), "ab", buffering=0)
        self.pending = []
        self.shards = []
        self.known = {}  # hash of a sample of a content -> those that have it: key, (file, offset, size)
        self.places = {}  # number of a tensor -> key, place; of those that hints may name
        self.written = 0
        self.part = None

    def run(self):
        try:
            self.write()
        except OSError as e:
            struct.pack_into("<Q", self.ring, 16, e.errno or 0)
            raise

    def write(self):
        complete = False
        buffer = bytearray()
        while True:
            got = os.read(self.pipe, 1 << 20)
            if not got:
                break
            buffer += got
            at = 0
            while len(buffer) - at >= 5:
                kind, size = struct.unpack_from("<BI", buffer, at)
                if len(buffer) - at < 5 + size:
                    break
                body = bytes(buffer[at + 5:at + 5 + size])
                at += 5 + size
                complete = self.frame(chr(kind), body) or complete
            del buffer[:at]
            self.flush()
        self.line({"event": "end", "complete": complete, "bytes": self.written})
        self.flush()
        if self.shards:
            self.shards[-1].close()
        self.calls.close()

    def frame(self, kind, body):
        if kind == "L":
            self.pending.append(body)
        elif kind == "Q":
            return True
        else:
            number, position, used, size, hint, more = _TENSOR.unpack_from(body)
            data = self.memory[position:position + size]
            if kind == "P":
                self.add_part(number, data, size, more, body[_TENSOR.size:])
            else:
                self.add(number, position, data, size, hint, body[_TENSOR.size:])
            data.release()
            struct.pack_into("<QQ", self.ring, 0, used, self.written)  # the room may be used again
        return False

    def add(self, number, position, data, size, hint, meta):
        """Values are first compared with those that stood in the same place before, then with those alike in a sample."""
        known = self.places.pop(hint, None) if hint != _NO_HINT else None
        if known is None or not self.holds(known[1], self.address + position, size):
            known = self.content(self.address + position, data, size, meta)
        self.blob(number, *known)

    def holds(self, where, address, size):
        """Whether these are the bytes stored there."""
        file, begin, n = where
        return n == size and not self.memcmp(address, self.shards[file].address + begin, size)

    def content(self, address, data, size, meta):
        """The key and place of values, which are stored if they are new."""
        digest = hashlib.blake2b(digest_size=16)
        if size <= SAMPLE * SAMPLES:
            digest.update(data)
        else:
            for i in range(SAMPLES):
                at = i * (size - SAMPLE) // (SAMPLES - 1)
                digest.update(data[at:at + SAMPLE])
        digest = "%s-%d" % (digest.hexdigest(), size)
        alike = self.known.setdefault(digest, [])
        for known in alike:
            if self.holds(known[1], address, size):
                return known
        key = "%s-%d" % (digest, len(alike)) if alike else digest
        alike.append((key, self.store(key, json.loads(meta), data, size)))
        return alike[-1]

    def store(self, key, meta, data, size):
        shard = self.shards[-1] if self.shards else None
        if shard is None or shard.full(size):
            if shard:
                shard.close()
            name = "tensors-%05d.safetensors" % len(self.shards)
            shard = _Shard(os.path.join(self.directory, name), max(SHARD_BYTES, size + ALIGNMENT),
                           min(SHARD_HEADER, 1 << 14 + 2 * len(self.shards)))
            self.shards.append(shard)
        begin = shard.add(key, meta["dtype"], meta["shape"], data, size)
        self.written += size
        return len(self.shards) - 1, begin, size

    def add_part(self, number, data, size, more, meta):
        """A tensor larger than the ring is collected in a file, since whether it is new is known only at the end."""
        if self.part is None:
            self.part = tempfile.TemporaryFile(dir=self.directory, buffering=0)
        done = 0
        while done < size:
            done += self.part.write(data[done:])
        if more:
            return
        size = self.part.tell()
        whole = mmap.mmap(self.part.fileno(), size, access=mmap.ACCESS_COPY)
        known = self.content(_address(whole), memoryview(whole), size, meta)
        self.part.close()
        self.part = None
        self.blob(number, *known)

    def blob(self, number, key, where):
        self.places[number] = (key, where)
        self.pending.append(b'{"event":"blob","n":%d,"key":"%s","file":%d,"begin":%d,"bytes":%d}' % (
            (number, key.encode()) + where))

    def line(self, event):
        self.pending.append(json.dumps(event, separators=(",", ":")).encode())

    def flush(self):
        if self.pending:
            self.calls.write(b"\n".join(self.pending) + b"\n")
            self.pending.clear()


# --- The recorded process ---------------------------------------------------------------------------------------------

class _Channel:
    """The way to the writing process: a ring of shared memory for values, a pipe for what is said about them."""

    def __init__(self, directory, ring_bytes):
        import torch

        self.torch = torch
        self.encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
        self.size = max(ring_bytes, 1 << 20) // ALIGNMENT * ALIGNMENT
        where = "/dev/shm" if _room("/dev/shm") > 2 * self.size else None
        with tempfile.TemporaryFile(dir=where) as file:
            file.truncate(_HEADER + self.size)
            self.ring = mmap.mmap(file.fileno(), 0)
            read, self.pipe = os.pipe()
            try:
                self.writer = subprocess.Popen(
                    [sys.executable, "-S", "-E", os.path.abspath(__file__), "--write", directory, str(file.fileno()),
                     str(read)],
                    pass_fds=(file.fileno(), read), stdin=subprocess.DEVNULL, start_new_session=True,
                    env={k: v for k, v in os.environ.items() if not k.startswith("OPTOOL_CAPTURE")})
            except BaseException:
                os.close(self.pipe)
                raise
            finally:
                os.close(read)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.bytes = torch.frombuffer(self.ring, dtype=torch.uint8, offset=_HEADER)
        self.address = self.bytes.data_ptr()
        self.last = {}  # where a tensor lies -> number of what lay there last: probably the same
        self.head = 0  # bytes handed out since the beginning
        self.number = 0
        self.lock = threading.RLock()
        self.stage = None
        self.pending = bytearray()  # frames not yet sent
        self.broken = False

    # Room in the ring -------------------------------------------------------------------------------------------------

    def consumed(self):
        return struct.unpack_from("<Q", self.ring, 0)[0]

    def written(self):
        """Bytes of tensors on disk so far."""
        return self.final if self.ring.closed else struct.unpack_from("<Q", self.ring, 8)[0]

    def room(self, n):
        """Waits for n bytes in one piece; returns where they begin."""
        n += -n % ALIGNMENT
        begin = self.head % self.size
        if begin + n > self.size:
            self.head += self.size - begin
            begin = 0
        self.head += n
        if self.head - self.consumed() > self.size:
            self.flush()
        while self.head - self.consumed() > self.size:
            if self.writer.poll() is not None:
                raise BrokenPipeError("the writing process ended with status %d" % self.writer.returncode)
            time.sleep(0.0002)
        return begin

    def frame(self, kind, body):
        self.pending += struct.pack("<BI", ord(kind), len(body)) + body

    def flush(self):
        with memoryview(self.pending) as view:
            sent = 0
            while sent < len(view):
                sent += os.write(self.pipe, view[sent:])
        self.pending.clear()

    def line(self, event):
        with self.lock:
            if self.broken:
                return
            self.frame("L", self.encode(event).encode())
            try:
                self.flush()
            except OSError as e:
                self.give_up(e)

    def give_up(self, error):
        """The writing process is gone: the program goes on, unrecorded."""
        if not self.broken:
            self.broken = True
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.writer.wait(5)  # which says why
            number = struct.unpack_from("<Q", self.ring, 16)[0]
            _warn("recording ended: %s" % (os.strerror(number) if number else error))

    # Tensors ----------------------------------------------------------------------------------------------------------

    def tensor(self, t):
        """Saves the elements of t in row-major order; returns the number that stands for them."""
        with self.lock:
            number = self.number
            self.number += 1
            place = (t.data_ptr(), t.dtype, t.shape, t.stride())
            hint, self.last[place] = self.last.get(place, _NO_HINT), number
            if len(self.last) > 1 << 16:
                self.last.clear()
            if t.device.type == "cpu":
                self.copy(number, t, hint)
            else:
                if self.stage is None:
                    self.stage = _Stage(self)
                self.stage.put(number, t, hint)
            return number

    def copy(self, number, t, hint):
        """Copies a tensor of the host."""
        torch = self.torch
        size = t.numel() * t.element_size()
        meta = json.dumps({"dtype": str(t.dtype)[6:], "shape": list(t.shape)}).encode()
        piece = self.size // 4
        with self.lock:
            if self.ring.closed:
                raise BrokenPipeError("the recording has ended")
            if size <= piece:
                begin = self.room(size)
                if size and t.is_contiguous() and not t.is_neg() and not (t.is_complex() and t.is_conj()):
                    ctypes.memmove(self.address + begin, t.data_ptr(), size)
                elif size:
                    self.bytes[begin:begin + size].view(t.dtype).view(t.shape).copy_(t)
                self.frame("T", _TENSOR.pack(number, _HEADER + begin, self.head, size, hint, 0) + meta)
                return
            flat = t.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
            for at in range(0, size, piece):
                n = min(piece, size - at)
                begin = self.room(n)
                ctypes.memmove(self.address + begin, flat.data_ptr() + at, n)
                self.frame("P", _TENSOR.pack(number, _HEADER + begin, self.head, n, hint, at + n < size) + meta)

    def close(self):
        if self.broken:
            return
        self.broken = True
        try:
            if self.stage is not None:
                self.stage.close()
            self.frame("Q", b"")
            self.flush()
        except OSError:
            pass
        os.close(self.pipe)
        self.writer.wait()
        with self.lock:
            self.final = self.written()
            self.bytes = None  # without the tensor that shows it the ring can be closed, and its memory is free
            self.ring.close()

    def abandon(self):
        """In a process forked from the recorded one: the channel is not ours."""
        if not self.broken:
            self.broken = True
            os.close(self.pipe)


class _Stage:
    """Copies from a device without waiting for it: into pinned memory on the current stream, from there to the ring
    once an event says that the copy is done. At most `limit` bytes are on their way."""

    limit = 1 << 30

    def __init__(self, channel):
        self.channel = channel
        self.torch = channel.torch
        self.queue = queue.Queue()
        self.under_way = 0
        self.done = threading.Condition()
        self.thread = threading.Thread(target=self.run, name="optool_capture", daemon=True)
        self.thread.start()

    def put(self, number, t, hint):
        torch = self.torch
        size = t.numel() * t.element_size()
        module = getattr(torch, t.device.type, None)
        try:
            event = module.Event()
            host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            host.copy_(t, non_blocking=True)
            event.record()
        except Exception:  # a device without events or pinned memory: wait for the copy
            host, event = t.detach().to("cpu"), None
        with self.done:
            self.done.wait_for(lambda: self.under_way == 0 or self.under_way + size <= self.limit)
            self.under_way += size
        self.queue.put((number, host, hint, event, size))

    def run(self):
        while True:
            item = self.queue.get()
            if item is None:
                return
            number, host, hint, event, size = item
            try:
                if event is not None:
                    event.synchronize()
                self.channel.copy(number, host, hint)
            except OSError as e:
                self.channel.give_up(e)
            except Exception as e:
                _warn("a value could not be copied from the device: %s" % e)
            with self.done:
                self.under_way -= size
                self.done.notify_all()

    def close(self):
        self.queue.put(None)
        self.thread.join()


def _room(path):
    try:
        s = os.statvfs(path)
        return s.f_bavail * s.f_frsize
    except OSError:
        return 0


def _warn(text):
    warnings.warn("optool_capture: " + text, RuntimeWarning, stacklevel=3)


# --- Values as JSON ---------------------------------------------------------------------------------------------------

class _Encoder:
    """Turns arguments and results into JSON; see docs/capture.md. Tensors go to the channel."""

    def __init__(self, torch, channel):
        self.torch = torch
        self.channel = channel
        self.memo = None  # of one moment: id of a tensor -> what was said about it
        self.counted = {}  # by the id of the part of a DTensor: the version of the DTensor when the part was saved
        self.awaits = False  # whether results of asynchronous collectives are waited for
        self.exact = False  # whether numbers of numpy are arrays without dimensions
        self.saved = {}  # id of a tensor -> _Saved
        self.exposed = set()  # where memory begins that can be written without torch's knowledge
        self.awaited = set()  # where results of asynchronous collectives begin that other threads may still write
        self.names = {}  # id of a parameter or buffer -> its name in the model
        self.owned = lambda t: None  # the name of a parameter that a module was given while it was called

    def value(self, v):
        torch = self.torch
        if v is None or v is True or v is False or type(v) in (str, int):
            return v
        if isinstance(v, torch.Tensor):
            return self.tensor(v)
        if type(v) is float:
            return v if math.isfinite(v) else {"float": repr(v)}
        if isinstance(v, torch.Size):
            return {"size": list(v)}
        if isinstance(v, tuple):
            items = [self.value(x) for x in v]
            if type(v) is tuple:
                return {"tuple": items}
            return {"tuple": items, "type": type(v).__module__ + "." + type(v).__name__}
        if isinstance(v, list):
            return [self.value(x) for x in v]
        if isinstance(v, dict):
            return {"dict": [[self.value(k), self.value(x)] for k, x in v.items()]}
        if type(v).__module__ == "numpy" and (hasattr(v, "strides") and getattr(v, "ndim", 0) or self.exact):
            array = self.array(v)
            if array is not None:
                return array
        if isinstance(v, bool):
            return bool(v)
        if isinstance(v, int):  # numpy, enumerations
            return int(v)
        if isinstance(v, complex):
            return {"complex": [repr(v.real), repr(v.imag)]}
        if isinstance(v, slice):
            return {"slice": [self.value(v.start), self.value(v.stop), self.value(v.step)]}
        if v is Ellipsis:
            return {"ellipsis": True}
        if isinstance(v, torch.dtype):
            return {"dtype": str(v)[6:]}
        if isinstance(v, torch.device):
            return {"device": str(v)}
        if isinstance(v, torch.layout):
            return {"layout": str(v)[6:]}
        if isinstance(v, torch.memory_format):
            return {"memory_format": str(v)[6:]}
        if isinstance(v, torch.Generator):
            return {"generator": str(v.device)}
        if isinstance(v, str):
            return str(v)
        if type(v).__module__ == "numpy" and hasattr(v, "item") and getattr(v, "ndim", 1) == 0:
            return self.value(v.item())
        return {"object": type(v).__module__ + "." + type(v).__qualname__, "text": repr(v)[:200]}

    def array(self, v):
        """An array of numpy, or a number of it; None if it holds no numbers that torch has."""
        try:
            t = self.torch.from_numpy(v.__array__().copy())
        except (AttributeError, TypeError, ValueError):
            return None
        return {"array": self.channel.tensor(t), "dtype": str(t.dtype)[6:], "shape": list(t.shape)}

    def at_once(self, values, exact=False, awaits=False):
        """Encodes values of one moment: a tensor that occurs twice is copied once. With exact the dtype of numpy's numbers
        is kept. With awaits the results of asynchronous collectives are waited for."""
        self.memo, self.exact, self.awaits = {}, exact, awaits
        try:
            return [self.value(v) for v in values]
        finally:
            self.memo, self.exact, self.awaits = None, False, False

    def tensor(self, t):
        if self.memo is None:
            return self._tensor(t)
        e = self.memo.get(id(t))
        if e is None:
            e = self.memo[id(t)] = self._tensor(t)
        return e

    def _tensor(self, t):
        torch = self.torch
        if not _readable(t, torch):
            awaited = _awaited(t, torch, self.awaits)
            if awaited is not None:
                self.awaited.discard(_memory(awaited))
                return dict(self._tensor(awaited), requires_grad=True) if t.requires_grad else self._tensor(awaited)
            local = _local(t)
            if local is None:
                return self._opaque(t)
            version = _version(t)  # None in inference mode
            if self.counted.get(id(local[0])) != version:  # its writes count as those of the whole
                self.saved.pop(id(local[0]), None)
                self.counted[id(local[0])] = version
            e = self._tensor(local[0])
            if "tensor" not in e:
                return self._opaque(t)
            e = dict(e, placements=local[1], whole=list(t.shape))
            if t.requires_grad:
                e["requires_grad"] = True
            if any(p.startswith("P") for p in local[1]):
                e["terms"] = _terms(t)
            name = self.name(t)
            if name:
                e["name"] = name
            return e
        d = t.detach()
        e = {"tensor": 0, "dtype": str(d.dtype)[6:], "shape": list(d.shape)}
        if not d.is_contiguous():
            e["stride"] = list(d.stride())
            d, e["stored"] = _as_stored(d)
        if d.storage_offset():
            e["offset"] = d.storage_offset()
        if d.device.type != "cpu":
            e["device"] = str(d.device)
        e["ptr"] = d.data_ptr()
        try:
            e["version"] = t._version
        except RuntimeError:  # inference tensors count no versions
            pass
        if t.requires_grad:
            e["requires_grad"] = True
        name = self.name(t)
        if name:
            e["name"] = name
        elif isinstance(t, torch.nn.Parameter):
            e["name"] = ""
        saved = self.saved.get(id(t))
        if saved is not None and saved.holds(t, e):
            e["tensor"] = saved.number
            return e
        e["tensor"] = self.channel.tensor(d)
        if "version" in e and t.device.type == "cpu" and self._settled(t):
            self.saved[id(t)] = _Saved(t, e, functools.partial(self._forget, id(t)))
        return e

    def name(self, t):
        """The name of a parameter or buffer; None of other tensors."""
        name = self.names.get(id(t))
        if name is None and t.requires_grad and t.is_leaf:
            name = self.owned(t)
        return name

    def _opaque(self, t):
        """A tensor whose elements cannot be read. Its place among the tensors counts."""
        try:
            text = "%s %s %s on %s" % (t.layout, t.dtype, tuple(t.shape), t.device)
        except Exception:
            text = ""
        return {"object": type(t).__module__ + "." + type(t).__qualname__, "text": text, "tensors": 1}

    def _forget(self, key, reference):
        saved = self.saved.get(key)
        if saved is not None and saved.reference is reference:
            del self.saved[key]
            self.counted.pop(key, None)

    def _settled(self, t):
        at = _memory(t)
        return at not in self.exposed and at not in self.awaited

    def begun(self, tensors):
        """An asynchronous collective writes these until the program waits for it."""
        self.awaited.update(_memory(t) for t in tensors if _readable(t, self.torch) and t.device.type == "cpu")

    def ended(self, tensors):
        self.awaited.difference_update([_memory(t) for t in tensors if _readable(t, self.torch)])

    def expose(self, tensors):
        """The memory of these can be written from now on without a new version of the tensor."""
        self.exposed.update(_memory(t) for t in tensors if _readable(t, self.torch) and t.device.type == "cpu")
        self.forget()

    def forget(self):
        """Anything may have been written."""
        self.saved.clear()


class _Saved:
    """A tensor of the host that was saved, and what tells that its elements are still the same: nobody exposed its
    memory, its version is that of then, and so is a sample of its bytes."""

    __slots__ = ("reference", "number", "said", "sample")
    pieces, piece = 8, 64  # of the sample, and bytes of each

    def __init__(self, t, e, forget):
        self.reference = weakref.ref(t, forget)
        self.number = e["tensor"]
        self.said = self.words(e)
        self.sample = self.bytes(t)

    @staticmethod
    def words(e):
        return e["ptr"], e["version"], e["dtype"], e["shape"], e.get("stride")

    def bytes(self, t):
        """Of a tensor that is not contiguous the first bytes."""
        size = t.numel() * t.element_size()
        if size <= self.piece or not t.is_contiguous():
            return ctypes.string_at(t.data_ptr(), t.element_size() if size else 0)
        step = (size - self.piece) // (self.pieces - 1)
        return b"".join([ctypes.string_at(t.data_ptr() + i * step, self.piece) for i in range(self.pieces)])

    def holds(self, t, e):
        return self.reference() is t and "version" in e and self.said == self.words(e) and self.sample == self.bytes(t)


def _memory(t):
    """Where the memory of a tensor begins."""
    return t.data_ptr() - t.storage_offset() * t.element_size()


def _as_stored(d):
    """What is written of a tensor that is not contiguous, and the strides over it. The elements of an expanded tensor
    are written once, and all in the order of memory."""
    shape, stride = d.shape, [s if n > 1 else 0 for n, s in zip(d.shape, d.stride())]
    for dim, s in enumerate(stride):
        if s == 0 and shape[dim] > 1:
            d = d.narrow(dim, 0, 1)
    order = sorted(range(d.dim()), key=lambda dim: -stride[dim] if stride[dim] else 0)
    p = d.permute(order)
    size = 1
    for dim in reversed(order):
        if stride[dim]:
            stride[dim] = size
            size *= shape[dim]
    return p, stride


@functools.lru_cache(None)
def _plain(torch):
    kinds = [torch.Tensor, torch.nn.Parameter, torch.nn.parameter.Buffer] if hasattr(torch.nn.parameter, "Buffer") else [
        torch.Tensor, torch.nn.Parameter]
    try:
        from torch.distributed.fsdp._flat_param import FlatParameter
        kinds.append(FlatParameter)
    except Exception:
        pass
    return frozenset(kinds)


def _tensors(v, torch, into):
    """Appends the tensors of v in order: containers flattened, keys of dictionaries left out."""
    if isinstance(v, torch.Tensor):
        into.append(v)
    elif isinstance(v, (list, tuple)):
        for x in v:
            _tensors(x, torch, into)
    elif isinstance(v, dict):
        for x in v.values():
            _tensors(x, torch, into)
    return into


def _replace(v, torch, new):
    """v with its tensors replaced by new(tensor); the same object where none was."""
    if isinstance(v, torch.Tensor):
        return new(v)
    if isinstance(v, (list, tuple)) and not isinstance(v, torch.Size):
        items = [_replace(x, torch, new) for x in v]
        if all(a is b for a, b in zip(items, v)):
            return v
        if type(v) in (list, tuple):
            return type(v)(items)
        return type(v)(*items) if hasattr(v, "_fields") else type(v)(items)
    if type(v) is dict:
        items = {k: _replace(x, torch, new) for k, x in v.items()}
        return v if all(items[k] is v[k] for k in v) else items
    return v


# --- Which calls, and how each is treated -----------------------------------------------------------------------------

PROPERTIES = {"T", "mT", "H", "mH", "data", "real", "imag"}  # of tensors, those that are tensors
IGNORED = {
    "requires_grad_", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "backward", "__repr__",
    "__format__", "__len__", "__hash__", "__dir__", "__deepcopy__", "__reduce_ex__", "__setstate__", "__contains__",
    "size", "stride", "dim", "numel", "nelement", "ndimension", "element_size", "storage_offset", "data_ptr", "storage",
    "untyped_storage", "_typed_storage", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_pinned",
    "get_device", "has_names", "_is_view", "is_set_to", "is_shared", "is_same_size", "is_inference",
    "is_conj", "is_neg", "is_coalesced", "is_nonzero", "_version", "names", "refine_names", "share_memory_", "as_subclass",
    "_make_subclass", "is_tensor", "is_storage", "result_type", "promote_types", "can_cast", "broadcast_shapes",
    "get_default_dtype", "set_default_dtype", "get_rng_state", "set_rng_state", "manual_seed", "typename", "record_stream",
    "save", "load", "__array__", "__torch_function__", "_assert_async", "_functional_assert_async", "_has_compatible_shallow_copy_type",
}
EXPOSE = {"data_ptr", "storage", "untyped_storage", "_typed_storage", "numpy", "__array__", "__dlpack__", "to_dlpack",
          "set_", "share_memory_", "from_numpy", "frombuffer", "as_tensor", "asarray"}  # ways to memory past torch
UNREAD = {  # views, for which the program does not wait for the elements of an asynchronous collective
    "view_as", "view", "reshape", "reshape_as", "flatten", "unflatten", "_wrap_tensor_autograd", "wait_tensor"}
FROM_DATA = {"tensor", "as_tensor", "asarray"}  # the dtype of the result is that of the data
RANDOM = re.compile(r"(rand|randn|randint|randperm|multinomial|bernoulli|poisson|normal|dropout|uniform|exponential|"
                    r"geometric|cauchy|log_normal|random|rrelu|gumbel|trunc_normal|kaiming|xavier|orthogonal)")
WRITES_UNSEEN = re.compile(r"(batch_norm|instance_norm)")  # schemas do not say that running statistics are written
_NOTHING = (frozenset(), frozenset())


class _Policy:
    """What the name of a function says about it."""

    __slots__ = ("name", "overload", "last", "skip", "in_place", "aliases", "foreign", "may_write", "random",
                 "runs_backward", "exposes", "begins", "writes", "python", "function", "about")

    def __init__(self, name, func, torch):
        self.name, self.overload, self.about = name, None, None
        if name.startswith("aten.") or type(func).__name__ in ("OpOverload", "OpOverloadPacket"):
            parts = str(func).split(".")
            self.name = "torch.ops." + ".".join(parts[:2])
            self.overload = parts[2] if len(parts) > 2 else None
        parts = self.name.split(".")
        self.last = parts[-1]
        self.skip = self.last in IGNORED or "profiler" in parts
        self.exposes = self.last in EXPOSE or self.name.startswith("torch.Tensor.data.")
        self.begins = "._c10d_functional." in self.name and self.last not in UNREAD  # an asynchronous collective
        self.runs_backward = self.name in ("torch.Tensor.backward", "torch.autograd.backward", "torch.autograd.grad")
        in_place = self.last.endswith("_") and not self.last.endswith("__") or self.last == "__setitem__" or (
            self.last.startswith("__i") and self.last.endswith("__") and self.last not in ("__invert__", "__index__"))
        if self.last in ("__get__", "__set__", "__delete__"):
            member = parts[-2]
            self.skip = member not in PROPERTIES or self.last == "__delete__" or (
                self.last == "__set__" and member != "data")
            in_place = self.last == "__set__"  # x.data = y
        foreign = not self.name.startswith("torch.") or self.name.startswith(("torch.ops.", "torch.classes")) and (
            not self.name.startswith("torch.ops.aten."))
        # Positions and names of the arguments that it writes, as far as its schema says so.
        self.writes = _written(self.last, func, torch)
        if self.writes is None:
            self.writes = (frozenset((0,)), frozenset()) if in_place else _NOTHING
        self.python = func is None or isinstance(func, types.FunctionType)  # it may ask which arguments are the same
        self.function = False  # a torch.autograd.Function
        self.in_place = in_place
        self.aliases = not in_place and self.last != "detach" and not self.name.endswith(".data.__get__")
        # What may change its arguments though their versions do not say so.
        self.foreign = foreign
        self.may_write = bool(WRITES_UNSEEN.search(self.last)) or foreign
        self.random = bool(RANDOM.search(self.last))


def _written(name, func, torch):
    """Positions and names of the arguments that some overload of a function of the dispatcher writes; None if func is
    none. The versions of these arguments need not change: fused kernels do not raise them."""
    try:
        kind = type(func).__name__
        if kind == "OpOverload":
            schemas = [func._schema]
        elif kind == "OpOverloadPacket":
            schemas = [getattr(func, overload)._schema for overload in func.overloads()]
        elif kind in ("builtin_function_or_method", "method_descriptor", "wrapper_descriptor"):
            schemas = torch._C._jit_get_schemas_for_operator("aten::" + name)
        else:
            return None
        positions, names, known = set(), set(), False
        for schema in schemas:
            full = schema.name + "." * bool(schema.overload_name) + schema.overload_name
            if not torch._C._dispatch_has_kernel(full):  # of TorchScript alone: a list's sort
                continue
            known = True
            for i, argument in enumerate(schema.arguments):
                alias = argument.alias_info
                if alias is not None and alias.is_write and "Tensor" in str(argument.type):
                    names.add(argument.name)
                    if not argument.kwarg_only:
                        positions.add(i)
        return (frozenset(positions), frozenset(names)) if known else None
    except Exception:
        return None


def _name(func, torch):
    name = torch.overrides.resolve_name(func)
    if name:
        return name
    module, qualified = getattr(func, "__module__", None), getattr(func, "__qualname__", None) or getattr(func, "__name__", "")
    owner = getattr(func, "__objclass__", None)
    if "_VariableFunctions" in qualified:
        return "torch." + qualified.split(".")[-1]
    if "TensorBase" in qualified or owner is torch.Tensor or module == "torch._tensor":
        return "torch.Tensor." + qualified.split(".")[-1]
    return "%s.%s" % (module or "torch", qualified)


# --- The recorder -----------------------------------------------------------------------------------------------------

class record:
    """Records calls into a directory below `path`, one for each process.

    Used as a context manager, or with start() and stop() around a training loop.

    path        where to write; created if missing
    steps       the steps to record, counted from 0: a number, a list of numbers, or text like "0-2,5" (None: all). A
                step ends with each step of the program's first optimizer; from the first call of step() on it ends
                where step() is called
    ranks       the ranks to record, in the same forms; a rank is torch.distributed's, or RANK of the environment
    ops, not_ops  names or regular expressions that match a whole name (a list, or text with commas), as in op_tools'
                OP_CAPTURE_LIST and OP_CAPTURE_DISABLE_LIST, which are the defaults
    model       a module whose parts and parameters are to be known by name (None: those that are called by themselves)
    wrap        dotted names of functions of other packages to be recorded as one call, as "flash_attn.flash_attn_func";
                "amp_C.*" stands for all functions of an extension module. A function of torch that the program has
                replaced by its own when recording begins is recorded as one call without being named here
    backward    whether gradients are recorded
    max_bytes, max_calls, max_seconds   stop recording new calls then; the index says so
    repeats     (first, every): of calls with the same name, shapes and dtypes only the first ones are recorded, then
                every n-th
    ring_bytes  shared memory between the program and the writing process
    """

    def __init__(self, path, steps=None, ranks=None, ops=None, not_ops=None, model=None, wrap=(), backward=True,
                 max_bytes=None, max_calls=None, max_seconds=None, repeats=None, ring_bytes=256 << 20):
        import torch

        self.torch = torch
        self.path = str(path)
        self.steps = _numbers("steps", steps)
        self.ranks = _numbers("ranks", ranks)
        self.only = _patterns(os.environ.get("OP_CAPTURE_LIST") if ops is None else ops)
        self.never = _patterns(os.environ.get("OP_CAPTURE_DISABLE_LIST") if not_ops is None else not_ops)
        self.model = model
        self.wrap = [wrap] if isinstance(wrap, str) else list(wrap)
        self.backward = backward
        self.limits = (max_bytes, max_calls, max_seconds)
        self.repeats = repeats
        self.ring_bytes = ring_bytes
        self.started = False

    # Life -------------------------------------------------------------------------------------------------------------

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, trace):
        if not (isinstance(error, SystemExit) and not error.code):
            self._raised(error)
        self.stop()
        return False

    def start(self):
        """Begins to record, if this rank and step are asked for. Raises an error if nothing can be written."""
        if self.started:
            return self
        self.pid = os.getpid()
        self.current_step = self.last_step = 0
        self.steps_recorded = set()
        self.calls = 0
        self.lost = 0  # calls that could not be recorded
        self.cut = None  # the limit that was reached
        self.by_hand = False  # whether step() counts, not an optimizer
        self.lingering = False  # the optimizer ended the step, and what ranks do behind it is still recorded
        self.wrapped_calls = {}  # by entry of wrap: whether a function of it was called
        self.wrapped_functions = {}  # by entry of wrap, what lay there
        self.around = {}  # functions of torch that functools.wraps has wrapped: where the wrappers are defined
        self.replaced = {}  # functions of torch that the program replaced and called: where they are defined
        self.other_threads = 0  # that called a module or an optimizer, and in which nothing is recorded
        self.thread = threading.local()  # has `noticed` in threads that were looked at for it
        self.channel = None
        self.installed = None
        self.rank = _rank(self.torch)
        if self.ranks is not None and self.rank not in self.ranks:
            world = _world(self.torch) or 1
            if all(rank not in range(world) for rank in self.ranks):
                _warn("nothing is recorded: ranks=%s was asked for, the ranks are %s" % (
                    sorted(self.ranks), _spans(range(world))))
            return self
        self.started = True
        self.counter = _StepCounter(self)
        atexit.register(self._at_exit)
        try:
            self.counter.install()
            self._switch()
            if self.channel is None:  # a later step is asked for: whether it can be written is known now
                os.rmdir(self._new_directory())
        except OSError as e:
            self._end()
            raise OSError(e.errno, "optool_capture cannot record: %s" % (e.strerror or e), e.filename) from None
        except BaseException:
            self._end()
            raise
        return self

    def step(self):
        """Says that a training step has ended. From the first call on only these calls count: steps that an optimizer
        counted before are part of the first one."""
        if not self.started:
            return
        self.lingering = False
        if not self.by_hand:
            self.by_hand = True
            self.current_step = 0
        self._next_step()

    def _at_exit(self):
        if not hasattr(sys, "ps1") and not sys.flags.interactive:  # where that may be of something tried long ago
            self._raised(getattr(sys, "last_value", None))
        self.stop()

    def _raised(self, error):
        """Notes the exception that ended the program, or left `with`, inside of a step that is recorded."""
        if error is not None and self.started and self.installed and os.getpid() == self.pid:
            text = "%s: %s" % (type(error).__name__, str(error)[:300]) if str(error) else type(error).__name__
            self.channel.line({"event": "exception", "error": text, "step": self.current_step})

    def stop(self):
        """Ends recording and waits until everything is written."""
        if not self.started or os.getpid() != self.pid:
            return
        broken = self.channel and self.channel.broken
        self._end()
        if broken:
            return  # which was said
        if self.channel and self.calls:
            print("optool_capture: " + self._summary(), file=sys.stderr)
        else:
            _warn("nothing was recorded: " + self._why_nothing())

    def _end(self):
        """Takes back everything that was installed."""
        self.started = False
        atexit.unregister(self._at_exit)
        self.counter.remove()
        if self.installed:
            self.installed.remove()
            self.installed = None
        if self.channel:
            self.channel.close()

    def _summary(self):
        steps = sorted(self.steps_recorded)
        text = "recorded %s call%s of step%s %s, %s, in %s" % (
            format(self.calls, ","), "s" * (self.calls != 1), "s" * (len(steps) != 1), _spans(steps),
            _size(self.channel.written()), self.directory)
        if self.cut:
            text += "; it ended early at %s" % self.cut
        if self.lost:
            text += "; %d call%s could not be recorded" % (self.lost, "s" * (self.lost != 1))
        n = self._older()
        if n:
            text += "; %s holds %d older recording%s, which %s judged with it" % (
                os.path.dirname(self.directory), n, "s" * (n > 1), "is" if n == 1 else "are")
        return text + self._unrecorded()

    def _older(self):
        """How many recordings of this rank lay there before the program began."""
        with contextlib.suppress(OSError):
            return sum(e.is_dir() and e.stat().st_mtime < LOADED for e in os.scandir(os.path.dirname(self.directory)))
        return 0

    def _unrecorded(self):
        n = self.other_threads
        text = "; calls of %d other thread%s are not recorded" % (n, "s" * (n != 1)) if n else ""
        if self.replaced:
            text += "; not torch's own, and recorded as one call each: %s" % _places(self.replaced)
        if self.around:
            text += "; wrapped by the program, and only the calls inside are recorded: %s" % _places(self.around)
            text += ". To record one as one call: wrap=[%r]" % min(self.around)
        never = [name for name, called in sorted(self.wrapped_calls.items()) if not called]
        if never:
            text += "; nothing called wrap=%r by this name (a function that was imported before is not seen" % ", ".join(never)
            held = ["wrap=%r" % other for name in never for other in self._held_as(name)]
            text += ": try %s)" % ", ".join(held) if held else ")"
        return text

    def _held_as(self, entry):
        """The names by which the program's modules hold the function that an entry of wrap names: "model.attention" after
        `from ops import attention` there."""
        function, last, names = self.wrapped_functions.get(entry), entry.rpartition(".")[2], []
        for name, module in sorted(sys.modules.items()):
            with contextlib.suppress(Exception):  # modules that compute their attributes
                own = "-packages" not in (getattr(module, "__file__", None) or "")
                if own and function is not None and vars(module).get(last) is function:
                    names.append(last if name == "__main__" else "%s.%s" % (name, last))
        return [n for n in names if n != entry][:3] or ([last] if "." in entry and last != "*" else [])

    def _why_nothing(self):
        if self.last_step:
            seen = "the program made step%s %s" % ("s" * (self.last_step > 1), _spans(range(self.last_step)))
        else:
            seen = "no step ended: no optimizer ran and step() was not called"
        if self.steps is not None and not self.steps.intersection(range(max(1, self.last_step))):
            return "steps=%s was asked for; %s" % (sorted(self.steps), seen)
        reasons = []
        if self.cut:
            reasons.append("%s was reached" % self.cut)
        if self.only is not None:
            reasons.append("ops=%s was asked for" % _text(self.only))
        if self.never is not None:
            reasons.append("not_ops=%s was left out" % _text(self.never))
        if self.lost:
            reasons.append("%d calls could not be recorded" % self.lost)
        return "%s; %s%s" % (", ".join(reasons) or "no call of torch was made", seen, self._unrecorded())

    def _next_step(self):
        self.current_step += 1
        self.last_step = max(self.last_step, self.current_step)
        if self.started:
            try:
                self._switch()
            except Exception as e:
                self._end()
                _warn("recording ended: %s" % e)

    def _end_step(self):
        """An optimizer has ended the step. What ranks exchange behind it, up to the next forward pass, belongs to it: they
        gather or average parameters there. It is recorded, too, where nothing else would."""
        if self.lingering:
            self.lingering = False
            self._next_step()
        if (self.installed and self.steps is not None and self.current_step + 1 not in self.steps
                and self.current_step in self.steps and _distributed(self.torch)):
            self.lingering = True
        else:
            self._next_step()

    def _switch(self):
        wanted = self.steps is None or self.current_step in self.steps
        if wanted and self.installed:
            self.installed.active = True
        if wanted and not self.installed:
            if self.channel is None:
                self._open()
            self.installed = _Mode(self)
            self.installed.install()
        elif not wanted and self.installed:
            self.installed.remove()
            self.installed = None
            self.channel.line({"event": "pause", "step": self.current_step})
        if self.installed:
            self.channel.line({"event": "step", "step": self.current_step})

    def _open(self):
        torch = self.torch
        self.pid = os.getpid()  # the program may have forked since
        self.directory = self._new_directory()
        try:
            self.channel = _Channel(self.directory, self.ring_bytes)
        except BaseException:
            with contextlib.suppress(OSError):
                os.rmdir(self.directory)
            raise
        self.encoder = _Encoder(torch, self.channel)
        self.begun = time.monotonic()
        self.order = 0
        self.seen = collections.Counter()
        self.channel.line({
            "event": "run", "format": "optool-capture", "version": 1, "torch": torch.__version__,
            "python": sys.version.split()[0], "executable": sys.executable or None, "pid": self.pid, "rank": self.rank, "world_size": _world(torch),
            "argv": sys.argv, "directory": os.getcwd(), "start": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "backward": self.backward, "ops": _text(self.only), "not_ops": _text(self.never),
            "steps": sorted(self.steps) if self.steps is not None else None,
            "generators": True,  # there is an event for each setting of torch's own
        })
        if hasattr(os, "register_at_fork"):
            channel = self.channel
            os.register_at_fork(after_in_child=channel.abandon)

    def _new_directory(self):
        """Makes a directory that no other recording has, of this process or of one with its number on another host."""
        name = os.path.join(self.path, "rank%d" % (self.rank or 0), "%d-%s" % (os.getpid(), time.strftime(TIME)))
        os.makedirs(os.path.dirname(name), exist_ok=True)
        for suffix in itertools.chain([""], map("-%d".__mod__, itertools.count(2))):
            try:
                os.mkdir(name + suffix)
                return name + suffix
            except FileExistsError:
                pass

    def _within_limits(self):
        if self.cut:
            return False
        max_bytes, max_calls, max_seconds = self.limits
        reason = None
        if max_bytes is not None and self.channel.written() >= max_bytes:
            reason = "max_bytes=%d" % max_bytes
        elif max_calls is not None and self.calls >= max_calls:
            reason = "max_calls=%d" % max_calls
        elif max_seconds is not None and time.monotonic() - self.begun >= max_seconds:
            reason = "max_seconds=%g" % max_seconds
        if reason is None:
            return True
        self.cut = reason
        self.channel.line({"event": "cut", "reason": reason, "step": self.current_step, "calls": self.calls})
        return False


def _numbers(name, given):
    """Steps or ranks, which are given as a number, as numbers or as text; None if all are wanted."""
    try:
        if given is None or isinstance(given, str):
            numbers = _ranges(given)
        else:
            numbers = [given] if hasattr(given, "__index__") and not getattr(given, "ndim", 0) else list(given)
        if numbers is None:
            return None
        if isinstance(given, bytes) or any(isinstance(n, bool) or operator.index(n) < 0 for n in numbers):
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError("%s has to be a number from 0, a list of numbers, or text like \"0-2,5\"; it is %r" % (
            name, given)) from None
    return frozenset(map(operator.index, numbers))


def _patterns(names):
    if not names:
        return None
    if isinstance(names, str):
        names = names.split(",")
    return [re.compile(n.strip()) for n in names if n.strip()] or None


def _spans(numbers):
    """Ascending numbers as text: "0-2, 5"."""
    spans = []
    for n in numbers:
        if spans and spans[-1][1] == n - 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ", ".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in spans)


def _size(n):
    for unit in ("bytes", "kB", "MB"):
        if n < 1000:
            break
        n /= 1000
    else:
        unit = "GB"
    return "%.3g %s" % (n, unit)


def _text(patterns):
    return [p.pattern for p in patterns] if patterns else None


def _matches(patterns, name):
    return any(p.pattern == name or p.fullmatch(name) for p in patterns)


def _distributed(torch):
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _rank(torch):
    try:
        if _distributed(torch):
            return torch.distributed.get_rank()
    except Exception:
        pass
    value = os.environ.get("RANK", os.environ.get("SLURM_PROCID"))
    return int(value) if value and value.isdigit() else None


def _world(torch):
    try:
        if _distributed(torch):
            return torch.distributed.get_world_size()
    except Exception:
        pass
    value = os.environ.get("WORLD_SIZE")
    return int(value) if value and value.isdigit() else None


class _StepCounter:
    """Counts the steps of the program's first optimizer, and notes each optimizer's step in the recording. A step that
    hooks make within a backward pass ends with the pass: until then torch keeps the modes with which the pass began."""

    def __init__(self, owner):
        self.owner = owner
        self.wrapped = []
        self.first = None
        self.depth = 0
        self.passes = 0  # backward passes that go on
        self.ended = False  # a step ended within them

    def install(self):
        autograd = self.owner.torch.autograd
        self.backward = autograd.backward
        autograd.backward = self.passing(self.backward)
        kinds = [self.owner.torch.optim.Optimizer]
        while kinds:
            kind = kinds.pop()
            kinds += kind.__subclasses__()
            step = kind.__dict__.get("step")
            if callable(step):
                self.wrapped.append((kind, step))
                kind.step = self.wrap(step)

    def wrap(self, step):
        @functools.wraps(step)
        def counted(optimizer, *args, **kwargs):
            outermost = self.depth == 0
            if outermost:
                self.note(optimizer)
                self.forget()
            self.depth += 1
            try:
                return step(optimizer, *args, **kwargs)
            finally:
                self.depth -= 1
                if outermost:
                    self.forget()
                    self.after(optimizer)
        return counted

    def passing(self, backward):
        @functools.wraps(backward)
        def run(*args, **kwargs):
            self.passes += 1
            try:
                return backward(*args, **kwargs)
            finally:
                self.passes -= 1
                if self.ended and self.passes == 0:
                    self.ended = False
                    if not self.owner.by_hand:
                        self.owner._end_step()
        return run

    def forget(self):
        """Optimizers of other packages write parameters without torch's knowledge."""
        if self.owner.channel is not None:
            self.owner.encoder.forget()

    def note(self, optimizer):
        owner = self.owner
        if not owner.started or not owner.installed:
            return
        owner.installed.notice_thread()
        try:
            groups = []
            for group in optimizer.param_groups:
                options = {k: v for k, v in group.items() if k != "params" and isinstance(v, (int, float, bool, tuple))}
                groups.append(dict(options, params=[owner.encoder.names.get(id(p), "") for p in group["params"]]))
            owner.channel.line({"event": "optimizer", "class": type(optimizer).__name__, "step": owner.current_step,
                                "groups": groups, "before_call": owner.calls})
        except (TypeError, ValueError):
            pass

    def after(self, optimizer):
        if self.first is None:
            self.first = id(optimizer)
        if not self.owner.by_hand and self.first == id(optimizer):
            if self.passes:
                self.ended = True
            else:
                self.owner._end_step()

    def remove(self):
        self.owner.torch.autograd.backward = self.backward
        for kind, step in self.wrapped:
            kind.step = step


COLLECTIVES = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
               "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send", "recv",
               "_all_gather_base", "_reduce_scatter_base", "all_reduce_coalesced", "all_gather_coalesced",
               "barrier", "monitored_barrier")
POINT_TO_POINT = ("isend", "irecv")
SETS_GENERATOR = ("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all")
DEVICES = ("cuda", "npu", "mlu", "musa", "xpu", "mps")  # modules of torch that may have these
UPDATES = ("adam", "adamw", "sgd", "rmsprop", "adadelta", "adagrad", "adamax", "rprop", "radam", "nadam", "asgd")  # modules of torch.optim, and their functions
DISTRIBUTED = "torch.distributed.distributed_c10d."  # the module that defines them


def _directory(torch):
    return os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def _replaced(torch):
    """The functions of torch that something else has put there: name, owner, name in it, and whether functools.wraps made
    it. Those of wrap are patched before, and not among them. Private functions are operators that torch calls itself, as
    optimizers do _fused_adamw_."""
    own, found = _directory(torch), []
    for path in "torch", "torch.nn.functional", "torch.Tensor", "torch.linalg", "torch.fft", "torch.special":
        owner = operator.attrgetter(path.partition(".")[2])(torch) if "." in path else torch
        for name, f in list(vars(owner).items()):
            code = getattr(f, "__code__", None)
            if isinstance(f, types.FunctionType) and code.co_filename != __file__ and \
                    not os.path.abspath(code.co_filename).startswith(own) and (
                        not name.startswith("_") or torch._C._jit_get_schemas_for_operator("aten::" + name)):
                found.append((path + "." + name, owner, name, hasattr(f, "__wrapped__")))
    return found


def _arguments_of_apply(cls, torch):
    """The names of the positional arguments of a torch.autograd.Function's apply: those of forward, without ctx."""
    code = getattr(cls.forward, "__code__", None)
    names = list(code.co_varnames[:code.co_argcount]) if code else []
    setup = getattr(torch.autograd.Function, "setup_context", None)
    return names[1:] if getattr(cls, "setup_context", None) is setup else names


def _places(functions):
    """Functions and where they are defined, the first four."""
    first = ["%s (%s)" % each for each in sorted(functions.items())]
    return ", ".join(first[:4]) + (" and %d more" % (len(first) - 4) if len(first) > 4 else "")


def _place(function):
    """Where a function is defined: the end of its file's name, and the line."""
    code = function.__code__
    return "%s:%d" % (os.path.basename(code.co_filename), code.co_firstlineno)


def _runs(function, frame):
    """Whether a frame is of this function, among those that one decorator made: they differ by what they close over."""
    try:
        return all(frame.f_locals.get(name) is cell.cell_contents
                   for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()))
    except ValueError:  # an empty cell
        return False


class _Patches:
    """Replaces functions that a TorchFunctionMode does not see; takes them back in reverse order."""

    def __init__(self):
        self.undo = []

    def set(self, owner, name, new):
        old = owner.__dict__.get(name, _Patches)
        setattr(owner, name, new)
        self.undo.append((owner, name, old))

    def remove(self):
        for owner, name, old in reversed(self.undo):
            if old is _Patches:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
        self.undo.clear()


def _make_mode():
    """The class of the mode; torch is imported only when something is recorded."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode, _Recorder):
        def __init__(self, owner):
            TorchFunctionMode.__init__(self)
            _Recorder.__init__(self, owner)

        def __torch_function__(self, func, types, args=(), kwargs=None):
            return self.called(func, args, kwargs or {})

    return Mode


def _Mode(owner):
    global _mode_class
    if _mode_class is None:
        _mode_class = _make_mode()
    return _mode_class(owner)


_mode_class = None


class _Recorder:
    """Sees each call: what to do with it, its arguments, its result, its gradients."""

    def __init__(self, owner):
        self.owner = owner
        self.torch = owner.torch
        self.channel = owner.channel
        self.encoder = owner.encoder
        self.state = threading.local()
        self.backward_pass = getattr(self.torch._C, "_current_graph_task_id", lambda: -1)  # torch 1.13 has none
        self.autocast_enabled = getattr(self.torch._C, "_is_any_autocast_enabled", None) or (  # torch 1.13
            lambda: self.torch.is_autocast_enabled() or self.torch.is_autocast_cpu_enabled())
        self.policies = {}
        self.generators = {}  # of the program, by id: number, and the generator, so that no other one gets its id
        # What keeps the code of a tensor subclass, and modes of the program, from seeing what the recorder does.
        self.no_override = getattr(self.torch._C, "DisableTorchFunctionSubclass", self.torch._C.DisableTorchFunction)
        try:
            self.no_modes = importlib.import_module("torch.utils._python_dispatch")._disable_current_modes
            self.dispatch_modes = self.torch._C._len_torch_dispatch_stack
        except (ImportError, AttributeError):  # torch 1.13
            self.dispatch_modes = lambda: 0
        self.transforms = getattr(getattr(self.torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)
        self.tracing = self.torch._C._get_tracing_state
        self.plain = _plain(self.torch)
        self.directory = _directory(self.torch)
        self.owns = {}
        self.around = {}  # by code: functions that functools.wraps has put around torch's, with the names of torch's
        self.patches = _Patches()
        self.handles = []
        self.leaves = {}  # by id: parameters that are DTensors, and the calls that read each since its last gradient
        self.leaf_handles = []
        self.modules = _Modules(self)
        self.active = False

    # Installing -------------------------------------------------------------------------------------------------------

    def install(self):
        torch = self.torch
        self.active = True
        if self.owner.model is not None:
            self.modules.learn(self.owner.model)
        self._patch_functions()
        self._patch_engine()
        self._patch_compiler()
        if _before_2(torch):
            self._patch_indexing()
        self._patch_collectives()
        self._patch_updates()
        self._patch_generators()
        for name in self.owner.wrap:
            self._patch_named(name, name)
        for name, owner, last, around in _replaced(torch):
            if around:  # it calls torch's own, as a rule: the call inside is recorded
                f = vars(owner)[last]
                self.owner.around[name] = _place(f)
                self.around.setdefault(f.__code__, []).append((name, f))
            else:
                self._patch_function(name, owner, last, None)
        self._begin_seeing()

    def remove(self):
        self.active = False
        self.patches.remove()
        self._end_seeing()
        while self.leaf_handles:
            self.leaf_handles.pop().remove()

    def _begin_seeing(self):
        """Puts the mode below those of the program, which take away what is on top when they end; watches modules."""
        self.thread = threading.get_ident()
        module = self.torch.nn.modules.module
        self.handles.append(module.register_module_forward_pre_hook(self.modules.enter))
        try:
            self.handles.append(module.register_module_forward_hook(self.modules.leave, always_call=True))
        except TypeError:  # torch 1.13
            self.handles.append(module.register_module_forward_hook(self.modules.leave))
        overrides = self.torch.overrides
        others = [overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())]
        for mode in [self] + others[::-1]:
            overrides._push_mode(mode)

    def _end_seeing(self):
        """Takes the mode from the stack, wherever it is; reports whether it was there."""
        while self.handles:
            self.handles.pop().remove()
        overrides = self.torch.overrides
        others = []
        while overrides._len_torch_function_stack():
            mode = overrides._pop_mode()
            if mode is self:
                break
            others.append(mode)
        else:
            mode = None
        for other in others[::-1]:
            overrides._push_mode(other)
        return mode is self

    def notice_thread(self):
        """Called where every thread of the program passes: modes hold for one thread."""
        if threading.get_ident() == self.thread or getattr(self.owner.thread, "noticed", False):
            return
        self.owner.thread.noticed = True
        overrides = self.torch.overrides
        modes = [overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())]
        for mode in modes[::-1]:
            overrides._push_mode(mode)
        if self not in modes:  # threads of a backward pass have the modes of the thread that began it
            self.owner.other_threads += 1

    def _patch_functions(self):
        """torch.autograd.Function.apply of classes outside of torch."""
        torch, recorder = self.torch, self
        original = torch.autograd.Function.__dict__.get("apply")

        def apply(cls, *args, **kwargs):
            if original is not None:
                call = original.__get__(None, cls)
            else:  # torch 1.13: written in C, one class further up
                call = super(torch.autograd.Function, cls).apply
            if cls.__module__.split(".")[0] == "torch":
                return call(*args, **kwargs)
            return recorder.foreign("%s.%s.apply" % (cls.__module__, cls.__qualname__), call, args, kwargs,
                                    function=True, about={"params": _arguments_of_apply(cls, torch)})

        self.patches.set(torch.autograd.Function, "apply", classmethod(apply))

    def _patch_engine(self):
        """Backward passes with the mode left on, so that what checkpointing computes again is recorded."""
        variable, recorder = self.torch.autograd.Variable, self
        engine = variable._execution_engine

        class Engine:
            def __getattr__(self, name):
                return getattr(engine, name)

            def run_backward(self, *args, **kwargs):
                if not getattr(recorder.state, "resting", False):
                    return engine.run_backward(*args, **kwargs)
                recorder.state.resting = False
                with recorder:
                    result = engine.run_backward(*args, **kwargs)
                recorder.modules.reduced()
                return result

        self.patches.set(variable, "_execution_engine", Engine())

    def _patch_compiler(self):
        """Compiled functions are compiled and run as they are: torch.compile would trace the mode and the hooks."""
        recorder, state = self, self.state
        try:
            frames = self.torch._dynamo.eval_frame
            original = frames._maybe_set_eval_frame
        except Exception:  # torch 1.13 has none
            return

        def set_frame(callback):  # called where a compiled function begins and, by the same frame, where it ends
            caller = sys._getframe(1)
            aside = getattr(state, "aside", None)
            if aside is None and callable(callback) and caller.f_code.co_name != "__enter__":
                if recorder._end_seeing():
                    state.aside = id(caller)
            elif aside == id(caller) and not callable(callback):
                state.aside = None
                if recorder.active:
                    recorder._begin_seeing()
            return original(callback)

        self.patches.set(frames, "_maybe_set_eval_frame", set_frame)
        self._patch_graphs()

    def _patch_graphs(self):
        """Operators that the graph of a compiled function calls, such as one of aot_eager, are recorded; not while the
        compiler traces, which calls them for shapes alone."""
        recorder, state, torch = self, self.state, self.torch
        overload = torch._ops.OpOverload
        original = overload.__call__

        def call(*args, **kwargs):
            if (getattr(state, "aside", None) is None or getattr(state, "graph", False) or not recorder.active
                    or torch._guards.TracingContext.try_get() is not None or recorder.dispatch_modes()):
                return original(*args, **kwargs)
            state.graph = True
            try:
                with recorder:
                    return original(*args, **kwargs)
            finally:
                state.graph = False

        self.patches.set(overload, "__call__", call)

    def _patch_indexing(self):
        """torch 1.13 tells no mode about x[i], and not always about x[i] = y."""
        torch, recorder = self.torch, self

        def patch(name):
            original = getattr(torch.Tensor, name)

            def quiet(*args):
                busy, recorder.state.busy = getattr(recorder.state, "busy", False), True
                try:
                    return original(*args)
                finally:
                    recorder.state.busy = busy

            def indexed(*args):
                if not recorder.recording():
                    return original(*args)
                return recorder.foreign("torch.Tensor." + name, quiet, args, {}, may_write=False)

            self.patches.set(torch.Tensor, name, indexed)

        patch("__getitem__")
        patch("__setitem__")

    def _patch_collectives(self):
        distributed, recorder = self.torch.distributed, self
        if not distributed.is_available() or not distributed.is_initialized():
            return
        for name in COLLECTIVES + POINT_TO_POINT:
            original = getattr(distributed.distributed_c10d, name, None)
            if original is None:
                continue

            def collective(*args, _name=name, _original=original, **kwargs):
                return recorder.exchange(_name, _original, args, kwargs)

            new = functools.wraps(original)(collective)
            for owner in distributed, distributed.distributed_c10d:  # programs take it from either; P2POp compares them
                if getattr(owner, name, None) is original:
                    self.patches.set(owner, name, new)

    def _patch_updates(self):
        """The functions by which torch's optimizers update a group of parameters: each is recorded as one call, and so
        are the calls that it makes. A fused update is one call already."""
        for last in UPDATES:
            owner = importlib.import_module("torch.optim." + last)
            original, name = getattr(owner, last, None), "torch.optim.%s.%s" % (last, last)
            if not isinstance(original, types.FunctionType):
                continue
            if os.path.abspath(original.__code__.co_filename).startswith(self.directory):
                self.patches.set(owner, last, self._update(name, original))
            elif hasattr(original, "__wrapped__"):
                self.owner.around[name] = _place(original)
            else:
                self._patch_function(name, owner, last, None)

    def _update(self, name, original):
        recorder, torch = self, self.torch

        @functools.wraps(original)
        def update(*args, **kwargs):
            if kwargs.get("fused") or torch.is_grad_enabled():  # what autograd sees of a call are views of parameters
                return original(*args, **kwargs)
            return recorder.foreign(name, original, args, kwargs, may_write=False)

        return update

    def _patch_generators(self):
        """The functions that set torch's own generators."""
        torch = self.torch
        owners = [("torch.", o) for o in (torch, torch.random)]
        for device in DEVICES:
            for name in "torch." + device, "torch.%s.random" % device:
                owners += [("torch.%s." % device, sys.modules[name])] if name in sys.modules else []
        for prefix, owner in owners:
            for last in SETS_GENERATOR:
                original = vars(owner).get(last)
                if isinstance(original, types.FunctionType):
                    self.patches.set(owner, last, self._setting(prefix + last, original))

    def _setting(self, name, original):
        recorder = self

        @functools.wraps(original)
        def setting(*args, **kwargs):
            state = recorder.state
            if getattr(state, "setting", False) or not recorder.recording():
                return original(*args, **kwargs)
            state.setting = True
            try:
                result = original(*args, **kwargs)
            finally:
                state.setting = False
            recorder.generator_set(name, sys._getframe(1).f_code)
            return result

        return setting

    def generator_set(self, name, caller):
        """Says that the state of a generator was set; by torch itself where it puts back what it had saved (fork_rng,
        checkpoint)."""
        event = {"event": "generator", "name": name, "step": self.owner.current_step, "before_call": self.owner.calls,
                 "location": _location()}
        if os.path.abspath(caller.co_filename).startswith(self.directory):
            event["by"] = caller.co_name
        self.channel.line(event)

    def _patch_named(self, name, entry):
        module, _, last = name.rpartition(".")
        if not module and last != "*":  # a function of the program itself
            module, name = "__main__", "__main__." + name
        try:
            owner = importlib.import_module(module)
            if last == "*":
                for each, f in list(vars(owner).items()):
                    if callable(f) and not isinstance(f, type) and not each.startswith("_"):
                        self._patch_named(module + "." + each, entry)
                return
            getattr(owner, last)
        except (ImportError, AttributeError, ValueError) as e:
            _warn("wrap=%r: %s" % (name, e))
            return
        self.owner.wrapped_calls.setdefault(entry, False)
        self.owner.wrapped_functions.setdefault(entry, getattr(owner, last))
        self._patch_function(name, owner, last, entry)

    def _patch_function(self, name, owner, last, entry):
        recorder, owners, original = self, self.owner, getattr(owner, last)
        code = getattr(original, "__code__", None)
        names = code.co_varnames[:code.co_argcount] if code else ()
        at = names.index("inplace") if "inplace" in names else len(names)
        about = {"params": list(names)}
        if entry is None:
            about["replaced"] = "%s.%s" % (original.__module__, original.__qualname__)
            if code:
                about["replaced_at"] = "%s:%d" % (os.path.abspath(code.co_filename), code.co_firstlineno)

        @functools.wraps(original)
        def wrapped(*args, **kwargs):
            if at < len(args) <= len(names):  # by keyword, as torch's own functions tell it
                kwargs.update(zip(names[at:], args[at:]))
                args = args[:at]
            if entry is not None:
                owners.wrapped_calls[entry] = True
            elif name not in owners.replaced:
                owners.replaced[name] = _place(original)
            return recorder.foreign(name, original, args, kwargs, about=about)

        self.patches.set(owner, last, wrapped)

    # One call ---------------------------------------------------------------------------------------------------------

    def recording(self):
        if not self.active or getattr(self.state, "busy", False) or self.channel.broken:
            return False
        if self.tracing() is not None or self.transforms() is not None:  # torch.jit.trace, torch.func
            return False
        return not self.dispatch_modes() or not self._faked()

    def _faked(self):
        """Whether calls compute no values: those of a compiler that traces."""
        try:
            return self.torch._guards.detect_fake_mode() is not None
        except Exception:
            return False

    def _unseen(self, tensors):
        """A context in which neither subclasses among these tensors nor modes of the program see calls."""
        modes = self.dispatch_modes()
        strange = not all(type(t) in self.plain for t in tensors)
        if not modes and not strange:
            return contextlib.nullcontext()
        context = contextlib.ExitStack()
        if modes:
            context.enter_context(self.no_modes())
        if strange:
            context.enter_context(self.no_override())
        return context

    def policy(self, func):
        try:
            return self.policies[func]
        except (KeyError, TypeError):
            pass
        p = _Policy(_name(func, self.torch), func, self.torch)
        self._filter(p)
        try:
            self.policies[func] = p
        except TypeError:
            pass
        return p

    def _filter(self, p):
        owner = self.owner
        if owner.only is not None and not _matches(owner.only, p.name):
            p.skip = True
        if owner.never is not None and _matches(owner.never, p.name):
            p.skip = True

    def foreign(self, name, func, args, kwargs, may_write=True, group=False, function=False, about=None):
        """A call that no mode tells: a collective, a custom function, a function of another package."""
        if not self.recording():
            return func(*args, **kwargs)
        p = self.policies.get(name)
        if p is None:
            p = _Policy(name, None, self.torch)
            p.skip, p.may_write, p.foreign, p.function = False, may_write, may_write, function
            p.aliases, p.about = p.aliases and not group, about
            self._filter(p)
            self.policies[name] = p
        if p.skip:
            return func(*args, **kwargs)
        return self.one(p, func, args, kwargs, group)

    def own(self, func):
        """The function of torch that asked the mode to call func, where func replaced it: torch's functions look
        themselves up by name and find the replacement, which would run twice."""
        if func.__code__.co_filename.startswith(self.directory):
            return func
        frame, steps = sys._getframe(2), 3
        while steps and frame.f_back is not None and frame.f_code.co_name != "handle_torch_function":
            frame, steps = frame.f_back, steps - 1
        if frame.f_back is None or frame.f_code.co_name != "handle_torch_function":
            return self._method(func)
        code = frame.f_back.f_code
        if code is func.__code__ or not code.co_filename.startswith(self.directory):
            return func
        if code not in self.owns:
            self.owns[code] = next((f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType)), func)
        return self.owns[code]

    def _method(self, func):
        """The method of torch's C++ class in whose place func is in torch.Tensor; func if there is none."""
        tensor = self.torch.Tensor
        name = next((name for name, f in vars(tensor).items() if f is func), None)
        return getattr(tensor.__mro__[1], name, func) if name else func

    def called(self, func, args, kwargs):
        if type(func) is types.FunctionType:
            func = self.own(func)
        if not self.recording():
            return func(*args, **kwargs)
        p = self.policy(func)
        if p.exposes:
            self._expose(_tensors((args, kwargs), self.torch, []))
        if p.last == "register_hook":
            handle = func(*args, **kwargs)
            self._behind(args[0])
            return handle
        if p.runs_backward:
            self.state.resting = True
            try:
                return func(*args, **kwargs)
            finally:
                self.state.resting = False
        if p.skip or p.last == "type" and len(args) + len(kwargs) == 1:  # x.type() asks, x.type(dtype) converts
            return func(*args, **kwargs)
        if p.name.startswith(DISTRIBUTED):
            return self.exchange(p.last, func, args, kwargs)
        return self.one(p, func, args, kwargs)

    def exchange(self, name, func, args, kwargs):
        """A function of torch.distributed. One that another one calls is a part of that."""
        state = self.state
        if getattr(state, "exchanging", False):
            return func(*args, **kwargs)
        state.exchanging = True
        try:
            result = self.foreign("torch.distributed." + name, func, args, kwargs, group=True)
        finally:
            state.exchanging = False
        if isinstance(result, self.torch.distributed.Work) and self.recording():
            self._expose(_tensors((args, kwargs), self.torch, []))  # another thread writes them
        return result

    def note(self, name, tensors, kwargs, group):
        """Records what torch did by itself as a call that has been made."""
        if not self.recording():
            return

        def done(tensors, **kwargs):
            pass

        self.foreign(name, done, (tensors,), dict(kwargs, group=group), may_write=False, group=True)

    def _expose(self, tensors):
        busy, self.state.busy = getattr(self.state, "busy", False), True
        try:
            with self._unseen(tensors):
                self.encoder.expose(tensors)
        except Exception as e:
            self._failed("an address", e)
        finally:
            self.state.busy = busy

    def one(self, p, func, args, kwargs, group=False):
        state = self.state
        call = None
        state.busy = True
        try:
            if self.owner._within_limits():
                tensors = _tensors((args, kwargs), self.torch, [])
                if (self.owner.lingering and p.last not in ("detach", "detach_") and self.torch.is_grad_enabled()
                        and any(t.requires_grad for t in tensors)):
                    self.active = False  # the next forward pass begins
                    return func(*args, **kwargs)
                with self._unseen(tensors):
                    if self._worth(p, tensors):
                        call = self.before(p, tensors, args, kwargs, group)
        except OSError as e:
            self.channel.give_up(e)
        except Exception as e:
            self._failed(p.name, e)
        finally:
            state.busy = False
        if call is None:
            return func(*args, **kwargs)
        within = getattr(state, "within", None)
        if call.id is not None:
            state.within = call.id
        try:
            result = func(*call.args, **call.kwargs)
        except BaseException as e:
            if call.id is not None:
                self.channel.line({"event": "raise", "id": call.id,
                           "error": "%s: %s" % (type(e).__name__, str(e)[:500])})
            raise
        finally:
            state.within = within
        state.busy = True
        try:
            outputs = _tensors(result, self.torch, [])
            with self._unseen(call.tensors + outputs):
                return self.after(call, p, result, outputs)
        except OSError as e:
            self.channel.give_up(e)
        except Exception as e:
            self._failed(p.name, e)
        finally:
            state.busy = False
        return call.original(result)

    def _worth(self, p, tensors):
        """Whether a call of this name, shapes and dtypes is still wanted."""
        if self.owner.repeats is None:
            return True
        first, every = self.owner.repeats
        key = [p.name]
        for t in tensors:
            key += (t.dtype, t.shape)
        key = tuple(key)
        n = self.owner.seen[key]
        self.owner.seen[key] += 1
        return n < first or every and n % every == 0

    def _wrappers(self):
        """The functions of torch that the program wraps, and the wrappers, inside of which a call is made: only what is
        inside is recorded, not that the call of the program was another one."""
        found, frame = [], sys._getframe(2)
        while frame is not None:
            candidates = self.around.get(frame.f_code, ())
            for name, f in candidates:
                if len(candidates) == 1 or _runs(f, frame):
                    about = {"function": name, "by": "%s.%s (%s)" % (
                        f.__globals__.get("__name__", "?"), getattr(f.__code__, "co_qualname", f.__code__.co_name), _place(f))}
                    if about not in found:
                        found.append(about)
            frame = frame.f_back
        return found

    def before(self, p, tensors, args, kwargs, group):
        torch, owner = self.torch, self.owner
        if not all(_ordinary(t, torch) for t in tensors):
            return None
        call = _Call(tensors)
        event = call.event = {"event": "call", "id": 0, "name": p.name, "step": owner.current_step}
        if p.overload:
            event["overload"] = p.overload
        if p.about:
            event.update(p.about)
        module = self.modules.path()
        if module is not None:
            event["module"] = module
        event["location"] = _location()
        within = getattr(self.state, "within", None)
        if within is not None:
            event["within"] = within
        wrappers = self._wrappers() if self.around else None
        if wrappers:
            event["wrapped"] = wrappers
        thread = threading.current_thread()
        if thread is not threading.main_thread():
            event["thread"] = thread.name
        grad = torch.is_grad_enabled()
        if not grad:
            event["grad_enabled"] = False
        if self.autocast_enabled():
            event["autocast"] = _autocast(torch)
        if group:
            handle = _handle(torch, args, kwargs)
            event["group"] = _group(torch, handle)
            event["group_name"] = _group_name(torch, handle)
        elif p.name.startswith("torch.ops._c10d_functional.") and args and isinstance(args[-1], str):
            handle = _named_group(torch, args[-1])
            if handle is not None:
                event["group"], event["group_name"] = _group(torch, handle), _group_name(torch, handle)
        if p.random:
            event["rng"] = self._random_state(tensors, args, kwargs)
            generator = kwargs.get("generator")
            if generator is not None:  # one of the program's own, by a number
                event["drawn_from"] = self.generators.setdefault(id(generator), (len(self.generators) + 1, generator))[0]
        call.args, call.kwargs = args, kwargs
        values = self.encoder.at_once([*args, *kwargs.values()], p.last in FROM_DATA, p.last not in UNREAD)
        event["args"], event["kwargs"] = values[:len(args)], dict(zip(kwargs, values[len(args):]))
        if tensors or p.foreign:
            self._begin(call)
        call.versions = [_version(t) for t in tensors]
        call.written = _positions(p.writes, args, kwargs, torch)
        if p.last == "expand_as" and len(args) == 2 and args[0] is args[1]:
            pass  # DDP and FSDP find the node that accumulates a parameter's gradient like that
        elif grad and owner.backward and kwargs.get("out") is None and not p.function:
            if p.aliases and not kwargs.get("inplace"):
                self._alias(call, p.python)
            elif tensors and p.last != "__set__":
                call.changes = tensors[0]
                call.source = _source(tensors[0])
                self._alias(call, p.python)
        return call

    def _begin(self, call):
        """Says that the call is made. One without tensors is worth it only if its result has some."""
        call.id = call.event["id"] = self.owner.calls
        self.owner.calls += 1
        self.owner.steps_recorded.add(call.event["step"])
        self.channel.line(call.event)
        call.event = None

    def _alias(self, call, python):
        """Gives the call views of the arguments that need gradients: a hook on a view sees the gradient of this use.
        What the call changes must stay itself, and a function written in Python may ask whether two arguments are one
        tensor. The last view is made first: the gradients of one tensor are then added in the order of the arguments,
        as without views."""
        torch = self.torch
        ids = [id(t) for t in call.tensors]
        views = {}
        for i in reversed(range(len(ids))):
            t = call.tensors[i]
            if t.requires_grad and t.is_leaf and _local(t) is not None:
                self._watch_leaf(call, t, i)
            if t is call.changes or not t.requires_grad or t.layout != torch.strided or type(t) not in self.plain or (
                    python and ids.count(ids[i]) > 1):
                continue
            view = torch.ops.aten.alias(t)  # its backward passes on what it gets, sparse gradients too
            if not view.requires_grad:  # the call is made below autograd, as a mode sees those of compiled functions
                continue
            call.aliases[id(view)] = (view, t)
            view.register_hook(functools.partial(self.on_gradient, "grad_input", call.id, i))
            views.setdefault(ids[i], []).append((i, view))
        if not views:
            return
        count = iter(range(len(ids)))

        def new(t):
            i = next(count)
            return next((view for at, view in views.get(id(t), ()) if at == i), t)

        call.args = _replace(call.args, torch, new)
        call.kwargs = _replace(call.kwargs, torch, new)

    def _watch_leaf(self, call, t, i):
        """Records the gradient of a parameter that is a DTensor, a view of which would cost a call of DTensor: where one
        call read it since the last backward pass, it is that of this call. Where calls are left out, nobody knows."""
        owner = self.owner
        if owner.only is not None or owner.never is not None or owner.repeats is not None:
            return
        uses = self.leaves.get(id(t))
        if uses is None:
            def received(grad):
                once, uses[1:] = uses[1:], []
                if len(once) == 1:
                    self.on_gradient("grad_input", *once[0], grad)

            uses = self.leaves[id(t)] = [t]
            self.leaf_handles.append(t.register_hook(received))
            # Ours comes first: those of the program may change the gradient. torch runs them in the order of their
            # insertion into the dict, which move_to_end leaves as it is.
            hooks = t._backward_hooks
            earlier = [(k, hooks.pop(k)) for k in list(hooks)[:-1]]
            hooks.update(earlier)
        uses.append((call.id, i))

    def _watch_change(self, call):
        """The gradient of an argument that the call changed, from the node that the call made for it."""
        t = call.changes
        base, before, number = call.source
        node = base.grad_fn
        if node is None or node is before:
            return
        edges = [k for k, edge in enumerate(node.next_functions) if edge[0] is before and edge[1] == number]
        if len(edges) != 1:  # several nodes, or several uses
            return
        edge, region = edges[0], _region(t, base)
        node.register_hook(lambda inputs, _: self.on_gradient("grad_input", call.id, 0, inputs[edge], region))

    def _watch_function(self, call, p, outputs):
        """The gradients of the arguments of a torch.autograd.Function, from its node. It gets no views: it may write
        its arguments and return them."""
        torch = self.torch
        node = next((t.grad_fn for t in outputs if t.grad_fn is not None), None)
        if node is None or type(node).__name__ != p.name.split(".")[-2] + "Backward":
            return
        wanted, i = [], 0
        edges = 0
        for a in call.args:
            if isinstance(a, torch.Tensor):
                if a.requires_grad:
                    wanted.append((edges, i))
                edges += 1
            i += len(_tensors(a, torch, []))
        if len(node.next_functions) != edges:
            return

        def received(inputs, _):
            for edge, i in wanted:
                self.on_gradient("grad_input", call.id, i, inputs[edge])

        node.register_hook(received)

    def after(self, call, p, result, outputs):
        torch = self.torch
        changed = {}
        for i, (t, version) in enumerate(zip(call.tensors, call.versions)):
            seen = version != _version(t)
            if not seen and i in call.written or p.may_write:
                self.encoder.forget()
            if seen or i in call.written or p.may_write and (p.foreign or i and not t.requires_grad):
                changed[str(i)] = t
        if p.exposes:
            self.encoder.expose(outputs)
        if p.begins:
            self.encoder.begun(outputs)
        elif p.last == "wait_tensor":
            self.encoder.ended(outputs)
        if result is None and call.changes is not None:  # x[i] = y
            outputs = [call.changes]
        if call.id is None:
            if not outputs or not all(_ordinary(t, torch) for t in outputs):
                return result
            self._begin(call)
        returned, *written = self.encoder.at_once([call.original(result), *changed.values()])
        event = {"event": "return", "id": call.id, "result": returned}
        if changed:
            event["after"] = dict(zip(changed, written))
        self.channel.line(event)
        result = call.original(result)
        if self.owner.backward and torch.is_grad_enabled():
            if call.source is not None:
                self._watch_change(call)
            if p.function:
                self._watch_function(call, p, outputs)
            result = self._watch_results(call, outputs, result)
        return result

    def _watch_results(self, call, outputs, result):
        """Records the gradients of the results. One result may be computed from another (lstm_cell's), whose gradient
        then holds what flows through the call itself: where they are of several nodes, the program gets views of them,
        whose hooks see only what the program made of them. A view that the call changed is made anew from its base by
        each reader: its gradient is that part of the base's."""
        torch = self.torch
        wanted = {id(t): i for i, t in enumerate(outputs) if t.requires_grad and not t.is_leaf and (
            type(t) in self.plain or _local(t) is not None)}
        several = len({t.grad_fn for t in outputs if id(t) in wanted}) > 1  # not their ids: torch makes each anew

        def watched(t):
            i = wanted.pop(id(t), None)
            if i is None:
                return t
            if t is call.changes:  # hooks of the tensor itself would see what becomes of it (torch 1.13)
                base = t._base if t._is_view() else t
                number, region = base.output_nr, _region(t, base)
                base.grad_fn and base.grad_fn.register_hook(lambda _, received: self.on_gradient(
                    "grad_output", call.id, i, received[number], region))
                return t
            if several and type(t) in self.plain and all(t is not a for a in call.tensors):
                t = torch.ops.aten.alias(t)
            t.register_hook(functools.partial(self.on_gradient, "grad_output", call.id, i))
            return t

        if several:
            result = _replace(result, torch, watched)
        for t in outputs:  # those that the program does not get as such: x[i] = y
            watched(t)
        return result

    def _behind(self, t):
        """Puts the recorder's hooks on a result behind the program's, which may give it another gradient: torch calls
        them in the order of the dictionary, and the call is judged by what it gets."""
        hooks = t._backward_hooks
        for key, hook in list(hooks.items()):
            if isinstance(hook, functools.partial) and hook.func == self.on_gradient:
                del hooks[key]
                hooks[key] = hook

    def on_gradient(self, event, call, i, grad, region=None):
        state = self.state
        if self.channel.broken or grad is None:
            return None
        busy, state.busy = getattr(state, "busy", False), True
        try:
            order = self.owner.order
            self.owner.order += 1
            with self.torch._C.DisableTorchFunction():  # during backward the mode is on
                value = self.encoder.value(grad if region is None else region(grad))
            line = {"event": event, "id": call, "i": i, "order": order, "value": value}
            number = self.backward_pass()
            if number >= 0:  # a call may be reached by several
                line["pass"] = number
            self.channel.line(line)
        except OSError as e:
            self.channel.give_up(e)
        except Exception as e:
            self._failed(event, e)
        finally:
            state.busy = busy
        return None

    def _random_state(self, tensors, args, kwargs):
        torch = self.torch
        generator = kwargs.get("generator")
        if generator is not None:
            return self.encoder.value(generator.get_state())
        device = next((t.device for t in tensors if t.device.type != "cpu"), None)
        if device is None:
            asked = kwargs.get("device")
            device = torch.device(asked) if asked is not None else torch.device("cpu")
        if device.type == "cpu":
            return self.encoder.value(torch.get_rng_state())
        module = getattr(torch, device.type, None)
        return self.encoder.value(module.get_rng_state(device)) if hasattr(module, "get_rng_state") else None

    def _failed(self, name, error):
        self.owner.lost += 1
        if self.owner.lost <= 3:
            _warn("%s is not recorded: %s: %s" % (name, type(error).__name__, error))
        self.channel.line({"event": "lost", "name": name, "error": "%s: %s" % (type(error).__name__, str(error)[:300])})


class _Call:
    __slots__ = ("id", "event", "tensors", "args", "kwargs", "versions", "written", "aliases", "changes", "source")

    def __init__(self, tensors):
        self.id = None
        self.tensors = tensors
        self.aliases = {}
        self.changes = None  # the tensor that it changes in place
        self.source = None  # see _source

    def original(self, result):
        """The result with our views replaced by what they are views of: a call may return its argument."""
        if not self.aliases:
            return result
        aliases = self.aliases

        def back(t):
            entry = aliases.get(id(t))
            return entry[1] if entry is not None and entry[0] is t else t

        import torch
        return _replace(result, torch, back)


class _Modules:
    """Which module is being called, by name."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.names = {}
        self.prefixes = {}  # id of a module -> what the names of its parameters begin with
        self.roots = {}  # by the name of a class: how many models of it are known
        self.given = set()  # the names of parameters and buffers
        self.stack = threading.local()
        self.reducing = []  # modules of DistributedDataParallel whose next backward pass sums gradients
        self.wrappers = []  # weak references to the modules of DistributedDataParallel that were found
        self.searches = 0
        recorder.encoder.owned = self.owned

    def wrapper(self, root):
        """The DistributedDataParallel around a module that is called without it, whose gradients it then does not reduce;
        the module itself if there is none."""
        distributed = self.recorder.torch.distributed
        if not (distributed.is_available() and distributed.is_initialized() and any(p.requires_grad for p in
                                                                                    root.parameters())):
            return root
        while True:
            for found in self.wrappers:
                wrapper = found()
                if wrapper is not None and id(wrapper) not in self.names and any(m is root for m in wrapper.modules()):
                    return wrapper
            if self.searches == 4:  # each looks at all objects
                return root
            self.searches += 1
            known = [found() for found in self.wrappers]
            new = [weakref.ref(o) for o in gc.get_objects() if type(o).__name__ == "DistributedDataParallel"
                   and hasattr(o, "process_group") and not any(o is k for k in known)]
            if not new:
                return root
            self.wrappers += new

    def learn(self, root):
        of, names = type(getattr(root, "module", root)).__name__, self.recorder.encoder.names
        self.roots[of] = self.roots.get(of, 0) + 1
        held = [*root.named_parameters(), *root.named_buffers()]
        prefix = ""
        if any(name in self.given and id(t) not in names for name, t in held):  # one name is one parameter
            prefix = of + "#%d." % self.roots[of] if self.roots[of] > 1 else of + "."
        for name, module in root.named_modules():
            self.names[id(module)] = prefix + name if name else prefix[:-1] or type(root).__name__
            self.prefixes[id(module)] = prefix + name + "." if name else prefix
        for name, t in held:
            self.given.add(names.setdefault(id(t), prefix + name))
        state = self.recorder.state
        busy, state.busy = getattr(state, "busy", False), True
        try:
            held = _held(root, self.recorder.encoder.names, self.recorder.torch)
        except Exception as e:
            self.recorder._failed("the plan of the parameters", e)
            return
        finally:
            state.busy = busy
        if held:
            self.recorder.channel.line({"event": "parameters", "parameters": held})

    def reduced(self):
        """Notes the gradients that DistributedDataParallel summed in the backward pass that has ended: its reducer calls
        no function of torch. A communication hook of ours would take another way, with other rounding."""
        waiting, self.reducing = self.reducing, []
        for module in waiting:
            with_gradient = [p for p in module.parameters() if p.grad is not None]
            self.recorder.note("torch.distributed.Reducer.finalize_backward", [p.grad for p in with_gradient],
                               {"parameters": [self.recorder.encoder.name(p) or "" for p in with_gradient]},
                               module.process_group)

    def enter(self, module, args):
        self.recorder.notice_thread()
        if self.recorder.owner.lingering:
            self.recorder.active = False  # a forward pass begins, with gradients or without
        if getattr(module, "require_backward_grad_sync", False) and hasattr(module, "process_group") and (
                self.recorder.torch.is_grad_enabled() and module not in self.reducing):
            self.reducing.append(module)
        stack = self.stack.__dict__.setdefault("modules", [])
        if id(module) not in self.names:
            if stack:
                self.names[id(module)] = self.names[id(stack[-1])] + "." + type(module).__name__
            else:
                self.learn(self.wrapper(module))
        stack.append(module)

    def owned(self, t):
        """The name of a parameter of the modules that are being called: FSDP2 gives them the gathered ones."""
        for module in reversed(self.stack.__dict__.get("modules", [])):
            for name, p in module._parameters.items():
                if p is t and id(module) in self.prefixes:
                    return self.prefixes[id(module)] + name
        return None

    def leave(self, module, args, output):
        stack = self.stack.__dict__.get("modules", [])
        while stack:  # those that left by an exception told nobody
            if stack.pop() is module:
                break

    def path(self):
        stack = self.stack.__dict__.get("modules")
        return self.names.get(id(stack[-1])) if stack else None


def _ordinary(t, torch):
    """Whether t is a tensor of the program: not a stand-in of a compiler or of torch.func."""
    if t.is_meta or type(t).__name__ in ("FakeTensor", "FunctionalTensor"):
        return False
    wrapped, functional = _stand_ins(torch)
    return not wrapped(t) and not functional(t)


@functools.lru_cache(None)
def _stand_ins(torch):
    no = lambda t: False
    functorch = getattr(torch._C, "_functorch", None)
    return getattr(functorch, "is_functorch_wrapped_tensor", no), getattr(torch, "_is_functional_tensor", no)


def _readable(t, torch):
    """Whether the elements of t are in memory of its own, one beside the other."""
    if type(t) not in _plain(torch) and type(t).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl:
        return False
    return t.layout == torch.strided and not t.is_quantized and _ordinary(t, torch)


def _local(t):
    """The part of a DTensor that this process holds, and how it is placed; None if t is none."""
    local, spec = getattr(t, "_local_tensor", None), getattr(t, "_spec", None)
    if local is None or spec is None:
        return None
    return local, ["Replicate()" if p.is_replicate() else str(p) for p in spec.placements]


def _awaited(t, torch, wait):
    """The elements of the result of an asynchronous collective, which the program waits for when it reads them; None if
    t is none, or they are not there yet and we do not wait."""
    if type(t).__name__ != "AsyncCollectiveTensor":
        return None
    if wait and not t.completed:  # the program's own wait then finds nothing to wait for
        with torch.no_grad():
            torch.ops._c10d_functional.wait_tensor(t.elem.detach())
    return t.elem if wait or t.completed else None


def _terms(t):
    """The processes whose parts add up to a DTensor that is a partial sum."""
    mesh, at = t.device_mesh.mesh, t.device_mesh.get_coordinate()
    if at is None:  # this process is none of them
        return []
    for i in reversed(range(mesh.ndim)):  # the last dimension first: the others keep their numbers
        if not t.placements[i].is_partial():
            mesh = mesh.select(i, at[i])
    return mesh.flatten().tolist()


def _held(root, names, torch):
    """What is known of how processes hold the parameters of a model: the local part, the whole, placements, the mesh, and
    who arranged it. Parameters of which nothing is known are left out."""
    plans = {}  # by the name of the module: who arranges the parameters below it, and the group of processes
    for prefix, module in root.named_modules():
        if hasattr(module, "_get_fsdp_state"):
            plans[prefix] = "fully_shard", None
        elif type(module).__name__ == "DistributedDataParallel":
            plans[prefix] = type(module).__name__, module.process_group
    held = []
    for full, p in root.named_parameters():
        above = [prefix for prefix in plans if not prefix or full.startswith(prefix + ".")]
        plan, group = plans[max(above, key=len)] if above else (None, None)
        local = _local(p)
        if local is None and group is None:
            continue
        e = {"name": names.get(id(p), full), "shape": list(p.shape if local is None else local[0].shape)}
        if local is not None:
            mesh = p.device_mesh
            e.update(whole=list(p.shape), placements=local[1], mesh=mesh.mesh.tolist())
            if mesh.mesh_dim_names:
                e["mesh_names"] = list(mesh.mesh_dim_names)
            e["plan"] = plan or "parallelize_module"
        else:
            e.update(whole=e["shape"], placements=["Replicate()"], mesh=_group(torch, group), plan=plan)
        held.append(e)
    return held


def _positions(writes, args, kwargs, torch):
    """The numbers of the tensors among the arguments that are written; see _Policy.writes."""
    positions, names = writes
    if not positions and not names:
        return ()
    written, i = set(), 0
    for named, values in ((False, enumerate(args)), (True, kwargs.items())):
        for key, a in values:
            n = 1 if isinstance(a, torch.Tensor) else len(_tensors(a, torch, []))
            if key in (names if named else positions):
                written.update(range(i, i + n))
            i += n
    return written


def _source(t):
    """The tensor in whose graph a change of t is noted, and the node that made it: of a view that of its base."""
    base = t._base if t._is_view() else t
    if not t.requires_grad or base.grad_fn is None:
        return None
    return base, base.grad_fn, base.output_nr


def _region(t, base):
    """A function that takes from the gradient of a view's base that of the view; None if t is the base."""
    if t is base:
        return None
    if t.dtype != base.dtype:
        raise TypeError("a view in another dtype was changed")
    import torch

    whole, part = (base.size(), base.stride()), (t.size(), t.stride(), t.storage_offset() - base.storage_offset())
    return lambda g: torch.empty_strided(*whole, dtype=g.dtype, device=g.device).copy_(g).as_strided(*part)


def _version(t):
    try:
        return t._version
    except RuntimeError:
        return None


def _before_2(torch):
    return int(torch.__version__.split(".")[0]) < 2


def _autocast(torch):
    state = {}
    for device in ("cuda", "cpu", "npu", "mlu", "musa", "xpu"):
        try:
            if torch.is_autocast_enabled(device):
                state[device] = str(torch.get_autocast_dtype(device))[6:]
        except (TypeError, RuntimeError, AttributeError):  # torch 1.13, or a device this torch does not know
            pass
    if not state:
        if torch.is_autocast_enabled():
            state["cuda"] = str(torch.get_autocast_gpu_dtype())[6:]
        if torch.is_autocast_cpu_enabled():
            state["cpu"] = str(torch.get_autocast_cpu_dtype())[6:]
    return state


def _handle(torch, args, kwargs):
    """The process group that a function of torch.distributed is given, by its name or its place; None for all processes."""
    kind = torch.distributed.ProcessGroup
    return next((v for v in itertools.chain(kwargs.values(), args) if isinstance(v, kind)), None)


def _named_group(torch, name):
    """The process group with a name, as functional collectives are given it; None if torch does not tell."""
    try:
        return torch.distributed.distributed_c10d._resolve_process_group(name)
    except Exception:
        return None


def _group_name(torch, group):
    """What tells a group from others of the same processes, and the dimension of the mesh that it belongs to."""
    try:
        group = group or torch.distributed.group.WORLD
        return " ".join(str(x) for x in (group.group_name, getattr(group, "group_desc", "")) if x)
    except Exception:  # torch 1.13 has no names
        return ""


def _group(torch, group):
    distributed = torch.distributed
    try:
        if group is None:
            return list(range(distributed.get_world_size()))
        return distributed.get_process_group_ranks(group)
    except Exception:
        try:
            return [distributed.get_global_rank(group, i) for i in range(distributed.get_world_size(group))]
        except Exception:
            return None


_OURS = sys._getframe().f_code.co_filename  # as frames have it, also if imported from "../lib"


def _location():
    """file:line of the nearest caller outside of torch."""
    frame = sys._getframe(2)
    torch_directory = os.path.dirname(os.path.abspath(sys.modules["torch"].__file__)) + os.sep
    while frame is not None:
        name = frame.f_code.co_filename
        if name != _OURS and not name.startswith((torch_directory, "<")) and not name.endswith("functools.py"):
            return "%s:%d" % (name, frame.f_lineno)
        frame = frame.f_back
    return None


# --- Reading what was recorded ----------------------------------------------------------------------------------------

def load(directory):
    """Yields what was recorded in a process's directory: dictionaries with name, id, args, kwargs, result, after,
    grad_inputs, grad_outputs (by the position of the tensor) and the fields of the call's event, values as torch's.
    `said` holds the values as the file has them. The gradients are those of the first backward pass through the call."""
    import torch

    blobs, calls, files = {}, collections.OrderedDict(), {}
    with open(os.path.join(directory, "calls.jsonl"), "rb") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:  # the last line of a run that was killed
                continue
            kind = event.get("event")
            if kind == "blob":
                blobs[event["n"]] = event
            elif kind == "call":
                calls[event["id"]] = event
            elif kind in ("return", "raise") and event["id"] in calls:
                calls[event["id"]].update({k: v for k, v in event.items() if k not in ("event", "id")})
            elif kind in ("grad_input", "grad_output") and event["id"] in calls:
                _add_gradient(calls[event["id"]], kind + "s", event)

    def tensor(e):
        blob = blobs.get(e["tensor"])
        if blob is None:
            return None
        name = "tensors-%05d.safetensors" % blob["file"]
        if name not in files:
            with open(os.path.join(directory, name), "rb") as f:
                files[name] = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
        dtype = getattr(torch, e["dtype"])
        if not blob["bytes"]:
            return torch.empty(e["shape"], dtype=dtype)
        count = blob["bytes"] // torch.empty(0, dtype=dtype).element_size()
        t = torch.frombuffer(files[name], dtype=dtype, count=count, offset=blob["begin"])
        t = t.clone()  # two tensors with the same content are two
        t = torch.as_strided(t, e["shape"], e["stored"]) if "stored" in e else t.reshape(e["shape"])
        return t.requires_grad_() if e.get("requires_grad") else t

    def value(v):
        if isinstance(v, list):
            return [value(x) for x in v]
        if not isinstance(v, dict):
            return v
        if "tensor" in v:
            return tensor(v)
        if "array" in v:
            return tensor(dict(v, tensor=v["array"])).numpy()
        kind, x = next(iter(v.items()))
        return {
            "float": lambda: float(x), "size": lambda: torch.Size(x), "tuple": lambda: tuple(value(i) for i in x),
            "dict": lambda: {value(k): value(i) for k, i in x}, "complex": lambda: complex(float(x[0]), float(x[1])),
            "slice": lambda: slice(*(value(i) for i in x)), "ellipsis": lambda: Ellipsis,
            "dtype": lambda: getattr(torch, x), "device": lambda: torch.device("cpu"), "layout": lambda: getattr(torch, x),
            "memory_format": lambda: getattr(torch, x), "generator": lambda: None, "object": lambda: None,
        }[kind]()

    for call in calls.values():
        call["said"] = {f: call[f] for f in ("args", "kwargs", "result", "after", "grad_inputs", "grad_outputs") if f in call}
        call["args"] = tuple(value(a) for a in call["args"])
        call["kwargs"] = {k: value(v) for k, v in call["kwargs"].items()}
        if "result" in call:
            call["result"] = value(call["result"])
        if call.get("rng"):
            call["rng_state"] = value(call["rng"])
        for field in ("after", "grad_inputs", "grad_outputs"):
            if field in call:
                call[field] = {int(i): value(v) for i, v in call[field].items()}
        yield call


def _add_gradient(call, field, event):
    """Adds a gradient to a call, unless it belongs to a later backward pass than the first."""
    number = event.get("pass")
    if field == "grad_outputs" and event["i"] in call.get(field, ()):
        call["passed"] = True  # this begins the next pass
    if call.setdefault("pass", number) == number and "passed" not in call:
        call.setdefault(field, {}).setdefault(event["i"], event["value"])


def _described(v):
    """The JSON that op_tools writes beside a .pth file for a value, made of the JSON of calls.jsonl. `version` and `name`
    are added to op_tools' own keys."""
    if isinstance(v, list):
        return [_described(x) for x in v]
    if not isinstance(v, dict):
        return str(v)
    if "tensor" in v:
        stride, n = v.get("stride"), 1
        if stride is None:
            stride = []
            for size in reversed(v["shape"]):
                stride.insert(0, n)
                n *= max(size, 1)
        said = {"device": v.get("device", "cpu"), "dtype": v["dtype"], "numel": math.prod(v["shape"]),
                "shape": str(tuple(v["shape"])), "stride": stride, "requires_grad": v.get("requires_grad", False),
                "layout": "torch.strided"}
        said.update((k, v[key]) for k, key in (("data_ptr", "ptr"), ("version", "version"), ("name", "name")) if key in v)
        return said
    if "tuple" in v:
        return [_described(x) for x in v["tuple"]]
    return str(next(iter(v.values())))


ABOUT_CALL = ("step", "within", "module", "location", "autocast", "params", "replaced", "replaced_at", "wrapped", "group",
              "group_name")  # what export writes of a call beside op_tools' files


def export(directory, out, taken=None):
    """Writes what was recorded as directories of .pth files, as op_tools does, with the addresses in the .pth.json files
    beside them. Those have the process and the second in their names: of recordings that have both in common, as `taken`
    tells, all but the first get a later second. after.pth, which op_tools does not write, holds the arguments after the
    call, and None instead of tensors that the recorder did not look at. call.json, which op_tools does not write either, has
    what op_tools does not know of a call, such as the call inside of which it was made."""
    import torch

    with open(os.path.join(directory, "calls.jsonl"), "rb") as lines:
        line = lines.readline()
    if not line.endswith(b"\n"):  # of a process that was killed at once
        return 0
    run = json.loads(line)
    taken = set() if taken is None else taken
    pid, second = str(run["pid"]), calendar.timegm(time.strptime(run["start"][:19], "%Y-%m-%dT%H:%M:%S"))
    while (pid, second) in taken:
        second += 1
    taken.add((pid, second))
    time_ = time.strftime(TIME, time.gmtime(second))
    count = 0
    for call in load(directory):
        where = os.path.join(out, "op_tools_results", "op_capture_results", call["name"], pid, str(call["id"]), time_)
        os.makedirs(where, exist_ok=True)

        def save(file, args, kwargs, said, named):
            kwargs = {k: v for k, v in kwargs.items() if not isinstance(v, torch.memory_format)}  # not to be pickled
            path = os.path.join(where, file + ".pth")
            torch.save({"name": call["name"], "args": args, "kwargs": kwargs,
                        "identifier": "%s/%d/%s" % (call["name"], call["id"], file)}, path)
            with open(path + ".json", "w") as f:
                json.dump({"args": [_described(v) for v in said], "kwargs": {k: _described(v) for k, v in named.items()},
                           "op": call["name"]}, f)

        def changed(values, said):
            return _replace(values, torch, lambda t, n=iter(range(len(inputs))): said.get(next(n)))

        with open(os.path.join(where, "call.json"), "w") as f:
            json.dump(dict({k: call[k] for k in ABOUT_CALL if k in call}, torch=run.get("torch")), f)
        said = call["said"]
        save("input", call["args"], call["kwargs"], said["args"], said["kwargs"])
        if "result" in call:
            save("output", (call["result"],), {}, [said["result"]], {})
        inputs = _tensors((call["args"], call["kwargs"]), torch, [])
        outputs = _tensors(call.get("result"), torch, [])
        if "after" in call:
            args, kwargs = changed((call["args"], call["kwargs"]), call["after"])
            save("after", args, kwargs, [], {})
        for field, tensors in (("grad_inputs", inputs), ("grad_outputs", outputs)):
            if field in call:
                save(field, tuple(call[field].get(i) for i in range(len(tensors))), {},
                     [said[field].get(i) for i in range(len(tensors))], {})
        count += 1
    return count


# --- Without touching the program -------------------------------------------------------------------------------------

def _from_environment():
    """OPTOOL_CAPTURE=DIR records the program; OPTOOL_CAPTURE_STEPS, _RANKS (lists of numbers, "0-2,5"), _OPS, _NOT_OPS,
    _WRAP, _MAX_BYTES, _MAX_CALLS, _MAX_SECONDS are record's arguments. Recording begins when torch was imported."""
    path = os.environ.get("OPTOOL_CAPTURE")
    if not path:
        return
    env = lambda name: os.environ.get("OPTOOL_CAPTURE_" + name) or None

    def number(name):
        try:
            return int(float(env(name))) if env(name) else None
        except (ValueError, OverflowError):
            raise ValueError("OPTOOL_CAPTURE_%s is no number: %r" % (name, env(name))) from None

    def begin():
        try:
            record(path, steps=env("STEPS"), ranks=env("RANKS"), ops=env("OPS"), not_ops=env("NOT_OPS"),
                   wrap=env("WRAP").split(",") if env("WRAP") else (), max_bytes=number("MAX_BYTES"),
                   max_calls=number("MAX_CALLS"), max_seconds=number("MAX_SECONDS")).start()
        except Exception as e:  # the program has not asked for it
            _warn("nothing is recorded: %s" % e)

    _after_import("torch", begin)


def _ranges(text):
    if not text:
        return None
    numbers = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        span = range(int(first), int(last if dash else first) + 1)
        if not span:
            raise ValueError(part)
        numbers += span
    return numbers


def _after_import(name, then):
    """Calls then() once the module has been imported, however it is."""
    import importlib.abc
    import importlib.util

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, wanted, path, target=None):
            if wanted != name:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is None or spec.loader is None:
                return spec
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                then()

            spec.loader.exec_module = exec_module
            return spec

    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, Finder())


def _main(argv):
    if len(argv) == 5 and argv[1] == "--write":
        try:
            _Writer(argv[2], int(argv[3]), int(argv[4])).run()
        except OSError as e:
            print("optool_capture: %s" % e, file=sys.stderr)
            return 1
        return 0
    if len(argv) == 4 and argv[1] == "export":
        processes = [where for where, _, files in os.walk(argv[2]) if "calls.jsonl" in files]
        if not processes:
            print("%s: nothing that was recorded" % argv[2], file=sys.stderr)
            return 1
        taken = set()
        print("%d calls" % sum(export(where, argv[3], taken) for where in sorted(processes)))
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(_main(sys.argv))
if __name__ == "sitecustomize":
    _from_environment()
