"""Records the trees that the hook made: python3 record.py. torch 2.15 wrote those that are here."""

import os
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "hook"))
import optool_capture  # noqa: E402


def tied():
    """An embedding that shares its weight with the last layer; an update behind one loss, and behind two more."""
    weight = torch.randn(20, 8, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, foreach=False)
    optimizer.state[weight]["momentum_buffer"] = torch.randn(20, 8)
    batches = list(torch.randint(0, 20, (3, 5)))
    with optool_capture.record("tied"):
        for i, tokens in enumerate(batches):
            F.cross_entropy(F.linear(F.embedding(tokens, weight), weight), tokens).backward()
            if i != 1:
                optimizer.step()
                optimizer.zero_grad()


def attention():
    """Attention that drops weights inside, of rows in an order that a sort of equal numbers decided."""
    weight, groups = torch.randn(24, 8, requires_grad=True), torch.arange(40) % 2
    x = torch.randn(40, 8)
    with optool_capture.record("attention"):
        order = torch.argsort(groups, descending=True)
        q, k, v = F.linear(x[order], weight).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
        F.cross_entropy(y, groups).backward()


def clipped():
    """The same with all gradients clipped, many calls before the update of the shared weight."""
    weight = torch.randn(20, 8, requires_grad=True)
    vectors = [torch.randn(8, requires_grad=True) for _ in range(8)]
    optimizer = torch.optim.SGD(vectors + [weight], lr=0.1, momentum=0.9, foreach=False)
    tokens = torch.randint(0, 20, (5,))
    with optool_capture.record("clipped"):
        x = F.embedding(tokens, weight)
        for v in vectors:
            x = x * v
        F.cross_entropy(F.linear(x, weight), tokens).backward()
        torch.nn.utils.clip_grad_norm_([weight] + vectors, 1.0)
        optimizer.step()


class Scaled(torch.autograd.Function):
    """Copies its input; its gradient is 1 % too large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 1.01


def block(tree, activation, eps=1e-5):
    """A layer norm, two linear layers around an activation, and an update by AdamW."""
    shapes = ((20, 8), (8,), (16, 8), (8, 16))
    embedding, norm, up, down = weights = [torch.randn(s, requires_grad=True) for s in shapes]
    optimizer = torch.optim.AdamW(weights, lr=0.01, foreach=False)
    tokens = torch.randint(0, 20, (6,))
    with optool_capture.record(tree):
        x = F.embedding(tokens, embedding)
        y = F.linear(F.layer_norm(x, (8,), norm, eps=eps), up)
        x = x + F.linear(activation(y), down)
        F.cross_entropy(F.linear(x, embedding), tokens).backward()
        optimizer.step()


# One program whose activation is computed in other ways, or whose eps is another one.
blocks = {
    "block": (F.gelu,),
    "block-erf": (lambda x: x * 0.5 * (1 + torch.erf(x * 0.5**0.5)),),
    "block-sigmoid": (lambda x: x * torch.sigmoid(1.702 * x),),
    "block-scaled": (lambda x: Scaled.apply(F.gelu(x)),),
    "block-eps": (F.gelu, 1e-3),
}


def unwritten(tree, garbage, seed=1, eps=1e-5, computes=False):
    """A buffer that nothing wrote, filled in part, moved, and filled; a seed drawn into another one; dropout."""
    torch.manual_seed(0)
    x, weight = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    torch.manual_seed(seed)
    for shape, dtype in (((4, 8), torch.float32), ((), torch.int64)):  # left in memory for the same sizes
        torch.full(shape, garbage, dtype=dtype)
    with optool_capture.record(tree):
        buffer = torch.empty(4, 8)
        torch.empty((), dtype=torch.int64).random_()
        buffer[0].copy_(x[0])
        moved = buffer.clone()
        y = F.linear(F.layer_norm(x, (8,), eps=eps), weight)
        if computes:
            y = y + moved * 0.5
        y = F.dropout(y, 0.5)
        moved.copy_(y.detach())
        (y * moved).sum().backward()


# Two runs of one program, and what may be different: what lies in memory, the seed, eps, and whether that is computed with.
unwrittens = {
    "unwritten": (3,),
    "unwritten-other": (5,),
    "unwritten-seeds": (5, 2),
    "unwritten-eps": (5, 2, 1e-2),
    "unwritten-computes": (3, 1, 1e-5, True),
    "unwritten-computes-other": (5, 1, 1e-5, True),
}

def overwritten():
    """A weight that is written through data between the forward and the backward pass."""
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    with optool_capture.record("weight-data"):
        y = F.linear(x, weight)
        weight.data.mul_(0.9)
        F.cross_entropy(y, torch.tensor([1, 3, 5, 7])).backward()


def overwritten_result():
    """A softmax whose result, which its backward pass reads, is halved through data."""
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)
    with optool_capture.record("result-data"):
        y = F.linear(x, weight).softmax(-1)
        y.data.mul_(0.5)
        F.mse_loss(y, torch.eye(5)[:4]).backward()


os.chdir(HERE)
for tree in (tied, attention, clipped, overwritten, overwritten_result):
    torch.manual_seed(0)
    tree()
for tree, program in blocks.items():
    torch.manual_seed(0)
    block(tree, *program)
for tree, program in unwrittens.items():
    unwritten(tree, *program)
