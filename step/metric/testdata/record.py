"""Records the trees here and writes the truth beside them, computed in float64: python3 record.py (torch 2.15)."""

import glob
import json
import os
import shutil
import sys

import numpy
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.realpath(os.path.join(HERE, "..", "..", "..", "hook")))
import optool_capture  # noqa: E402

V, W, E, PAD = 24, 8, 4, 23  # tokens, width, experts, padding


def weights(seed, routed=False):
    torch.manual_seed(seed)
    w = {"embed": torch.randn(V, W), "norm": torch.rand(W) + 0.5, "up": torch.randn(16, W) / 2,
         "down": torch.randn(W, 16) / 3, "head": torch.randn(V, W)}
    if routed:
        w["router"] = torch.randn(E, W)
        w["experts"] = torch.randn(E, W, W) / 2
    return {k: v.to(torch.bfloat16) for k, v in w.items()}


def model(ids, w, plant=lambda name, x, y: y):
    """plant(name, argument, result) stands below the recorder: it gives the result of a call."""
    x = F.embedding(ids, w["embed"])
    h = F.layer_norm(x, (W,), w["norm"])
    h = F.linear(h, w["up"])
    h = plant("silu", h, F.silu(h))
    x = x + F.linear(h, w["down"])
    if "router" in w:
        score, at = F.linear(x, w["router"]).softmax(-1).topk(2, -1)
        gate = torch.zeros(*ids.shape, E, dtype=x.dtype).scatter(-1, at, score)
        each = torch.stack([F.linear(x, e) for e in w["experts"].unbind(0)], -1)
        x = x + (each * gate.unsqueeze(-2)).sum(-1)
    return F.linear(x, w["head"])


def effect(exact, logits, ids):
    p, q = exact.double().log_softmax(-1), logits.double().log_softmax(-1)
    next = ids[:, 1:, None]
    return {"kl": (p.exp() * (p - q)).sum(-1).mean().item(),
            "logprob": (q[:, :-1].gather(-1, next) - p[:, :-1].gather(-1, next)).mean().item(),
            "flips": int((exact.argmax(-1) != logits.argmax(-1)).sum()), "max_abs": (exact - logits).abs().max().item()}


def double(w):
    return {k: v.double() for k, v in w.items()}


def run(name, call):
    shutil.rmtree(name, ignore_errors=True)
    with torch.no_grad(), optool_capture.record(name):
        result = call()
    for path in glob.glob(f"{name}/*/*/calls.jsonl"):
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:  # lines of this file, wherever it is
            f.write(text.replace(HERE + "/", "").replace(HERE, "testdata"))
    return result


def logits():
    """A forward pass of a dense model in bfloat16."""
    w, ids = weights(1), torch.randint(0, V, (2, 6))
    got, error = run("logits", lambda: model(ids, w)), {}

    def keep(name, x, y):
        error[name] = y.double() - F.silu(x.double())
        return y

    model(ids, w, keep)
    exact = model(ids, double(w))
    only = model(ids, double(w), lambda name, x, y: y + error[name])
    return {"all": effect(exact, got, ids), "silu": effect(exact, only, ids), "without": without(ids, w, exact)}


def without(ids, w, exact):
    """The run with an exact first addition: the calls behind it read what it gives and round their results."""
    bf16 = lambda x: x.to(torch.bfloat16)  # noqa: E731
    x = F.embedding(ids, w["embed"])
    h = F.linear(F.silu(F.linear(F.layer_norm(x, (W,), w["norm"]), w["up"])), w["down"])
    return effect(exact, bf16(F.linear(x.double() + h.double(), w["head"].double())), ids)


def routed():
    """The same with a mixture of experts, of which rounding sends a token to another expert."""
    for seed in range(1000):
        w = weights(seed, True)
        ids = torch.randint(0, V, (1, 8))
        routes = []
        plain = torch.Tensor.topk

        def topk(x, *a):
            y = plain(x, *a)
            routes.append(y[1].sort(-1)[0])
            return y

        torch.Tensor.topk = topk
        try:
            got, exact = model(ids, w), model(ids, double(w))
        finally:
            torch.Tensor.topk = plain
        if not torch.equal(*routes):
            run("routed", lambda: model(ids, w))
            return {"all": effect(exact, got, ids)}
    raise AssertionError("no seed flips a route")


def listed(ids, w):
    """Experts that each read the tokens in their list, as transformers does it."""
    x = F.embedding(ids, w["embed"])[0]
    score, at = F.linear(x, w["router"]).softmax(-1).topk(2, -1)
    y = torch.zeros_like(x)
    mask = F.one_hot(at, E).permute(2, 1, 0)
    for e in range(E):
        place, token = torch.where(mask[e])
        y.index_add_(0, token, F.linear(x[token], w["experts"][e]) * score[token, place, None])
    return F.linear(x + y, w["head"])


