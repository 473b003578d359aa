#!/usr/bin/env python3
"""How many mistakes of fused kernels of language models are found, and how many sound calls are doubted.

  fused_kernels.py [--optool bin/optool] [--only PATTERN] [--seeds N] [--keep DIR] [--list]

Plain-PyTorch stand-ins, the formulas beside the golden values (ops/testdata/golden), take the names of the kernels of
flash-attn, vLLM, FlashInfer, apex, Megatron-LM, Transformer Engine, DeepLinkExt, dlinfer and torch_npu, and of
torch's grouped and scaled products. The hook records calls of them, forward and backward, once as they are and once
with each mistake that such kernels have; `optool replay` judges both recordings. Needs torch 2 and nothing else.
"""

import argparse, collections, importlib.util, json, os, re, shutil, subprocess, sys, tempfile, types

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "ops", "testdata", "golden")
sys.path[:0] = [os.path.join(ROOT, "hook"), GOLDEN]
import torch
import torch.nn.functional as F

import optool_capture

F32, BF16, I32 = torch.float32, torch.bfloat16, torch.int32
GROUPED, SCALED = torch._grouped_mm, torch._scaled_mm  # which stand-ins take the names of


def golden(name):
    """A script of golden values, whose name may be that of the library it is about."""
    spec = importlib.util.spec_from_file_location("golden_" + name, os.path.join(GOLDEN, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


llm, infer, mega, deep, dl, npu = (golden(n) for n in ("llm", "flashinfer", "megatron", "deeplink", "dlinfer", "torch_npu"))


# --- Mistakes ---------------------------------------------------------------------------------------------------------
# Each makes a wrong kernel of a sound one.


def swap(i, change):
    """Argument i (a number or a keyword) is another one."""

    def wrong(f):
        def g(*args, **kwargs):
            if isinstance(i, str):
                kwargs[i] = change(kwargs[i])
            else:
                args = args[:i] + (change(args[i]),) + args[i + 1 :]
            return f(*args, **kwargs)

        return g

    return wrong


def both(*wrongs):
    def wrong(f):
        for w in wrongs:
            f = w(f)
        return f

    return wrong


def result(change, at=0):
    """A result is another one."""

    def wrong(f):
        def g(*args, **kwargs):
            y = f(*args, **kwargs)
            return y[:at] + (change(y[at]),) + y[at + 1 :] if isinstance(y, tuple) else change(y)

        return g

    return wrong


def written(at, change):
    """What an argument holds afterwards is made of that and of what it held before."""

    def wrong(f):
        def g(*args, **kwargs):
            before = args[at].clone()
            y = f(*args, **kwargs)
            args[at].copy_(change(args[at].clone(), before))
            return y

        return g

    return wrong


def unwritten(at):
    return written(at, lambda y, old: old)


def nothing(*done):
    """What a kernel gives that only writes."""


class Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, change):
        ctx.change = change
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return ctx.change(g), None


def grad(i, change):
    """The gradient of argument i is another one."""
    return swap(i, lambda x: Back.apply(x, change))


def roll(n, dim):
    return lambda x: x.roll(n, dim)


def shift(n):
    return lambda x: x + n


def times(k):
    return lambda x: x * k


def constant(v):
    return lambda x: v


def zeroed(dim, at):
    def f(g):
        g = g.clone()
        g.select(dim, at).zero_()
        return g

    return f


def halves(x):
    return torch.cat(x.chunk(2, -1)[::-1], -1)


def interleaved_heads(dim):
    """Heads of queries take keys h % n, not h // (heads / n)."""

    def wrong(f):
        def g(q, k, *rest, **o):
            n, heads = k.shape[dim], q.shape[dim]
            order = torch.arange(heads).reshape(-1, n).t().flatten()
            return f(q.index_select(dim, order), k, *rest, **o).index_select(dim, torch.argsort(order))

        return g

    return wrong


def instead(g):
    """Another function altogether."""
    return lambda f: g


def fine(dt, mistakes):
    """Mistakes that are smaller than what roundings of 16 bits may do: planted in float32 alone."""
    return mistakes if dt == F32 else {}


def rolled(*at, dim):
    return both(*(swap(i, roll(1, dim)) for i in at))


# --- Calls ------------------------------------------------------------------------------------------------------------


class Calls:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def x(self, *shape, dt, grad=False, k=1.0):
        return (k * torch.randn(*shape, generator=self.g)).to(dt).requires_grad_(grad)

    def unit(self, *shape, k=1.0):
        return k * (torch.rand(*shape, generator=self.g) + 0.5)

    def ints(self, low, high, *shape, dt=I32):
        return torch.randint(low, high, shape, generator=self.g).to(dt)

    def all(self):
        for dt in (BF16, F32):
            for family in (self.flash, self.kvcache, self.vllm, self.infer, self.grouped, self.megatron, self.deeplink, self.quantized):
                yield from family(dt)

    def flash(self, dt):
        attention = lambda *s: self.x(*s, dt=dt, grad=True)
        d, scale = 32, 32**-0.5
        slopes = torch.tensor([2.0 ** -(i + 1) for i in range(8)])
        heads = {
            "keys of the head before": rolled(1, 2, dim=-2),
            "values of the head before": swap(2, roll(1, -2)),
            "gradient of keys of the head before": grad(1, roll(1, -2)),
            "gradient of the last key is missing": grad(1, zeroed(-3, -1)),
            "gradient of queries without the scale": grad(0, times(1 / scale)),
        }
        plain = {
            "heads interleaved": interleaved_heads(2),
            "scale 1/d": lambda f: lambda *a, **o: f(*a, **{**o, "softmax_scale": 1 / d}),
            "last key left out": both(swap(1, lambda k: k[:, :-1]), swap(2, lambda v: v[:, :-1])),
        }
        top = both(swap(1, lambda k: k[:, :24]), swap(2, lambda v: v[:, :24]))
        for o, more in (
            ({}, plain),
            (
                {"causal": True},
                {
                    "causal from the top left": top,
                    "causal one key too far": lambda f: lambda *a, **o: f(*a, causal=False, window_size=(-1, 1)),
                },
            ),
            (
                {"window_size": (7, 3)},
                {"window one wider": swap("window_size", constant((8, 3))), "window one narrower": swap("window_size", constant((7, 2)))},
            ),
            ({"softcap": 2.0}, {"no softcap": swap("softcap", constant(0.0))}),
            (
                {"causal": True, "alibi_slopes": slopes},
                {"slopes of the head before": swap("alibi_slopes", roll(1, 0)), "no slopes": swap("alibi_slopes", constant(None))},
            ),
        ):
            yield "flash_attn.flash_attn_func", llm.batched, lambda: (
                (attention(2, 24, 8, d), attention(2, 40, 2, d), attention(2, 40, 2, d)),
                o,
            ), {**heads, **more}
        ends = (torch.tensor([0, 17, 40, 48], dtype=I32), torch.tensor([0, 25, 48, 72], dtype=I32), 23, 25)
        yield (
            "flash_attn.flash_attn_varlen_func",
            llm.varlen,
            lambda: ((attention(48, 8, d), attention(72, 2, d), attention(72, 2, d), *ends), {"causal": True}),
            {
                **heads,
                "keys of sequences begin one late": swap(4, lambda e: torch.cat([e[:1], e[1:-1] + 1, e[-1:]])),
                "queries of sequences end one late": swap(3, lambda e: torch.cat([e[:1], e[1:-1] + 1, e[-1:]])),
                "not causal": swap("causal", constant(False)),
            },
        )
        pages = torch.tensor([[4, 1, 5], [2, 0, 3]], dtype=I32)
        yield (
            "flash_attn.flash_attn_varlen_func",
            llm.varlen,
            lambda: (
                (
                    attention(20, 8, d),
                    attention(6, 16, 2, d),
                    attention(6, 16, 2, d),
                    torch.tensor([0, 8, 20], dtype=I32),
                    torch.tensor([0, 40, 73], dtype=I32),
                    12,
                    40,
                ),
                {"causal": True, "block_table": pages},
            ),
            {
                "block table one on": swap("block_table", roll(1, 1)),
                "block table of the other sequence": swap("block_table", roll(1, 0)),
                "keys of the head before": rolled(1, 2, dim=-2),
            },
        )
        packed = lambda x, **o: llm.batched(*x.unbind(2), **o)
        yield (
            "flash_attn.flash_attn_qkvpacked_func",
            packed,
            lambda: ((attention(2, 33, 3, 4, d),), {"causal": True}),
            {
                "keys and values exchanged": swap(0, lambda x: x[:, :, [0, 2, 1]]),
                "heads one on": swap(0, lambda x: torch.cat([x[:, :, :1], x[:, :, 1:].roll(1, 3)], 2)),
                "not causal": swap("causal", constant(False)),
                "gradient of values is missing": grad(0, zeroed(2, 2)),
            },
        )

    def kvcache(self, dt):
        x = lambda *s: self.x(*s, dt=dt)
        d, lens = 32, torch.tensor([37, 20], dtype=I32)
        turns = lambda: (x(64, d // 2), x(64, d // 2))
        base = lambda: (x(2, 3, 8, d), x(2, 48, 2, d), x(2, 48, 2, d), x(2, 3, 2, d), x(2, 3, 2, d))
        late = swap("cache_seqlens", shift(1))
        yield (
            "flash_attn.flash_attn_with_kvcache",
            llm.with_kvcache,
            lambda: ((*base(), *turns()), {"cache_seqlens": lens, "causal": True}),
            {
                "appended one row late": late,
                "rotated half by half": lambda f: lambda *a, **o: f(*a, rotary_interleaved=False, **o),
                "positions one late": both(swap(5, roll(1, 0)), swap(6, roll(1, 0))),
                "turned the other way": swap(6, times(-1)),
                "keys of the head before": rolled(1, 2, dim=-2),
                "not causal": swap("causal", constant(False)),
                "new keys are not written": unwritten(1),
            },
        )
        pages = torch.tensor([[4, 1, 5], [2, 0, 3]], dtype=I32)
        yield (
            "flash_attn.flash_attn_with_kvcache",
            llm.with_kvcache,
            lambda: (
                (x(2, 1, 8, d), x(6, 16, 2, d), x(6, 16, 2, d), x(2, 1, 2, d), x(2, 1, 2, d)),
                {"cache_seqlens": lens, "causal": True, "block_table": pages, "softcap": 2.0},
            ),
            {
                "block table one on": swap("block_table", roll(1, 1)),
                "block table of the other sequence": swap("block_table", roll(1, 0)),
                "no softcap": swap("softcap", constant(0.0)),
                "appended one row late": late,
            },
        )

    def vllm(self, dt):
        x = lambda *s: self.x(*s, dt=dt)
        small = lambda *s: self.x(*s, dt=dt, k=0.1)  # eps counts
        ops = "vllm._custom_ops."
        yield ops + "rms_norm", llm.rms_norm, lambda: ((x(16, 64), small(16, 64), x(64), 1e-2), {}), {
            "no eps": swap(3, constant(0.0)),
            "1 + weight": swap(2, shift(1)),
            **fine(dt, {"mean over n - 1": swap(1, times((64 / 63) ** 0.5))}),
            "last row left out": written(0, lambda y, old: torch.cat([y[:-1], old[-1:]])),
        }
        yield ops + "fused_add_rms_norm", llm.fused_add_rms_norm, lambda: ((small(16, 64), small(16, 64), x(64), 1e-2), {}), {
            "residual is not written": unwritten(1),
            "residual is what was scaled": lambda f: lambda a, r, w, e: nothing(f(a, r, w, e), r.copy_(a)),
            "the sum is not scaled": lambda f: lambda a, r, w, e: nothing(f(a, r, w, e), a.copy_(r)),
            "residual is not added": lambda f: lambda a, r, w, e: nothing(a.copy_(llm.rms(a, w, e))),
            "no eps": swap(3, constant(0.0)),
        }
        silu, gelu = llm.gate(lambda a, b: F.silu(a) * b), llm.gate(lambda a, b: F.gelu(a) * b)
        tanh = llm.gate(lambda a, b: F.gelu(a, approximate="tanh") * b)
        for name, f, other in (("silu_and_mul", silu, gelu), ("gelu_and_mul", gelu, silu), ("gelu_tanh_and_mul", tanh, gelu)):
            yield ops + name, f, lambda: ((x(16, 32), self.x(16, 64, dt=dt, k=2.0)), {}), {
                "halves exchanged": swap(1, halves),
                "another gate": instead(other),
                "neighbours instead of halves": swap(1, lambda v: torch.cat([v[:, ::2], v[:, 1::2]], 1)),
            }
        positions = torch.tensor([5, 0, 17, 30, 2, 9], dtype=torch.int64)
        for neox in (True, False):
            yield ops + "rotary_embedding", llm.rotary_embedding, lambda: ((positions, x(6, 128), x(6, 32), 32, x(40, 32), neox), {}), {
                "the other pairs": swap(5, constant(not neox)),
                "positions one on": swap(0, shift(1)),
                "keys are not turned": unwritten(2),
                "cos and sin exchanged": swap(4, halves),
            }
        pages, lens, one = torch.tensor([[4, 1, 5], [2, 0, 3]], dtype=I32), torch.tensor([41, 23], dtype=I32), torch.ones(1)
        cache = lambda: (x(6, 2, 4, 16, 8), x(6, 2, 32, 16))
        slopes = torch.tensor([2.0 ** -(i + 1) for i in range(8)])
        attention = {
            "keys of the head before": rolled(2, 3, dim=1),
            "block table one on": swap(6, roll(1, 1)),
            "block table of the other sequence": swap(6, roll(1, 0)),
            "last key left out": swap(7, shift(-1)),
            "scale 1/d": swap(5, constant(1 / 32)),
        }
        for alibi in (None, slopes):
            rest = lambda: (*cache(), 2, 32**-0.5, pages, lens, 16, 41, alibi, "auto", one, one)
            more = {} if alibi is None else {"no slopes": swap(10, constant(None)), "slopes of the head before": swap(10, roll(1, 0))}
            yield ops + "paged_attention_v1", llm.paged_v1, lambda: ((x(2, 8, 32), x(2, 8, 32), *rest()), {}), {**attention, **more}
        slots = torch.tensor([70, -1, 3, 19], dtype=torch.int64)
        write = {
            "one slot on": swap(4, lambda s: torch.where(s < 0, s, s + 1)),
            "padding is written": swap(4, lambda s: s.clamp(min=0)),
            "keys and values exchanged": lambda f: lambda k, v, *r: f(v, k, *r),
            "keys of the head before": swap(0, roll(1, 1)),
            "values are not written": unwritten(3),
        }
        tail = (slots, "auto", one, one)
        yield ops + "reshape_and_cache", llm.reshape_and_cache, lambda: ((x(4, 2, 32), x(4, 2, 32), *cache(), *tail), {}), write
        yield ops + "reshape_and_cache_flash", llm.reshape_and_cache_flash, lambda: (
            (x(4, 2, 32), x(4, 2, 32), x(6, 16, 2, 32), x(6, 16, 2, 32), *tail),
            {},
        ), write
        zeros = lambda *s: torch.zeros(*s, dtype=I32)
        yield ops + "topk_softmax", llm.topk_softmax, lambda: (
            (torch.zeros(12, 2), zeros(12, 2), zeros(12, 2), self.x(12, 16, dt=F32), False),
            {},
        ), {
            "weights add up to 1": swap(4, constant(True)),
            "the third for the second": lambda f: lambda w, i, s, l, r: f(w, i, s, l.masked_fill(l == l.topk(2).values[:, 1:], -9.0), r),
            "softmax of the best alone": written(0, lambda y, old: torch.softmax(y.log(), -1)),
            "sources by rows": written(2, lambda y, old: torch.arange(24).reshape(12, 2)),
        }
        ids = self.ints(0, 4, 16, 2)
        yield ops + "moe_align_block_size", llm.align, lambda: ((ids, 4, 4, zeros(44), zeros(11), zeros(1)), {}), {
            "experts one on": swap(0, lambda i: (i + 1) % 4),
            "blocks of another size": swap(2, constant(2)),
            "total without padding": written(5, lambda y, old: torch.full_like(y, 32)),
        }

    def infer(self, dt):
        x = lambda *s: self.x(*s, dt=dt, grad=True)
        c = lambda *s: self.x(*s, dt=dt)
        small = lambda *s, grad=False: self.x(*s, dt=dt, grad=grad, k=0.1)
        lib = "flashinfer."
        norms = {"no eps": swap("eps", constant(0.0)), "eps outside the root": lambda f: lambda i, w, eps: f(i, w, eps=eps * eps)}
        yield lib + "rmsnorm", infer.norm(0.0), lambda: ((small(16, 64, grad=True), x(64)), {"eps": 1e-2}), {
            **norms,
            "1 + weight": instead(infer.norm(1.0)),
            "gradient of the weight without the last row": grad(1, lambda g: g * 15 / 16),
        }
        yield lib + "gemma_rmsnorm", infer.norm(1.0), lambda: ((small(16, 64, grad=True), x(64)), {"eps": 1e-2}), {
            **norms,
            "weight alone": instead(infer.norm(0.0)),
        }
        for name, more, other in (("fused_add_rmsnorm", 0.0, 1.0), ("gemma_fused_add_rmsnorm", 1.0, 0.0)):
            yield lib + name, infer.add_norm(more), lambda: ((small(16, 64), small(16, 64), c(64)), {"eps": 1e-2}), {
                "residual is not written": unwritten(1),
                "the other weight": instead(infer.add_norm(other)),
                "residual is what was scaled": lambda f: lambda a, r, w, eps: nothing(f(a, r, w, eps=eps), r.copy_(a)),
                "no eps": swap("eps", constant(0.0)),
            }
        tanh = infer.gate(lambda a: F.gelu(a, approximate="tanh"))
        for name, f, other in (
            ("silu_and_mul", infer.gate(F.silu), tanh),
            ("gelu_and_mul", infer.gate(F.gelu), tanh),
            ("gelu_tanh_and_mul", tanh, infer.gate(F.gelu)),
        ):
            yield lib + name, f, lambda: ((self.x(16, 64, dt=dt, grad=True, k=2.0),), {}), {
                "halves exchanged": swap(0, halves),
                "another gate": instead(other),
            }
        natural = lambda f: lambda va, sa, vb, sb: f(va, sa / 0.6931471805599453, vb, sb / 0.6931471805599453)
        yield lib + "merge_state", infer.merge_state, lambda: (
            (x(8, 4, 32), self.x(8, 4, dt=F32, k=2.0), x(8, 4, 32), self.x(8, 4, dt=F32, k=2.0)),
            {},
        ), {
            "natural logarithms": natural,
            "weights exchanged": lambda f: lambda va, sa, vb, sb: f(va, sb, vb, sa),
            "heads one on": swap(1, roll(1, 1)),
            "sums are the larger": result(lambda s: s - 0.25, 1),
        }
        at = torch.tensor([30, 31, 0, 1, 2, 7], dtype=I32)
        for kind, llama, o in (("rope", False, {"rope_scale": 2.0}), ("llama31_rope", True, {"old_context_len": 64, "rope_theta": 1e3})):
            yield lib + f"apply_{kind}_pos_ids", infer.rope(False, llama, False), lambda: ((x(6, 4, 32), x(6, 2, 32), at), o), {
                "positions one on": swap(2, shift(1)),
                "neighbours instead of halves": lambda f: lambda *a, **o: f(*a, interleave=True, **o),
                "another theta": lambda f: lambda *a, **o: f(*a, **{**o, "rope_theta": 5e3}),
                "turned the other way": swap(2, times(-1)),
                "keys are not turned": lambda f: lambda q, k, *r, **o: (f(q, k, *r, **o)[0], k * 1),
            }
        attention = {
            "keys of the head before": rolled(1, 2, dim=-2),
            "scale 1/d": lambda f: lambda *a, **o: f(*a, **{**o, "sm_scale": 1 / 32}),
            "last key left out": both(swap(1, lambda k: k[:-1]), swap(2, lambda v: v[:-1])),
        }
        kv = lambda: (x(40, 2, 32), x(40, 2, 32))
        for o, more in (
            (
                {"causal": True},
                {
                    "causal from the top left": both(swap(1, lambda k: k[:24]), swap(2, lambda v: v[:24])),
                    "not causal": swap("causal", constant(False)),
                },
            ),
            (
                {"causal": True, "window_left": 7, "logits_soft_cap": 2.0},
                {"no softcap": swap("logits_soft_cap", constant(None)), "window one wider": swap("window_left", constant(8))},
            ),
            ({"causal": True, "pos_encoding_mode": "ALIBI"}, {"no slopes": swap("pos_encoding_mode", constant("NONE"))}),
        ):
            yield lib + "single_prefill_with_kv_cache", infer.prefill, lambda: ((x(24, 8, 32), *kv()), o), {
                **attention,
                **more,
                "heads interleaved": interleaved_heads(1),
            }
        yield lib + "single_decode_with_kv_cache", infer.decode, lambda: ((x(8, 32), *kv()), {"return_lse": True}), {
            **attention,
            "natural logarithms": result(times(0.6931471805599453), 1),
        }

    def grouped(self, dt):
        if dt != BF16:  # torch has them for bfloat16 and float8
            return
        x = lambda *s: self.x(*s, dt=dt, grad=True)
        ends = torch.tensor([16, 16, 40, 64], dtype=I32)
        late = swap("offs", lambda e: torch.cat([e[:-1] + 1, e[-1:]]))
        yield "torch._grouped_mm", GROUPED, lambda: ((x(64, 32), x(4, 32, 48)), {"offs": ends}), {
            "groups end one row late": late,
            "matrices of the group before": swap(1, roll(1, 0)),
            "last group is zero": result(lambda y: y * (torch.arange(64)[:, None] < 40)),
            "gradient of the last matrix is missing": grad(1, zeroed(0, 3)),
            "last element of sums left out": both(swap(0, lambda a: a * (torch.arange(32) < 31))),
        }
        yield "torch._grouped_mm", GROUPED, lambda: ((x(32, 64), x(64, 48)), {"offs": ends}), {"groups end one row late": late}
        eight = lambda *s: self.x(*s, dt=F32).to(torch.float8_e4m3fn)
        rows = {"scale_a": self.unit(32, 1), "scale_b": self.unit(1, 48)}
        both_scaled = lambda: ((eight(32, 64), eight(48, 64).t()), {**rows, "out_dtype": BF16, "bias": self.x(48, dt=BF16)})
        yield "torch._scaled_mm", SCALED, both_scaled, {
            "divided by the scale": swap("scale_a", lambda s: 1 / s),
            "scales of rows one on": swap("scale_a", roll(1, 0)),
            "one scale for all columns": swap("scale_b", lambda s: s[:, :1].expand(1, 48).contiguous()),
            "no bias": swap("bias", constant(None)),
            "the bias is scaled": swap("bias", lambda b: b * 1.25),
            "last element of sums left out": swap(0, lambda a: (a.float() * (torch.arange(64) < 63)).to(torch.float8_e4m3fn)),
        }

    def megatron(self, dt):
        x = lambda *s: self.x(*s, dt=dt, grad=True)
        c = lambda *s: self.x(*s, dt=dt)
        small = lambda *s, grad=False: self.x(*s, dt=dt, grad=grad, k=0.1)
        apex, fusions = "apex.normalization.fused_layer_norm.", "megatron.core.fusions."
        yield apex + "fused_layer_norm_affine", mega.layer_norm, lambda: ((small(16, 64, grad=True), x(64), x(64), (64,), 1e-2), {}), {
            "no eps": swap(4, constant(0.0)),
            "no bias": swap(2, lambda b: b * 0),
            "mean is not subtracted": instead(lambda x, w, b, s, e: (mega.rms_norm(x, w, s, e) + b).to(x.dtype)),
            "1 + weight": swap(1, shift(1)),
            "variance over n - 1": lambda f: lambda x, w, b, s, e: f(x, w * (63 / 64) ** 0.5, b, s, e),
            "gradient of the bias is a mean": grad(2, times(1 / 16)),
        }
        yield apex + "fused_rms_norm_affine", mega.rms_norm, lambda: ((small(16, 64, grad=True), x(64), (64,), 1e-2), {}), {
            "no eps": swap(3, constant(0.0)),
            "1 + weight": swap(1, shift(1)),
            "the mean is subtracted": instead(lambda x, w, s, e: mega.layer_norm(x, w, torch.zeros(64), s, e)),
            "gradient of the weight without the last row": grad(1, times(15 / 16)),
        }
        hidden = torch.rand(2, 1, 12, 24, generator=self.g) < 0.4
        yield "apex.transformer.functional.fused_softmax.scaled_masked_softmax", mega.masked_softmax, lambda: (
            (x(2, 4, 12, 24), hidden, 0.5),
            {},
        ), {
            "mask the other way": swap(1, lambda m: ~m),
            "mask of the other sample": swap(1, roll(1, 0)),
            "no scale": swap(2, constant(1.0)),
            "scaled after the softmax": lambda f: lambda x, m, s: f(x, m, 1.0) * s,
            "gradient without the scale": grad(0, times(2.0)),
        }
        yield "apex.transformer.functional.fused_softmax.scaled_upper_triang_masked_softmax", lambda x, m, s: mega.upper(x, s), lambda: (
            (x(4, 24, 24), None, 0.5),
            {},
        ), {
            "the diagonal is hidden": instead(
                lambda x, m, s: mega.softmax(x, s, mega.behind(24, 24, -1).index_fill(0, torch.tensor([0]), False))
            ),
            "one key too far": instead(lambda x, m, s: mega.softmax(x, s, mega.behind(24, 24, 1))),
            "no scale": swap(2, constant(1.0)),
        }
        gelu = lambda y, b: mega.gelu_tanh(b + y)
        yield fusions + "fused_bias_gelu.bias_gelu_impl", gelu, lambda: ((self.x(16, 64, dt=dt, grad=True, k=2.0), x(64)), {}), {
            **fine(
                dt,
                {
                    "gelu by erf": instead(lambda y, b: F.gelu((b + y).float()).to(y.dtype)),
                    "quick gelu": instead(lambda y, b: mega.quick_gelu(b + y)),
                },
            ),
            "no bias": swap(1, lambda b: b * 0),
            "gradient of the bias is a mean": grad(1, times(1 / 16)),
        }
        swiglu = lambda y, b: mega.gated(F.silu, y, b)
        yield fusions + "fused_bias_swiglu.bias_swiglu", swiglu, lambda: ((self.x(16, 64, dt=dt, grad=True, k=2.0), x(64)), {}), {
            "halves exchanged": swap(0, halves),
            "no bias": swap(1, lambda b: b * 0),
            "gelu": instead(lambda y, b: mega.gated(mega.gelu_tanh, y, b)),
            "gradient of the first half is missing": grad(0, lambda g: g * (torch.arange(64) >= 32)),
        }
        for name, f, o in (
            ("apex.transformer.functional.fused_rope.fused_apply_rotary_pos_emb", mega.rope, ()),
            ("megatron.core.models.common.embeddings.rope_utils._apply_rotary_pos_emb_bshd", mega.megatron_rope, (False, False, 0.5)),
        ):
            yield name, f, lambda: ((x(12, 2, 4, 32), self.x(12, 1, 1, 16, dt=F32, k=3.0), *o), {}), {
                "neighbours instead of halves": lambda f: lambda t, a, *o: f(t, a, True, *o[1:]),
                "turned the other way": swap(1, times(-1)),
                "positions one on": swap(1, roll(1, 0)),
                "the rest is turned too": lambda f: lambda t, a, *o: f(t, torch.cat([a, a], -1), *o),
                "gradient turned the wrong way": lambda f: lambda t, a, *o: Back.apply(f(t, a, *o), lambda g: f(f(g, a, *o), a, *o)),
                **({"no mscale": lambda f: lambda t, a, *o: f(t, a)} if o else {}),
            }
        ids = self.ints(0, 48, 4, 6, dt=torch.int64)
        logits = lambda: self.x(4, 6, 48, dt=dt, grad=True, k=3.0)
        yield "megatron.core.tensor_parallel.cross_entropy.vocab_parallel_cross_entropy", mega.parallel, lambda: (
            (logits(), ids, 0.1),
            {},
        ), {
            "no smoothing": swap(2, constant(0.0)),
            "smoothing over n": lambda f: lambda x, t, s: mega.entropy(x, t, s),
            "labels one on": swap(1, lambda t: (t + 1) % 48),
            "a part of the vocabulary": swap(
                0, lambda x: x[..., :40].clone() if int(ids.max()) < 40 else x.masked_fill(torch.arange(48) == 47, -1e4)
            ),
            "gradient without the label's": instead(
                lambda x, t, s: mega.parallel(x, t, s).detach() + (torch.logsumexp(x.float(), -1) - torch.logsumexp(x.float(), -1).detach())
            ),
        }
        kept = torch.where(ids == int(ids[0, 0]), 7, ids)
        yield "transformer_engine.pytorch.parallel_cross_entropy", mega.token, lambda: ((logits(), kept, 0.0, True, None, 7), {}), {
            "ignored labels count": swap(5, constant(-100)),
            "divided by all labels": result(lambda y: y * float((kept != 7).sum()) / 24),
            "a sum": result(lambda y: y * float((kept != 7).sum())),
        }

    def deeplink(self, dt):
        x = lambda *s: self.x(*s, dt=dt, grad=True)
        c = lambda *s: self.x(*s, dt=dt)
        small = lambda *s, grad=False: self.x(*s, dt=dt, grad=grad, k=0.1)
        lib = "deeplink_ext."
        yield lib + "easyllm_ops.rms_norm.rms_norm", deep.rms_norm, lambda: ((small(16, 64, grad=True), x(64), 1e-2), {}), {
            "no eps": swap(2, constant(0.0)),
            "1 + weight": swap(1, shift(1)),
            "gradient of the weight without the last row": grad(1, times(15 / 16)),
        }
        yield lib + "interntrain_ops.rms_norm_fallback.manual_rms_norm", deep.manual_rms_norm, lambda: (
            (small(16, 64, grad=True), (64,), x(64), 1e-2),
            {},
        ), {"no eps": swap(3, constant(0.0)), "weight is squared": swap(2, lambda w: w * w)}
        yield lib + "cpp_extensions.apply_rotary", deep.cpp_rotary, lambda: (
            (c(2, 12, 4, 32), c(2, 12, 4, 32), c(12, 1, 16), c(12, 1, 16), False, False),
            {},
        ), {
            "turned the other way": swap(4, constant(True)),
            "neighbours instead of halves": swap(5, constant(True)),
            "positions one on": both(swap(2, roll(1, 0)), swap(3, roll(1, 0))),
        }
        hidden = torch.rand(1, 1, 12, 24, generator=self.g) < 0.4
        yield lib + "cpp_extensions.scaled_masked_softmax_fwd", deep.cpp_softmax, lambda: (
            (c(2, 4, 12, 24), c(2, 4, 12, 24), hidden, 0.5, False),
            {},
        ), {
            "mask the other way": swap(2, lambda m: ~m),
            "no scale": swap(3, constant(1.0)),
            "a triangle for the mask": swap(4, constant(True)),
        }
        yield lib + "cpp_extensions.scaled_masked_softmax_bwd", deep.cpp_softmax_backward, lambda: (
            (c(2, 4, 12, 24), c(2, 4, 12, 24), torch.softmax(self.x(2, 4, 12, 24, dt=F32), -1).to(dt), hidden, 0.5, False),
            {},
        ), {
            "no scale": swap(3 + 1, constant(1.0)),
            "the sum is not subtracted": instead(
                lambda gi, g, y, m, s, t: nothing(gi.copy_((g.float() * y.float() * s).masked_fill(m, 0.0)))
            ),
        }
        numbers = (0.01, 0.9, 0.99, 1e-3, 0.1, 3, False)
        yield lib + "cpp_extensions.adamw", deep.step, lambda: ((c(24, 16), c(24, 16), c(24, 16).abs(), None, c(24, 16), *numbers), {}), {
            "step one on": swap(10, shift(1)),
            **fine(dt, {"no decay": swap(9, constant(0.0)), "no eps": swap(8, constant(0.0))}),
            "betas exchanged": lambda f: lambda *a: f(*a[:6], a[7], a[6], *a[8:]),
            "second moment without the square": written(2, lambda y, old: 0.99 * old),
        }
        at = torch.randperm(24, generator=self.g)[:14]
        yield lib + "easyllm_ops.index_first_axis", deep.index_first_axis, lambda: ((x(24, 4, 8), at), {}), {
            "places one on": swap(1, lambda i: (i + 1) % 24),
            "gradient of the first row is missing": grad(0, zeroed(0, int(at[0]))),
        }
        yield lib + "easyllm_ops.pad_input", deep.pad_input, lambda: ((x(14, 4, 8), at, 2, 12), {}), {
            "places one on": swap(1, lambda i: (i + 1) % 24),
            "repeated for padding": result(lambda y: torch.where(y == 0, 1, y)),
        }

    def quantized(self, dt):
        c = lambda *s: self.x(*s, dt=dt)
        small = lambda *s: self.x(*s, dt=dt, k=0.1)
        eight = lambda *s: self.ints(-128, 128, *s, dt=torch.int8)
        toward_zero = lambda x, dst=torch.int8: (
            (lambda s: ((x.float() / s).trunc().to(torch.int8), s.squeeze(-1)))(x.float().abs().amax(-1, keepdim=True) / 127)
        )
        by_128 = lambda x, dst=torch.int8: (
            (lambda s: ((x.float() / s).round().clamp(-128, 127).to(torch.int8), s.squeeze(-1)))(
                x.float().abs().amax(-1, keepdim=True) / 128
            )
        )
        for name, f, args in (
            ("torch_npu.npu_dynamic_quant", npu.dynamic_quant, ()),
            ("dlinfer.ops.dynamic_quant", lambda x, dst: npu.dynamic_quant(x), (torch.int8,)),
        ):
            yield name, f, lambda: ((c(16, 64), *args), {}), {
                "rounded toward zero": instead(toward_zero),
                "to 128 steps": instead(by_128),
                "one scale for all rows": instead(
                    lambda x, dst=None: (lambda s: ((x.float() / s).round().to(torch.int8), s.expand(16).clone()))(
                        x.float().abs().max() / 127
                    )
                ),
            }
        yield "dlinfer.ops.rms_norm_w8a8", dl.rms_norm_w8a8, lambda: ((small(16, 64), c(64), 1e-2, torch.int8), {}), {
            "no eps": swap(2, constant(0.0)),
            "scale of the row before": result(roll(1, 0), 1),
            "1 + weight": swap(1, shift(1)),
        }
        yield "dlinfer.ops.add_rms_norm_w8a8", dl.add_rms_norm_w8a8, lambda: ((c(16, 64), c(16, 64), c(64), 1e-2, torch.int8), {}), {
            "residual is not added": result(lambda r: r * 0.5, 2),
            "scale of the row before": result(roll(1, 0), 1),
        }
        scales = lambda: (self.unit(1, 16, k=0.02), self.unit(48, 1, k=0.02))
        yield "dlinfer.ops.linear_w8a8", dl.linear_w8a8, lambda: (
            (eight(1, 16, 64), eight(48, 64), *scales(), dt, torch.int8),
            {"bias": c(48)},
        ), {
            "scales of rows one on": swap(2, roll(1, 1)),
            "scales of columns one on": swap(3, roll(1, 0)),
            "no bias": swap("bias", constant(None)),
            "sums in int16": lambda f: lambda a, b, *r, **o: f(a, (b.to(I32) & ~1).to(torch.int8), *r, **o),
        }
        yield "dlinfer.ops.weight_quant_matmul", dl.weight_quant_matmul, lambda: (
            (c(16, 64), eight(64, 48), self.x(4, 48, dt=dt), self.x(4, 48, dt=dt)),
            {"group_size": 16},
        ), {
            "groups one on": both(swap(2, roll(1, 0)), swap(3, roll(1, 0))),
            "offset is subtracted": swap(3, times(-1)),
            "offset after the scale": lambda f: lambda x, w, s, o, **k: f(x, w, s, o / s, **k),
        }
        slots = torch.tensor([21, 0, -1, 9], dtype=I32)
        scale = [torch.tensor([0.03]), torch.tensor([2.0])]
        yield (
            "dlinfer.ops.fill_kv_cache",
            dl.fill_kv_cache,
            lambda: (
                (c(4, 2, 32), c(4, 2, 32), eight(2, 16, 2, 32), eight(2, 16, 2, 32), slots),
                {"k_scales_zeros": scale, "v_scales_zeros": scale, "quant_bits": 8},
            ),
            {
                "one slot on": swap(4, lambda s: torch.where(s < 0, s, s + 1)),
                "no zero point": swap("k_scales_zeros", lambda s: [s[0], s[1] * 0]),
                "multiplied by the scale": swap("v_scales_zeros", lambda s: [1 / s[0], s[1]]),
            },
        )


# --- Recording --------------------------------------------------------------------------------------------------------


class Stand:
    """A function under a name, whose kernel can be exchanged."""

    def __init__(self, name):
        self.kernel = None
        parts = name.split(".")
        for i in range(1, len(parts)):
            module = ".".join(parts[:i])
            if module not in sys.modules:
                sys.modules[module] = types.ModuleType(module)
                if i > 1:
                    setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], sys.modules[module])
        setattr(sys.modules[".".join(parts[:-1])], parts[-1], self.run)
        self.owner, self.last = sys.modules[".".join(parts[:-1])], parts[-1]

    def run(self, *args, **kwargs):
        with torch._C.DisableTorchFunction():  # what a kernel does inside is not recorded
            return self.kernel(*args, **kwargs)

    def call(self, kernel, args, kwargs, g):
        self.kernel = kernel
        out = getattr(self.owner, self.last)(*args, **kwargs)
        outs = [y for y in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(y, torch.Tensor) and y.requires_grad]
        if outs:
            torch.autograd.backward(outs, [torch.randn(y.shape, generator=g).to(y.dtype) for y in outs])


def fresh(x):
    if isinstance(x, torch.Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    return type(x)(fresh(v) for v in x) if isinstance(x, (list, tuple)) else x


def record(path, calls, seed):
    stands = {}
    for name in {name for name, *_ in calls}:
        stands[name] = Stand(name)
    with optool_capture.record(path, wrap=sorted(stands), ops=[re.escape(n) for n in stands]):
        for name, kernel, args, kwargs in calls:
            stands[name].call(kernel, fresh(args), {k: fresh(v) for k, v in kwargs.items()}, torch.Generator().manual_seed(seed))


def judged(optool, path, n):
    """The worst verdict of each call, in order, and the first reason."""
    run = subprocess.run([optool, "replay", "--acc_check", "--json", "-", path], capture_output=True, text=True)
    calls = {}
    for line in run.stdout.splitlines():
        r = json.loads(line)
        if r["kind"] == "result":
            calls.setdefault(r["order"], []).append(r)
    if len(calls) != n:
        sys.exit(f"{path}: {len(calls)} of {n} calls were judged\n{run.stderr}")
    rank = ("fail", "crash", "error", "timeout", "invalid", "unsupported", "warn", "mistrusted", "skipped", "pass")
    worst = [min(calls[k], key=lambda r: rank.index(r["verdict"])) for k in sorted(calls)]
    return [(r["verdict"], r["target"], r["reason"]) for r in worst]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--optool", default=os.path.join(ROOT, "bin", "optool"))
    p.add_argument("--only", default="", help="kernels whose name this pattern is found in")
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--keep", help="keep the recordings in this directory")
    p.add_argument("--list", action="store_true", help="print the verdict of each mistake")
    o = p.parse_args()
    torch.set_num_threads(1)
    libraries = collections.defaultdict(collections.Counter)
    where = o.keep or tempfile.mkdtemp()
    for seed in range(1, o.seeds + 1):
        sound, wrong, labels = [], [], []
        for name, kernel, make, mistakes in Calls(seed).all():
            if not re.search(o.only, name):
                continue
            args, kwargs = make()
            sound.append((name, kernel, args, kwargs))
            for what, mistake in mistakes.items():
                wrong.append((name, mistake(kernel), args, kwargs))
                labels.append((name, what, str(next(t.dtype for t in args if isinstance(t, torch.Tensor)))[6:]))
        for part, calls in (("sound", sound), ("wrong", wrong)):
            path = os.path.join(where, f"{part}-{seed}")
            shutil.rmtree(path, ignore_errors=True)
            record(path, calls, seed)
            for i, (verdict, target, reason) in enumerate(judged(o.optool, path, len(calls))):
                name = calls[i][0]
                libraries[name.split(".")[0]][part, verdict] += 1
                if o.list or (part == "sound") != (verdict == "pass") and not (part == "wrong" and verdict == "fail"):
                    what = labels[i][1:] if part == "wrong" else ("sound",)
                    print(f"{verdict:12} {name}: {', '.join(what)}: {target} {reason}")
    if not o.keep:
        shutil.rmtree(where)
    print("| library | sound calls | passed | mistakes | failed | warned |\n|---|---|---|---|---|---|")
    total = collections.Counter()
    for library, count in sorted(libraries.items()):
        total.update(count)
        row(library, count)
    row("all", total)


def row(name, count):
    n = lambda part: sum(v for (p, _), v in count.items() if p == part)
    print(f"| {name} | {n('sound')} | {count['sound', 'pass']} | {n('wrong')} | {count['wrong', 'fail']} | {count['wrong', 'warn']} |")


if __name__ == "__main__":
    main()