def lists():
    """A mixture of experts whose lists of tokens are longer or shorter in exact arithmetic."""
    for seed in range(1000):
        w, ids = weights(seed, True), torch.randint(0, V, (1, 8))
        got, exact = listed(ids, w), listed(ids, double(w))
        routes = [F.linear(F.embedding(ids, v["embed"]), v["router"]).topk(2, -1)[1].sort(-1)[0] for v in (w, double(w))]
        if not torch.equal(*routes):
            run("listed", lambda: listed(ids, w))
            return {"all": effect(exact[None], got[None], ids)}
    raise AssertionError("no seed flips a route")


def visited(ids, w, routes=None):
    """Only the experts that have tokens; routes gives the router other choices than its own."""
    x = F.embedding(ids, w["embed"])[0]
    scores = F.linear(x, w["router"]).softmax(-1)
    at = scores.topk(2, -1)[1] if routes is None else routes
    score = scores.gather(-1, at)
    y = torch.zeros_like(x)
    mask = F.one_hot(at, E).permute(2, 1, 0)
    for e in mask.sum((-1, -2)).gt(0).nonzero():
        place, token = torch.where(mask[e[0]])
        y.index_add_(0, token, F.linear(x[token], w["experts"][e[0]]) * score[token, place, None])
    return F.linear(x + y, w["head"])


def visits():
    """Experts that only exact arithmetic visits: instead of another one, and besides the others."""
    out = {}
    for seed in range(100000):
        w, ids = weights(seed, True), torch.randint(0, V, (1, 3))
        at, exactly = (F.linear(F.embedding(ids, v["embed"])[0], v["router"]).topk(2, -1)[1] for v in (w, double(w)))
        experts, other = set(at.flatten().tolist()), set(exactly.flatten().tolist())
        name = "visited_more" if len(other) > len(experts) else "visited_others"
        if other != experts and len(other) >= len(experts) and name not in out:
            got = run(name, lambda: visited(ids, w))
            exact = visited(ids, double(w), at if name == "visited_more" else None)
            out[name] = effect(exact[None], got[None], ids)
        if len(out) == 2:
            return out
    raise AssertionError("no seed visits other experts")


def skips():
    """A rollout that skips an expert which exact arithmetic visits; training passes with all experts, in two dtypes."""
    for seed in range(100000):
        w, ids = weights(seed, True), torch.randint(0, V, (1, 4))
        wide = {k: v.float() for k, v in w.items()}
        at, exactly = (F.linear(F.embedding(ids, v["embed"])[0], v["router"]).topk(2, -1)[1] for v in (w, wide))
        if set(exactly.flatten().tolist()) > set(at.flatten().tolist()) and torch.equal(at[-1], exactly[-1]):
            got = run("skips", lambda: visited(ids, w))
            other = [run("skips_none", lambda: listed(ids, w)), run("skips_none_float", lambda: listed(ids, wide))]
            own = [x[:-1].double().log_softmax(-1).gather(-1, ids[0, 1:, None]) for x in (got, *other)]
            return {n: {"mean_abs": (own[0] - x).abs().mean().item()} for n, x in zip(("all", "float"), own[1:])}
    raise AssertionError("no seed skips an expert")


class Kernels(TorchDispatchMode):
    """Matrix products that stand below the recorder: rounded once, for few rows in parts that are rounded each."""

    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op is not torch.ops.aten.mm.default:
            return op(*args, **(kwargs or {}))
        a, b = args[0].double(), args[1].double()
        n = self.parts if len(a) == 4 else 1
        return sum((x @ y).to(args[0].dtype) for x, y in zip(a.chunk(n, 1), b.chunk(n, 0)))


def batches():
    """One program with one row, and with three of which it is the last; the second pair sums in two parts."""
    w, ids = weights(2), torch.randint(0, V, (3, 4))
    for name, parts in ("same", 1), ("parts", 2):
        for rows, batch in (ids[2:], "one"), (ids, "three"):
            with Kernels(parts):
                run(f"{name}_{batch}", lambda: model(rows, w))
    return {}


class Silu(TorchDispatchMode):
    """A kernel below the recorder that gives 2 % too much."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        y = op(*args, **(kwargs or {}))
        return y * 1.02 if op is torch.ops.aten.silu.default else y


def attend(x, w, keys, values, mask=None):
    q, k, v = F.linear(x, w["q"]), F.linear(x, w["k"]), F.linear(x, w["v"])
    if keys is not None:
        k, v = torch.cat([keys, k], 1), torch.cat([values, v], 1)
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=keys is None and mask is None)
    x = x + y
    x = x + F.linear(F.silu(F.linear(x, w["up"])), w["down"])
    return F.linear(x, w["head"]), k, v


def train(ids, w, mask=None):
    logits, _, _ = attend(F.embedding(ids, w["embed"]), w, None, None, mask)
    return logits[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)


def rollout(ids, w):
    k, v, out = torch.zeros(1, 0, W, dtype=torch.bfloat16), torch.zeros(1, 0, W, dtype=torch.bfloat16), []
    for t in range(ids.shape[1] - 1):
        logits, k, v = attend(F.embedding(ids[:, t : t + 1], w["embed"]), w, k, v)
        out.append(logits[:, -1].float().log_softmax(-1).gather(-1, ids[:, t + 1 : t + 2]))
    return torch.cat(out, 1)


def decode(ids, w, read):
    """Only logits of one token after the other, with a cache; the first pass reads several tokens."""
    k = v = None
    for t in range(read, ids.shape[1] + 1):
        logits, k, v = attend(F.embedding(ids[:, 0 if t == read else t - 1 : t], w["embed"]), w, k, v)


def again(ids, w):
    """Only logits of one token after the other, without a cache."""
    for t in range(1, ids.shape[1] + 1):
        attend(F.embedding(ids[:, :t], w["embed"]), w, None, None)


def two_runs():
    """The same tokens in one pass, and one after the other with a cache."""
    w, ids = weights(3), torch.randint(0, V, (1, 5))
    for name in "q", "k", "v":
        w[name] = torch.randn(W, W).to(torch.bfloat16) / 2
    a = run("train", lambda: train(ids, w))
    b = run("rollout", lambda: rollout(ids, w))
    run("rollout_decode", lambda: decode(ids, w, 2))
    run("rollout_again", lambda: again(ids, w))
    with Silu():
        c = run("rollout_silu", lambda: rollout(ids, w))
    stale = dict(w, v=w["v"] + (torch.randn(W, W) / 8).to(torch.bfloat16))
    d = run("rollout_stale", lambda: rollout(ids, stale))
    assert PAD not in ids
    pads = torch.tensor([[PAD] * 4 + ids[0].tolist(), [PAD] * 6 + [7, 3, 9]])
    row, column = torch.meshgrid(torch.arange(9), torch.arange(9), indexing="ij")
    causal, real = column <= row, (pads != PAD)[:, None, :]
    eye = torch.eye(9, dtype=torch.bool)
    out = {"sound": b, "silu": c, "stale": d}
    for name, mask in ("padded", causal & real | eye), ("leak", causal.expand(2, 9, 9)), ("future", real | eye):
        x = run(f"train_{name}", lambda: train(pads, w, torch.where(mask, 0.0, -1e9).to(torch.bfloat16)))
        out[name] = x[:1, -4:]
    return {name: {"mean_abs": (x - a).abs().mean().item()} for name, x in out.items()}


def score(logits, ids):
    return logits.float().log_softmax(-1).gather(-1, ids[..., None])


def passes(ids, w, sizes, masked=False, scaled=()):
    """Log-probabilities of each pass of a rollout, in a list; embeddings of passes in scaled are larger."""
    k = v = None
    out, at = [], 0
    for i, n in enumerate(sizes):
        x, end = F.embedding(ids[:, at : at + n], w["embed"]), at + n
        x = x * 1.25 if i in scaled else x
        mask = torch.where(torch.arange(end) <= torch.arange(at, end)[:, None], 0.0, -1e9).to(x) if masked else None
        logits, k, v = attend(x, w, k, v, mask)
        out.append(score(logits, ids[:, at + 1 : end + 1]).squeeze(-1))
        at = end
    return out


def alone(ids, w):
    """A model that reads nothing but the token itself, one after the other."""
    return [score(model(ids[:, t : t + 1], w), ids[:, t + 1 : t + 2]) for t in range(ids.shape[1] - 1)]


def drawn(ids, w, n):
    """A rollout that ends with the logits of each token, and chooses the next one by them."""
    k = v = None
    for _ in range(n):
        logits, k, v = attend(F.embedding(ids if k is None else ids[:, -1:], w["embed"]), w, k, v)
        ids = torch.cat([ids, logits[:, -1].argmax(-1, keepdim=True)], 1)
    return ids


def listed_runs():
    """Rollouts that end in a list with one result for each pass, against one pass."""
    w, ids = weights(6), torch.randint(0, V, (1, 7))
    for name in "q", "k", "v":
        w[name] = torch.randn(W, W).to(torch.bfloat16) / 2
    a = run("list_train", lambda: train(ids, w))
    out = {"sound": run("list_one", lambda: passes(ids, w, [1] * 6)),
           "part": run("list_part", lambda: [torch.cat(passes(ids, w, [2, 2, 1, 1], True, (2, 3)), 1)]),
           "all": run("list_all", lambda: [torch.cat(passes(ids, w, [2, 2, 1, 1], True, range(4)), 1)])}
    run("list_cooled", lambda: score(attend(F.embedding(ids, w["embed"]), w, None, None)[0][:, :-1] / 0.5, ids[:, 1:]))
    run("list_warm", lambda: score(attend(F.embedding(ids, w["embed"]), w, None, None)[0][:, :-1], ids[:, 1:]))
    alone_one = run("list_alone_train", lambda: score(model(ids[:, :-1], w), ids[:, 1:])).flatten()
    alone_list = torch.cat(run("list_alone", lambda: alone(ids, w))).flatten()
    run("list_index", lambda: [attend(F.embedding(ids[:, :n], w["embed"]), w, None, None)[0][0, -1].float()
                               .log_softmax(-1)[int(ids[0, n])] for n in range(1, 7)])
    tokens = run("list_drawn", lambda: drawn(ids[:, :3], w, 4))
    run("list_drawn_train", lambda: train(tokens, w))
    out = {name: {"mean_abs": (torch.cat(x, 1) - a).abs().mean().item()} for name, x in out.items()}
    out["alone"] = {"mean_abs": (alone_list - alone_one).abs().mean().item()}
    return out


def pad_nan():
    """Rows that begin with padding, which reads nothing: its logits are NaN."""
    w, ids = weights(7), torch.randint(0, PAD, (2, 7))
    ids[0, :3] = PAD
    real = (ids != PAD)[:, None, :] & torch.ones(7, 7, dtype=torch.bool).tril()

    def one(ids, real):
        x = F.embedding(ids, w["embed"])
        x = x + torch.where(real, 0.0, -torch.inf).to(x).softmax(-1) @ x
        return F.linear(x, w["head"])

    run("nan_logits", lambda: one(ids, real))
    run("nan_padded", lambda: score(one(ids, real)[:, :-1], ids[:, 1:]).squeeze(-1))
    run("nan_none", lambda: score(one(ids[1:], real[1:])[:, :-1], ids[1:, 1:]).squeeze(-1))
    return {}


def sorted_rows(ids, w):
    """Tokens of all rows in one order, as experts read them, and back."""
    order = ids.flatten().argsort(stable=True)
    h = F.linear(F.embedding(ids.flatten(), w["embed"])[order], w["up"])[order.argsort()]
    return F.linear(h.unflatten(0, ids.shape), w["down"])


def sorts():
    """That program with one row, and with three of which it is the second; the second pair sums in two parts."""
    w, ids = weights(8), torch.randint(0, V, (3, 4))
    for name, parts in ("sorted", 1), ("sorted_parts", 2):
        for rows, batch in (ids[1:2], "one"), (ids, "three"):
            with Kernels(parts):
                run(f"{name}_{batch}", lambda: sorted_rows(rows, w))
    return {}


def number(ids, w):
    """Tokens behind a mask that counts the rows of the batch; the last call mixes their numbers with the tokens."""
    row, column = torch.arange(len(ids))[:, None, None], torch.arange(ids.shape[1])
    h = F.embedding(ids, w["embed"]) * torch.logical_and(row + column[:, None] >= 0, column[:, None] >= 0)
    return F.linear(h, w["head"]), ids + row[:, 0]


def numbers():
    """One program that counts the rows of its batch, with one row, and with three of which it is the last."""
    w, ids = weights(4), torch.randint(0, V, (3, 4))
    for rows, batch in (ids[2:], "one"), (ids, "three"):
        run(f"numbers_{batch}", lambda: number(rows, w))
    return {}


def number_float(ids, w):
    """The same with floating numbers, which nothing mixes with the tokens."""
    row, column = torch.arange(len(ids), dtype=torch.float32) * 0.5, torch.arange(ids.shape[1])
    h = F.embedding(ids, w["embed"]) * (row[:, None, None] + column[:, None] >= 0)
    return row + 1, F.linear(h, w["head"])


def numbers_float():
    w, ids = weights(4), torch.randint(0, V, (3, 4))
    for rows, batch in (ids[2:], "one"), (ids, "three"):
        run(f"numbers_float_{batch}", lambda: number_float(rows, w))
    return {}


def unrecorded(ids, w, elsewhere):
    h = F.linear(F.layer_norm(F.embedding(ids, w["embed"]), (W,), w["norm"]), w["up"])
    return F.linear(F.linear(elsewhere(h), w["down"]), w["head"])


def unrecorded_calls():
    """Programs that leave torch between two layers, and come back."""
    w, ids = weights(5), torch.randint(0, V, (2, 6))
    run("unrecorded_numpy", lambda: unrecorded(ids, w, lambda h: torch.from_numpy(numpy.tanh(h.float().numpy())).to(h)))
    run("unrecorded_list", lambda: unrecorded(ids, w, lambda h: torch.tensor(h.tolist(), dtype=h.dtype) / 2))
    return {}


def dumps():
    """Files in the form of slime's: of a rollout, and of a training step in another order, of which it has one in part."""
    torch.manual_seed(6)
    samples, columns, apart = [], {"tokens": [], "response_lengths": [], "loss_masks": [], "rollout_log_probs": [],
                                   "log_probs": []}, []
    for i, n in enumerate((4, 3, 4, 5)):
        tokens, rollout = torch.randint(0, 1000, (n + 2,)), -3 * torch.rand(n)
        training = rollout + torch.randn(n) / 100 - 0.4 * (torch.arange(n) == 1) * (i == 2)
        mask = torch.ones(n, dtype=torch.int)
        mask[0] = i != 1
        samples.append({"index": i, "tokens": tokens.tolist(), "response_length": n, "loss_mask": mask.tolist(),
                        "rollout_log_probs": rollout.tolist(), "status": "completed", "metadata": {}})
        for name, x in zip(columns, (tokens, n, mask, rollout, training if i < 3 else training[:2])):
            columns[name].insert(0, x)
        if i < 3:
            apart.append((rollout - training)[mask != 0])
    os.makedirs("slime", exist_ok=True)
    torch.save({"rollout_id": 0, "samples": samples}, "slime/rollout_0.pt")
    torch.save({"rollout_id": 0, "rank": 0, "rollout_data": columns}, "slime/train_0_0.pt")
    torch.save({"format_version": 2, "samples": [{k: v[i] for k, v in columns.items()} for i in range(4)]},
               "slime/samples_0_0.pt")
    mean = torch.cat(apart).abs().double().mean().item()
    return {"two_files": {"mean_abs": mean}, "one_file": {"mean_abs": mean}}


def picked(ids, w, mask):
    """Log-probabilities of the tokens of one row, by an index."""
    logits, _, _ = attend(F.embedding(ids, w["embed"]), w, None, None, mask)
    return logits[0, :-1].float().log_softmax(-1)[torch.arange(ids.shape[1] - 1), ids[0, 1:]]


def masked_runs():
    """Sequences that are padded on the left, with a 0 where no token is told, and packed in one row whose tokens are
    picked; the mask of one of them lets other sequences be read."""
    w = weights(9)
    for name in "q", "k", "v":
        w[name] = torch.randn(W, W).to(torch.bfloat16) / 2
    sequences = [[3, 7, 9, 1, 12, 5], [8, 2, 14, 6], [11, 4, 18, 10, 15]]
    left = torch.tensor([[PAD] * (6 - len(s)) + s for s in sequences])
    told = (left != PAD)[:, :-1]
    column = torch.arange(6)
    allowed = (column <= column[:, None]) & (left != PAD)[:, None, :] | torch.eye(6, dtype=torch.bool)
    bias = torch.where(allowed, 0.0, -1e9).to(torch.bfloat16)
    a = run("masked_left", lambda: torch.where(told, train(left, w, bias), 0.0))
    ids = torch.tensor([sum(sequences, [])])
    of = torch.tensor([i for i, s in enumerate(sequences) for _ in s])
    keep = (of[1:] == of[:-1]).nonzero()[:, 0]
    causal = torch.ones(len(of), len(of), dtype=torch.bool).tril()
    out = {}
    for name, allowed in ("packed", causal & (of[:, None] == of)), ("leak", causal):
        bias = torch.where(allowed, 0.0, -1e9).to(torch.bfloat16)[None]
        b = run(f"masked_{name}", lambda: picked(ids, w, bias)[keep])
        out[name] = {"mean_abs": (a[told] - b).abs().mean().item()}
    return out


os.chdir(HERE)
with open("truth.json", "w") as f:
    json.dump({t.__name__: t() for t in (logits, routed, batches, two_runs, lists, visits, skips, numbers,
                                    numbers_float, unrecorded_calls, dumps, listed_runs, pad_nan, sorts, masked_runs)}, f, indent=1)
