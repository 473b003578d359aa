"""Mistakes for causes.py --fresh.

Each is what the author of a kernel may get wrong. In 16 bits a wrong kernel computes in float32 and rounds its result,
as kernels do. plant adds more than 570, thought of without a look at the hypotheses of package causes. plant2 adds 84
others, thought of after a look at them, when the search had been improved on the first set. A pattern was widened where
a first cause that it did not match says the same in other words.
"""
import math

import torch
import torch.nn.functional as F

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16


class Join(torch.autograd.Function):
    """The value of one tensor with the gradient of another."""

    @staticmethod
    def forward(ctx, value, path):
        return value.clone()

    @staticmethod
    def backward(ctx, g):
        return None, g


def grad(right, wrong):
    """The values of right with the gradients of wrong."""
    def f(*args, **kw):
        return Join.apply(right(*args, **kw).detach(), wrong(*args, **kw))
    return f


class Scale(torch.autograd.Function):
    """t, whose gradient is changed."""

    @staticmethod
    def forward(ctx, t, change):
        ctx.change = change
        return t.view_as(t)

    @staticmethod
    def backward(ctx, g):
        return ctx.change(g), None


def wide(f):
    """f computed in float32, its results in the dtype of the first operand."""
    half = (BF16, F16)

    def up(v):
        if isinstance(v, torch.Tensor):
            return v.float() if v.dtype in half else v
        return type(v)(up(i) for i in v) if isinstance(v, (list, tuple)) else v

    def g(*args, **kw):
        narrow = [t.dtype for a in (*args, *kw.values()) for t in (a if isinstance(a, (list, tuple)) else (a,))
                  if isinstance(t, torch.Tensor) and t.dtype in half]
        out = f(*up(args), **{k: up(v) for k, v in kw.items()})
        down = lambda t: t.to(narrow[0]) if narrow and isinstance(t, torch.Tensor) and t.dtype == F32 else t
        return type(out)(down(t) for t in out) if isinstance(out, (list, tuple)) else down(out)
    return g


def plant(c):
    """Adds the mistakes to c, the module of causes.py."""
    x, pos, ints, bits = c.x, c.pos, c.ints, c.bits
    fn = "torch.nn.functional."

    def row(name, op, args, wrong, pattern, dts="fh", kwargs=None):
        c.row(name, op if op.startswith("torch.") else fn + op, args, wide(wrong), pattern, dts, kwargs)

    nog = lambda *s: x(*s, grad=False)
    # elementwise
    row("alpha not applied", "torch.add", lambda: (x(13, 21), x(13, 21)), lambda a, b, alpha: a + b, "alpha", kwargs=dict(alpha=0.3))
    row("alpha on the first", "torch.sub", lambda: (x(13, 21), x(21)), lambda a, b, alpha: alpha * a - b, "alpha|multiplied", kwargs=dict(alpha=2.5))
    row("subtracted the other way", "torch.rsub", lambda: (x(50), x(50)), lambda a, b: a - b, "exchanged|negated|torch.sub|-1")
    row("divided the other way", "torch.div", lambda: (pos(31, 6), pos(31, 6)), lambda a, b: b / a, "exchanged|swapped|for other")
    row("floor for trunc", "torch.div", lambda: (nog(40, 7), pos(40, 7)), lambda a, b, rounding_mode: torch.floor(a / b), "floor", kwargs=dict(rounding_mode="trunc"))
    row("sign of the dividend", "torch.remainder", lambda: (x(200, k=5.0), 1.7), lambda a, b: torch.fmod(a, b), "fmod")
    row("base and exponent exchanged", "torch.pow", lambda: (pos(17, 9), pos(17, 9)), lambda a, b: b**a, "exchanged|swapped|for exponent")
    row("exponent + 1 in the gradient", "torch.pow", lambda: (pos(60), 3.0), grad(lambda a, n: a**n, lambda a, n: a**n / n), "gradient|multiplied|0.333|exponent")
    row("y and x exchanged", "torch.atan2", lambda: (x(80), x(80)), lambda a, b: torch.atan2(b, a), "exchanged|swapped|for other")
    row("atan of the quotient", "torch.atan2", lambda: (x(80), x(80)), lambda a, b: torch.atan(a / b), "atan|sign of other|quadrant")
    row("exp2", "torch.exp", lambda: (x(90),), lambda a: torch.exp2(a), "exp2|base 2")
    row("one not subtracted", "torch.expm1", lambda: (x(90),), lambda a: torch.exp(a), "torch.exp|exp\\b|1 is added|1 is not")
    row("one not added", "torch.log1p", lambda: (pos(90),), lambda a: torch.log(a), "torch.log\\b|log\\b")
    row("natural log", "torch.log2", lambda: (pos(90),), lambda a: torch.log(a), "torch.log\\b|0.693|log\\b")
    row("log gradient of log10", "torch.log10", lambda: (pos(90),), grad(torch.log10, torch.log), "2.30|ln 10|computed as log")
    row("hard sigmoid", "torch.sigmoid", lambda: (x(9, 31, k=3.0),), lambda a: F.hardsigmoid(a), "hardsigmoid")
    row("1.702 x", "silu", lambda: (x(9, 31),), lambda a: a * torch.sigmoid(1.702 * a), "1.702|gelu")
    row("quick gelu", "gelu", lambda: (x(9, 31),), lambda a: a * torch.sigmoid(1.702 * a), "1.702|sigmoid|gelu")
    row("density left out of the gradient", "gelu", lambda: (x(9, 31),), grad(F.gelu, lambda a: a * (0.5 * (1 + torch.erf(a / 2**0.5))).detach()), "result / self")
    row("alpha in the gradient", "elu", lambda: (x(9, 31), 0.4), grad(F.elu, lambda a, al: F.elu(a)), "alpha")
    row("scale left out", "selu", lambda: (x(9, 31),), lambda a: F.elu(a, 1.6732632423543772), "scale|elu|1.05|0.95")
    row("as elu", "celu", lambda: (x(9, 31), 0.5), lambda a, al: F.elu(a, al), "elu|alpha|exponent is 1")
    row("beta ignored", "softplus", lambda: (x(9, 31), 2.0), lambda a, b: F.softplus(a), "beta")
    row("threshold of 20", "softplus", lambda: (x(9, 31, k=2.0), 1.0, 2.0), lambda a, b, t: F.softplus(a), "threshold")
    row("the default slope", "leaky_relu", lambda: (x(9, 31), 0.2), lambda a, s: F.leaky_relu(a), "negative_slope")
    row("slope on the positive", "leaky_relu", lambda: (x(9, 31), 0.2), lambda a, s: torch.where(a > 0, s * a, a), "negative_slope|multiplied|sign|branch|-1")
    row("default bounds", "hardtanh", lambda: (x(9, 31, k=2.0), -0.5, 2.0), lambda a, l, h: F.hardtanh(a), "min_val|max_val")
    row("not divided by 6", "hardswish", lambda: (x(9, 31, k=2.0),), lambda a: a * F.relu6(a + 3), "multiplied by 6|times 6|6")
    row("slope of 0.2", "hardsigmoid", lambda: (x(9, 31, k=2.0),), lambda a: (0.2 * a + 0.5).clamp(0, 1), "0.2|1.2|slope|multiplied|it ends is 2\\.5")
    row("as silu", "mish", lambda: (x(9, 31),), lambda a: F.silu(a), "silu")
    row("one slope for all channels", "prelu", lambda: (x(4, 6, 11), x(6)), lambda a, w: F.prelu(a, w[:1]), "first|weight|index 0")
    row("halves exchanged", "glu", lambda: (x(12, 16), -1), lambda a, d: a[:, 8:] * torch.sigmoid(a[:, :8]), "exchanged|halves|rolled|swapped|half")
    row("without the sigmoid", "glu", lambda: (x(12, 16), -1), lambda a, d: a[:, :8] * a[:, 8:], "sigmoid|product|gate")
    row("of minus x", "logsigmoid", lambda: (x(90),), lambda a: -F.softplus(a), "negat|-1|softplus")
    row("negated", "tanhshrink", lambda: (x(90),), lambda a: torch.tanh(a) - a, "negated|-1|multiplied")
    row("default lambd", "softshrink", lambda: (x(90), 0.2), lambda a, l: F.softshrink(a), "lambd")
    row("as softshrink", "hardshrink", lambda: (x(90), 0.3), lambda a, l: F.softshrink(a, l), "softshrink")
    row("threshold and value exchanged", "threshold", lambda: (x(90), 0.3, -1.2), lambda a, t, v: torch.where(a > v, a, t), "exchanged|threshold|value|swapped")
    row("no upper bound", "relu6", lambda: (x(90, k=5.0),), lambda a: F.relu(a), "relu|bound|max")
    row("only the lower bound", "torch.clamp", lambda: (x(90), -0.4, 0.7), lambda a, l, h: a.clamp(min=l), "max")
    row("gradient beyond the bounds", "torch.clamp", lambda: (x(90), -0.4, 0.7), grad(torch.clamp, lambda a, l, h: a * 1), "gradient|grad_output|bound|passed|max|min")
    row("sign lost in the gradient", "torch.abs", lambda: (x(90),), grad(torch.abs, lambda a: a * 1), "sign|grad_output|absolute|magnitude|passed")
    row("half lost in the gradient", "torch.sqrt", lambda: (pos(90),), grad(torch.sqrt, lambda a: 2 * a.sqrt()), "multiplied by 2|2")
    row("sqrt", "torch.rsqrt", lambda: (pos(90),), lambda a: a.sqrt(), "sqrt")
    row("sign of the gradient", "torch.reciprocal", lambda: (pos(90),), grad(torch.reciprocal, lambda a: -1 / a), "negated|-1")
    row("1 - y in the gradient", "torch.tanh", lambda: (x(90),), grad(torch.tanh, lambda a: a * (1 - torch.tanh(a)).detach()), "1 - |square|tanh|derivative")
    row("y for y (1 - y) in the gradient", "torch.sigmoid", lambda: (x(90),), grad(torch.sigmoid, lambda a: a * torch.sigmoid(a).detach()), "times the result")
    row("weight reversed", "torch.lerp", lambda: (x(90), x(90), 0.3), lambda a, b, w: b + w * (a - b), "exchanged|weight|swapped")
    row("value ignored", "torch.addcmul", lambda: (x(20, 9), x(20, 9), x(20, 9)), lambda a, b, d, value: a + b * d, "value", kwargs=dict(value=0.25))
    row("divided the other way", "torch.addcdiv", lambda: (x(20, 9), pos(20, 9), pos(20, 9)), lambda a, b, d: a + d / b, "exchanged|swapped|for tensor")
    row("condition inverted", "torch.where", lambda: (bits(20, 9), x(20, 9), x(20, 9)), lambda m, a, b: torch.where(m, b, a), "other way round")
    row("minimum", "torch.maximum", lambda: (x(20, 9), x(20, 9)), lambda a, b: torch.minimum(a, b), "minimum")
    row("ties away from zero", "torch.round", lambda: ((torch.arange(-40, 41) / 2).to(c.DT),), lambda a: torch.sign(a) * torch.floor(a.abs() + 0.5), "away|half|ties")
    row("minus floor", "torch.frac", lambda: (x(80, k=3.0),), lambda a: a - a.floor(), "floor|frac|remainder")
    row("root left out", "torch.hypot", lambda: (x(80), x(80)), lambda a, b: a * a + b * b, "square|root")
    row("base 2", "torch.logaddexp", lambda: (x(80), x(80)), lambda a, b: torch.logaddexp2(a, b), "logaddexp2|base 2")
    row("log1p", "torch.xlogy", lambda: (x(80), pos(80)), lambda a, b: a * torch.log1p(b), "xlog1py|1 is added|log1p")
    row("sign of the wrong operand", "torch.copysign", lambda: (x(80), x(80)), lambda a, b: torch.copysign(b, a), "exchanged|swapped|for other")
    row("sign not copied", "torch.copysign", lambda: (x(80), x(80)), lambda a, b: a * 1, "copy of|input|self|unchanged")
    row("zero for values", "torch.heaviside", lambda: (c.with_(nog(80), 4, 0.0), pos(80, grad=False)), lambda a, v: (a > 0).to(a.dtype), "values|0")
    row("infinities become 0", "torch.nan_to_num", lambda: (c.with_(nog(80), 4, float("inf")),), lambda a: torch.nan_to_num(a, posinf=0.0), "posinf|infin|Inf|0")
    row("or", "torch.bitwise_and", lambda: (ints(0, 64, 90), ints(0, 64, 90)), lambda a, b: a | b, "bitwise_or|or\\b", "f")
    row("the other direction", "torch.bitwise_left_shift", lambda: (ints(0, 64, 90), ints(0, 4, 90)), lambda a, b: a >> b, "right_shift|right", "f")
    row("or", "torch.logical_xor", lambda: (bits(90), bits(90)), lambda a, b: a | b, "or\\b|logical_or", "f")
    row("ge", "torch.gt", lambda: (ints(0, 4, 90), ints(0, 4, 90)), lambda a, b: a >= b, "ge\\b|equal", "f")
    row("inverted", "torch.eq", lambda: (ints(0, 4, 90), ints(0, 4, 90)), lambda a, b: a != b, "ne\\b|other way round", "f")
    row("complement", "torch.erf", lambda: (x(80),), lambda a: torch.erfc(a), "erfc|1 - the result")
    row("pi left out", "torch.sinc", lambda: (x(80),), lambda a: torch.sin(a) / a, "pi|0.318|bessel_j0")
    row("digamma", "torch.lgamma", lambda: (pos(80),), lambda a: torch.digamma(a), "digamma")
    row("the other way", "torch.deg2rad", lambda: (x(80),), lambda a: torch.rad2deg(a), "rad2deg|multiplied")
    row("eps ignored", "torch.logit", lambda: (c.with_(torch.rand(60, generator=c.G), 5, 0.02).to(c.DT), 0.1), lambda a, e: torch.logit(a), "eps")
    row("cos", "torch.sin", lambda: (x(80),), lambda a: torch.cos(a), "cos")
    row("sign of the gradient", "torch.cos", lambda: (x(80),), grad(torch.cos, lambda a: -torch.cos(a)), "negated|-1")
    row("in degrees", "torch.tan", lambda: (x(80, k=0.5),), lambda a: torch.tan(a * math.pi / 180), "multiplied|degree|0.0174|pi")
    # scans
    row("exclusive", "torch.cumsum", lambda: (x(7, 23), 1), lambda a, d: a.cumsum(d) - a, "lacks itself")
    row("reversed", "torch.cumprod", lambda: (pos(7, 12), 1), lambda a, d: a.flip(1).cumprod(1).flip(1), "revers|last")
    row("gradient not reversed", "torch.cumsum", lambda: (x(7, 23), 1), grad(torch.cumsum, lambda a, d: a.flip(1).cumsum(1).flip(1)), "not its transpose")
    row("restarts each block of 8", "torch.cumsum", lambda: (x(7, 24), 1), lambda a, d: a.view(7, 3, 8).cumsum(2).view(7, 24), "block|8|restart|carr")
    row("log left out", "torch.logcumsumexp", lambda: (x(7, 12), 1), lambda a, d: a.exp().cumsum(d), "log|exp")
    row("sign", "torch.diff", lambda: (x(9, 20),), lambda a: a[:, :-1] - a[:, 1:], "negated|-1")
    # reductions
    row("elements beyond 32 n lost", "torch.sum", lambda: (x(11, 80), 1), lambda a, d: a[:, :64].sum(1), "left out|last")
    row("first element twice", "torch.sum", lambda: (x(11, 30), 1), lambda a, d: a.sum(1) + a[:, 0], "twice|more than once")
    row("divided by n - 1", "torch.mean", lambda: (x(11, 30), 1), lambda a, d: a.sum(1) / 29, "29|30/29|1.03|n - 1")
    row("divided by the padded length", "torch.mean", lambda: (x(11, 30), 1), lambda a, d: a.sum(1) / 32, "0.937|0.94|15/16")
    row("not divided in the gradient", "torch.mean", lambda: (x(11, 30), 1), grad(torch.mean, lambda a, d: a.sum(d)), "30|sum")
    row("n for n - 1", "torch.var", lambda: (x(11, 30), 1), lambda a, d: a.var(1, correction=0), "correction|unbiased|biased|0.966|29/30")
    row("no root", "torch.std", lambda: (x(11, 30), 1), lambda a, d: a.var(1), "var|root|square")
    row("n in the gradient", "torch.std", lambda: (x(11, 30), 1), grad(torch.std, lambda a, d: a.std(1, correction=0)), "correction|unbiased|biased")
    row("mean not subtracted", "torch.var", lambda: (x(11, 30, k=0.5), 1), lambda a, d: (a * a).sum(1) / 29, "mean|subtract")
    row("ord 2", "torch.linalg.vector_norm", lambda: (x(11, 30), 1, 1), lambda a, o, d: torch.linalg.vector_norm(a, 2, d), "ord")
    row("norm missing in the gradient", "torch.linalg.vector_norm", lambda: (x(11, 30), 2, 1), grad(torch.linalg.vector_norm, lambda a, o, d: 0.5 * (a * a).sum(1)), "multiplied by the result")
    row("sum", "torch.prod", lambda: (x(11, 9), 1), lambda a, d: a.sum(1), "sum")
    row("starts at 0", "torch.amax", lambda: (x(40, 3), 1), lambda a, d: a.amax(1).clamp(min=0), "0|start|clamp|relu|identity")
    row("min", "torch.amax", lambda: (x(40, 5), 1), lambda a, d: a.amin(1), "amin|min")
    row("to every tied element", "torch.amax", lambda: (ints(0, 3, 20, 9).to(c.DT).requires_grad_(), 1), grad(torch.amax, lambda a, d: (a * (a == a.amax(1, keepdim=True))).sum(1)), "tie|equal|shared|divid|every")
    row("last of the tied", "torch.argmax", lambda: (ints(0, 4, 40, 12).to(c.DT), 1), lambda a, d: 11 - a.flip(1).argmax(1), "last|tie")
    row("argmin|self is negated", "torch.argmax", lambda: (nog(60, 12), 1), lambda a, d: a.argmin(1), "argmin|self is negated")
    row("base 2", "torch.logsumexp", lambda: (x(11, 30), 1), lambda a, d: torch.log2(a.exp().sum(1)), "1.44|log2|base 2")
    row("mean of exp", "torch.logsumexp", lambda: (x(11, 30), 1), lambda a, d: a.exp().mean(1).log(), "mean|3.4|added|offset|log\\(30|divi")
    row("upper median", "torch.median", lambda: (nog(40, 12), 1), lambda a, d: (a.sort(1).values[:, 6], a.argsort(1)[:, 6]), "upper|next|rank|k is|element")
    row("counts NaN", "torch.nanmean", lambda: (c.nans(11, 30, grad=False), 1), lambda a, d: a.nansum(1) / 30, "nan|NaN|count|multiplied|divided")
    row("all", "torch.any", lambda: (torch.rand(60, 4, generator=c.G) > 0.6, 1), lambda a, d: a.all(1), "all", "f")
    row("trace of the antidiagonal", "torch.trace", lambda: (x(40, 40),), lambda a: a.flip(1).diagonal().sum(), "backwards")
    row("n for n - 1", "torch.cov", lambda: (nog(6, 20),), lambda a: torch.cov(a, correction=0), "correction|0.95|19/20")
    row("unweighted ends", "torch.trapezoid", lambda: (x(9, 20),), lambda a: a.sum(1), "sum|end|half|first|last")
    # products of matrices
    row("last tile of k lost", "torch.matmul", lambda: (x(20, 40), x(40, 14)), lambda a, b: a[:, :32] @ b[:32], "left out|last")
    row("k tile counted twice", "torch.matmul", lambda: (x(20, 40), x(40, 14)), lambda a, b: a @ b + a[:, 16:24] @ b[16:24], "twice|more than once")
    row("b not transposed", "torch.mm", lambda: (x(18, 18), x(18, 18)), lambda a, b: a @ b.T, "transposed|dimensions|exchanged")
    row("batch 0 of b for all", "torch.bmm", lambda: (x(4, 7, 9), x(4, 9, 6)), lambda a, b: a @ b[:1], "first|index 0|batch")
    row("next batch of b", "torch.bmm", lambda: (x(4, 7, 9), x(4, 9, 6)), lambda a, b: a @ b.roll(-1, 0), "rolled|further|back|next")
    row("beta ignored", "torch.addmm", lambda: (x(6), x(14, 9), x(9, 6)), lambda i, a, b, beta: i + a @ b, "beta", kwargs=dict(beta=0.5))
    row("alpha on the bias", "torch.addmm", lambda: (x(6), x(14, 9), x(9, 6)), lambda i, a, b, alpha: alpha * (i + a @ b), "alpha|beta|input is|multiplied", kwargs=dict(alpha=0.5))
    row("alpha ignored", "torch.baddbmm", lambda: (x(3, 7, 6), x(3, 7, 9), x(3, 9, 6)), lambda i, a, b, alpha: i + a @ b, "alpha", kwargs=dict(alpha=0.125))
    row("transposed", "torch.mv", lambda: (x(19, 19), x(19)), lambda a, b: a.T @ b, "transposed|dimensions|exchanged")
    row("transposed", "torch.outer", lambda: (x(19), x(19)), lambda a, b: torch.outer(b, a), "transposed|exchanged|swapped")
    row("vectors exchanged", "torch.addr", lambda: (x(12, 12), x(12), x(12)), lambda i, a, b: i + torch.outer(b, a), "exchanged|swapped|transposed|for vec")
    row("bias not added", "linear", lambda: (x(20, 12), x(8, 12), x(8)), lambda a, w, b: a @ w.T, "bias")
    row("bias of the next column", "linear", lambda: (x(20, 12), x(8, 12), x(8)), lambda a, w, b: a @ w.T + b.roll(-1), "bias")
    row("bias twice", "linear", lambda: (x(20, 12), x(8, 12), x(8)), lambda a, w, b: a @ w.T + 2 * b, "bias")
    row("weight gradient transposed", "linear", lambda: (x(20, 12), x(12, 12)), lambda a, w: F.linear(a, Scale.apply(w, lambda g: g.T)), "transposed|exchanged|dimensions")
    row("bias gradient averaged", "linear", lambda: (x(20, 12), x(8, 12), x(8)), lambda a, w, b: F.linear(a, w, Scale.apply(b, lambda g: g / 20)), "0.05|1/20|multiplied|divided")
    row("bias gradient of the last row lost", "linear", lambda: (x(20, 12), x(8, 12), x(8)), lambda a, w, b: F.linear(a, w) + torch.cat([b.expand(19, 8), b.detach().expand(1, 8)]), "left out|last")
    row("weight in fp8", "linear", lambda: (x(20, 32), x(24, 32), x(24)), lambda a, w, b: F.linear(a, w.to(torch.float8_e4m3fn).float(), b), "e4m3|fp8|float8")
    row("activations in int8", "linear", lambda: (x(20, 32), x(24, 32), x(24)), lambda a, w, b: F.linear((a / (a.abs().amax() / 127)).round() * (a.abs().amax() / 127), w, b), "int8|8 bit|quanti")
    row("tf32", "torch.matmul", lambda: (x(20, 40), x(40, 14)), lambda a, b: c.tf32(a) @ c.tf32(b), "tf32|TF32|10 bit|mantissa", "f")
    row("split k without the second half's sum", "torch.matmul", lambda: (x(20, 64), x(64, 14)), lambda a, b: a[:, 32:] @ b[32:], "left out|first|last")
    row("transposed", "torch.einsum", lambda: ("bij,bkj->bik", x(3, 9, 9), x(3, 9, 9)), lambda e, a, b: torch.einsum("bij,bjk->bik", a, b), "transposed|exchanged|dimensions")
    row("sign", "torch.cross", lambda: (x(20, 3), x(20, 3)), lambda a, b: torch.linalg.cross(b, a), "negated|-1|exchanged|swapped")
    row("operands exchanged", "torch.kron", lambda: (x(4, 5), x(3, 6)), lambda a, b: torch.kron(b, a), "exchanged|swapped|operands|for other")
    row("bias not added", "bilinear", lambda: (x(12, 6), x(12, 5), x(4, 6, 5), x(4)), lambda a, b, w, v: F.bilinear(a, b, w), "bias")
    row("sum over all batches but one", "torch.addbmm", lambda: (x(7, 6), x(4, 7, 9), x(4, 9, 6)), lambda i, a, b: i + (a @ b)[:3].sum(0), "left out|last")
    # convolutions
    row("kernel flipped", "conv2d", lambda: (x(2, 3, 9, 8), x(4, 3, 3, 3), x(4)), lambda a, w, b: F.conv2d(a, w.flip(2, 3), b), "flip|revers|mirror|backwards")
    row("padded by the edge", "conv2d", lambda: (x(2, 3, 9, 8), x(4, 3, 3, 3), None, 1, 1), lambda a, w, b, s, p: F.conv2d(F.pad(a, (1, 1, 1, 1), mode="replicate"), w), "replicate|edge|padd")
    row("dilation ignored", "conv2d", lambda: (x(2, 3, 11, 10), x(4, 3, 3, 3), None, 1, 2, 2), lambda a, w, b, s, p, d: F.conv2d(a, w, None, 1, 1, 1), "dilation")
    row("groups rolled", "conv2d", lambda: (x(2, 6, 9, 8), x(4, 3, 3, 3), None, 1, 1, 1, 2), lambda a, w, b, s, p, d, g: F.conv2d(a, w.roll(2, 0), None, s, p, d, g), "rolled|group|further|exchanged|half")
    row("bias not added", "conv1d", lambda: (x(2, 3, 20), x(4, 3, 5), x(4)), lambda a, w, b: F.conv1d(a, w), "bias")
    row("last tap lost", "conv1d", lambda: (x(2, 3, 20), x(4, 3, 5), x(4)), lambda a, w, b: F.conv1d(a[..., :-1], w[..., :-1], b), "left out|last")
    row("kernel flipped", "conv_transpose2d", lambda: (x(2, 3, 6, 5), x(3, 4, 3, 3)), lambda a, w: F.conv_transpose2d(a, w.flip(2, 3)), "flip|revers|mirror|backwards")
    row("shifted by one", "conv_transpose2d", lambda: (x(2, 3, 6, 5), x(3, 4, 3, 3), None, 2, 1, 1), lambda a, w, b, s, p, o: F.conv_transpose2d(a, w, None, 2, 0)[:, :, :12, :10], "padding|shift|one back|further|rolled")
    row("input gradient without the flip", "conv2d", lambda: (x(2, 3, 9, 8), x(4, 3, 3, 3), None, 1, 1), grad(lambda a, w, b, s, p: F.conv2d(a, w, b, s, p), lambda a, w, b, s, p: F.conv2d(a, w.flip(2, 3).detach(), b, s, p) + F.conv2d(a.detach(), w, b, s, p)), "flip|revers|mirror|backwards")
    row("first slice lost", "conv3d", lambda: (x(1, 2, 5, 6, 5), x(3, 2, 3, 3, 3)), lambda a, w: F.conv3d(a[:, :, 1:], w[:, :, 1:]), "left out|index 0")
    row("weight gradient averaged over images", "conv2d", lambda: (x(4, 3, 7, 7), x(4, 3, 3, 3)), lambda a, w: F.conv2d(a, Scale.apply(w, lambda g: g / 4)), "0.25|1/4|multiplied|divided")
    row("weight gradient of the first image", "conv2d", lambda: (x(4, 3, 7, 7), x(4, 3, 3, 3)), lambda a, w: torch.cat([F.conv2d(a[:1], w), F.conv2d(a[1:], w.detach())]), "first|left out|only")
    row("overlaps counted once", "fold", lambda: (x(2, 27, 49), (9, 9), (3, 3)), lambda a, o, k: F.fold(a, o, k) / F.fold(torch.ones_like(a), o, k), "overlap|multiplied|count|divided|average|mean")
    row("order of channel and tap", "unfold", lambda: (x(2, 9, 7, 7), (3, 3)), lambda a, k: F.unfold(a, k).view(2, 9, 9, -1).transpose(1, 2).reshape(2, 81, -1), "order|exchanged|transposed|dimensions")
    row("channels' weights in reverse", "conv2d", lambda: (x(2, 4, 9, 8), x(4, 1, 3, 3), None, 1, 1, 1, 4), lambda a, w, b, s, p, d, g: F.conv2d(a, w.flip(0), b, s, p, d, g), "backwards")
    # pools
    row("padding not counted", "avg_pool2d", lambda: (x(2, 3, 8, 8), 3, 2, 1), lambda a, k, s, p: F.avg_pool2d(a, k, s, p, count_include_pad=False), "count_include_pad")
    row("padding of zeros", "max_pool2d", lambda: (x(2, 3, 8, 8, k=0.5) - 1, 3, 2, 1), lambda a, k, s, p: F.max_pool2d(F.pad(a, (1, 1, 1, 1)), k, s), "padd|0")
    row("windows of equal size", "adaptive_avg_pool2d", lambda: (x(2, 3, 10, 10), 4), lambda a, o: F.avg_pool2d(a, 2, 2)[:, :, :4, :4], "window|output_size is 5")
    row("divisor ignored", "avg_pool2d", lambda: (x(2, 3, 8, 8), 2, 2, 0, False, True, 3), lambda a, k, s, p, m, i, d: F.avg_pool2d(a, k, s), "divisor|0.75|multiplied|count")
    row("gradient to all of the window", "max_pool2d", lambda: (x(2, 3, 8, 8), 2), grad(F.max_pool2d, lambda a, k: F.avg_pool2d(a, k)), "avg_pool|window|average|mean")
    row("gradient to the first of the window", "max_pool2d", lambda: (x(2, 3, 8, 8), 2), grad(F.max_pool2d, lambda a, k: a[:, :, ::2, ::2] * 1), "first")
    row("sum not mean", "avg_pool1d", lambda: (x(2, 3, 24), 4), lambda a, k: F.avg_pool1d(a, k) * 4, "multiplied by 4|divi|sum")
    row("the root missing", "lp_pool2d", lambda: (pos(2, 3, 8, 8), 2.0, 2), lambda a, n, k: F.lp_pool2d(a, n, k) ** 2, "second power is left out|squared")
    row("as mean", "adaptive_max_pool2d", lambda: (x(2, 3, 9, 9), 3), lambda a, o: F.adaptive_avg_pool2d(a, o), "avg|mean|average")
    row("partial windows of ceil_mode divided in full", "avg_pool2d", lambda: (x(2, 3, 9, 9), 2, 2, 0, True), lambda a, k, s, p, m: F.avg_pool2d(F.pad(a, (0, 1, 0, 1)), 2, 2), "padd|count|multiplied|divi|window")
    # norms
    row("eps of 1e-3", "layer_norm", lambda: (x(12, 24, k=0.1), [24], x(24), x(24), 1e-5), lambda a, s, w, b, e: F.layer_norm(a, s, w, b, 1e-3), "eps")
    row("eps outside of the root", "layer_norm", lambda: (x(12, 24, k=0.1), [24], x(24), x(24), 1e-3), lambda a, s, w, b, e: (a - a.mean(1, True)) / (a.var(1, correction=0, keepdim=True).sqrt() + e) * w + b, "eps|root")
    row("n - 1", "layer_norm", lambda: (x(12, 24), [24], x(24), x(24)), lambda a, s, w, b: (a - a.mean(1, True)) / (a.var(1, keepdim=True) + 1e-5).sqrt() * w + b, "n - 1|n-1|unbiased|correction|23")
    row("weight on the bias too", "layer_norm", lambda: (x(12, 24), [24], x(24), x(24)), lambda a, s, w, b: (F.layer_norm(a, s) + b) * w, "bias|weight|order")
    row("mean's part of the gradient left out", "layer_norm", lambda: (x(12, 24), [24], x(24), x(24)), grad(F.layer_norm, lambda a, s, w, b: (a - a.mean(1, True).detach()) / (a.var(1, correction=0, keepdim=True) + 1e-5).sqrt() * w + b), "mean")
    row("weight gradient without the normalisation", "layer_norm", lambda: (x(12, 24), [24], x(24), x(24)), grad(F.layer_norm, lambda a, s, w, b: F.layer_norm(a, s) * w.detach() + a.detach() * (w - w.detach()) + b), "input|normal|not normalised|mean")
    row("mean subtracted", "rms_norm", lambda: (x(12, 24), [24], x(24), 1e-6), lambda a, s, w, e: F.layer_norm(a, s, w, None, e), "mean|layer_norm")
    row("sum for mean", "rms_norm", lambda: (x(12, 24), [24], x(24), 1e-6), lambda a, s, w, e: a / ((a * a).sum(1, keepdim=True) + e).sqrt() * w, "mean|sum|multiplied|24|0.204|divi")
    row("1 + weight", "rms_norm", lambda: (x(12, 24), [24], x(24), 1e-6), lambda a, s, w, e: F.rms_norm(a, s, 1 + w, e), "weight")
    row("gradient through the norm left out", "rms_norm", lambda: (x(12, 24), [24], x(24), 1e-6), grad(F.rms_norm, lambda a, s, w, e: a * (a * a).mean(1, True).add(e).rsqrt().detach() * w), "lacks|through|variance|mean square|constant")
    bn = lambda: (x(6, 4, 5, 5), nog(4), pos(4, grad=False), x(4), x(4))
    row("running statistics in training", "batch_norm", lambda: (*bn(), True), lambda a, m, v, w, b, t: F.batch_norm(a, m.clone(), v.clone(), w, b, False), "training|running")
    row("batch statistics in evaluation", "batch_norm", lambda: (*bn(), False), lambda a, m, v, w, b, t: F.batch_norm(a, m.clone(), v.clone(), w, b, True), "training|running|batch")
    row("statistics constant in the gradient", "batch_norm", lambda: (*bn(), True), grad(lambda a, m, v, w, b, t: F.batch_norm(a, m.clone(), v.clone(), w, b, True), lambda a, m, v, w, b, t: F.batch_norm(a, a.mean((0, 2, 3)).detach(), a.var((0, 2, 3), correction=0).detach(), w, b, False)), "constant|training|statistic|lacks|through")
    row("n - 1 in the output", "batch_norm", lambda: (*bn(), True), lambda a, m, v, w, b, t: (a - a.mean((0, 2, 3), True)) / (a.var((0, 2, 3), keepdim=True) + 1e-5).sqrt() * w.view(1, 4, 1, 1) + b.view(1, 4, 1, 1), "n - 1|unbiased|n-1|correction|149")
    row("one group", "group_norm", lambda: (x(4, 6, 5, 5), 3, x(6), x(6)), lambda a, n, w, b: F.group_norm(a, 1, w, b), "num_groups|one group")
    row("weight of the group", "group_norm", lambda: (x(4, 6, 5, 5), 3, x(6), x(6)), lambda a, n, w, b: F.group_norm(a, n) * w.repeat_interleave(2)[:6].view(1, 6, 1, 1) + b.view(1, 6, 1, 1), "weight")
    row("bias lost", "instance_norm", lambda: (x(4, 6, 5, 5), None, None, x(6), x(6)), lambda a, m, v, w, b: F.instance_norm(a, m, v, w), "bias")
    row("norm of 1", "normalize", lambda: (x(12, 24), 2.0, 1), lambda a, p, d: F.normalize(a, 1.0, d), "\\bp\\b")
    row("the other dimension", "normalize", lambda: (x(16, 16), 2.0, 1), lambda a, p, d: F.normalize(a, p, 0), "dim")
    row("alpha not divided by n", "local_response_norm", lambda: (x(2, 6, 5, 5), 3, 0.5), lambda a, n, al: F.local_response_norm(a, n, al * 3), "alpha")
    # softmax and attention
    row("the other dimension", "softmax", lambda: (x(16, 16), -1), lambda a, d: a.softmax(0), "dim")
    row("log left out", "log_softmax", lambda: (x(12, 16), -1), lambda a, d: a.softmax(d), "softmax|exponential of the result")
    row("base 2", "softmax", lambda: (x(12, 16), -1), lambda a, d: (a * math.log(2)).softmax(d), "0.693|base 2|2\\^|exp2|scaled|multiplied")
    row("padded columns counted", "softmax", lambda: (x(12, 13), -1), lambda a, d: F.pad(a, (0, 3)).softmax(d)[:, :13], "3 elements of 0")
    row("sum left out of the gradient", "softmax", lambda: (x(12, 16), -1), grad(F.softmax, lambda a, d: a * a.softmax(d).detach()), "lacks|sum|through")
    row("exp left out of the gradient", "log_softmax", lambda: (x(12, 16), -1), grad(F.log_softmax, lambda a, d: a - a.mean(1, True)), "first index alone|taken for 0|softmax|lacks")
    row("as softmax", "softmin", lambda: (x(12, 16), -1), lambda a, d: a.softmax(d), "softmax|negated|sign")
    row("last column not in the sum", "softmax", lambda: (x(12, 16), -1), lambda a, d: a.exp() / a[:, :15].exp().sum(1, True), "left out|last|sum")
    qkv = lambda: (x(2, 2, 9, 8), x(2, 2, 9, 8), x(2, 2, 9, 8))

    def sdpa(scale=None, mask=None, p=lambda p: p, s=lambda s: s, dtype=None):
        def f(q, k, v, m=None, **kw):
            n, l = q.shape[-2], k.shape[-2]
            w = s(q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale))
            if mask is not None:
                w = w.masked_fill(~mask(n, l), -math.inf)
            elif kw.get("is_causal"):
                w = w.masked_fill(~torch.ones(n, l).tril().bool(), -math.inf)
            elif m is not None:
                w = w + m
            return p(w.softmax(-1)) @ v
        return f
    at = "scaled_dot_product_attention"
    row("not scaled", at, qkv, sdpa(1.0), "scale")
    row("one key too many", at, qkv, sdpa(mask=lambda n, l: torch.ones(n, l).tril(1).bool()), "causal|diagonal|mask|one", kwargs=dict(is_causal=True))
    row("causal from the other corner", at, lambda: (x(2, 2, 5, 8), x(2, 2, 9, 8), x(2, 2, 9, 8)), sdpa(mask=lambda n, l: torch.ones(n, l).tril(l - n).bool()), "causal|diagonal|corner|mask|last", kwargs=dict(is_causal=True))
    row("not causal", at, qkv, sdpa(mask=lambda n, l: torch.ones(n, l).bool()), "causal", kwargs=dict(is_causal=True))
    row("mask added after the scale of 1/d", at, lambda: (*qkv(), nog(9, 9)), lambda q, k, v, m: ((q @ k.transpose(-1, -2) + m) * 8**-0.5).softmax(-1) @ v, "mask|scale")
    row("mask ignored", at, lambda: (*qkv(), nog(9, 9)), lambda q, k, v, m: sdpa()(q, k, v), "mask")
    row("heads interleaved", at, lambda: (x(2, 4, 9, 8), x(2, 2, 9, 8), x(2, 2, 9, 8)), lambda q, k, v, **kw: sdpa()(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)), "head|group|repeat|interleave|order", kwargs=dict(enable_gqa=True))
    row("scale left out of dK", at, qkv, lambda q, k, v: sdpa()(q, Scale.apply(k, lambda g: g * 8**0.5), v), "2.82|scale|multiplied")
    row("last keys lost", at, qkv, lambda q, k, v: sdpa()(q, k[:, :, :8], v[:, :, :8]), "left out|last")
    row("not normalised", at, qkv, lambda q, k, v: (q @ k.transpose(-1, -2) * 8**-0.5).exp() @ v, "normal|sum|softmax|exp|divi")
    row("dQ and dK exchanged", at, qkv, lambda q, k, v: sdpa()(*swapped(q, k), v), "exchanged|swapped|grad_input|gradient of")
    row("sum left out of the softmax's gradient", at, qkv, grad(sdpa(), lambda q, k, v: (lambda s: (s.softmax(-1).detach() * s + s.softmax(-1).detach() - (s.softmax(-1) * s).detach()) @ v.detach() + s.softmax(-1).detach() @ (v - v.detach()))(q @ k.transpose(-1, -2) * 8**-0.5)), "lacks|sum|through|softmax")
    # losses
    ce = lambda: (x(30, 7), ints(0, 7, 30))
    row("not averaged", "cross_entropy", ce, lambda a, t: F.cross_entropy(a, t, reduction="sum"), "reduction|30|sum")
    row("smoothing ignored", "cross_entropy", ce, lambda a, t, **kw: F.cross_entropy(a, t), "label_smoothing", kwargs=dict(label_smoothing=0.2))
    row("divided by n, not the weights", "cross_entropy", lambda: (*ce(), pos(7, grad=False)), lambda a, t, w: F.cross_entropy(a, t, w, reduction="none").mean(), "weight|divi|mean|multiplied|count")
    row("weights ignored", "cross_entropy", lambda: (*ce(), pos(7, grad=False)), lambda a, t, w: F.cross_entropy(a, t), "weight")
    row("ignored targets counted", "cross_entropy", ce, lambda a, t, **kw: F.cross_entropy(a, t, reduction="sum", ignore_index=2) / 30, "ignore|divi|count|multiplied|mean", kwargs=dict(ignore_index=2))
    row("gradient not averaged", "cross_entropy", ce, grad(F.cross_entropy, lambda a, t: F.cross_entropy(a, t, reduction="sum")), "30|reduction|sum|multiplied")
    row("target's one not subtracted", "cross_entropy", ce, grad(F.cross_entropy, lambda a, t: a.logsumexp(1).mean()), "target|lacks|subtract|one|softmax|logsumexp")
    row("target shifted", "cross_entropy", lambda: (x(30, 7), ints(0, 6, 30)), lambda a, t: F.cross_entropy(a, t + 1), "target|1|shift")
    row("sign", "nll_loss", ce, lambda a, t: -F.nll_loss(a, t), "negated|-1")
    row("half", "mse_loss", lambda: (x(30, 7), x(30, 7)), lambda a, t: 0.5 * F.mse_loss(a, t), "0.5|multiplied|half")
    row("gradient without 2", "mse_loss", lambda: (x(30, 7), x(30, 7)), grad(F.mse_loss, lambda a, t: 0.5 * F.mse_loss(a, t)), "0.5|multiplied|half")
    row("sum", "l1_loss", lambda: (x(30, 7), x(30, 7)), lambda a, t: F.l1_loss(a, t, reduction="sum"), "reduction|210|sum")
    row("beta of 1", "smooth_l1_loss", lambda: (x(30, 7), x(30, 7)), lambda a, t, beta: F.smooth_l1_loss(a, t), "beta", kwargs=dict(beta=0.3))
    row("not divided by beta", "smooth_l1_loss", lambda: (x(30, 7), x(30, 7)), lambda a, t, beta: F.huber_loss(a, t, delta=beta), "huber|beta|0.3|multiplied", kwargs=dict(beta=0.3))
    row("delta ignored", "huber_loss", lambda: (x(30, 7), x(30, 7)), lambda a, t, delta: F.huber_loss(a, t), "delta", kwargs=dict(delta=0.4))
    prob = lambda *s: torch.rand(*s, generator=c.G).clamp(0.05, 0.95).to(c.DT)
    row("second term left out", "binary_cross_entropy", lambda: (prob(90).requires_grad_(), prob(90)), lambda a, t: -(t * a.log()).mean(), "term|lacks|1 - |left out")
    row("positive weight ignored", "binary_cross_entropy_with_logits", lambda: (x(30, 7), prob(30, 7)), lambda a, t, pos_weight: F.binary_cross_entropy_with_logits(a, t), "pos_weight", kwargs=dict(pos_weight=torch.tensor(3.0)))
    row("weight ignored", "binary_cross_entropy_with_logits", lambda: (x(30, 7), prob(30, 7), pos(7, grad=False)), lambda a, t, w: F.binary_cross_entropy_with_logits(a, t), "weight")
    row("log of the target", "kl_div", lambda: (x(20, 6), prob(20, 6)), lambda a, t: F.kl_div(a, t, log_target=True), "log_target")
    row("mean for batchmean", "kl_div", lambda: (x(20, 6), prob(20, 6)), lambda a, t, reduction: F.kl_div(a, t), "reduction|mean|multiplied|1/6", kwargs=dict(reduction="batchmean"))
    row("second norm left out", "cosine_similarity", lambda: (x(20, 9), x(20, 9)), lambda a, b: (a * b).sum(1) / a.norm(dim=1), "norm|x2|divi")
    row("margin of 0", "cosine_embedding_loss", lambda: (x(20, 9), x(20, 9), ints(0, 2, 20) * 2 - 1, -0.3), lambda a, b, t, m: F.cosine_embedding_loss(a, b, t), "margin")
    row("anchor and positive for negative", "triplet_margin_loss", lambda: (x(20, 9), x(20, 9), x(20, 9)), lambda a, p, n: F.triplet_margin_loss(a, n, p), "exchanged|swapped|negative|positive")
    row("margin of 0", "margin_ranking_loss", lambda: (x(60), x(60), ints(0, 2, 60) * 2 - 1, 0.5), lambda a, b, t, m: F.margin_ranking_loss(a, b, t), "margin")
    row("margin of 1", "hinge_embedding_loss", lambda: (x(60), ints(0, 2, 60) * 2 - 1, 0.4), lambda a, t, m: F.hinge_embedding_loss(a, t), "margin")
    row("not the log of the rate", "poisson_nll_loss", lambda: (pos(60), pos(60, grad=False)), lambda a, t: F.poisson_nll_loss(a, t, log_input=False), "log_input")
    row("half of the log left out", "gaussian_nll_loss", lambda: (x(60), x(60, grad=False), pos(60)), lambda a, t, v: 0.5 * ((a - t) ** 2 / v).mean(), "log|term|lacks|left out")
    row("target's sign", "soft_margin_loss", lambda: (x(60), (ints(0, 2, 60) * 2 - 1).to(c.DT)), lambda a, t: F.soft_margin_loss(-a, t), "negat|sign|-1")
    row("square", "multi_margin_loss", ce, lambda a, t: F.multi_margin_loss(a, t, p=2), "\\bp\\b")
    row("blank of the last class", "ctc_loss", lambda: (x(12, 3, 6).log_softmax(2).detach().requires_grad_(), ints(1, 5, 3, 4), torch.tensor([12, 12, 12]), torch.tensor([4, 4, 4])), lambda a, t, i, l: F.ctc_loss(a, t, i, l, blank=5), "blank", "f")
    row("not divided by the lengths", "ctc_loss", lambda: (x(12, 3, 6).log_softmax(2).detach().requires_grad_(), ints(1, 5, 3, 4), torch.tensor([12, 12, 12]), torch.tensor([4, 4, 4])), lambda a, t, i, l: F.ctc_loss(a, t, i, l, reduction="none").mean(), "length|multiplied by 4|reduction|divi|4", "f")
    # indices
    row("off by one", "torch.gather", lambda: (x(12, 9), 1, ints(0, 8, 12, 9)), lambda a, d, i: a.gather(1, i + 1), "index|one|1")
    row("the other dimension", "torch.gather", lambda: (x(9, 9), 1, ints(0, 9, 9, 9)), lambda a, d, i: a.gather(0, i), "dim")
    row("in order", "torch.index_select", lambda: (x(12, 9), 0, ints(0, 12, 12)), lambda a, d, i: a * 1, "index|copy|order|self")
    row("wrapped modulo 8", "torch.index_select", lambda: (x(30, 9), 0, ints(0, 30, 40)), lambda a, d, i: a[i % 8], "first quarter, which is repeated")
    row("duplicates once", "torch.scatter_add", lambda: (x(8, 9), 0, ints(0, 8, 20, 9), x(20, 9)), lambda a, d, i, s: a + c.lastwrite(i, s, 8), "once|last|lost|duplicate|repeat", "f")
    row("self not included", "torch.scatter_reduce", lambda: (x(8, 9), 0, ints(0, 8, 20, 9), x(20, 9), "sum"), lambda a, d, i, s, r: torch.zeros_like(a).scatter_add(0, i, s), "include_self|self")
    row("alpha ignored", "torch.index_add", lambda: (x(8, 9), 0, ints(0, 8, 20), x(20, 9)), lambda a, d, i, s, alpha: a.index_add(0, i, s), "alpha", kwargs=dict(alpha=0.5))
    row("replaced", "torch.index_add", lambda: (x(30, 9), 0, torch.randperm(30, generator=c.G)[:20], x(20, 9)), lambda a, d, i, s: a.index_copy(0, i, s), "index_copy|replac|copy|not added|self")
    row("not accumulated", "torch.index_put", lambda: (x(8, 9), (ints(0, 8, 20),), x(20, 9)), lambda a, i, v, accumulate: a.index_put(i, v), "accumulate", kwargs=dict(accumulate=True))
    row("padding's gradient kept", "embedding", lambda: (ints(0, 12, 40), x(12, 6), 3), grad(F.embedding, lambda i, w, p: F.embedding(i, w)), "padding_idx")
    row("duplicates' gradients once", "embedding", lambda: (ints(0, 12, 40), x(12, 6)), lambda i, w: w_once(i, w), "once|last|lost|duplicate|repeat")
    row("not scaled by frequency", "embedding", lambda: (ints(0, 12, 40), x(12, 6), None, None, 2.0, True), grad(lambda i, w, *r: F.embedding(i, w), lambda i, w, *r: F.embedding(i, w)), "scale_grad_by_freq|freq")
    row("sum for mean", "embedding_bag", lambda: (ints(0, 12, 8, 5), x(12, 6)), lambda i, w: F.embedding_bag(i, w, mode="sum"), "mode|sum|multiplied by 5")
    row("mask inverted", "torch.masked_fill", lambda: (x(20, 9), bits(20, 9), 0.5), lambda a, m, v: a.masked_fill(~m, v), "mask|inverted|negated")
    row("gradient not masked", "torch.masked_fill", lambda: (x(20, 9), bits(20, 9), 0.5), grad(torch.masked_fill, lambda a, m, v: a * 1), "mask|grad_output|passed")
    row("source not advanced", "torch.masked_scatter", lambda: (nog(20, 9), bits(20, 9), nog(180)), lambda a, m, s: torch.where(m, s.view(20, 9), a), "source|position|where|mask|index")
    row("one column off", "torch.index_fill", lambda: (x(20, 9), 1, torch.tensor([1, 4, 6]), 2.0), lambda a, d, i, v: a.index_fill(1, i + 1, v), "index|one|1|shift|rolled")
    row("the other way", "torch.roll", lambda: (x(20, 9), 2, 0), lambda a, s, d: a.roll(-2, 0), "shifts|negat|-2|other|roll")
    row("the other dimension", "torch.flip", lambda: (x(9, 9), [0]), lambda a, d: a.flip(1), "dim")
    row("the other way", "torch.rot90", lambda: (x(9, 9),), lambda a: a.rot90(-1), "k is|-1|rot|other|revers|flip")
    row("diagonal off by one", "torch.tril", lambda: (x(12, 9), -1), lambda a, d: a.tril(0), "diagonal")
    row("lower", "torch.triu", lambda: (x(9, 9),), lambda a: a.tril(), "tril|lower|transposed")
    row("gradient not masked", "torch.triu", lambda: (x(9, 9),), grad(torch.triu, lambda a: a * 1), "grad_output|mask|passed|diagonal|triang")
    row("offset ignored", "torch.diag_embed", lambda: (x(5, 7), 1), lambda a, o: F.pad(torch.diag_embed(a), (0, 1, 0, 1)), "offset|rolled by -1")
    row("gradients exchanged", "torch.cat", lambda: ([x(6, 5), x(6, 5)], 0), lambda l, d: torch.cat(swapped(*l), 0), "exchanged|swapped|other")
    row("order reversed", "torch.stack", lambda: ([x(6, 5), x(6, 5), x(6, 5)],), lambda l: torch.stack(l[::-1]), "backwards")
    row("tiled", "torch.repeat_interleave", lambda: (x(6, 5), 3, 0), lambda a, n, d: a.repeat(3, 1), "repeat|tile|order|interleav")
    row("value of 0", "pad", lambda: (x(4, 6, 5), (1, 2), "constant", 1.5), lambda a, p, m, v: F.pad(a, p), "value")
    row("edges exchanged", "pad", lambda: (x(4, 6, 5), (1, 3)), lambda a, p: F.pad(a, (3, 1)), "pad|shift|rolled|exchanged|revers|further|back")
    row("replicated", "pad", lambda: (x(4, 6, 8), (2, 2), "reflect"), lambda a, p, m: F.pad(a, p, mode="replicate"), "mode|replicate")
    row("order of channels", "pixel_shuffle", lambda: (x(2, 12, 4, 5), 2), lambda a, r: a.view(2, 2, 2, 3, 4, 5).permute(0, 3, 4, 1, 5, 2).reshape(2, 3, 8, 10), "order|exchanged|transposed|dimensions")
    row("order of channels", "pixel_unshuffle", lambda: (x(2, 3, 8, 10), 2), lambda a, r: a.view(2, 3, 4, 2, 5, 2).permute(0, 3, 5, 1, 2, 4).reshape(2, 12, 4, 5), "order|exchanged|transposed|dimensions")
    row("not transposed", "channel_shuffle", lambda: (x(2, 6, 4, 5), 2), lambda a, g: F.channel_shuffle(a, 3), "groups|order|exchanged|transposed|dimensions")
    im = lambda: (x(2, 3, 6, 6), None, 2.0, "bilinear")
    row("corners aligned", "interpolate", im, lambda a, z, s, m: F.interpolate(a, z, s, m, True), "align_corners|upsample_bilinear|grid is multiplied by 0.857")
    row("nearest", "interpolate", im, lambda a, z, s, m: F.interpolate(a, z, s), "mode|nearest")
    row("floor", "interpolate", lambda: (x(2, 3, 6, 6), (9, 9), None, "nearest-exact"), lambda a, z, s, m: F.interpolate(a, z, None, "nearest"), "mode|nearest")
    row("x and y exchanged", "grid_sample", lambda: (x(2, 3, 7, 7), (torch.rand(2, 5, 5, 2, generator=c.G) * 1.6 - 0.8).to(c.DT)), lambda a, g: F.grid_sample(a, g.flip(-1), align_corners=False), "flip|revers|exchanged|grid|order")
    row("corners aligned", "grid_sample", lambda: (x(2, 3, 7, 7), (torch.rand(2, 5, 5, 2, generator=c.G) * 1.6 - 0.8).to(c.DT)), lambda a, g: F.grid_sample(a, g, align_corners=True), "align_corners|upsample_bilinear|grid is multiplied by 0.857")
    row("corners aligned", "affine_grid", lambda: (x(2, 2, 3), [2, 3, 6, 7]), lambda t, s: F.affine_grid(t, s, align_corners=True), "align_corners|upsample_bilinear|grid is multiplied by 0.857")
    row("ascending", "torch.sort", lambda: (nog(9, 20), 1, True), lambda a, d, e: a.sort(1), "descending")
    row("smallest", "torch.topk", lambda: (nog(9, 20), 4), lambda a, k: a.topk(k, largest=False), "largest")
    row("counted from 0", "torch.kthvalue", lambda: (nog(9, 20), 4), lambda a, k: a.kthvalue(k + 1), "\\bk\\b")
    row("right", "torch.searchsorted", lambda: (torch.arange(20), ints(0, 20, 40)), lambda a, v: torch.searchsorted(a, v, right=True), "right|side", "f")
    row("weights ignored", "torch.bincount", lambda: (ints(0, 8, 60), pos(60, grad=False)), lambda a, w: torch.bincount(a).to(w.dtype), "weights", "f")
    row("default bounds", "torch.histc", lambda: (nog(200), 10, -1.0, 1.0), lambda a, b, l, h: torch.histc(a, b, -2.0, 2.0), "min|max", "f")
    row("the end left out", "torch.linspace", lambda: (0.0, 1.0, 20), lambda a, b, n: torch.arange(20) / 20, "end|steps|multiplied|0.95|n", "f")
    # algebra, complex numbers, transforms
    row("transposed", "torch.linalg.solve", lambda: (x(6, 6) + 4 * torch.eye(6).to(c.DT), x(6, 3)), lambda a, b: torch.linalg.solve(a.T, b), "transposed|dimensions|exchanged", "f")
    row("transposed", "torch.linalg.inv", lambda: (x(6, 6) + 4 * torch.eye(6).to(c.DT),), lambda a: torch.linalg.inv(a).T, "transposed|dimensions|exchanged|order", "f")
    row("sign", "torch.linalg.det", lambda: (x(5, 4, 4),), lambda a: -torch.linalg.det(a), "negated|-1", "f")
    row("upper", "torch.linalg.cholesky", lambda: ((lambda t: t @ t.T + torch.eye(6))(nog(6, 9)),), lambda a: torch.linalg.cholesky(a).T, "upper|transposed|order", "f")
    row("not divided by n", "torch.fft.ifft", lambda: (c.cx(6, 16),), lambda a: torch.fft.ifft(a) * 16, "16|norm", "f")
    row("inverse", "torch.fft.fft", lambda: (c.cx(6, 16),), lambda a: torch.fft.ifft(a) * 16, "ifft|conj|inverse|revers|16", "f")
    row("orthonormal", "torch.fft.rfft", lambda: (x(6, 16),), lambda a: torch.fft.rfft(a, norm="ortho"), "norm|0.25|multiplied", "f")
    row("conjugate", "torch.mul", lambda: (c.cx(30), c.cx(30)), lambda a, b: a * b.conj(), "conj", "f")
    row("imaginary part negated", "torch.view_as_real", lambda: (c.cx(30),), lambda a: torch.view_as_real(a.conj().resolve_conj()), "conj", "f")
    # cells
    row("reset gate before the product", "torch.gru_cell", lambda: (x(9, 6), x(9, 5), x(15, 6), x(15, 5), x(15), x(15)), gru(False), "reset|gate", "f")
    row("z and 1 - z", "torch.gru_cell", lambda: (x(9, 6), x(9, 5), x(15, 6), x(15, 5), x(15), x(15)), gru(True), "gate|update|1 - |exchanged", "f")
    row("gates in the order i g f o", "torch.lstm_cell", lambda: (x(9, 6), (x(9, 5), x(9, 5)), x(20, 6), x(20, 5), x(20), x(20)), lstm, "gate|order|exchanged", "f")
    row("relu", "torch.rnn_tanh_cell", lambda: (x(9, 6), x(9, 5), x(5, 6), x(5, 5), x(5), x(5)), lambda a, h, w, u, b, d: torch.relu(a @ w.T + h @ u.T + b + d), "relu", "f")
    # distances
    row("p of 1", "torch.cdist", lambda: (x(9, 6), x(8, 6)), lambda a, b: torch.cdist(a, b, p=1.0), "\\bp\\b", "f")
    row("root left out", "torch.cdist", lambda: (x(9, 6), x(8, 6)), lambda a, b: torch.cdist(a, b) ** 2, "root|square", "f")
    row("eps ignored", "pairwise_distance", lambda: (x(20, 6), x(20, 6), 2.0, 0.1), lambda a, b, p, e: F.pairwise_distance(a, b), "eps")
    # where memory is written
    for k, (op, args, f) in enumerate((("torch.mul", lambda: (x(30, 40), x(30, 40)), torch.mul), ("torch.matmul", lambda: (x(32, 24), x(24, 48)), torch.matmul),
                                       ("softmax", lambda: (x(32, 48), -1), F.softmax), ("torch.sum", lambda: (x(48, 32), 1), torch.sum))):
        row("rows of the last block not written", op, args, lambda *a, f=f: tail(f(*a), 5), "not written|zero|last|tail")
        row("every second block of 8 is the block before", op, args, lambda *a, f=f: blocks(f(*a)), "repeats|what is due at 0 1 2 3 4 5 6 7")
        row("the last element is from the row before", op, args, lambda *a, f=f: shift(f(*a)), "shift|rolled|further|back|one")
    row("inputs rounded to float16", "torch.matmul", lambda: (x(20, 40), x(40, 14)), lambda a, b: a.half().float() @ b.half().float(), "float16|TF32", "f")
    row("sums in bfloat16", "torch.sum", lambda: (x(8, 200), 1), lambda a, d: running(a), "bfloat16", "fh")
    row("statistics in bfloat16", "layer_norm", lambda: (x(12, 48) + 2, [48], x(48), x(48)), lambda a, s, w, b: (a - a.mean(1, True).bfloat16().float()) / (a.var(1, correction=0, keepdim=True) + 1e-5).sqrt().bfloat16().float() * w + b, "bfloat16|mean|statistic", "f")


def swapped(a, b):
    class Swap(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a.view_as(a), b.view_as(b)

        @staticmethod
        def backward(ctx, g, h):
            return h, g
    return Swap.apply(a, b)


def w_once(i, w):
    last = {int(v): k for k, v in enumerate(i)}
    keep = torch.tensor([last[int(v)] == k for k, v in enumerate(i)])[:, None]
    return torch.where(keep, F.embedding(i, w), F.embedding(i, w.detach()))


def gru(update):
    def f(a, h, w, u, b, d):
        ir, iz, ig = (a @ w.T + b).chunk(3, 1)
        hr, hz, hg = (h @ u.T + d).chunk(3, 1)
        r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
        if update:
            return z * torch.tanh(ig + r * hg) + (1 - z) * h
        return (1 - z) * torch.tanh(ig + (r * h) @ u[10:].T + d[10:]) + z * h
    return f


def lstm(a, hc, w, u, b, d):
    h, s = hc
    i, g, f, o = (a @ w.T + h @ u.T + b + d).chunk(4, 1)
    n = f.sigmoid() * s + i.sigmoid() * g.tanh()
    return o.sigmoid() * n.tanh(), n


def tail(y, n):
    z = y.clone()
    z[-n:] = 0
    return z


def blocks(y):
    v = y.flatten()
    at = torch.arange(v.numel())
    return v[torch.where(at // 8 % 2 == 1, at - 8, at)].view(y.shape)


def shift(y):
    return y.flatten().roll(1).view(y.shape)


def running(a):
    s = torch.zeros(a.shape[0], dtype=BF16)
    for t in a.unbind(1):
        s = s + t.to(BF16)
    return s.float()


def plant2(c):
    """Mistakes of the same kind as plant's, thought of later."""
    x, pos, ints, bits = c.x, c.pos, c.ints, c.bits
    fn = "torch.nn.functional."

    def row(name, op, args, wrong, pattern, dts="fh", kwargs=None):
        c.row(name, op if op.startswith("torch.") else fn + op, args, wide(wrong), pattern, dts, kwargs)

    row("only half of the bias", "linear", lambda: (x(16, 24), x(20, 24), x(20)), lambda a, w, b: a @ w.T + torch.cat([b[:10], torch.zeros_like(b[10:])]), "bias")
    row("rows in reverse", "linear", lambda: (x(16, 24), x(20, 24)), lambda a, w: (a @ w.T).flip(0), "backwards")
    row("first half of k twice", "torch.matmul", lambda: (x(16, 32), x(32, 12)), lambda a, b: 2 * (a[:, :16] @ b[:16]), "half|twice|left out|what|first")
    row("conjugated sign in the second operand", "torch.bmm", lambda: (x(3, 7, 8), x(3, 8, 6)), lambda a, b: a @ b.abs(), "magnitude")
    row("tanh for erf", "gelu", lambda: (x(11, 23),), lambda a: F.gelu(a, approximate="tanh"), "tanh")
    row("slope of the leaky side lost in the gradient", "leaky_relu", lambda: (x(11, 23), 0.3), grad(F.leaky_relu, lambda a, s: F.relu(a)), "negative_slope|relu")
    row("alpha squared", "elu", lambda: (x(11, 23), 0.7), lambda a, al: F.elu(a, al * al), "alpha")
    row("without the upper limit", "hardsigmoid", lambda: (x(11, 23, k=3.0),), lambda a: F.relu(a / 6 + 0.5), "limit|max|bound|relu")
    row("square of the sum", "torch.var", lambda: (x(12, 40), 1), lambda a, d: a.var(1) ** 2, "square")
    row("wrong axis", "torch.sum", lambda: (x(24, 24), 0), lambda a, d: a.sum(1), "dim")
    row("every second element", "torch.mean", lambda: (x(20, 32), 1), lambda a, d: a[:, ::2].mean(1), "even|multiplied|left out")
    row("wrong axis", "torch.cumsum", lambda: (x(16, 16), 0), lambda a, d: a.cumsum(1), "dim")
    row("magnitudes", "torch.sum", lambda: (x(20, 32), 1), lambda a, d: a.abs().sum(1), "magnitude")
    row("first row's maximum for all", "softmax", lambda: (x(12, 20), -1), lambda a, d: (a - a[:1].amax(1, True)).exp() / (a - a.amax(1, True)).exp().sum(1, True), "max|scaled|first")
    row("temperature of 2", "softmax", lambda: (x(12, 20), -1), lambda a, d: (a / 2).softmax(-1), "0.5|halved|multiplied")
    row("last token masked", "scaled_dot_product_attention", lambda: (x(2, 2, 10, 8), x(2, 2, 10, 8), x(2, 2, 10, 8)), lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :, :9], v[:, :, :9]), "last|left out")
    row("key and value exchanged", "scaled_dot_product_attention", lambda: (x(2, 2, 10, 8), x(2, 2, 10, 8), x(2, 2, 10, 8)), lambda q, k, v: F.scaled_dot_product_attention(q, v, k), "swapped|exchanged")
    row("heads shifted by one", "scaled_dot_product_attention", lambda: (x(2, 4, 10, 8), x(2, 4, 10, 8), x(2, 4, 10, 8)), lambda q, k, v: F.scaled_dot_product_attention(q, k.roll(1, 1), v.roll(1, 1)), "one back|rolled|further")
    row("weight ignored", "layer_norm", lambda: (x(12, 24), [24], x(24), x(24)), lambda a, s, w, b: F.layer_norm(a, s, None, b), "weight")
    row("bias of the weight", "layer_norm", lambda: (x(12, 24), [24], x(24), x(24)), lambda a, s, w, b: F.layer_norm(a, s, w, w), "bias|weight")
    row("variance not divided", "group_norm", lambda: (x(4, 6, 5, 5), 3, x(6), x(6)), lambda a, n, w, b: F.group_norm(a, n, w, b, 1e-2), "eps")
    row("half of the channels", "batch_norm", lambda: (x(6, 4, 5, 5), x(4, grad=False), pos(4, grad=False), x(4), x(4), False), lambda a, m, v, w, b, t: F.batch_norm(a, m, v, w.roll(1), b, t), "weight")
    row("running mean ignored", "batch_norm", lambda: (x(6, 4, 5, 5), x(4, grad=False), pos(4, grad=False), x(4), x(4), False), lambda a, m, v, w, b, t: F.batch_norm(a, m * 0, v, w, b, t), "running_mean")
    row("stride of 1 with holes", "conv2d", lambda: (x(2, 3, 9, 9), x(4, 3, 3, 3), None, 2, 1), lambda a, w, b, s, p: F.conv2d(a, w, None, 1, 1)[:, :, :5, :5], "stride")
    row("first output channel for all", "conv2d", lambda: (x(2, 3, 9, 9), x(4, 3, 3, 3)), lambda a, w: F.conv2d(a, w[:1].expand_as(w)), "first|0 0 0 0")
    row("weight gradient of half of the rows", "conv2d", lambda: (x(2, 3, 8, 8), x(4, 3, 3, 3), None, 1, 1), lambda a, w, b, s, p: torch.cat([F.conv2d(a, w, None, 1, 1)[:, :, :4], F.conv2d(a, w.detach(), None, 1, 1)[:, :, 4:]], 2), "left out|half")
    row("centre in place of the maximum", "max_pool2d", lambda: (x(2, 3, 9, 9), 3), lambda a, k: a[:, :, 1::3, 1::3] * 1, "centre|element|each index of dimensions 2 3")
    row("gradient to the last of the window", "max_pool2d", lambda: (x(2, 3, 8, 8), 2), grad(F.max_pool2d, lambda a, k: a[:, :, 1::2, 1::2] * 1), "last")
    row("sum", "mse_loss", lambda: (x(20, 6), x(20, 6)), lambda a, t: F.mse_loss(a, t, reduction="sum"), "reduction")
    row("target and input exchanged", "kl_div", lambda: (x(20, 6), torch.rand(20, 6, generator=c.G).clamp(0.05, 0.95).to(c.DT)), lambda a, t: (t * t.log()).mean() + (t * a).mean(), "subtract|sign|negat")
    row("logits as probabilities", "cross_entropy", lambda: (x(30, 7), ints(0, 7, 30)), lambda a, t: F.nll_loss(a, t), "nll_loss|softmax|logsumexp")
    row("first class ignored", "cross_entropy", lambda: (x(30, 7), ints(0, 7, 30)), lambda a, t: F.cross_entropy(a, t, ignore_index=0), "ignore_index")
    row("index plus one", "embedding", lambda: (ints(0, 11, 40), x(12, 6)), lambda i, w: F.embedding(i + 1, w), "one too high")
    row("rows of the table averaged", "embedding_bag", lambda: (ints(0, 12, 8, 5), x(12, 6)), lambda i, w: F.embedding_bag(i, w, mode="max"), "mode")
    row("along the other dimension", "torch.scatter_add", lambda: (x(9, 9), 0, ints(0, 9, 9, 9), x(9, 9)), lambda a, d, i, s: a.scatter_add(1, i, s), "dim")
    row("subtracted", "torch.index_add", lambda: (x(8, 9), 0, ints(0, 8, 20), x(20, 9)), lambda a, d, i, s: a.index_add(0, i, -s), "alpha|source|negat")
    row("transposed blocks", "torch.kron", lambda: (x(4, 4), x(3, 3)), lambda a, b: torch.kron(a.T.contiguous(), b), "transposed")
    row("no rounding of the quotient", "torch.floor_divide", lambda: (x(60, grad=False, k=9.0), pos(60, grad=False)), lambda a, b: torch.trunc(a / b), "trunc|div")
    row("min and max exchanged", "torch.clamp", lambda: (x(90), -0.2, 0.9), lambda a, l, h: a.clamp(-h, -l), "exchanged|min|max|negat")
    row("shifted by the wrong sign", "torch.roll", lambda: (x(20, 9), 3, 0), lambda a, s, d: a.roll(4, 0), "shifts")
    row("interleaved in halves", "torch.cat", lambda: ([x(6, 5), x(6, 5)], 0), lambda l, d: torch.stack(l, 1).reshape(12, 5), "order|interleav|what is due")
    row("sine for cosine", "torch.cos", lambda: (x(80),), lambda a: a.sin(), "sin")


def plant3(c):
    """100 kinds of mistakes in operators and places that plant and plant2 have not. They were written after the table of
    hypotheses had been read, and before any of them was tried."""
    x, pos, ints, bits = c.x, c.pos, c.ints, c.bits
    fn = "torch.nn.functional."

    def row(name, op, args, wrong, pattern, dts="fh", kwargs=None):
        c.row(name, op if op.startswith("torch.") else fn + op, args, wide(wrong), pattern, dts, kwargs)

    nog = lambda *s: x(*s, grad=False)
    eye = lambda n: torch.eye(n).to(c.DT)
    unit = lambda *s: (torch.rand(*s, generator=c.G) * 0.8 + 0.1).to(c.DT)
    # products of other shapes
    row("beta applied to the product", "torch.addmm", lambda: (x(12, 9), x(12, 17), x(17, 9)), lambda s, a, b, beta: s + beta * (a @ b), "beta|alpha", kwargs=dict(beta=0.5))
    row("vector on the other side", "torch.addmv", lambda: (x(13), x(13, 13), x(13)), lambda s, a, v: s + v @ a, "transposed")
    row("outer product transposed", "torch.outer", lambda: (x(14), x(14)), lambda a, b: torch.outer(b, a), "swapped|exchanged|transposed|order|for vec2")
    row("alpha ignored", "torch.addr", lambda: (x(12, 15), x(12), x(15)), lambda s, a, b, alpha: s + torch.outer(a, b), "alpha", kwargs=dict(alpha=0.4))
    row("batches not added", "torch.addbmm", lambda: (x(9, 11), x(5, 9, 8), x(5, 8, 11)), lambda s, a, b: s + a[0] @ b[0], "batch|index 0|left out|first")
    row("operand of the next batch", "torch.baddbmm", lambda: (x(5, 9, 11), x(5, 9, 8), x(5, 8, 11)), lambda s, a, b: s + a @ b.roll(-1, 0), "batch2 is read one (further|back)|rolled")
    row("contracted over the other pair", "torch.tensordot", lambda: (x(8, 8, 6), x(8, 8, 5), [[0, 1], [0, 1]]), lambda a, b, d: torch.tensordot(a, b, [[0, 1], [1, 0]]), "dims|dimensions 0 and 1|exchanged|transposed")
    row("operands exchanged", "torch.linalg.cross", lambda: (x(20, 3), x(20, 3)), lambda a, b: torch.linalg.cross(b, a), "swapped|exchanged|negated|-1")
    row("magnitudes", "torch.inner", lambda: (x(11, 16), x(7, 16)), lambda a, b: a.abs() @ b.T, "magnitude of self")
    row("one row repeated", "torch.bmm", lambda: (x(4, 9, 10), x(4, 10, 7)), lambda a, b: a[:, :1].expand(4, 9, 10) @ b, "first|index 0")
    row("bilinear without the second", "bilinear", lambda: (x(10, 6), x(10, 5), x(4, 6, 5), x(4)), lambda a, b, w, bias: F.bilinear(a, torch.ones_like(b), w, bias), "input2 is taken for 1")
    row("weight gradient without the last batch", "linear", lambda: (x(3, 10, 16), x(12, 16), x(12)), grad(F.linear, lambda a, w, b: torch.cat([F.linear(a[:2], w, b), F.linear(a[2:], w.detach(), b.detach()) ])), "last|left out")
    row("bias gradient of one batch", "linear", lambda: (x(3, 10, 16), x(12, 16), x(12)), grad(F.linear, lambda a, w, b: F.linear(a, w) + torch.cat([b.expand(1, 10, 12), b.detach().expand(2, 10, 12)])), "left out|index|last|first|one")
    row("matrix power off by one", "torch.linalg.matrix_power", lambda: (x(7, 7) * 0.3, 3), lambda a, n: a @ a, "\\bn\\b")
    row("chain in the wrong order", "torch.linalg.multi_dot", lambda: ([x(8, 8), x(8, 8), x(8, 8)],), lambda l: l[0] @ l[2] @ l[1], "swapped|exchanged|in place of|order")
    # normalization
    row("eps outside of the root", "rms_norm", lambda: (x(14, 24, k=0.2), [24], x(24), 1e-2), lambda a, s, w, e: a / ((a * a).mean(-1, True).sqrt() + e) * w, "eps")
    row("mean subtracted", "rms_norm", lambda: (x(14, 24) + 1, [24], x(24)), lambda a, s, w: F.layer_norm(a, s, w, None, torch.finfo(c.DT).eps), "mean|layer_norm")
    row("1 + weight", "rms_norm", lambda: (x(14, 24), [24], x(24)), lambda a, s, w: F.rms_norm(a, s, w + 1), "1 is added to weight")
    row("over all rows", "rms_norm", lambda: (x(14, 24), [24], x(24)), lambda a, s, w: a * ((a * a).mean() + 1e-6).rsqrt() * w, "all|rows|normalized|another")
    row("bias before the weight", "layer_norm", lambda: (x(14, 24), [24], x(24), x(24)), lambda a, s, w, b: (F.layer_norm(a, s) + b) * w, "bias|multiplied by weight")
    row("weight of the gradient forgotten", "layer_norm", lambda: (x(14, 24), [24], x(24), x(24)), grad(F.layer_norm, lambda a, s, w, b: F.layer_norm(a, s) + 0 * (w.sum() + b.sum())), "weight|nothing was written")
    row("groups as channels", "group_norm", lambda: (x(4, 8, 5, 6), 2, x(8), x(8)), lambda a, n, w, b: F.group_norm(a, 8, w, b), "num_groups|instance_norm|groups")
    row("batch statistics", "instance_norm", lambda: (x(4, 6, 5, 7), None, None, x(6), x(6)), lambda a, m, v, w, b: F.batch_norm(a, None, None, w, b, True), "batch_norm|batch")
    row("running variance without root", "batch_norm", lambda: (x(6, 5, 4, 4), nog(5), pos(5, grad=False), x(5), x(5)), lambda a, m, v, w, b: F.batch_norm(a, m, v * v, w, b, False, 0.1, 0.0), "running_var is squared|root")
    row("biased running variance", "batch_norm", lambda: (x(6, 5, 4, 4), nog(5), pos(5, grad=False), x(5), x(5), True, 0.3), lambda a, m, v, w, b, t, mo: F.batch_norm(a, m, v, w, b, t, 0.7), "momentum")
    row("size of 3", "local_response_norm", lambda: (pos(3, 8, 5, 5), 5, 0.5), lambda a, s, al: F.local_response_norm(a, 3, al), "size")
    row("p of 1", "normalize", lambda: (x(14, 24),), lambda a: F.normalize(a, 1.0), "\\bp\\b")
    row("without the norm of the second", "cosine_similarity", lambda: (x(20, 12), x(20, 12)), lambda a, b: (a * b).sum(1) / a.norm(dim=1), "norm|x2|root|divided")
    # activations
    row("slope of 0.1", "rrelu", lambda: (x(60), 0.125, 0.333, False), lambda a, l, u, t: F.leaky_relu(a, 0.1), "lower|upper|slope|leaky|multipl")
    row("not in float32: exp of 16 bits", "softmin", lambda: (x(12, 20), -1), lambda a, d: F.softmax(a, -1), "softmax|negated")
    row("gate of the linear half", "glu", lambda: (x(12, 20), -1), lambda a, d: a[:, :10] * a[:, 10:].relu(), "relu|sigmoid|gate|another function")
    row("logit of minus x", "logsigmoid", lambda: (x(70),), lambda a: F.logsigmoid(a) * 2, "multiplied by 2")
    row("tanh of 2 x", "torch.tanh", lambda: (x(70),), lambda a: torch.tanh(2 * a), "multiplied by 2")
    row("alpha of the gradient is 1", "celu", lambda: (x(70), 0.6), grad(F.celu, lambda a, al: F.celu(a)), "alpha")
    row("threshold inclusive", "threshold", lambda: (ints(-3, 4, 70).to(c.DT), 1.0, -5.0), lambda a, t, v: torch.where(a >= t, a, torch.full_like(a, v)), "threshold|equal|inclusive|another")
    row("gradient of erf for gelu", "gelu", lambda: (x(70),), grad(F.gelu, lambda a: torch.erf(a)), "erf|gradient|another")
    row("hard version", "silu", lambda: (x(9, 30, k=2.0),), lambda a: F.hardswish(a), "hardswish")
    row("log of softmax left out", "log_softmax", lambda: (x(12, 20), -1), lambda a, d: F.softmax(a, -1), "softmax|exp")
    row("max not added back", "log_softmax", lambda: (x(12, 20), -1), lambda a, d: a - (a - a.amax(1, True)).exp().sum(1, True).log(), "max")
    row("gradient without the sum", "softmax", lambda: (x(12, 20), -1), grad(F.softmax, lambda a, d: a * F.softmax(a, -1).detach()), "sum|times the result")
    # special functions
    row("order 1", "torch.special.bessel_j0", lambda: (nog(70),), lambda a: torch.special.bessel_j1(a), "bessel_j1")
    row("unscaled", "torch.special.i0e", lambda: (nog(70),), lambda a: torch.special.i0(a), "i0")
    row("not normal", "torch.special.ndtri", lambda: (unit(70),), lambda a: torch.logit(a), "logit")
    row("entropy without the sign", "torch.special.entr", lambda: (pos(70),), lambda a: a * a.log(), "negated|-1|xlogy")
    row("log gamma of x - 1", "torch.lgamma", lambda: (pos(70) ,), lambda a: torch.lgamma(a + 1), "1 is added")
    row("n is one less", "torch.polygamma", lambda: (2, pos(70)), lambda n, a: torch.polygamma(1, a), "\\bn\\b")
    row("base 10", "torch.log2", lambda: (pos(70),), lambda a: torch.log10(a), "log10|0.30")
    row("no minus one", "torch.expm1", lambda: (x(70),), lambda a: torch.exp(a), "exp\\b|1 is added")
    row("hypotenuse as sum", "torch.hypot", lambda: (x(70), x(70)), lambda a, b: a.abs() + b.abs(), "sum|add|magnitude")
    row("sign of the other", "torch.float_power", lambda: (pos(70), 2.0), lambda a, n: a.double() ** 3.0, "exponent|multiplied by self", "f")
    # reductions and statistics
    row("median as mean", "torch.quantile", lambda: (nog(12, 15), 0.5, 1), lambda a, q, d: a.mean(1), "mean", "f")
    row("nearest in place of linear", "torch.quantile", lambda: (nog(12, 16), 0.3, 1), lambda a, q, d: torch.quantile(a, q, d, interpolation="nearest"), "interpolation|nearest", "f")
    row("n in place of n - 1", "torch.cov", lambda: (x(6, 30),), lambda a: torch.cov(a, correction=0), "correction", "f")
    row("covariance", "torch.corrcoef", lambda: (x(6, 30),), lambda a: torch.cov(a), "cov", "f")
    row("mean over the padded rows", "torch.mean", lambda: (x(12, 30), 0), lambda a, d: a.sum(0) / 16, "0.75|12/16|3/4")
    row("largest magnitude", "torch.amax", lambda: (x(12, 30), 1), lambda a, d: a.abs().amax(1), "magnitude")
    row("norm of the transposed", "torch.linalg.vector_norm", lambda: (x(16, 16), 2, 1), lambda a, o, d: torch.linalg.vector_norm(a, 2, 0), "dim|transposed")
    row("count of zeros", "torch.count_nonzero", lambda: (ints(0, 3, 40, 12), 1), lambda a, d: (a == 0).sum(1), "zero|other way|another", "f")
    row("sum without the diagonal", "torch.trace", lambda: (x(16, 16),), lambda a: a.sum(), "sum|diagonal|trace", "f")
    row("exponentials not shifted back", "torch.logsumexp", lambda: (x(12, 30), 1), lambda a, d: torch.logsumexp(a - a.amax(1, True), 1), "max")
    row("gradient to all elements", "torch.amax", lambda: (x(12, 30), 1), grad(torch.amax, lambda a, d: a.sum(1)), "incoming|sum|another|every|passed")
    row("unnormalized weights", "torch.std_mean", lambda: (x(12, 30), 1), lambda a, d: (a.var(1), a.mean(1)), "var|square")
    # scans and sorts
    row("maximum restarts", "torch.cummax", lambda: (nog(10, 24), 1), lambda a, d: tuple(torch.cummin(a, 1)), "cummin|minim")
    row("gradient exclusive", "torch.cumsum", lambda: (x(10, 24), 1), grad(torch.cumsum, lambda a, d: a.cumsum(1) - a), "exclusive|itself|lacks")
    row("trapezoid as sum", "torch.trapezoid", lambda: (x(10, 24),), lambda a: a.sum(1), "sum")
    row("bucket on the other side", "torch.bucketize", lambda: (ints(0, 20, 60), torch.arange(0, 20, 2)), lambda v, b: torch.bucketize(v, b, right=True), "right|side", "f")
    row("order of equal elements", "torch.argsort", lambda: (nog(12, 20), 1), lambda a, d: a.argsort(1, descending=True), "descending", "f")
    row("one window further", "torch.Tensor.unfold", lambda: (x(8, 24), 1, 4, 4), lambda a, d, s, t: a.roll(-1, 1).unfold(1, 4, 4), "further|back|rolled")
    # indexing and layout
    row("added, not written", "torch.index_copy", lambda: (x(10, 8), 0, torch.tensor([7, 2, 5]), x(3, 8)), lambda a, d, i, s: a.index_add(0, i, s), "index_add|add")
    row("value of 1", "torch.index_fill", lambda: (x(10, 8), 0, torch.tensor([7, 2, 5]), 3.0), lambda a, d, i, v: a.index_fill(0, i, 1.0), "value")
    row("inverse order", "torch.index_select", lambda: (x(10, 8), 0, torch.tensor([7, 2, 5, 0, 9])), lambda a, d, i: a[i.flip(0)], "backwards|revers")
    row("diagonal below", "torch.tril", lambda: (x(12, 12),), lambda a: a.tril(-1), "diagonal")
    row("upper for lower", "torch.triu", lambda: (x(12, 12), 1), lambda a, k: a.tril(-1), "tril|diagonal|transposed|triu")
    row("turned the other way", "torch.rot90", lambda: (x(9, 9),), lambda a: torch.rot90(a, 3), "\\bk\\b")
    row("mask of the next row", "torch.masked_fill", lambda: (x(12, 9), bits(12, 9), 4.0), lambda a, m, v: a.masked_fill(m.roll(1, 0), v), "mask is read one")
    row("source from its start", "torch.masked_scatter", lambda: (x(12, 9), bits(12, 9), x(12, 9)), lambda a, m, s: torch.where(m, s, a), "where|source|mask")
    row("offset of one", "torch.diagonal", lambda: (x(12, 12),), lambda a: torch.diagonal(a.roll(1, 1)), "offset|rolled|one (back|further)")
    row("stacked along the other dimension", "torch.stack", lambda: ([x(8, 8), x(8, 8)], 1), lambda l, d: torch.stack(l, 1).transpose(0, 2).contiguous(), "order|transposed|dimensions|exchanged")
    row("dimensions moved back", "torch.movedim", lambda: (x(6, 6, 6), 0, 2), lambda a, s, d: a.movedim(2, 0), "exchanged|source|order|dimensions")
    row("blocks in the order of columns", "pixel_shuffle", lambda: (x(2, 8, 4, 4), 2), lambda a, r: F.pixel_shuffle(a, 2).transpose(2, 3), "transposed|order|dimensions|exchanged")
    row("index of the second table", "embedding", lambda: (ints(0, 10, 30), x(10, 8)), lambda i, w: F.embedding(9 - i, w), "backwards|negat|index|weight is read")
    row("padding row not zero in the gradient", "embedding", lambda: (ints(0, 10, 30), x(10, 8), 3), grad(F.embedding, lambda i, w, p: F.embedding(i, w)), "padding_idx")
    row("sum in place of the mean", "embedding_bag", lambda: (ints(0, 10, 12, 6), x(10, 8)), lambda i, w: F.embedding_bag(i, w, mode="sum"), "mode")
    # windows
    row("dilation ignored", "max_pool2d", lambda: (x(2, 3, 12, 12), 3, 2, 0, 2), lambda a, k, s, p, d: F.max_pool2d(a, 3, 2)[:, :, :4, :4], "dilation")
    row("padding counts", "avg_pool2d", lambda: (x(2, 3, 9, 9), 3, 2, 1, False, False), lambda a, k, s, p, m, i: F.avg_pool2d(a, 3, 2, 1), "count_include_pad")
    row("power left in", "lp_pool2d", lambda: (pos(2, 3, 8, 8), 2.0, 2), lambda a, n, k: F.lp_pool2d(a, n, k) ** 2, "squared")
    row("average as maximum", "adaptive_avg_pool2d", lambda: (x(2, 3, 9, 9), (3, 3)), lambda a, s: F.adaptive_max_pool2d(a, s), "max_pool")
    row("flipped kernel", "conv1d", lambda: (x(2, 4, 20), x(6, 4, 5)), lambda a, w: F.conv1d(a, w.flip(2)), "backwards")
    row("groups in the other order", "conv1d", lambda: (x(2, 6, 20), x(6, 3, 3), None, 1, 0, 1, 2), lambda a, w, b, s, p, d, g: F.conv1d(a.roll(3, 1), w, None, 1, 0, 1, 2), "halves|rolled|exchanged|further|back")
    row("stride 1 in the gradient of the weight", "conv_transpose1d", lambda: (x(2, 4, 10), x(4, 5, 3), None, 2), lambda a, w, b, s: F.conv_transpose1d(a, w.flip(2), None, 2), "backwards")
    row("causal pad on the other side", "conv1d", lambda: (x(2, 4, 20), x(6, 4, 3), None, 1, 1), lambda a, w, b, s, p: F.conv1d(F.pad(a, (2, 0)), w), "pad|further|back|shift|rolled")
    row("columns in the other order", "unfold", lambda: (x(2, 3, 6, 6), 2), lambda a, k: F.unfold(a.transpose(2, 3), 2), "transposed")
    # losses
    row("delta ignored", "huber_loss", lambda: (x(40, k=3.0), x(40), "none", 0.4), lambda a, t, r, d: F.huber_loss(a, t, reduction="none"), "delta")
    row("half left out", "smooth_l1_loss", lambda: (x(40), x(40), None, None, "none"), lambda a, t, s, r, m: torch.where((a - t).abs() < 1, (a - t) ** 2, (a - t).abs() - 0.5), "another function|multiplied|half|beta|square is 1")
    row("log of the input", "poisson_nll_loss", lambda: (pos(40), pos(40, grad=False)), lambda a, t: F.poisson_nll_loss(a, t, log_input=False), "log_input")
    row("margin of 1", "margin_ranking_loss", lambda: (x(40), x(40), torch.sign(nog(40)), 0.5), lambda a, b, t, m: F.margin_ranking_loss(a, b, t), "margin")
    row("sign of the target", "soft_margin_loss", lambda: (x(40), torch.sign(nog(40))), lambda a, t: F.soft_margin_loss(a, -t), "target is negated|input is negated")
    row("variance not logged", "gaussian_nll_loss", lambda: (x(40), x(40), pos(40, grad=False)), lambda a, t, v: (0.5 * (a - t) ** 2 / v).mean(), "log|var|full")
    row("weight of the class ignored", "nll_loss", lambda: (x(30, 6), ints(0, 6, 30), pos(6, grad=False)), lambda a, t, w: F.nll_loss(a, t), "weight")
    row("label smoothing ignored", "cross_entropy", lambda: (x(30, 6), ints(0, 6, 30), None, None, -100, None, "mean", 0.2), lambda a, t, *r: F.cross_entropy(a, t), "label_smoothing")
    row("positive weight on both", "binary_cross_entropy_with_logits", lambda: (x(30, 6), unit(30, 6), None, None, None, "mean", pos(6, grad=False)), lambda a, t, w, s, r, m, p: F.binary_cross_entropy_with_logits(a, t, p), "pos_weight|weight")
    row("anchor and negative exchanged", "triplet_margin_loss", lambda: (x(20, 8), x(20, 8), x(20, 8)), lambda a, p, n: F.triplet_margin_loss(n, p, a), "exchanged|swapped|in place")
    # attention and cells
    row("causal from the end", "scaled_dot_product_attention", lambda: (x(2, 2, 6, 8), x(2, 2, 9, 8), x(2, 2, 9, 8), None, 0.0, True), lambda q, k, v, m, p, i: F.scaled_dot_product_attention(q, k, v, torch.ones(6, 9).tril(3).bool()), "causal|aligned|end|diagonal|mask")
    row("values of another head", "scaled_dot_product_attention", lambda: (x(2, 4, 7, 8), x(2, 4, 7, 8), x(2, 4, 7, 8)), lambda q, k, v: F.scaled_dot_product_attention(q, k, v.flip(1)), "value is read backwards along dimension 1|heads")
    row("mask multiplied", "scaled_dot_product_attention", lambda: (x(2, 2, 7, 8), x(2, 2, 7, 8), x(2, 2, 7, 8), x(7, 7, grad=False)), lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, -m), "attn_mask is negated")
    row("new and old exchanged", "torch.gru_cell", lambda: (x(9, 6), x(9, 5), x(15, 6), x(15, 5), x(15), x(15)), lambda a, h, w, u, b, d: gru(True)(a, h, w, u, b, d), "gate|update|1 - |exchanged", "f")
    row("forget gate plus one", "torch.lstm_cell", lambda: (x(9, 6), (x(9, 5), x(9, 5)), x(20, 6), x(20, 5), x(20), x(20)), lambda a, hc, w, u, b, d: torch.lstm_cell(a, hc, w, u, torch.cat([b[:5], b[5:10] + 1, b[10:]]), d), "1 is added|bias|gate", "f")
    row("recurrent bias lost", "torch.rnn_tanh_cell", lambda: (x(9, 6), x(9, 5), x(5, 6), x(5, 5), x(5), x(5)), lambda a, h, w, u, b, d: torch.rnn_tanh_cell(a, h, w, u, b, torch.zeros_like(d)), "b_hh|left out|taken for 0", "f")
    # transforms and vision
    row("shifted by half", "torch.fft.rfft", lambda: (x(6, 16),), lambda a: torch.fft.rfft(a.roll(8, 1)), "halves|rolled|further|back", "f")
    row("no shift", "torch.fft.fftshift", lambda: (x(6, 15),), lambda a: torch.fft.ifftshift(a), "ifftshift|rolled|dimension 1", "f")
    row("area as nearest", "interpolate", lambda: (x(2, 3, 8, 8), None, 0.5, "area"), lambda a, z, s, m: F.interpolate(a, None, 0.5, "nearest"), "mode|nearest|even")
    row("border in place of zeros", "grid_sample", lambda: (x(2, 3, 6, 6), (torch.rand(2, 5, 5, 2, generator=c.G) * 3 - 1.5).to(c.DT)), lambda a, g: F.grid_sample(a, g, padding_mode="border", align_corners=False), "padding_mode")


def plant4(c):
    """80 mistakes: constants and approximations inside functions, blocks and carries, ties and orders, sections of
    gradients, both passes at once, factors in 16 bits, optimizers. They were written before any of them was tried."""
    x, pos, ints, bits = c.x, c.pos, c.ints, c.bits
    fn = "torch.nn.functional."

    def row(name, op, args, wrong, pattern, dts="fhs", kwargs=None):
        c.row(name, op if op.startswith("torch.") else fn + op, args, wide(wrong), pattern, dts, kwargs)

    big = lambda: (x(30, 20, k=2.0),)
    # constants inside functions
    tanh_gelu = lambda a, k=0.7978845608, q=0.044715: 0.5 * a * (1 + torch.tanh(k * (a + q * a ** 3)))
    row("tanh form with 0.04", "gelu", big, lambda a, approximate: tanh_gelu(a, q=0.04), "0\\.04", "fh", dict(approximate="tanh"))
    row("tanh form with 0.8", "gelu", big, lambda a, approximate: tanh_gelu(a, k=0.8), "0\\.8", "f", dict(approximate="tanh"))
    row("inner slope without its 3", "gelu", big, grad(F.gelu, lambda a, approximate: slope_gelu(a)), "0\\.1341|0\\.0447|constant|slope", "fh", dict(approximate="tanh"))
    row("sigmoid form of 1.7", "gelu", big, lambda a: a * torch.sigmoid(1.7 * a), "1\\.7|quick_gelu", "fs")
    row("erf of x / 1.4", "gelu", big, lambda a: 0.5 * a * (1 + torch.erf(a / 1.4)), "1\\.4|0\\.714|constant", "f")
    row("alpha of 1.67", "selu", big, lambda a: 1.0507009873554805 * torch.where(a > 0, a, 1.67 * torch.expm1(a)), "1\\.67|0\\.998", "f")
    row("alpha of 1", "selu", big, lambda a: 1.0507009873554805 * F.elu(a), "alpha.* is 1\\b|alpha", "fhs")
    row("scale left out", "selu", big, lambda a: F.selu(a) / 1.0507009873554805, "scale|0\\.951|1\\.05", "fhs")
    row("alpha not in the exponent", "celu", lambda: (x(30, 20, k=2.0), 1.5), lambda a, al: torch.where(a > 0, a, al * torch.expm1(a)), "elu|exponent|1/alpha|constant", "fh")
    row("alpha of the exponential in its slope", "elu", lambda: (x(30, 20, k=2.0), 1.5), lambda a, al: grad(F.elu, lambda a, al: F.elu(a, al * al))(a, al), "alpha", "fh")
    row("limits of 2.5", "hardswish", big, lambda a: a * torch.clamp(a + 2.5, 0, 5) / 5, "2\\.5|hardswish", "fh")
    row("shift of 2.5", "hardsigmoid", big, lambda a: torch.clamp(a / 6 + 0.4, 0, 1), "2\\.4|0\\.4|constant|added", "fh")
    row("slope of 0.2", "hardsigmoid", big, lambda a: torch.clamp(0.2 * a + 0.5, 0, 1), "0\\.2|1\\.2|5\\b", "fhs")
    row("limit of 5", "relu6", big, lambda a: a.clamp(0, 1.5) if 0 else a.clamp(0, 5), "5\\b", "", None)
    row("beta of 1.1 in the sigmoid", "silu", big, lambda a: a * torch.sigmoid(1.1 * a), "1\\.1", "fhs")
    row("softplus of beta 2", "mish", big, lambda a: a * torch.tanh(F.softplus(a, 2.0)), "beta|constant|\\b2\\b", "fh")
    row("log of 1 + exp in base 2", "logsigmoid", big, lambda a: -torch.log2(1 + torch.exp(-a)), "ln 2|1\\.44|log2", "fhs")
    row("without the one", "torch.log1p", lambda: (pos(30, 20),), lambda a: torch.log(a), "log\\b|logarithm|subtracted|constant", "s")
    row("one of the exponential is 2", "torch.expm1", big, lambda a: torch.exp(a) - 2, "2|-1|subtracted", "fs")
    row("denominator of 2 + |x|", "softsign", big, lambda a: a / (2 + a.abs()), "constant|is 2|2 \\+|added|self is multiplied by 0\\.5", "fh")
    row("eps of 1e-3 inside", "layer_norm", lambda: (x(16, 24, k=0.3), [24], x(24), x(24)), lambda a, s, w, b: F.layer_norm(a, s, w, b, 1e-3), "eps is 0\\.001", "fs")
    row("larger of eps and the norm", "normalize", lambda: (x(16, 24, k=0.05), 2.0, 1, 0.1), lambda a, p, d, e: a / (a.norm(dim=1, keepdim=True) + e), "eps|added", "fh")
    row("eps under the root", "normalize", lambda: (x(16, 24, k=0.05), 2.0, 1, 0.1), lambda a, p, d, e: a / (a.pow(2).sum(1, True) + e).sqrt(), "eps|added|root", "f")
    row("half of beta not taken away", "smooth_l1_loss", lambda: (x(20, 12), x(20, 12)), lambda a, b, reduction, beta: torch.where((a - b).abs() < beta, 0.5 * (a - b) ** 2 / beta, (a - b).abs()), "0\\.5|half|beta|added|constant", "fh", dict(reduction="none", beta=0.7))
    row("half of delta is a third", "huber_loss", lambda: (x(20, 12), x(20, 12)), lambda a, b, reduction, delta: torch.where((a - b).abs() < delta, 0.5 * (a - b) ** 2, delta * ((a - b).abs() - delta)), "0\\.5|half|delta|constant|added|subtracted", "fh", dict(reduction="none", delta=0.8))
    row("scores clipped, no maximum", "torch.logsumexp", lambda: (x(20, 24, k=30.0), 1), lambda a, d: a.clamp(max=20).exp().sum(d).log(), "limited to 20|largest|maximum|clamp", "fs")
    row("one Newton step", "torch.rsqrt", lambda: (pos(30, 20),), lambda a: newton(a, 1), "Newton", "f")
    row("two Newton steps", "torch.rsqrt", lambda: (pos(30, 20),), lambda a: newton(a, 2), "Newton", "f")
    row("series of the exponential to x^6", "torch.exp", lambda: (x(30, 20),), lambda a: sum(a ** n / math.factorial(n) for n in range(7)), "series|Taylor|terms", "f")
    row("Pade of tanh", "torch.tanh", lambda: (x(30, 20),), lambda a: a * (27 + a * a) / (27 + 9 * a * a), "27|Pad|quotient", "fh")
    row("power of 256", "torch.exp", lambda: (x(30, 20),), lambda a: (1 + a / 256) ** 256, "256", "f")
    row("fast sigmoid", "torch.sigmoid", lambda: (x(30, 20),), lambda a: 0.5 + 0.5 * a / (1 + a.abs()), "softsign|abs|1 \\+|fast", "fh")
    # blocks, tails, carries
    row("carry of blocks of 16 lost once", "torch.cumsum", lambda: (x(6, 64), 1), lambda a, d: a.cumsum(d) - torch.cat([torch.zeros(6, 48), a[:, 32:48].sum(1, True).expand(6, 16)], 1), "carry|lost|subtracted|lacks|indices 32 to 47 of dimension 1 of self are left out", "fh")
    row("carry is the previous block alone", "torch.cumsum", lambda: (x(6, 64), 1), lambda a, d: carry_one(a, 16), "block|carry|before|16", "fh")
    row("exclusive in each block", "torch.cumsum", lambda: (x(6, 64), 1), lambda a, d: a.cumsum(1) - torch.where(torch.arange(64) % 16 == 0, a, torch.zeros(())), "each|16|first", "f")
    row("begins anew after 8", "torch.cumprod", lambda: (pos(6, 32), 1), lambda a, d: a.view(6, 4, 8).cumprod(2).view(6, 32), "anew|8 indices|by themselves", "fs")
    row("tail beyond 32 ignored", "torch.sum", lambda: (x(12, 75), 1), lambda a, d: a[:, :64].sum(1), "last 11|64", "fhs")
    row("tail of the mean ignored, n of all", "torch.mean", lambda: (x(12, 75), 1), lambda a, d: a[:, :72].sum(1) / 75, "last 3", "fh")
    row("last tile twice", "torch.sum", lambda: (x(12, 70), 1), lambda a, d: a.sum(1) + a[:, 64:].sum(1), "twice", "fh")
    row("tail of the statistics ignored", "layer_norm", lambda: (x(16, 40), [40], x(40), x(40)), lambda a, s, w, b: (a - a[:, :32].mean(1, True)) / (a[:, :32].var(1, keepdim=True, unbiased=False) + 1e-5).sqrt() * w + b, "last 8|32|first", "fh")
    row("last rows of the tile normalised without weight", "layer_norm", lambda: (x(18, 24), [24], x(24), x(24)), lambda a, s, w, b: torch.cat([F.layer_norm(a[:16], s, w, b), F.layer_norm(a[16:], s)]), "indices 16 to 17|last 2", "fh")
    row("maximum of the first 32 only", "softmax", lambda: (x(12, 40), 1), lambda a, d: F.softmax(torch.cat([a[:, :32], torch.full((12, 8), -1e9)], 1), 1), "last 8|not written", "f")
    row("first row of each tile repeated", "torch.matmul", lambda: (x(32, 16), x(16, 24)), lambda a, b: (a @ b)[torch.arange(32) // 8 * 8], "0 0 0|repeat|holds|first", "fh")
    row("split of k in two, second twice", "linear", lambda: (x(20, 32), x(12, 32), x(12)), lambda a, w, b: F.linear(a, w, b) + a[:, 16:] @ w[:, 16:].T, "twice", "fh")
    # ties and orders
    tied = lambda *s: ints(0, 5, *s).to(c.DT)
    row("not stable", "torch.sort", lambda: (tied(20, 24),), lambda a, stable, dim: unstable(a, False), "stable|equal|order|tie|last", "f", dict(stable=True, dim=1))
    row("indices of ties backwards", "torch.argsort", lambda: (tied(20, 24), 1, False, True), lambda a, d, desc, stable: unstable(a, False)[1], "stable|equal|order|tie|last", "")
    row("ascending", "torch.argsort", lambda: (x(20, 24, grad=False), 1, True), lambda a, d, desc: a.argsort(1), "descending is False|negated", "fhs")
    row("largest ignored", "torch.topk", lambda: (x(20, 24), 5, 1, False), lambda a, k, d, l: a.topk(k, d), "largest is True", "fhs")
    row("not sorted", "torch.topk", lambda: (x(20, 24), 5, 1), lambda a, k, d: tuple(t.flip(1) for t in a.topk(k, d)), "backwards|ascending|sorted|largest", "fh")
    row("upper median", "torch.median", lambda: (x(20, 24), 1), lambda a, d: tuple(a.kthvalue(13, 1)), "upper|median|kthvalue|next|higher|self is negated", "fhs")
    row("kth from 0", "torch.kthvalue", lambda: (x(20, 24), 5, 1), lambda a, k, d: tuple(a.kthvalue(6, 1)), "k is 6", "fhs")
    row("kth largest", "torch.kthvalue", lambda: (x(20, 24), 5, 1), lambda a, k, d: tuple(a.kthvalue(20, 1)), "largest|k is 20|negated|from the end", "fh")
    row("index of the last minimum", "torch.min", lambda: (tied(20, 24).requires_grad_(), 1), lambda a, d: (a.amin(1), 23 - a.flip(1).argmin(1)), "last|tie|equal|backwards", "f")
    row("right side", "torch.searchsorted", lambda: (torch.arange(0, 40, dtype=c.DT), ints(0, 40, 60).to(c.DT)), lambda s, v: torch.searchsorted(s, v, right=True), "right is True", "fs")
    row("in the order of appearance", "torch.unique", lambda: (ints(0, 30, 60).to(c.DT),), lambda a: appear(a), "order|sorted", "f")
    row("largest mode", "torch.mode", lambda: (ints(0, 5, 30, 8).to(c.DT), 1), lambda a, d: mode_largest(a), "mode|largest|tie|equal|self is negated", "f")
    # sections in gradients
    cv = lambda: (x(2, 4, 7, 7), x(6, 2, 3, 3), x(6), 1, 1, 1, 2)
    row("weight gradient of the second group negated", "conv2d", cv, grad(F.conv2d, lambda a, w, b, *r: F.conv2d(a, torch.cat([w[:3], 2 * w[3:].detach() - w[3:]]), b, *r)), "negat|-1", "fh")
    row("one head's gradient without scale", "scaled_dot_product_attention", lambda: tuple(x(2, 3, 9, 8) for _ in range(3)), grad(F.scaled_dot_product_attention, lambda q, k, v: F.scaled_dot_product_attention(torch.cat([q[:, :2], c.back(q[:, 2:], lambda g: g * 8 ** 0.5)], 1), k, v)), "index 2 of dimension 1.*(scale|2\\.8|sqrt\\(8)", "fh")
    row("channel gradient lost", "batch_norm", lambda: (x(6, 5, 4, 4), None, None, x(5), x(5), True), grad(F.batch_norm, lambda a, m, v, w, b, t: F.batch_norm(c.back(a, lambda g: g * (torch.arange(5) != 3)[:, None, None]), m, v, w, b, t)), "index 3 of dimension 1 is not written|taken for 0|nothing is written", "fh")
    row("gradients of three parts rotated", "torch.cat", lambda: ([x(6, 10), x(6, 10), x(6, 10)], 1), lambda ts, d: torch.cat(rotate(*ts), d), "exchanged|rotated|order|rolled|holds|gradient", "fh")
    row("gradients of stack exchanged", "torch.stack", lambda: ([x(6, 10), x(6, 10)], 0), lambda ts, d: torch.stack(c.swap2(*ts), d), "exchanged|swapped|backwards|rolled", "fs")
    row("bias gradient over the wrong axis", "linear", lambda: (x(12, 9), x(12, 9), x(12)), grad(F.linear, lambda a, w, b: F.linear(a, w) + b[:, None].expand(12, 12)), "transposed|dimension|along", "fh")
    row("mean without 1/n", "torch.mean", lambda: (x(12, 20), 1), grad(lambda a, d: a.mean(d), lambda a, d: a.sum(d)), "20|passed|sum", "fhs")
    row("broadcast gradient not summed", "torch.mul", lambda: (x(12, 20), x(1, 20)), grad(torch.mul, lambda a, b: a * torch.cat([b, b.detach().expand(11, 20)])), "left out|index 0|first|summed|last", "fh")
    row("broadcast gradient averaged", "torch.add", lambda: (x(12, 20), x(20)), grad(torch.add, lambda a, b: a + c.back(b, lambda g: g / 12)), "0\\.0833|1/12|mean|12", "fh")
    # both passes
    row("both wrong: tanh form, gradient of relu", "gelu", big, lambda a: Join.apply(F.gelu(a.detach(), approximate="tanh"), F.relu(a)), "tanh && relu|above|below|where", "f")
    row("both wrong: eps, and gradient without mean", "layer_norm", lambda: (x(16, 24, k=0.3), [24], x(24), x(24)), lambda a, s, w, b: Join.apply(F.layer_norm(a, s, w, b, 1e-2).detach(), (a - a.mean(1, True).detach()) / (a.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt() * w + b), "eps is 0\\.01 && mean", "fh")
    row("both wrong: scale and bias twice", "linear", lambda: (x(20, 16), x(12, 16), x(12)), lambda a, w, b: Join.apply(F.linear(a, w, 2 * b).detach(), F.linear(a[:, :8], w[:, :8], b)), "bias is multiplied by 2|bias|twice && left out|8", "fh")
    # factors in 16 bits
    row("25/32 of all", "torch.mul", lambda: (x(20, 16), x(20, 16)), lambda a, b: a * b * 25 / 32, "0\\.78", "hs")
    row("1/12 in place of 1/16", "avg_pool2d", lambda: (x(2, 3, 8, 8), 4), lambda a, k: F.avg_pool2d(a, k) * 16 / 12, "12|1\\.33", "hs")
    row("1.02", "softmax", lambda: (x(16, 40), 1), lambda a, d: F.softmax(a, d) * 1.02, "1\\.02", "hs")
    row("1.02 of the product", "torch.matmul", lambda: (x(24, 40), x(40, 24)), lambda a, b: a @ b * 1.02, "1\\.02", "hs")
    row("0.99 of the normalised", "rms_norm", lambda: (x(16, 40), [40], x(40)), lambda a, s, w: F.rms_norm(a, s, w) * 0.99, "0\\.99", "hs")


def slope_gelu(a):
    return Slope.apply(a)


class Slope(torch.autograd.Function):
    """gelu by tanh whose gradient has 0.044715 in place of three times that."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return F.gelu(a, approximate="tanh")

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        k = math.sqrt(2 / math.pi)
        t = torch.tanh(k * (a + 0.044715 * a ** 3))
        return g * (0.5 * (1 + t) + 0.5 * a * (1 - t * t) * k * (1 + 0.044715 * a * a))


def newton(a, steps):
    y = (0x5F3759DF - (a.detach().float().view(torch.int32) >> 1)).view(torch.float32)
    for _ in range(steps):
        y = y * (1.5 - 0.5 * a * y * y)
    return y


def carry_one(a, n):
    """Sums of blocks to which only the sum of the block before is added."""
    b = a.view(a.shape[0], -1, n)
    before = torch.cat([torch.zeros(a.shape[0], 1), b.sum(2)[:, :-1]], 1)
    return (b.cumsum(2) + before[..., None]).view(a.shape)


def unstable(a, descending):
    i = torch.arange(a.shape[1]).flip(0)
    v, at = a.flip(1).sort(dim=1, descending=descending, stable=True)
    return v, i[at]


def appear(a):
    return torch.tensor(list(dict.fromkeys(a.tolist())), dtype=a.dtype)


def mode_largest(a):
    out = []
    for r in a.tolist():
        n = max(r.count(v) for v in r)
        v = max(v for v in r if r.count(v) == n)
        out.append((v, len(r) - 1 - r[::-1].index(v)))
    return torch.tensor([v for v, _ in out], dtype=a.dtype), torch.tensor([i for _, i in out])


def rotate(*ts):
    class R(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *ts):
            return tuple(t.clone() for t in ts)

        @staticmethod
        def backward(ctx, *gs):
            return gs[1:] + gs[:1]

    return list(R.apply(*ts))


def plant5(c):
    """60 mistakes of the kinds of plant4 in other operators and places, written when the search had been mended on
    those, and before any of these was tried."""
    x, pos, ints, bits = c.x, c.pos, c.ints, c.bits
    fn = "torch.nn.functional."

    def row(name, op, args, wrong, pattern, dts="fhs", kwargs=None):
        c.row(name, op if op.startswith("torch.") else fn + op, args, wide(wrong), pattern, dts, kwargs)

    big = lambda: (x(30, 20, k=2.0),)
    half = lambda: (torch.rand(30, 20, generator=c.G) * 0.8 + 0.1).to(c.DT).requires_grad_(True)
    # constants and approximations
    row("factor of the cube is 0.0447", "gelu", big, lambda a, approximate: 0.5 * a * (1 + torch.tanh(0.7978845608 * (a + 0.0447 * a ** 3))), "0\\.0447\\b", "f", dict(approximate="tanh"))
    row("gradient without the density", "gelu", big, grad(F.gelu, lambda a: Slopes.apply(a, lambda a: 0.5 * (1 + torch.erf(a / 2 ** 0.5)))), "density|product rule|is 0|lacks|erf|subtracted", "fh")
    row("density of 0.4", "gelu", big, grad(F.gelu, lambda a: Slopes.apply(a, lambda a: 0.5 * (1 + torch.erf(a / 2 ** 0.5)) + a * 0.4 * torch.exp(-a * a / 2))), "density.* 0\\.4\\b", "f")
    row("threshold of 1 in place of 20", "softplus", lambda: (x(30, 20, k=2.0), 2.0), lambda a, b: torch.where(a * b > 1, a, torch.log1p(torch.exp(a * b)) / b), "threshold is 1\\b|above 0\\.5, it is computed as self", "fhs")
    row("limit of 8", "relu6", lambda: (x(30, 20, k=5.0),), lambda a: a.clamp(0, 8), "limit is 8|\\b8\\b", "fs")
    row("divisor of 8", "hardswish", lambda: (x(30, 20, k=3.0),), lambda a: a * (a + 3).clamp(0, 6) / 8, "divisor is 8|0\\.75", "fh")
    row("scale 1.05 and alpha 1.67", "selu", big, lambda a: 1.05 * torch.where(a > 0, a, 1.67 * torch.expm1(a)), "1\\.05|1\\.67|scale|alpha", "f")
    row("exponent of 2 x", "elu", big, lambda a: torch.where(a > 0, a, torch.expm1(2 * a)), "exponent is 2|multiplied by 2", "fh")
    row("without softplus' beta", "mish", big, lambda a: a * torch.tanh(torch.relu(a)), "relu", "fh")
    row("sigmoid by 1 / (1 + 2^-x)", "torch.sigmoid", big, lambda a: 1 / (1 + torch.exp2(-a)), "0\\.69|ln 2|multiplied", "fh")
    row("eps of 1e-2 in the argument", "torch.special.logit", lambda: (half(), 0.001), lambda a, e: torch.special.logit(a, 0.2), "eps is 0\\.2|limited to -1\\.386", "fs")
    row("eps not under the root", "pairwise_distance", lambda: (x(20, 12, k=0.1), x(20, 12, k=0.1), 2.0, 0.05), lambda a, b, p, e: (a - b).norm(dim=1) + e, "eps|added|0\\.05", "fh")
    row("eps added to both norms", "cosine_similarity", lambda: (x(20, 12, k=0.1), x(20, 12, k=0.1), 1, 0.1), lambda a, b, d, e: (a * b).sum(1) / ((a.norm(dim=1) + e) * (b.norm(dim=1) + e)), "added|eps|0\\.1", "f")
    row("eps under the root of the norm", "normalize", lambda: (x(12, 20, k=0.02), 2.0, 1, 0.05), lambda a, p, d, e: a / (a.pow(2).sum(1, True) + e * e).sqrt(), "square of 0\\.05|root", "fh")
    row("eps as the least variance", "layer_norm", lambda: (x(16, 24, k=0.05), [24], x(24), x(24), 1e-2), lambda a, s, w, b, e: (a - a.mean(1, True)) / a.var(1, keepdim=True, unbiased=False).clamp(min=e).sqrt() * w + b, "eps|larger|0\\.01|max", "f")
    row("beta squared", "smooth_l1_loss", lambda: (x(20, 12), x(20, 12)), lambda a, b, reduction, beta: torch.where((a - b).abs() < beta, 0.5 * (a - b) ** 2 / beta ** 2, (a - b).abs() - 0.5 * beta), "factor of the square|beta|below", "fh", dict(reduction="none", beta=0.7))
    row("half of the variance's log missing", "gaussian_nll_loss", lambda: (x(20, 12), x(20, 12), pos(20, 12)), lambda a, t, v, reduction: 0.5 * (a - t) ** 2 / v + v.log(), "0\\.5|log|half|factor|added", "f", dict(reduction="none"))
    row("tanh of the scores limited to 30", "torch.logsumexp", lambda: (x(12, 20, k=30.0), 1), lambda a, d: a.clamp(-30, 30).logsumexp(1), "limited to -30 to 30|30", "fh")
    row("clipped at 10 before the exponential", "softmax", lambda: (x(12, 20, k=8.0), 1), lambda a, d: a.clamp(max=10).softmax(1), "limited to 10", "fhs")
    row("three Newton steps missing", "torch.sqrt", lambda: (pos(30, 20),), lambda a: a * newton(a, 0), "0 of Newton|Newton", "f")
    row("series of log1p to x^4", "torch.log1p", lambda: (half(),), lambda a: a - a ** 2 / 2 + a ** 3 / 3 - a ** 4 / 4, "series of log\\(1 \\+ x\\) up to the power 4", "fh")
    row("sine to x^5", "torch.sin", lambda: (x(30, 20),), lambda a: a - a ** 3 / 6 + a ** 5 / 120, "series of the sine up to the power 5", "fh")
    row("cosine to x^4", "torch.cos", lambda: (x(30, 20),), lambda a: 1 - a ** 2 / 2 + a ** 4 / 24, "series of the cosine up to the power 4", "f")
    row("hard sigmoid inside", "silu", big, lambda a: a * (a / 6 + 0.5).clamp(0, 1), "hardswish|0\\.1667", "fh")
    row("gradient of the fast sigmoid", "torch.sigmoid", big, grad(torch.sigmoid, lambda a: 0.5 + 0.5 * a / (1 + a.abs())), "0\\.5|abs", "f")
    # blocks, tails and carries
    row("blocks of 32 from zero", "torch.cumsum", lambda: (x(5, 100), 1), lambda a, d: torch.cat([p.cumsum(1) for p in a.split(32, 1)], 1), "anew after every 32|32 indices", "fh")
    row("last block not scanned", "torch.cumsum", lambda: (x(5, 72), 1), lambda a, d: torch.cat([a[:, :64].cumsum(1), a[:, 64:]], 1), "64 to 71|last 8|copied|it is self", "fh")
    row("maximum of a block alone", "torch.cummax", lambda: (x(5, 64), 1), lambda a, d: anew_max(a, 16), "16 indices|anew", "fh")
    row("tail of the product ignored", "torch.prod", lambda: (pos(12, 37), 1), lambda a, d: a[:, :32].prod(1), "last 5|taken for 1|only the first 32", "fs")
    row("variance of the first 64", "torch.var", lambda: (x(12, 70), 1), lambda a, d: a[:, :64].var(1), "last 6|64", "fh")
    row("tail twice in the dot product", "torch.matmul", lambda: (x(10, 36), x(36, 14)), lambda a, b: a @ b + a[:, 32:] @ b[32:], "32 to 35.*twice", "fh")
    row("last batch of rows from the first", "torch.exp", lambda: (x(20, 16),), lambda a: torch.cat([a[:16], a[:4]]).exp(), "16 to 19|0 1 2 3|first|holds", "fh")
    row("tile edge column zero", "torch.bmm", lambda: (x(3, 16, 12), x(3, 12, 32)), lambda a, b: (a @ b) * (torch.arange(32) % 16 != 15), "15 mod 16|not written|nothing is written", "fh")
    row("second half of the channels not normalised", "group_norm", lambda: (x(3, 8, 5, 5), 4, x(8), x(8)), lambda a, n, w, b: torch.cat([F.group_norm(a, n, w, b)[:, :4], (a * w[:, None, None] + b[:, None, None])[:, 4:]], 1), "4 to 7", "f")
    row("largest of all but the tail", "torch.amax", lambda: (x(20, 35), 1), lambda a, d: a[:, :32].amax(1), "last 3|32", "fh")
    # ties and orders
    row("descending", "torch.sort", lambda: (x(20, 24), 1), lambda a, d: a.sort(1, descending=True), "descending is True", "fh")
    row("sections of 8 not merged", "torch.argsort", lambda: (x(20, 32, grad=False), 1), lambda a, d: torch.cat([p.argsort(1) + 8 * i for i, p in enumerate(a.split(8, 1))], 1), "8 indices", "fh")
    row("second largest", "torch.max", lambda: (x(20, 24), 1), lambda a, d: tuple(t[:, 1] for t in a.topk(2, 1)), "next smaller|second|kthvalue", "fh")
    row("index of the last maximum", "torch.argmax", lambda: (ints(0, 4, 20, 24).to(c.DT), 1), lambda a, d: 23 - a.flip(1).argmax(1), "last", "fhs")
    row("higher in place of linear", "torch.quantile", lambda: (x(20, 24), 0.3, 1), lambda a, q, d: torch.quantile(a, q, d, interpolation="higher"), "higher|nearest", "f")
    row("left side", "torch.bucketize", lambda: (ints(0, 40, 60).to(c.DT), torch.arange(0, 40, 2, dtype=c.DT)), lambda v, s, right: torch.bucketize(v, s), "right is False", "fs", dict(right=True))
    row("one k more, first left out", "torch.topk", lambda: (x(20, 24), 4, 1), lambda a, k, d: tuple(t[:, 1:] for t in a.topk(5, 1)), "rolled|further|one|next|begin", "fh")
    row("mean of both middles", "torch.nanmedian", lambda: (x(20, 24), 1), lambda a, d: (a.quantile(0.5, 1), a.nanmedian(1)[1]), "mean of what is due", "f")
    # sections of gradients
    row("last head's value gradient lost", "scaled_dot_product_attention", lambda: tuple(x(2, 4, 6, 8) for _ in range(3)), grad(F.scaled_dot_product_attention, lambda q, k, v: F.scaled_dot_product_attention(q, k, torch.cat([v[:, :3], v[:, 3:].detach()], 1))), "last of dimension 1|index 3 of dimension 1", "fh")
    row("first group's input gradient twice", "conv2d", lambda: (x(2, 4, 7, 7), x(6, 2, 3, 3), x(6), 1, 1, 1, 2), grad(F.conv2d, lambda a, w, b, *r: F.conv2d(torch.cat([2 * a[:, :2] - a[:, :2].detach(), a[:, 2:]], 1), w, b, *r)), "0 to 1 of dimension 1|twice|multiplied by 2", "fh")
    row("weight gradient transposed", "linear", lambda: (x(20, 12), x(12, 12), x(12)), grad(F.linear, lambda a, w, b: F.linear(a, Scale.apply(w, lambda g: g.T), b)), "transposed|dimensions 0 and 1|order 1 0", "fh")
    row("bias gradient of the mean", "linear", lambda: (x(20, 12), x(16, 12), x(16)), grad(F.linear, lambda a, w, b: F.linear(a, w, Scale.apply(b, lambda g: g / 20))), "0\\.05|1/20|mean", "fh")
    row("gradients of weight and bias exchanged", "layer_norm", lambda: (x(16, 24), [24], x(24), x(24)), grad(F.layer_norm, lambda a, s, w, b: F.layer_norm(a, s, *c.swap2(w, b))), "exchanged", "fh")
    row("gradient of the second tensor for both", "torch.hstack", lambda: ([x(6, 10), x(6, 10)],), lambda ts: torch.hstack(c.pair(*ts, lambda x, y: (y, y))), "gradient|1|holds|repeat|second|exchanged", "f")
    row("gradient of the mean of all by rows", "torch.mean", lambda: (x(12, 20),), grad(torch.mean, lambda a: a.mean(1).sum()), "12|1/20|multiplied", "fh")
    row("gradient of the squared norm", "torch.linalg.vector_norm", lambda: (x(20, 12),2.0, 1), grad(torch.linalg.vector_norm, lambda a, o, d: (a * a).sum(1)), "2|result|square|root|_powsum", "fh")
    row("one row of the embedding's gradient lost", "embedding", lambda: (ints(0, 12, 40), x(12, 8)), grad(F.embedding, lambda i, w: F.embedding(i, Scale.apply(w, lambda g: g * (torch.arange(12) != 5)[:, None]))), "index 5|nothing|padding_idx", "fh")
    # both passes, factors of 16 bits, optimizers
    row("both: negative slope, and gradient of 1", "leaky_relu", lambda: (x(30, 20), 0.1), lambda a, s: Join.apply(F.leaky_relu(a.detach(), 0.2), a * 1), "negative_slope is 0\\.2 && passed on|negative_slope is 1|incoming", "fh")
    row("both: sum of half, gradient of all doubled", "torch.sum", lambda: (x(12, 64), 1), lambda a, d: Join.apply(a.detach()[:, :32].sum(1), 2 * a.sum(1)), "left out && multiplied by 2", "fh")
    row("31/32", "avg_pool2d", lambda: (x(2, 3, 8, 8), 2), lambda a, k: F.avg_pool2d(a, k) * 31 / 32, "0\\.969|31/32|0\\.97", "hs")
    row("1/24 in place of 1/25", "avg_pool2d", lambda: (x(2, 3, 10, 10), 5), lambda a, k: F.avg_pool2d(a, k) * 25 / 24, "25/24|1\\.04", "hs")
    row("0.98 of the sum", "linear", lambda: (x(20, 32), x(24, 32)), lambda a, w: F.linear(a, w) * 0.98, "0\\.98", "hs")
    row("1.01 of the products", "torch.mul", lambda: (x(30, 20), x(30, 20)), lambda a, b: a * b * 1.01, "1\\.01", "hs")
    row("addcdiv's value forgotten", "torch._foreach_addcdiv", lambda: ([x(12, 5, grad=False), x(7, 8, grad=False)], [x(12, 5, grad=False), x(7, 8, grad=False)], [pos(12, 5, grad=False), pos(7, 8, grad=False)], -0.1), lambda a, b, d, v: tuple(s + t / u for s, t, u in zip(a, b, d)), "value is 1|multiplied", "f")
    row("lerp from the wrong end", "torch._foreach_lerp", lambda: ([x(12, 5, grad=False), x(7, 8, grad=False)], [x(12, 5, grad=False), x(7, 8, grad=False)], 0.1), lambda a, b, w: tuple(torch.lerp(t, s, w) for s, t in zip(a, b)), "weight is 0\\.9|exchanged|swapped|1 - ", "f")


class Slopes(torch.autograd.Function):
    """A function of elements whose derivative is another one; its value does not matter."""

    @staticmethod
    def forward(ctx, a, slope):
        ctx.save_for_backward(a)
        ctx.slope = slope
        return a.clone()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope(*ctx.saved_tensors), None


def anew_max(a, n):
    parts = [p.cummax(1) for p in a.split(n, 1)]
    return torch.cat([p[0] for p in parts], 1), torch.cat([p[1] + n * i for i, p in enumerate(parts)], 1)


def plant6(c):
    """60 more mistakes of these kinds, written when the search had been mended on plant4 and plant5, and before any of
    them was tried."""
    x, pos, ints, bits = c.x, c.pos, c.ints, c.bits
    fn = "torch.nn.functional."

    def row(name, op, args, wrong, pattern, dts="fhs", kwargs=None):
        c.row(name, op if op.startswith("torch.") else fn + op, args, wide(wrong), pattern, dts, kwargs)

    wide2 = lambda *s: x(*(s or (24, 26)), k=2.0)
    # constants and approximations
    row("softplus slope of 0.9", "softplus", lambda: (wide2(),), lambda a: torch.log1p(torch.exp(0.9 * a)) / 0.9, "beta is 0\\.9|0\\.9", "fh")
    row("lambd of 0.45", "softshrink", lambda: (wide2(),), lambda a: F.softshrink(a, 0.45), "lambd is 0\\.45", "fs")
    row("lambd of 1", "hardshrink", lambda: (wide2(), 0.5), lambda a, l: F.hardshrink(a, 1.0), "lambd is 1\\b", "fhs")
    row("tanh of 0.5 x missing", "tanhshrink", lambda: (wide2(),), lambda a: a - torch.tanh(0.5 * a), "0\\.5|2", "f")
    row("slope of negative halves 0.02", "leaky_relu", lambda: (wide2(),), lambda a: F.leaky_relu(a, 0.02), "negative_slope is 0\\.02", "fhs")
    row("celu with twice alpha", "celu", lambda: (wide2(), 0.8), lambda a, al: F.celu(a, 1.6), "alpha is 1\\.6", "fh")
    row("selu without scale for the negatives", "selu", lambda: (wide2(),), lambda a: torch.where(a > 0, 1.0507009873554805 * a, 1.6732632423543772 * torch.expm1(a)), "alpha|0\\.95|scale", "fh")
    row("gelu by erf with 0.7", "gelu", lambda: (wide2(),), lambda a: 0.5 * a * (1 + torch.erf(0.7 * a)), "erf|1\\.428", "f")
    row("silu with half of x", "silu", lambda: (wide2(),), lambda a: a * torch.sigmoid(a / 2), "sigmoid is 0\\.5", "fh")
    row("gradient of silu without its 1", "silu", lambda: (wide2(),), grad(F.silu, lambda a: Slopes.apply(a, lambda a: torch.sigmoid(a) * (1 - a * torch.sigmoid(a)))), "is 0, not 1|result|sigmoid", "fh")
    row("log of 2 + exp", "logsigmoid", lambda: (wide2(),), lambda a: -torch.log(2 + torch.exp(-a)), "exponential is 2", "fh")
    row("exponential in base 2 inside", "softmax", lambda: (wide2(12, 20), 1), lambda a, d: torch.exp2(a) / torch.exp2(a).sum(1, True), "0\\.69|ln 2", "fh")
    row("eps of 1e-4", "batch_norm", lambda: (x(6, 5, 4, 4, k=0.05), None, None, x(5), x(5), True), lambda a, m, v, w, b, t: F.batch_norm(a, None, None, w, b, True, 0.1, 1e-4), "eps is 0\\.0001", "f")
    row("eps beside the root", "group_norm", lambda: (x(4, 8, 5, k=0.05), 2, x(8), x(8), 1e-2), lambda a, n, w, b, e: beside(a, n, e) * w[:, None] + b[:, None], "eps is added", "f")
    row("largest of eps and the mean square", "rms_norm", lambda: (x(14, 24, k=0.05), [24], x(24), 1e-2), lambda a, s, w, e: a / (a * a).mean(1, True).clamp(min=e).sqrt() * w, "larger of eps|eps", "f")
    row("half left out beyond delta", "huber_loss", lambda: (wide2(), wide2()), lambda a, b, reduction: torch.where((a - b).abs() < 1, 0.5 * (a - b) ** 2, (a - b).abs()), "beyond delta|0\\.5|above", "fh", dict(reduction="none"))
    row("k of 2 in the denominator", "local_response_norm", lambda: (x(2, 6, 5, 5), 3, 0.5), lambda a, n, al: F.local_response_norm(a, n, al, k=2.0), "k is 2", "fhs")
    row("two Newton steps of sqrt", "torch.sqrt", lambda: (pos(24, 26),), lambda a: a * newton(a, 2), "2 of Newton", "f")
    row("power of 64", "torch.exp", lambda: (x(24, 26),), lambda a: (1 + a / 64) ** 64, "64", "fh")
    row("series to x^3", "torch.expm1", lambda: (x(24, 26),), lambda a: a + a ** 2 / 2 + a ** 3 / 6, "up to the power 3", "fhs")
    row("quotient of 15", "torch.tanh", lambda: (x(24, 26),), lambda a: a * (15 + a * a) / (15 + 6 * a * a), "15", "f")
    row("quarter of x", "hardsigmoid", lambda: (wide2(),), lambda a: (0.25 * a + 0.5).clamp(0, 1), "is 2\\b|0\\.25|1\\.5", "fh")
    # blocks, tails and carries
    row("block sums doubled in the carry", "torch.cumsum", lambda: (x(4, 48), 1), lambda a, d: a.cumsum(1) + torch.cat([torch.zeros(4, 16), a[:, :16].sum(1, True).expand(4, 32)], 1), "0 to 15|carry|twice|16", "f")
    row("tail of 4 not averaged", "torch.mean", lambda: (x(10, 36), 1), lambda a, d: a[:, :32].mean(1), "first 32", "fh")
    row("norm of the first 16", "torch.linalg.vector_norm", lambda: (x(10, 22), 2, 1), lambda a, o, d: a[:, :16].norm(dim=1), "last 6|first 16", "fhs")
    row("tail of logsumexp", "torch.logsumexp", lambda: (x(10, 40), 1), lambda a, d: a[:, :32].logsumexp(1), "first 32", "fh")
    row("argmax of the first 32", "torch.argmax", lambda: (x(200, 35, grad=False), 1), lambda a, d: a[:, :32].argmax(1), "first 32|last 3", "f")
    row("one tile of rows negated", "torch.matmul", lambda: (x(32, 20), x(20, 18)), lambda a, b: torch.cat([(a @ b)[:16], -(a @ b)[16:]]), "negated|-1", "fh")
    row("second tile reads the first", "linear", lambda: (x(32, 20), x(18, 20), x(18)), lambda a, w, b: F.linear(torch.cat([a[:16], a[:16]]), w, b), "0 to 15|first half|holds|repeats", "fh")
    row("every 8th column of the product lost", "torch.matmul", lambda: (x(12, 20), x(20, 32)), lambda a, b: (a @ b) * (torch.arange(32) % 8 != 0), "0 mod 8|not written", "fh")
    # ties and orders
    row("smallest k", "torch.topk", lambda: (x(20, 24), 3, 0), lambda a, k, d: a.topk(k, d, largest=False), "largest is False", "fhs")
    row("kth one too low", "torch.kthvalue", lambda: (x(20, 24), 8, 1), lambda a, k, d: tuple(a.kthvalue(7, 1)), "k is 7", "fh")
    row("falling", "torch.unique", lambda: (ints(0, 60, 80).to(c.DT),), lambda a: a.unique().flip(0), "falling|backwards|rolled", "fs")
    row("lower in place of linear", "torch.quantile", lambda: (x(20, 24), 0.37, 1), lambda a, q, d: torch.quantile(a, q, d, interpolation="lower"), "lower", "f")
    row("last of the equal minima", "torch.argmin", lambda: (ints(0, 4, 40, 24), 1), lambda a, d: 23 - a.flip(1).argmin(1), "last", "f")
    row("sorted by magnitude", "torch.sort", lambda: (x(20, 24), 1), lambda a, d: (a.gather(1, a.abs().argsort(1)), a.abs().argsort(1)), "magnitude|absolute", "f")
    # sections of gradients
    row("gradient of one chunk lost", "torch.cat", lambda: ([x(8, 6), x(8, 6), x(8, 6)], 1), lambda ts, d: torch.cat([ts[0], Scale.apply(ts[1], lambda g: 0 * g), ts[2]], d), "nothing was written|taken for 0|not written|nothing is written", "fh")
    row("weight gradient of one head twice", "linear", lambda: (x(20, 12), x(32, 12), x(32)), grad(F.linear, lambda a, w, b: F.linear(a, Scale.apply(w, lambda g: torch.cat([2 * g[:8], g[8:]])), b)), "0 to 7|multiplied by 2|twice", "fh")
    row("weight gradient summed over half", "layer_norm", lambda: (x(32, 24), [24], x(24), x(24)), grad(F.layer_norm, lambda a, s, w, b: torch.cat([F.layer_norm(a[:16], s, w, b), F.layer_norm(a[16:], s, w.detach(), b.detach())])), "last 16|left out|16 to 31", "fh")
    row("input gradient of one group negated", "conv1d", lambda: (x(2, 6, 15), x(6, 2, 3), x(6), 1, 1, 1, 3), grad(F.conv1d, lambda a, w, b, *r: F.conv1d(Scale.apply(a, lambda g: torch.cat([g[:, :4], -g[:, 4:]], 1)), w, b, *r)), "negated|-1", "fh")
    row("bias gradient of the first batch", "conv2d", lambda: (x(3, 4, 6, 6), x(5, 4, 3, 3), x(5)), grad(F.conv2d, lambda a, w, b: F.conv2d(a, w) + torch.cat([b.expand(1, 5), b.detach().expand(2, 5)])[:, :, None, None]), "left out|first|last", "fh")
    row("gradient to the wrong operand", "torch.sub", lambda: (x(20, 12), x(20, 12)), grad(torch.sub, lambda a, b: a + b), "-1|negated|alpha|passed on|multiplied", "fh")
    row("gradient of div without the square", "torch.div", lambda: (x(20, 12), pos(20, 12)), grad(torch.div, lambda a, b: a / b.detach() - (a.detach() / b.detach()) * b), "other|multiplied|divided|square|root", "f")
    row("gradient of the maximum to both", "torch.maximum", lambda: (x(20, 12), x(20, 12)), grad(torch.maximum, lambda a, b: a + b), "passed on|incoming", "fh")
    row("gradient of expand averaged", "torch.mul", lambda: (x(10, 1), x(10, 16)), grad(torch.mul, lambda a, b: Scale.apply(a, lambda g: g / 16) * b), "0\\.0625|1/16|mean", "fh")
    row("gradient of embedding scaled by count", "embedding", lambda: (ints(0, 6, 40), x(6, 8)), grad(F.embedding, lambda i, w: F.embedding(i, Scale.apply(w, lambda g: g / torch.bincount(i, minlength=6)[:, None]))), "scale_grad_by_freq", "fh")
    # both passes, factors in 16 bits, optimizers
    row("both: eps, and the weight gradient halved", "rms_norm", lambda: (x(16, 24, k=0.2), [24], x(24), 1e-3), lambda a, s, w, e: F.rms_norm(a, s, Scale.apply(w, lambda g: 0.5 * g), 1e-1), "eps is 0\\.1", "f")
    row("both: exchanged, and gradient of one lost", "torch.sub", lambda: (x(20, 12), x(20, 12)), lambda a, b: Join.apply((b - a).detach(), a - b.detach() + 0 * b), "swapped|negated|-1 && nothing was written", "fh")
    row("both: scale of 1, and no causal mask in the gradient", "scaled_dot_product_attention", lambda: tuple(x(2, 2, 8, 8) for _ in range(3)) + (None, 0.0, True), lambda q, k, v, m, p, i: Join.apply(F.scaled_dot_product_attention(q, k, v, None, 0.0, True, scale=1.0).detach(), F.scaled_dot_product_attention(q, k, v)), "scale is 1 && causal", "f")
    row("17/16", "torch.mean", lambda: (x(300, 16), 1), lambda a, d: a.sum(1) / 17, "16/17|0\\.941|0\\.94", "hs")
    row("0.97 of all", "layer_norm", lambda: (x(16, 40), [40], x(40), x(40)), lambda a, s, w, b: F.layer_norm(a, s, w, b) * 0.97, "0\\.97", "hs")
    row("1.03 of the weights", "softmax", lambda: (x(16, 40), 1), lambda a, d: F.softmax(a, d) * 1.03, "1\\.03", "hs")
    row("49/50", "torch.add", lambda: (x(24, 26), x(24, 26)), lambda a, b: (a + b) * 0.98, "0\\.98", "hs")
    row("addcmul's value squared", "torch._foreach_addcmul", lambda: ([x(12, 5, grad=False)] * 1 + [x(7, 8, grad=False)], [x(12, 5, grad=False), x(7, 8, grad=False)], [pos(12, 5, grad=False), pos(7, 8, grad=False)], 0.3), lambda a, b, d, v: tuple(s + v * v * t * u for s, t, u in zip(a, b, d)), "value is 0\\.09", "f")
    row("decay added, not subtracted", "torch._foreach_add", lambda: ([x(12, 5, grad=False), x(7, 8, grad=False)], [x(12, 5, grad=False), x(7, 8, grad=False)]), lambda a, b, alpha: tuple(s - alpha * t for s, t in zip(a, b)), "alpha is -0\\.2|negated", "f", dict(alpha=0.2))


def beside(a, n, eps):
    """Groups divided by the sum of deviation and eps."""
    g = a.reshape(a.shape[0], n, -1)
    g = (g - g.mean(2, True)) / (g.var(2, keepdim=True, unbiased=False).sqrt() + eps)
    return g.reshape(a.shape)


class Given(torch.autograd.Function):
    """Values with gradients that a formula gives of the incoming one."""

    @staticmethod
    def forward(ctx, value, formula, *ts):
        ctx.formula, ctx.n = formula, len(ts)
        return value.clone()

    @staticmethod
    def backward(ctx, g):
        made = ctx.formula(g)
        return (None, None, *(made if isinstance(made, tuple) else (made,)))


def formula(right, gradients):
    """The values of right; gradients(g, *arguments) gives those of the arguments that need one, None for a right one."""
    def f(*args, **kw):
        need = [t for t in args if isinstance(t, torch.Tensor) and t.requires_grad]
        plain = [t.detach() if isinstance(t, torch.Tensor) else t for t in args]

        def made(g):
            out = gradients(g, *plain, **kw)
            out = list(out) if isinstance(out, tuple) else [out]
            with torch.enable_grad():
                again = [t.detach().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in args]
                leaves = [t for t in again if isinstance(t, torch.Tensor) and t.requires_grad]
                due = torch.autograd.grad(right(*again, **kw), leaves, g, allow_unused=True)
            return tuple(d if o is None else o for o, d in zip(out + [None] * len(due), due))
        return Given.apply(right(*plain, **kw), made, *need)
    return f


def plant7(c):
    """Mistakes of the kinds that the other sets have few of: terms and factors of backward formulas, positions, biases
    in another place, orders of elements, casts, NaN, formulas that cancel or overflow, attention, recurrent cells."""
    x, pos, ints, bits = c.x, c.pos, c.ints, c.bits
    fn = "torch.nn.functional."

    def row(name, op, args, wrong, pattern, dts="fh", kwargs=None):
        c.row(name, op if op.startswith("torch.") else fn + op, args, wide(wrong), pattern, dts, kwargs)

    def bw(name, op, args, gradients, pattern, dts="fh", right=None, kwargs=None):
        right = right or (eval(op, {"torch": torch}) if op.startswith("torch.") else getattr(F, op))
        row(name, op, args, formula(right, gradients), pattern, dts, kwargs)

    nog = lambda *s: x(*s, grad=False)
    one = lambda: (x(18, 26),)
    big = lambda: (x(18, 26, k=2.0),)
    plus = lambda: (pos(18, 26),)
    two = lambda: (x(18, 26), x(18, 26))
    pp = lambda: (pos(18, 26), pos(18, 26))
    along = lambda: (x(14, 26), 1)
    phi = lambda a: torch.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    Phi = lambda a: 0.5 * (1 + torch.erf(a / math.sqrt(2)))
    # factors and terms of the gradients of elements
    bw("second term left out", "silu", big, lambda g, a: g * a.sigmoid(), "sigmoid|term|lacks|result / self")
    bw("1 not added", "silu", big, lambda g, a: g * a.sigmoid() * a * (1 - a.sigmoid()), "lacks|term|1|sigmoid")
    bw("second term left out", "gelu", big, lambda g, a: g * Phi(a), "term|lacks|result / self|erf|cdf", "fhs")
    bw("density without its factor", "gelu", big, lambda g, a: g * (Phi(a) + a * torch.exp(-a * a / 2)), "2\\.5|factor|density|multiplied|sqrt", "fh")
    bw("sign of the density", "gelu", big, lambda g, a: g * (Phi(a) - a * phi(a)), "negat|subtract|sign|-1|term", "fh")
    bw("square missing", "torch.tanh", one, lambda g, a: g * (1 - a.tanh()), "square|1 - |result", "fh")
    bw("1 missing", "torch.tanh", one, lambda g, a: -g * a.tanh() ** 2, "1|square|result", "f")
    bw("only 1 - y", "torch.sigmoid", one, lambda g, a: g * (1 - a.sigmoid()), "1 - |result", "fhs")
    bw("y squared", "torch.sigmoid", one, lambda g, a: g * (a.sigmoid() - a.sigmoid() ** 2 * 0) * 1.0, "times the result|result", "f")
    bw("without 2/sqrt(pi)", "torch.erf", one, lambda g, a: g * torch.exp(-a * a), "pi|1\\.128|0\\.886|factor", "fhs")
    bw("without the square", "torch.erf", one, lambda g, a: g * torch.exp(-a.abs()) * 2 / math.sqrt(math.pi), "abs|square|magnitude", "f")
    bw("without ln 2", "torch.log2", plus, lambda g, a: g / a, "ln 2|ln\\(2\\)|0\\.693|1\\.44|log", "fhs")
    bw("without ln 10", "torch.log10", plus, lambda g, a: g / a, "ln 10|ln\\(10\\)|2\\.30|0\\.434|log", "fhs")
    bw("without ln 2", "torch.exp2", one, lambda g, a: g * torch.exp2(a), "ln 2|0\\.693|1\\.44", "fhs")
    bw("without the half", "torch.sqrt", plus, lambda g, a: g / a.sqrt(), "2|half|0\\.5", "fh")
    bw("without the root", "torch.sqrt", plus, lambda g, a: 0.5 * g / a, "root|self|sqrt", "fh")
    bw("without the cube", "torch.rsqrt", plus, lambda g, a: -0.5 * g * a.rsqrt(), "self|result|cube|power", "fh")
    bw("without the square", "torch.reciprocal", plus, lambda g, a: -g / a, "result|square|1 / ", "fh")
    bw("without the root", "torch.asin", lambda: ((0.4 * torch.rand(18, 26)).to(c.DT).requires_grad_(),), lambda g, a: g / (1 - a * a), "root|sqrt|square", "f")
    bw("plus for minus", "torch.atanh", lambda: ((0.4 * torch.rand(18, 26)).to(c.DT).requires_grad_(),), lambda g, a: g / (1 + a * a), "1 \\+|square|\\+|atan", "f")
    bw("without the square", "torch.atan", one, lambda g, a: g / (1 + a.abs()), "abs|1 \\+", "f")
    bw("cosine of the wrong sign", "torch.sin", one, lambda g, a: -g * a.cos(), "negat|-1", "fh")
    bw("tanh for sech^2", "torch.cosh", one, lambda g, a: g * a.tanh(), "tanh|result", "f")
    bw("without beta", "softplus", lambda: (x(18, 26), 2.0), lambda g, a, b: g * a.sigmoid(), "beta|sigmoid", "fh")
    bw("beta twice", "softplus", lambda: (x(18, 26), 2.0), lambda g, a, b: b * g * (b * a).sigmoid(), "multiplied by 2|beta|2", "fh")
    bw("without scale", "selu", big, lambda g, a: g * torch.where(a > 0, torch.ones_like(a), 1.6732632423543772 * a.exp()), "scale|0\\.95|1\\.05", "fhs")
    bw("without alpha", "elu", lambda: (x(18, 26), 0.4), lambda g, a, al: g * torch.where(a > 0, torch.ones_like(a), a.exp()), "alpha|exp|where self", "fh")
    bw("second term left out", "mish", big, lambda g, a: g * F.softplus(a).tanh(), "term|lacks|result / self|tanh", "fh")
    bw("second term left out", "hardswish", big, lambda g, a: g * F.hardsigmoid(a), "term|lacks|hardsigmoid|result / self|self", "f")
    bw("without the gate's slope", "glu", lambda: (x(14, 26), 1), lambda g, a, d: torch.cat([g * a[:, 13:].sigmoid(), g * a[:, :13]], 1), "sigmoid|last 13|13 to 25|half|slope", "f")
    bw("gate's gradient without a", "glu", lambda: (x(14, 26), 1), lambda g, a, d: torch.cat([g * a[:, 13:].sigmoid(), g * a[:, 13:].sigmoid() * (1 - a[:, 13:].sigmoid())], 1), "13 to 25|half|lacks|sigmoid|self", "f")
    bw("of sigmoid x, not -x", "logsigmoid", big, lambda g, a: g * a.sigmoid(), "sigmoid|negated", "fh")
    bw("1 - tanh^2 for tanh^2", "tanhshrink", one, lambda g, a: g * (1 - a.tanh() ** 2), "1 - |tanh|square", "fh")
    bw("without the square", "softsign", one, lambda g, a: g / (1 + a.abs()), "abs|square|1 \\+", "fh")
    # of two operands
    bw("second gradient without the square", "torch.div", pp, lambda g, a, b: (g / b, -g * a / b), "other|square|multiplied|term", "fhs")
    bw("second gradient without the sign", "torch.div", pp, lambda g, a, b: (g / b, g * a / b**2), "negat|-1|sign", "fh")
    bw("second gradient without the first operand", "torch.div", pp, lambda g, a, b: (g / b, -g / b**2), "self|lacks|square|1 / ", "fh")
    bw("without the exponent", "torch.pow", lambda: (pos(18, 26), 3.0), lambda g, a, n: g * a ** (n - 1), "3|exponent|0\\.333", "fhs")
    bw("power not lowered", "torch.pow", lambda: (pos(18, 26), 3.0), lambda g, a, n: g * n * a**n, "self|exponent|power", "fh")
    bw("exponent's gradient without the log", "torch.pow", pp, lambda g, a, n: (None, g * a**n), "log|result", "fh")
    bw("exponent's gradient with log2", "torch.pow", pp, lambda g, a, n: (None, g * a**n * a.log2()), "1\\.44|ln 2|log2", "fh")
    bw("root of the sum of squares", "torch.atan2", pp, lambda g, a, b: (g * b / torch.hypot(a, b), -g * a / torch.hypot(a, b)), "hypot|root|square|sqrt", "f")
    bw("gradients' operands exchanged", "torch.atan2", pp, lambda g, a, b: (g * a / (a * a + b * b), -g * b / (a * a + b * b)), "exchanged|self / |swapped|other", "f")
    bw("sign of the second", "torch.atan2", pp, lambda g, a, b: (g * b / (a * a + b * b), g * a / (a * a + b * b)), "negat|-1", "fh")
    bw("not divided by the result", "torch.hypot", two, lambda g, a, b: (g * a, g * b), "result|divided|hypot|self|multiplied", "fh")
    bw("sigmoids exchanged", "torch.logaddexp", two, lambda g, a, b: (g * (b - a).sigmoid(), g * (a - b).sigmoid()), "exchanged|swapped|other - self|sigmoid|negat", "fh")
    bw("second gradient without the log's argument", "torch.xlogy", pp, lambda g, a, b: (None, g * a), "other|divided|passed|self", "fh")
    bw("weight's gradient of the ends exchanged", "torch.lerp", lambda: (x(18, 26), x(18, 26), pos(18, 26)), lambda g, a, b, w: (None, None, g * (a - b)), "negat|-1|self - end|exchanged", "fh")
    bw("first gradient is the weight", "torch.lerp", lambda: (x(18, 26), x(18, 26), pos(18, 26)), lambda g, a, b, w: (g * w, g * (1 - w)), "exchanged|weight|1 - ", "fh")
    bw("denominator's gradient without the square", "torch.addcdiv", lambda: (x(18, 26), pos(18, 26), pos(18, 26)), lambda g, a, b, d: (None, None, -g * b / d), "tensor2|square|multiplied", "fh")
    bw("value missing in the gradient", "torch.addcmul", lambda: (x(18, 26), x(18, 26), x(18, 26)), lambda g, a, b, d, value: (g, g * d, g * b), "value|4|multiplied", "fh", kwargs=dict(value=0.25))
    bw("alpha missing in the gradient", "torch.sub", two, lambda g, a, b, alpha: (g, -g), "alpha|multiplied", "fh", kwargs=dict(alpha=0.3))
    bw("both gradients at ties", "torch.maximum", lambda: (ints(0, 4, 18, 26).to(c.DT).requires_grad_(), ints(0, 4, 18, 26).to(c.DT).requires_grad_()), lambda g, a, b: (g * (a >= b), g * (b >= a)), "equal|tie|where", "fh")
    bw("weight's gradient where self is positive", "prelu", lambda: (x(6, 5, 11), x(5)), lambda g, a, w: (None, (g * a * (a > 0)).sum((0, 2))), "positive|where|self|sign|max|exchanged", "f")
    # along a dimension
    bw("without the sum", "softmax", along, lambda g, a, d: g * a.softmax(d), "sum|times the result", "fh")
    bw("mean for the sum", "softmax", along, lambda g, a, d: (lambda y: y * (g - (g * y).mean(d, True)))(a.softmax(d)), "mean|26|divided|sum|term", "fh")
    bw("sum of g, not of g y", "softmax", along, lambda g, a, d: (lambda y: y * (g - g.sum(d, True)))(a.softmax(d)), "sum|term|left out", "fh")
    bw("without the outer y", "softmax", along, lambda g, a, d: (lambda y: g - (g * y).sum(d, True))(a.softmax(d)), "result|log_softmax|multiplied|divided|left out", "fh")
    bw("without the sum", "log_softmax", along, lambda g, a, d: g - a.softmax(d), "sum|softmax|exp|term", "fh")
    bw("second term left out", "log_softmax", along, lambda g, a, d: g * 1, "passed on|incoming|term", "fh")
    bw("softmax's part divided by n", "log_softmax", along, lambda g, a, d: g - a.softmax(d) * g.mean(d, True), "mean|26|divided|term", "fh")
    bw("not normalised", "torch.logsumexp", along, lambda g, a, d: g[:, None] * a.exp(), "exp|sum|left out|divided|result", "fh")
    bw("softmax of n", "torch.logsumexp", along, lambda g, a, d: g[:, None] * a.softmax(d) / 26, "26", "fh")
    bw("not divided by self", "torch.prod", lambda: (pos(14, 9), 1), lambda g, a, d: (g * a.prod(1))[:, None].expand(14, 9), "self|result|divided|product|multiplied|term", "fh")
    bw("not reversed", "torch.cumprod", lambda: (pos(10, 9), 1), lambda g, a, d: (g * a.cumprod(1)).cumsum(1) / a, "revers|transpose|direction", "f")
    bw("not divided by self", "torch.cumprod", lambda: (pos(10, 9), 1), lambda g, a, d: (g * a.cumprod(1)).flip(1).cumsum(1).flip(1), "self|divided|multiplied|term", "f")
    bw("not divided by the norm", "torch.linalg.vector_norm", lambda: (x(14, 26), 2, 1), lambda g, a, o, d: g[:, None] * a, "norm|result|divided|multiplied", "fh")
    bw("divided by the square of the norm", "torch.linalg.vector_norm", lambda: (x(14, 26), 2, 1), lambda g, a, o, d: g[:, None] * a / (a * a).sum(1, True), "norm|result|divided", "fh")
    bw("magnitude not raised", "torch.linalg.vector_norm", lambda: (x(14, 26), 3, 1), lambda g, a, o, d: g[:, None] * a / a.norm(3, 1, True), "ord|power|result|norm|multiplied", "f")
    bw("without the 2", "torch.var", along, lambda g, a, d: g[:, None] * (a - a.mean(1, True)) / 25, "0\\.5|2", "fhs")
    bw("n for n - 1", "torch.var", along, lambda g, a, d: g[:, None] * 2 * (a - a.mean(1, True)) / 26, "25/26|0\\.96|correction|unbiased", "fh")
    bw("mean not subtracted", "torch.var", along, lambda g, a, d: g[:, None] * 2 * a / 25, "mean", "fh")
    bw("not divided by the deviation", "torch.std", along, lambda g, a, d: g[:, None] * (a - a.mean(1, True)) / 25, "result|root|var|deviation|multiplied", "fh")
    bw("mean not subtracted", "torch.std", along, lambda g, a, d: g[:, None] * a / 25 / a.std(1, keepdim=True), "mean", "f")
    bw("not divided by n", "torch.mean", along, lambda g, a, d: g[:, None].expand(14, 26), "26|passed|sum", "fh")
    bw("exp of the difference missing", "torch.logcumsumexp", lambda: (x(10, 12), 1), lambda g, a, d: g.flip(1).cumsum(1).flip(1) * a.exp(), "exp|result|term|left out", "f")
    bw("sum for the maximum's place", "torch.amax", along, lambda g, a, d: g[:, None].expand(14, 26), "sum|passed|each|equal|incoming", "fh")
    # losses
    lo = lambda: (x(18, 26), x(18, 26))
    bw("without the 2", "mse_loss", lo, lambda g, a, b: (g * (a - b) / a.numel(), -g * (a - b) / a.numel()), "0\\.5|2", "fhs")
    bw("without 1/n", "mse_loss", lo, lambda g, a, b: (g * 2 * (a - b), -g * 2 * (a - b)), "468|sum|reduction", "fh")
    bw("divided by the rows", "mse_loss", lo, lambda g, a, b: (g * 2 * (a - b) / 18, -g * 2 * (a - b) / 18), "26|18", "fh")
    bw("the difference for its sign", "l1_loss", lo, lambda g, a, b: (g * (a - b) / a.numel(), -g * (a - b) / a.numel()), "sign|mse|self - |input - target|magnitude|times", "fh")
    bw("target's sign", "l1_loss", lo, lambda g, a, b: (None, g * (a - b).sign() / a.numel()), "negat|-1", "fh")
    bw("not divided by beta", "smooth_l1_loss", lambda: (x(18, 26), x(18, 26), None, None, "mean", 0.5), lambda g, a, b, sa, r, rd, be: (lambda z: (g / a.numel() * torch.where(z.abs() < be, z, z.sign()),))(a - b), "beta|where|below", "f")
    bw("delta missing beyond", "huber_loss", lambda: (x(18, 26), x(18, 26), "mean", 0.5), lambda g, a, b, rd, de: (lambda z: (g / a.numel() * torch.where(z.abs() < de, z, z.sign()),))(a - b), "delta|beyond|where|above", "f")
    ce = lambda: (x(30, 11), ints(0, 11, 30))
    hot = lambda t: F.one_hot(t, 11).float()
    bw("without 1/n", "cross_entropy", ce, lambda g, a, t: g * (a.softmax(1) - hot(t)), "30|sum|reduction|mean", "fh")
    bw("without the target", "cross_entropy", ce, lambda g, a, t: g * a.softmax(1) / 30, "target|one-hot|term", "fh")
    bw("sign", "cross_entropy", ce, lambda g, a, t: g * (hot(t) - a.softmax(1)) / 30, "negat|-1", "fh")
    bw("exp not normalised", "cross_entropy", ce, lambda g, a, t: g * (a.exp() - hot(t)) / 30, "exp|sum|normal|left out|divided|softmax", "fh")
    bw("smoothing ignored", "cross_entropy", ce, lambda g, a, t, label_smoothing: g * (a.softmax(1) - hot(t)) / 30, "label_smoothing", "fh", kwargs=dict(label_smoothing=0.1))
    bw("weights ignored", "cross_entropy", lambda: (*ce(), pos(11, grad=False)), lambda g, a, t, w: g * (a.softmax(1) - hot(t)) / 30, "weight", "fh")
    bw("weights not in the denominator", "cross_entropy", lambda: (*ce(), pos(11, grad=False)), lambda g, a, t, w: g * (a.softmax(1) - hot(t)) * w[t][:, None] / 30, "weight|30|multiplied|divi|mean", "f")
    bw("not negated", "nll_loss", lambda: (x(30, 11), ints(0, 11, 30)), lambda g, a, t: g * hot(t) / 30, "negat|-1", "fh")
    bw("without 1/n", "nll_loss", lambda: (x(30, 11), ints(0, 11, 30)), lambda g, a, t: -g * hot(t), "30|sum|reduction", "fh")
    pr = lambda: ((0.1 + 0.8 * torch.rand(18, 26, generator=c.G)).to(c.DT).requires_grad_(), torch.rand(18, 26, generator=c.G).to(c.DT))
    bw("denominator missing", "binary_cross_entropy", pr, lambda g, a, t: g * (a - t) / a.numel(), "denominator|1 - |divided|left out|logits|term|multiplied", "f")
    bw("half of the denominator", "binary_cross_entropy", pr, lambda g, a, t: g * (a - t) / a / a.numel(), "denominator|1 - |divided|left out|multiplied", "f")
    bw("without the target", "binary_cross_entropy_with_logits", lambda: (x(18, 26), torch.rand(18, 26, generator=c.G).to(c.DT)), lambda g, a, t: g * a.sigmoid() / a.numel(), "target", "fh")
    bw("without 1/n", "binary_cross_entropy_with_logits", lambda: (x(18, 26), torch.rand(18, 26, generator=c.G).to(c.DT)), lambda g, a, t: g * (a.sigmoid() - t), "468|sum|reduction", "fh")
    bw("pos_weight ignored", "binary_cross_entropy_with_logits", lambda: (x(18, 26), torch.rand(18, 26, generator=c.G).to(c.DT), None, None, None, "mean", pos(26, grad=False) * 3), lambda g, a, t, w, sa, r, rd, pw: g * (a.sigmoid() - t) / a.numel(), "pos_weight", "fh")
    bw("target's factor missing", "kl_div", lambda: (x(18, 26), torch.rand(18, 26, generator=c.G).to(c.DT)), lambda g, a, t: -g / a.numel() * torch.ones_like(a), "target", "fh")
    bw("batchmean as mean", "kl_div", lambda: (x(18, 26), torch.rand(18, 26, generator=c.G).to(c.DT)), lambda g, a, t, reduction: -g * t / a.numel(), "reduction|26", "fh", kwargs=dict(reduction="batchmean"))
    bw("without y", "soft_margin_loss", lambda: (x(18, 26), (2 * bits(18, 26) - 1).to(c.DT)), lambda g, a, y: -g / a.numel() * torch.sigmoid(-y * a), "target|sign|term", "f")
    bw("log_input ignored", "poisson_nll_loss", lambda: (x(18, 26), pos(18, 26, grad=False)), lambda g, a, t: g / a.numel() * (1 - t / a), "log_input", "f")
    bw("margin ignored", "margin_ranking_loss", lambda: (x(60), x(60), (2 * bits(60) - 1).to(c.DT), 0.5), lambda g, a, b, y, m: (lambda k: (-g * y * k / 60, g * y * k / 60))((-y * (a - b) > 0).float()), "margin", "f")
    # norms
    ln = lambda: (x(14, 24), [24], x(24), x(24), 1e-5)

    def lnb(m1=1, m2=1, s=1, w_=1):
        def f(g, a, n, w, b, e):
            r = (a.var(1, correction=0, keepdim=True) + e).rsqrt()
            h = (a - a.mean(1, True)) * r
            y = g * w if w_ else g
            return (r if s else 1) * (y - m1 * y.mean(1, True) - m2 * h * (y * h).mean(1, True))
        return f

    bw("mean of the gradient left out", "layer_norm", ln, lnb(m1=0), "mean", "fhs")
    bw("projection left out", "layer_norm", ln, lnb(m2=0), "variance", "fhs")
    bw("both terms left out", "layer_norm", ln, lnb(m1=0, m2=0), "constant|statistics|mean and|variance", "fh")
    bw("not divided by the deviation", "layer_norm", ln, lnb(s=0), "deviation|root|multiplied|divided|left out", "fh")
    bw("weight left out", "layer_norm", ln, lnb(w_=0), "weight", "fh")
    bw("projection twice", "layer_norm", ln, lnb(m2=2), "variance|twice|multiplied", "fh")
    bw("weight's gradient not normalised", "layer_norm", ln, lambda g, a, n, w, b, e: (None, (g * (a - a.mean(1, True))).sum(0)), "deviation|variance|divided|left out|root|eps", "f")
    bw("weight's gradient without the mean", "layer_norm", ln, lambda g, a, n, w, b, e: (None, (g * a * (a.var(1, correction=0, keepdim=True) + e).rsqrt()).sum(0)), "mean", "f")
    bw("bias's gradient with the weight", "layer_norm", ln, lambda g, a, n, w, b, e: (None, None, (g * w).sum(0)), "weight", "fh")
    rm = lambda: (x(14, 24), [24], x(24), 1e-6)
    bw("projection left out", "rms_norm", rm, lambda g, a, n, w, e: g * w * ((a * a).mean(1, True) + e).rsqrt(), "through|constant|square|lacks", "fh")
    bw("projection over n twice", "rms_norm", rm, lambda g, a, n, w, e: (lambda r: r * g * w - a * r**3 * (g * w * a).mean(1, True) / 24)(((a * a).mean(1, True) + e).rsqrt()), "24|mean|through|term", "f")
    bw("projection as a sum", "rms_norm", rm, lambda g, a, n, w, e: (lambda r: r * g * w - a * r**3 * (g * w * a).sum(1, True))(((a * a).mean(1, True) + e).rsqrt()), "24|sum|through|divided", "f")
    bw("weight left out", "rms_norm", rm, lambda g, a, n, w, e: (lambda r: r * g - a * r**3 * (g * a).mean(1, True))(((a * a).mean(1, True) + e).rsqrt()), "weight", "fh")
    bn = lambda: (x(6, 5, 4, 4), None, None, x(5), x(5), True)
    bnf = lambda m1, m2: lambda g, a, rm_, rv, w, b, t: (lambda mu, r: (lambda h, y: r * (y - m1 * y.mean((0, 2, 3), True) - m2 * h * (y * h).mean((0, 2, 3), True)))((a - mu) * r, g * w[:, None, None]))(a.mean((0, 2, 3), True), (a.var((0, 2, 3), correction=0, keepdim=True) + 1e-5).rsqrt())
    bw("training's gradient as in evaluation", "batch_norm", bn, bnf(0, 0), "constant|statistics|eval|training|mean and", "fh")
    bw("mean's term left out", "batch_norm", bn, bnf(0, 1), "mean", "fh")
    bw("projection left out", "batch_norm", bn, bnf(1, 0), "variance", "fh")
    gnf = lambda m1, m2: lambda g, a, n, w, b: (lambda z: (lambda mu, r: (lambda h, y: (r * (y - m1 * y.mean(2, True) - m2 * h * (y * h).mean(2, True))).view(a.shape))((z - mu) * r, (g * w[:, None]).reshape(z.shape)))(z.mean(2, True), (z.var(2, correction=0, keepdim=True) + 1e-5).rsqrt()))(a.reshape(a.shape[0], n, -1))
    gn = lambda: (x(4, 8, 6), 2, x(8), x(8))
    bw("mean's term left out", "group_norm", gn, gnf(0, 1), "mean", "fh")
    bw("projection left out", "group_norm", gn, gnf(1, 0), "variance", "fh")
    bw("statistics taken for constants", "group_norm", gn, gnf(0, 0), "constant|statistics|mean and", "fh")
    inf_ = lambda m1, m2: lambda g, a: (lambda mu, r: (lambda h: r * (g - m1 * g.mean(2, True) - m2 * h * (g * h).mean(2, True)))((a - mu) * r))(a.mean(2, True), (a.var(2, correction=0, keepdim=True) + 1e-5).rsqrt())
    bw("projection left out", "instance_norm", lambda: (x(4, 6, 16),), inf_(1, 0), "variance", "f")
    bw("projection left out", "normalize", lambda: (x(14, 24), 2.0, 1), lambda g, a, p, d: g / a.norm(dim=1, keepdim=True), "norm|constant|through|denominator|term", "fh")
    bw("projection not divided by the square", "normalize", lambda: (x(14, 24), 2.0, 1), lambda g, a, p, d: g / a.norm(dim=1, keepdim=True) - a * (g * a).sum(1, True) / a.norm(dim=1, keepdim=True), "norm|square|divided|term", "f")
    cs = lambda: (x(14, 24), x(14, 24), 1)
    bw("projection left out", "cosine_similarity", cs, lambda g, a, b, d: g[:, None] * b / (a.norm(dim=1, keepdim=True) * b.norm(dim=1, keepdim=True)), "norm|constant|through|term|left out", "f")
    bw("projection not divided by the norm", "cosine_similarity", cs, lambda g, a, b, d: (lambda na, nb, s: g[:, None] * (b / (na * nb) - s * a / na))(a.norm(dim=1, keepdim=True), b.norm(dim=1, keepdim=True), F.cosine_similarity(a, b, 1)[:, None]), "norm|divided|square|left out|term", "f")
    bw("not divided by the distance", "pairwise_distance", lambda: (x(14, 24), x(14, 24)), lambda g, a, b: (g[:, None] * (a - b + 1e-6), -g[:, None] * (a - b + 1e-6)), "result|distance|norm|divided|multiplied", "f")
    bw("not divided by the distance", "torch.cdist", lambda: (x(9, 7), x(8, 7)), lambda g, a, b: ((g[:, :, None] * (a[:, None] - b)).sum(1), -(g[:, :, None] * (a[:, None] - b)).sum(0)), "result|distance|norm|divided|multiplied", "f")
    # matrices and others
    bw("not transposed", "torch.linalg.inv", lambda: ((torch.eye(6) + 0.2 * torch.randn(6, 6, generator=c.G)).requires_grad_(),), lambda g, a: -a.inverse() @ g @ a.inverse(), "transpos|result", "f")
    bw("not negated", "torch.linalg.inv", lambda: ((torch.eye(6) + 0.2 * torch.randn(6, 6, generator=c.G)).requires_grad_(),), lambda g, a: a.inverse().T @ g @ a.inverse().T, "negat|-1", "f")
    bw("not transposed", "torch.logdet", lambda: ((torch.eye(6) + 0.1 * torch.randn(6, 6, generator=c.G)).requires_grad_(),), lambda g, a: g * a.inverse(), "transpos", "f")
    bw("without the determinant", "torch.det", lambda: ((torch.eye(6) + 0.2 * torch.randn(6, 6, generator=c.G)).requires_grad_(),), lambda g, a: g * a.inverse().T, "result|det|multiplied", "f")
    bw("first operand not transposed", "torch.matmul", lambda: (x(12, 12), x(12, 12)), lambda g, a, b: (None, a @ g), "transpos|order|exchanged", "fh")
    bw("order of the cross product", "torch.linalg.cross", lambda: (x(20, 3), x(20, 3)), lambda g, a, b: (torch.linalg.cross(g, b), None), "negat|-1", "fh")
    bw("not divided by the window", "avg_pool2d", lambda: (x(2, 3, 8, 8), 2), lambda g, a, k: g.repeat_interleave(2, 2).repeat_interleave(2, 3), "4|multiplied|divi", "fh")
    bw("not divided by the window", "adaptive_avg_pool2d", lambda: (x(2, 3, 8, 8), 2), lambda g, a, k: g.repeat_interleave(4, 2).repeat_interleave(4, 3), "16", "fh")
    bw("mean for the sum of copies", "interpolate", lambda: (x(2, 3, 5, 5), None, 2), lambda g, a, s, f: F.avg_pool2d(g, 2), "0\\.25|4|mean|divided", "fh")
    bw("grid not scaled by the size", "grid_sample", lambda: (x(1, 2, 6, 6), (torch.rand(1, 5, 5, 2, generator=c.G) - 0.5).to(c.DT).requires_grad_()), lambda g, a, r, **k: (None, gridgrad(g, a, r) / 3), "0\\.333|3|multiplied|size", "f", kwargs=dict(align_corners=False))
    bw("padding row has a gradient", "embedding", lambda: (ints(0, 9, 40), x(9, 6), 2), lambda g, i, w, p: torch.zeros_like(w).index_add(0, i, g), "padding_idx", "fh")
    bw("source's gradient not gathered", "torch.scatter_add", lambda: (x(12, 6), 0, ints(0, 12, 12, 6), x(12, 6)), lambda g, a, d, i, s: (None, g * 1), "passed|index|incoming", "fh")
    bw("overwritten elements keep theirs", "torch.scatter", lambda: (x(20, 8), 0, c.perm(20, 8)[:9], x(9, 8)), lambda g, a, d, i, s: (g * 1, None), "passed|incoming|index|overwritten", "fh")
    bw("gradient of the other triangle", "torch.tril", lambda: (x(12, 12),), lambda g, a: g.triu(), "triu|triang|tril|diagonal", "fh")
    at = "scaled_dot_product_attention"
    qkv = lambda: (x(2, 2, 9, 8), x(2, 2, 9, 8), x(2, 2, 9, 8))

    def sdpab(row_sum=True, scale_q=True, scale_k=True, p_in_dv=True, dp=True):
        def f(g, q, k, v, **kw):
            z = 8 ** -0.5
            p = (q @ k.mT * z).softmax(-1)
            d = g @ v.mT
            s = p * (d - ((p * d).sum(-1, True) if row_sum else 0)) if dp else d
            return (z if scale_q else 1) * s @ k, (z if scale_k else 1) * s.mT @ q, (p if p_in_dv else q @ k.mT * z).mT @ g
        return f

    bw("row sum left out", at, qkv, sdpab(row_sum=False), "sum|softmax", "fh")
    bw("dQ not scaled", at, qkv, sdpab(scale_q=False), "2\\.82|sqrt|scale", "fh")
    bw("scores for weights in dV", at, qkv, sdpab(p_in_dv=False), "softmax|scores|weights", "f")
    bw("softmax's gradient left out", at, qkv, sdpab(dp=False), "softmax|weights|left out", "f")
    # positions
    row("within the tile of 16", "torch.argmax", lambda: (nog(60, 48), 1), lambda a, d: a.argmax(1) % 16, "16|modulo|tile|within", "f")
    row("of all, not of the row", "torch.argmax", lambda: (nog(60, 24), 1), lambda a, d: a.argmax(1) + 24 * torch.arange(60), "flat|row|of all|whole", "fh")
    row("counted from 1", "torch.argmin", lambda: (nog(60, 24), 1), lambda a, d: a.argmin(1) + 1, "one too high|one further|1 is added|from 1", "f")
    row("of the last of ties", "torch.max", lambda: (ints(0, 4, 40, 24).to(c.DT), 1), lambda a, d: (a.amax(1), 23 - a.flip(1).argmax(1)), "last", "fh")
    row("flat positions", "torch.max", lambda: (nog(40, 24), 1), lambda a, d: (a.amax(1), a.argmax(1) + 24 * torch.arange(40)), "flat|row|of all|whole", "f")
    row("positions in the tile of 8", "torch.topk", lambda: (nog(40, 24), 4, 1), lambda a, k, d: (lambda t: (t[0], t[1] % 8))(a.topk(k, d)), "8|modulo|tile", "f")
    row("positions of all", "torch.topk", lambda: (nog(40, 24), 4, 1), lambda a, k, d: (lambda t: (t[0], t[1] + 24 * torch.arange(40)[:, None]))(a.topk(k, d)), "flat|row|of all|whole", "f")
    row("ranks for positions", "torch.sort", lambda: (nog(30, 24), 1), lambda a, d: (a.sort(1)[0], a.argsort(1).argsort(1)), "rank|inverse", "fh")
    row("ranks for positions", "torch.argsort", lambda: (nog(30, 24), 1), lambda a, d: a.argsort(1).argsort(1), "rank|inverse", "f")
    row("positions from the end", "torch.sort", lambda: (nog(30, 24), 1), lambda a, d: (a.sort(1)[0], 23 - a.argsort(1)), "end|23|revers|negat|backward", "f")
    row("column-major", "torch.nonzero", lambda: (bits(13, 11),), lambda a: a.T.nonzero().flip(1), "column|order|transposed|dimension", "f")
    row("columns exchanged", "torch.nonzero", lambda: (bits(13, 11),), lambda a: a.nonzero().flip(1), "backwards|exchanged|column|dimension 1", "f")
    row("flat positions", "torch.nonzero", lambda: (bits(40),), lambda a: a.nonzero() + 1, "one too high|1 is added|from 1", "f")
    row("within its window", "max_pool2d", lambda: (nog(2, 3, 8, 8), 2), lambda a, k, return_indices: (lambda v, i: (v, (i // 8) % 2 * 2 + i % 2))(*F.max_pool2d(a, 2, return_indices=True)), "window", "f", dict(return_indices=True))
    row("of the whole image", "max_pool2d", lambda: (nog(2, 3, 8, 8), 2), lambda a, k, return_indices: (lambda v, i: (v, i + 64 * torch.arange(6).view(2, 3, 1, 1)))(*F.max_pool2d(a, 2, return_indices=True)), "flat|of all|whole|64|image", "f", dict(return_indices=True))
    row("column-major", "max_pool2d", lambda: (nog(2, 3, 8, 8), 2), lambda a, k, return_indices: (lambda v, i: (v, i % 8 * 8 + i // 8))(*F.max_pool2d(a, 2, return_indices=True)), "column|exchanged|transposed|order", "f", dict(return_indices=True))
    row("inverse counted from 1", "torch.unique", lambda: (ints(0, 9, 60),), lambda a, return_inverse: (lambda v, i: (v, i + 1))(*a.unique(return_inverse=True)), "one too high|1 is added|from 1", "f", dict(return_inverse=True))
    row("counts up to each", "torch.unique", lambda: (ints(0, 30, 200),), lambda a, return_counts: (lambda v, n: (v, n.cumsum(0)))(*a.unique(return_counts=True)), "sum|cumul", "f", dict(return_counts=True))
    row("left for right", "torch.bucketize", lambda: (ints(0, 40, 60).to(c.DT), torch.arange(0, 40, 2).to(c.DT)), lambda a, b, right: torch.bucketize(a, b), "right is False", "f", dict(right=True))
    row("the bucket before", "torch.searchsorted", lambda: (torch.arange(0, 40, 2).to(c.DT), nog(60).abs() * 20), lambda s, v: torch.searchsorted(s, v) - 1, "one too low|1 is subtracted", "f")
    row("the first of equal", "torch.cummax", lambda: (ints(0, 6, 20, 24).to(c.DT), 1), lambda a, d: (a.cummax(1)[0], (a.cummax(1)[0][:, :, None] == a[:, None]).int().argmax(2)), "first|tie|equal", "f")
    row("positions in the sorted row", "torch.median", lambda: (nog(30, 23), 1), lambda a, d: (a.median(1)[0], torch.full((30,), 11)), "sorted|11|all .*elements", "f")
    row("positions in the sorted row", "torch.kthvalue", lambda: (nog(30, 23), 5, 1), lambda a, k, d: (a.kthvalue(k, d)[0], torch.full((30,), 4)), "sorted|all .*elements|4", "f")
    row("the first of equal", "torch.mode", lambda: (ints(0, 5, 30, 24).to(c.DT), 1), lambda a, d: (a.mode(1)[0], (a == a.mode(1)[0][:, None]).int().argmax(1)), "first", "f")
    row("bins counted from the right", "torch.histc", lambda: (nog(400), 10, -2.0, 2.0), lambda a, n, lo_, hi: torch.histc(a, n, lo_, hi).flip(0), "backwards|revers", "f")
    row("largest lost", "torch.histc", lambda: (ints(0, 5, 400).to(c.DT), 4, 0.0, 4.0), lambda a, n, lo_, hi: torch.histc(a[a < 4], n, lo_, hi), "last|right|largest|edge", "f")
    row("weights ignored", "torch.bincount", lambda: (ints(0, 9, 200), pos(200, grad=False)), lambda a, w: torch.bincount(a).to(w.dtype), "weights", "f")
    # biases
    row("bias along the rows", "linear", lambda: (x(12, 9), x(12, 9), x(12)), lambda a, w, b: F.linear(a, w) + b[:, None], "bias.*along|dimension 0|bias", "fh")
    row("bias twice", "conv2d", lambda: (x(2, 3, 8, 8), x(4, 3, 3, 3), x(4)), lambda a, w, b: F.conv2d(a, w, 2 * b), "bias", "fh")
    row("bias along the width", "conv2d", lambda: (x(2, 3, 6, 6), x(4, 3, 3, 3), x(4)), lambda a, w, b: F.conv2d(a, w) + b, "bias|dimension 3", "fh")
    row("bias for each tap", "conv_transpose2d", lambda: (x(2, 3, 5, 5), x(3, 4, 2, 2), x(4), 2), lambda a, w, b, s: F.conv_transpose2d(a, w, 3 * b, s), "bias", "f")
    row("bias before the weight", "batch_norm", lambda: (x(6, 5, 4, 4), nog(5), pos(5, grad=False), x(5), x(5), False), lambda a, m, v, w, b, t: (F.batch_norm(a, m, v) + b[:, None, None]) * w[:, None, None], "bias|weight", "fh")
    row("bias before the weight", "group_norm", gn, lambda a, n, w, b: (F.group_norm(a, n) + b[:, None]) * w[:, None], "bias", "fh")
    row("bias of each group's first channel", "group_norm", gn, lambda a, n, w, b: F.group_norm(a, n, w) + b[[0, 0, 0, 0, 4, 4, 4, 4]][:, None], "bias", "f")
    row("input added along the rows", "torch.addmm", lambda: (x(12), x(12, 9), x(9, 12)), lambda i, a, b: i[:, None] + a @ b, "input|self|along|dimension 0", "fh")
    row("weight and bias exchanged", "layer_norm", lambda: (x(14, 24), [24], x(24), x(24)), lambda a, n, w, b: F.layer_norm(a, n, b, w), "exchanged|swapped", "fh")
    row("bias of the rows", "layer_norm", lambda: (x(24, 24), [24], x(24), x(24)), lambda a, n, w, b: F.layer_norm(a, n, w) + b[:, None], "bias", "f")
    row("bias subtracted", "bilinear", lambda: (x(12, 6), x(12, 5), x(4, 6, 5), x(4)), lambda a, b, w, v: F.bilinear(a, b, w, -v), "bias", "fh")
    row("bias scaled by alpha", "torch.baddbmm", lambda: (x(3, 7, 6), x(3, 7, 9), x(3, 9, 6)), lambda i, a, b, alpha: alpha * i + alpha * (a @ b), "alpha|self|input|beta", "fh", dict(alpha=0.125))
    # orders
    row("each element repeated", "torch.tile", lambda: (x(5, 6), (1, 3)), lambda a, r: a.repeat_interleave(3, 1), "interleave|repeat|each|order", "fh")
    row("the whole repeated", "torch.repeat_interleave", lambda: (x(5, 6), 3, 1), lambda a, n, d: a.repeat(1, n), "tile|repeat|order", "fh")
    row("repeats along the other dimension", "torch.Tensor.repeat", lambda: (x(6, 6), 2, 2), lambda a, n, m: a.repeat_interleave(2, 0).repeat_interleave(2, 1), "interleave|repeat|each|order", "f")
    row("sides exchanged", "pad", lambda: (x(5, 6), (1, 3)), lambda a, p: F.pad(a, (3, 1)), "pad|\\(3, 1\\)|rolled|further", "fh")
    row("dimensions in order", "pad", lambda: (x(6, 6), (1, 1, 2, 2)), lambda a, p: F.pad(a, (2, 2, 1, 1)), "pad", "f")
    row("edge for reflection", "pad", lambda: (x(2, 5, 6), (2, 2), "reflect"), lambda a, p, m: F.pad(a, p, "replicate"), "replicate", "fh")
    row("reflection with the edge", "pad", lambda: (x(2, 5, 6), (2, 2), "reflect"), lambda a, p, m: a[:, :, [1, 0, 0, 1, 2, 3, 4, 5, 5, 4]], "reflect|edge|symmetric|mirror", "f")
    row("x and y", "torch.meshgrid", lambda: ([x(9), x(9)],), lambda ts, indexing: torch.meshgrid(ts, indexing="xy"), "indexing|xy", "fh", dict(indexing="ij"))
    row("x and y of the grid", "grid_sample", lambda: (x(1, 2, 7, 7), (1.6 * torch.rand(1, 6, 5, 2, generator=c.G) - 0.8).to(c.DT)), lambda a, r, align_corners: F.grid_sample(a, r.flip(3), align_corners=False), "backwards along dimension 3|exchanged|x and y|rolled", "fh", dict(align_corners=False))
    row("corners aligned", "grid_sample", lambda: (x(1, 2, 7, 7), (1.6 * torch.rand(1, 6, 5, 2, generator=c.G) - 0.8).to(c.DT)), lambda a, r, align_corners: F.grid_sample(a, r, align_corners=True), "align_corners", "f", dict(align_corners=False))
    row("border for zeros", "grid_sample", lambda: (x(1, 2, 7, 7), (3 * torch.rand(1, 6, 5, 2, generator=c.G) - 1.5).to(c.DT)), lambda a, r, align_corners: F.grid_sample(a, r, padding_mode="border", align_corners=False), "padding_mode", "f", dict(align_corners=False))
    row("corners aligned", "interpolate", lambda: (x(2, 3, 6, 6), (9, 9)), lambda a, s, mode, align_corners: F.interpolate(a, s, mode="bilinear", align_corners=True), "align_corners", "fh", dict(mode="bilinear", align_corners=False))
    row("exact nearest", "interpolate", lambda: (x(2, 3, 6, 6), (9, 9)), lambda a, s: F.interpolate(a, s, mode="nearest-exact"), "nearest-exact", "fh")
    row("no half pixel", "interpolate", lambda: (x(1, 2, 6), 9), lambda a, s, mode: nohalf(a, 9), "half|align|pixel|element off", "f", dict(mode="linear"))
    row("order of channel and place", "pixel_shuffle", lambda: (x(2, 12, 3, 3), 2), lambda a, r: a.view(2, 2, 2, 3, 3, 3).permute(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 6), "channel|order|in turns|dimension 1", "fh")
    row("columns before rows", "pixel_shuffle", lambda: (x(2, 12, 3, 3), 2), lambda a, r: a.view(2, 3, 2, 2, 3, 3).permute(0, 1, 4, 3, 5, 2).reshape(2, 3, 6, 6), "order|rows|columns|dimension|exchanged", "f")
    row("order of channel and place", "pixel_unshuffle", lambda: (x(2, 3, 6, 6), 2), lambda a, r: F.pixel_unshuffle(a, 2).view(2, 3, 4, 3, 3).transpose(1, 2).reshape(2, 12, 3, 3), "channel|order|in turns|dimension 1", "f")
    row("the inverse", "channel_shuffle", lambda: (x(2, 12, 3, 3), 3), lambda a, g: a.view(2, 4, 3, 3, 3).transpose(1, 2).reshape(2, 12, 3, 3), "groups is 4|order|dimension 1|in turns", "f")
    row("places before channels", "unfold", lambda: (x(2, 4, 6, 6), 2), lambda a, k: F.unfold(a, k).view(2, 4, 4, 25).transpose(1, 2).reshape(2, 16, 25), "order|in turns|dimension 1", "f")
    row("column-major blocks", "unfold", lambda: (x(2, 4, 6, 6), 2), lambda a, k: F.unfold(a, k).view(2, 16, 5, 5).transpose(2, 3).reshape(2, 16, 25), "order|in turns|dimension 2|transposed|dimensions 2 and 3", "f")
    row("shifted the other way", "torch.roll", lambda: (x(7, 9), 2, 1), lambda a, s, d: a.roll(-2, 1), "shifts|back|rolled", "fh")
    row("turned the other way", "torch.rot90", lambda: (x(7, 7),), lambda a: torch.rot90(a, -1), "k is|backwards|turn|\\[1, 0\\]|3", "f")
    row("the other dimension", "torch.flip", lambda: (x(7, 7), [0]), lambda a, d: a.flip(1), "dims|transposed", "fh")
    row("axes in the inverse order", "torch.permute", lambda: (x(5, 5, 5), (1, 2, 0)), lambda a, d: a.permute(2, 0, 1), "dims", "fh")
    row("stacked before", "torch.stack", lambda: ([x(6, 6), x(6, 6)], 1), lambda ts, d: torch.cat(ts, 1).view(6, 2, 6).transpose(1, 2).reshape(6, 2, 6), "order|dim|in turns|transposed|dimension", "f")
    row("one diagonal up", "torch.triu", lambda: (x(9, 9), 1), lambda a, k: a.triu(0), "diagonal is 0", "fh")
    row("below for above", "torch.diagonal", lambda: (x(9, 9), 2), lambda a, k: a.diagonal(-2), "offset is -2|transposed", "fh")
    row("x and y", "affine_grid", lambda: (x(2, 2, 3), (2, 3, 5, 5)), lambda t, s, align_corners: F.affine_grid(t, s, align_corners=False).transpose(1, 2), "exchanged|transposed|order|dimension", "f", dict(align_corners=False))
    row("operands exchanged", "torch.kron", lambda: (x(3, 4), x(4, 3)), lambda a, b: torch.kron(b, a), "exchanged|swapped", "f")
    row("unbind order", "torch.movedim", lambda: (x(5, 5, 5), 0, 2), lambda a, s, d: a.movedim(2, 0), "exchanged|source|destination|dims|dimension", "f")
    # casts
    row("saturated", "torch.Tensor.to", lambda: (ints(-400, 400, 300), torch.int8), lambda a, d: a.clamp(-128, 127).to(d), "limited|saturat|int8", "f")
    row("wrapped", "torch.Tensor.to", lambda: ((300 * torch.randn(300, generator=c.G)), torch.int16), lambda a, d: a.to(torch.int8).to(d), "wraps|8 bits|int8", "f")
    row("rounded", "torch.Tensor.to", lambda: ((30 * torch.randn(300, generator=c.G)), torch.int32), lambda a, d: a.round().to(d), "round", "f")
    row("rounded down", "torch.Tensor.to", lambda: ((30 * torch.randn(300, generator=c.G)), torch.int32), lambda a, d: a.floor().to(d), "rounded down|floor", "f")
    row("saturated", "torch.Tensor.to", lambda: ((80000 * torch.randn(300, generator=c.G)), torch.float16), lambda a, d: a.clamp(-65504, 65504).to(d), "largest|limited|saturat|infinit", "f")
    row("saturated", "torch.Tensor.to", lambda: ((400 * torch.randn(300, generator=c.G)), torch.float8_e5m2), lambda a, d: a.clamp(-448, 448).to(d), "448|limited|saturat|largest|e4m3", "f")
    row("through fp8 e4m3", "torch.Tensor.to", lambda: (torch.randn(300, generator=c.G), torch.bfloat16), lambda a, d: a.to(torch.float8_e4m3fn).to(d), "e4m3", "f")
    row("cut off", "torch.Tensor.to", lambda: (torch.randn(300, generator=c.G), torch.float16), lambda a, d: ((a.view(torch.int32) >> 13) << 13).view(torch.float32).to(d), "toward zero|cut off", "f")
    row("negative as 0", "torch.Tensor.to", lambda: (ints(-100, 100, 300), torch.uint8), lambda a, d: a.clamp(min=0).to(d), "limited|negative|saturat", "f")
    row("through float32", "torch.Tensor.to", lambda: (ints(1 << 24, 1 << 30, 300), torch.int32), lambda a, d: a.float().to(d), "float32", "f")
    row("saturated", "torch.add", lambda: (ints(0, 128, 300, dt=torch.int8), ints(0, 128, 300, dt=torch.int8)), lambda a, b: (a.int() + b.int()).clamp(-128, 127).to(torch.int8), "limited|saturat|int8", "f")
    row("wrapped at 16 bits", "torch.mul", lambda: (ints(0, 999, 300), ints(0, 999, 300)), lambda a, b: (a * b).to(torch.int16).to(torch.int64), "16 bits|int16", "f")
    row("sum wrapped at 8 bits", "torch.sum", lambda: (ints(0, 100, 40, 30, dt=torch.int8), 1), lambda a, d: a.sum(d).to(torch.int8).long(), "8 bits|int8", "f")
    row("half away from zero", "torch.quantize_per_tensor" if 0 else "torch.round", lambda: (ints(-40, 40, 300).to(c.DT) / 2,), lambda a: a.sign() * (a.abs() + 0.5).floor(), "away", "fh")
    row("bool of the whole part", "torch.Tensor.to", lambda: (torch.randn(300, generator=c.G), torch.bool), lambda a, d: a.to(torch.int32).to(d), "whole|cut|trunc", "f")
    # NaN
    nan = lambda *s: c.nans(*s, grad=False)
    row("NaN first", "torch.sort", lambda: (nan(20, 24), 1), nanfirst, "NaN|nan", "fh")
    row("NaN as the smallest", "torch.topk", lambda: (nan(20, 24), 4, 1), lambda a, k, d: (-1e30 if 0 else torch.where(a.isnan(), torch.full_like(a, -1e30), a)).topk(k, d), "NaN|nan", "fh")
    row("NaN ignored", "torch.max", lambda: (nan(40, 5), 1), lambda a, d: tuple(torch.where(a.isnan(), torch.full_like(a, -1e30), a).max(d)), "NaN|nan", "f")
    row("NaN ignored", "torch.amin", lambda: (nan(40, 5), 1), lambda a, d: torch.where(a.isnan(), torch.full_like(a, 1e30), a).amin(d), "NaN|nan", "fh")
    row("NaN ignored", "torch.median", lambda: (nan(40, 5), 1), lambda a, d: tuple(a.nanmedian(d)), "NaN|nan", "fh")
    row("NaN ignored", "torch.maximum", lambda: (nan(20, 24), nog(20, 24)), torch.fmax, "NaN|nan|fmax", "fh")
    row("NaN as the bound", "torch.clamp", lambda: (nan(20, 24), -0.5, 0.5), lambda a, l, h: torch.where(a.isnan(), torch.full_like(a, l), a).clamp(l, h), "NaN", "fh")
    row("NaN ignored", "torch.argmax", lambda: (nan(40, 5), 1), lambda a, d: torch.where(a.isnan(), torch.full_like(a, -1e30), a).argmax(d), "NaN|nan", "f")
    row("NaN ignored", "torch.cummax", lambda: (nan(20, 9), 1), lambda a, d: tuple(torch.where(a.isnan(), torch.full_like(a, -1e30), a).cummax(d)), "NaN|nan", "f")
    row("NaN equal to NaN", "torch.eq", lambda: (nan(20, 24), nan(20, 24)), lambda a, b: (a == b) | a.isnan() & b.isnan(), "NaN", "f")
    row("negative zero lost", "torch.isnan" if 0 else "torch.nan_to_num", lambda: (nan(20, 24), 1.5), lambda a, v: torch.nan_to_num(a), "nan is|NaN", "fh")
    row("NaN sum", "torch.nansum", lambda: (nan(20, 24), 1), lambda a, d: a.sum(d), "NaN|nan|sum", "f")
    # formulas that cancel or overflow
    off = lambda *s: (lambda t: (t + 300).detach().requires_grad_())(nog(*s))
    row("mean of squares less the square", "torch.var", lambda: (off(20, 64), 1), lambda a, d: ((a * a).mean(1) - a.mean(1) ** 2) * 64 / 63, "square", "f")
    row("mean of squares less the square", "layer_norm", lambda: (off(20, 64), [64]), lambda a, n: (a - a.mean(1, True)) / (((a * a).mean(1, True) - a.mean(1, True) ** 2).clamp(min=0) + 1e-5).sqrt(), "square", "f")
    row("mean of squares less the square", "batch_norm", lambda: (off(64, 5, 4), None, None, None, None, True), lambda a, m, v, w, b, t: (a - a.mean((0, 2), True)) / (((a * a).mean((0, 2), True) - a.mean((0, 2), True) ** 2).clamp(min=0) + 1e-5).sqrt(), "square", "f")
    row("mean of squares less the square", "torch.std", lambda: (off(20, 64), 1), lambda a, d: (((a * a).mean(1) - a.mean(1) ** 2).clamp(min=0) * 64 / 63).sqrt(), "square", "f")
    hot_ = lambda: (x(14, 26, k=60.0), 1)
    row("without the maximum", "softmax", hot_, lambda a, d: a.exp() / a.exp().sum(1, True), "maximum|largest|overflow|exp", "fh")
    row("without the maximum", "torch.logsumexp", hot_, lambda a, d: a.exp().sum(1).log(), "maximum|largest|overflow|exp", "fh")
    row("log of softmax", "log_softmax", hot_, lambda a, d: a.softmax(1).log(), "softmax|log|underflow|tiny|infinit", "fh")
    row("log(1 + x)", "torch.log1p", lambda: ((1e-5 * torch.rand(300, generator=c.G)).requires_grad_(),), lambda a: (1 + a).log(), "log", "f")
    row("exp(x) - 1", "torch.expm1", lambda: ((1e-5 * torch.rand(300, generator=c.G)).requires_grad_(),), lambda a: a.exp() - 1, "exp", "f")
    row("root of the squares", "torch.hypot", lambda: (x(300, k=1e25), x(300, k=1e25)), lambda a, b: (a * a + b * b).sqrt(), "square|overflow|inf", "f")
    row("log(1 + exp(x))", "softplus", lambda: (x(300, k=30.0) - 60 if 0 else (x(300, k=8.0, grad=False) - 14).requires_grad_(),), lambda a: (1 + a.exp()).log(), "log", "f")
    row("-log(1 + exp(-x))", "logsigmoid", lambda: (x(300, k=60.0),), lambda a: -(1 + (-a).exp()).log(), "log|overflow|inf|exp", "f")
    row("log of the sigmoid", "logsigmoid", lambda: (x(300, k=60.0),), lambda a: a.sigmoid().log(), "log|sigmoid", "f")
    row("exp / (1 + exp)", "torch.sigmoid", lambda: (x(300, k=60.0),), lambda a: a.exp() / (1 + a.exp()), "exp|overflow|NaN|inf", "fh")
    row("by exponentials", "torch.tanh", lambda: (x(300, k=60.0),), lambda a: (a.exp() - (-a).exp()) / (a.exp() + (-a).exp()), "exp|overflow|NaN|inf", "f")
    row("by exponentials", "torch.sinh", lambda: ((1e-4 * torch.randn(300, generator=c.G)).requires_grad_(),), lambda a: (a.exp() - (-a).exp()) / 2, "exp", "f")
    row("by the logarithm", "torch.asinh", lambda: ((1e-4 * torch.randn(300, generator=c.G)).requires_grad_(),), lambda a: (a + (a * a + 1).sqrt()).log(), "log", "f")
    row("by the logarithm", "torch.atanh", lambda: ((1e-4 * torch.randn(300, generator=c.G)).requires_grad_(),), lambda a: 0.5 * ((1 + a) / (1 - a)).log(), "log", "f")
    row("squares overflow", "torch.linalg.vector_norm", lambda: (x(14, 26, k=400.0), 2, 1), lambda a, o, d: (a * a).half().float().sum(1).sqrt(), "square|float16|overflow", "s")
    row("log of the sum of exponentials", "torch.logaddexp", lambda: (x(300, k=60.0), x(300, k=60.0)), lambda a, b: (a.exp() + b.exp()).log(), "exp|overflow|inf", "f")
    row("log of the sigmoid", "binary_cross_entropy_with_logits", lambda: (x(18, 26, k=40.0), bits(18, 26).to(c.DT)), lambda a, t, reduction: -(t * a.sigmoid().log() + (1 - t) * (1 - a.sigmoid()).log()), "log|sigmoid|inf", "f", dict(reduction="none"))
    row("cosine from 1 - x^2/2", "torch.cos", lambda: (x(300, k=0.3),), lambda a: 1 - a * a / 2, "series|square|cosine", "f")
    # attention
    gq = lambda: (x(2, 4, 9, 8), x(2, 2, 9, 8), x(2, 2, 9, 8))

    def sd(scale=8**-0.5, mask=None, add=None, heads=None, pre=lambda s: s, dim=-1, after=lambda p: p):
        def f(q, k, v, *r, **kw):
            if heads:
                k, v = k[:, heads], v[:, heads]
            s = pre(q @ k.mT * scale)
            if add is not None:
                s = s + add(*r)
            if mask is not None:
                s = s.masked_fill(~mask(*s.shape[-2:]), -math.inf)
            return after(s.softmax(dim)) @ v
        return f

    row("scale of the sequence", at, qkv, sd(1 / 3), "scale", "fh")
    row("scale of all heads", at, qkv, sd(1 / 4), "scale", "fh")
    row("scale twice", at, qkv, sd(1 / 8), "scale", "fh")
    row("mask added as 0 and 1", at, lambda: (*qkv(), bits(9, 9) | torch.eye(9).bool()), sd(add=lambda m: m.float()), "mask|added", "fh")
    row("mask times -1e4 the wrong way", at, lambda: (*qkv(), bits(9, 9) | torch.eye(9).bool()), sd(add=lambda m: -1e4 * m.float()), "mask|other way", "f")
    row("mask of -100", at, lambda: (*qkv(), bits(9, 9) | torch.eye(9).bool()), sd(add=lambda m: -3.0 * (~m).float()), "mask|-3|added", "f")
    row("mask transposed", at, lambda: (*qkv(), nog(9, 9)), sd(add=lambda m: m.mT), "attn_mask.*(transposed|exchanged)|mask", "fh")
    row("mask twice", at, lambda: (*qkv(), nog(9, 9)), sd(add=lambda m: 2 * m), "mask", "fh")
    row("mask before the scale", at, lambda: (*qkv(), nog(9, 9)), lambda q, k, v, m: ((q @ k.mT + m) * 8**-0.5).softmax(-1) @ v, "mask|0\\.353|scale", "fh")
    row("heads by modulo", at, gq, sd(heads=[0, 1, 0, 1]), "head|turn|modulo|repeat|order", "fh", dict(enable_gqa=True))
    row("first head for all", at, gq, sd(heads=[0, 0, 0, 0]), "head|first|index 0", "fh", dict(enable_gqa=True))
    row("scores capped at 2", at, lambda: (x(2, 2, 9, 8, k=3.0), x(2, 2, 9, 8), x(2, 2, 9, 8)), sd(pre=lambda s: 2 * (s / 2).tanh()), "cap|tanh|2", "f")
    row("bias of distances", at, qkv, sd(pre=lambda s: s + 0.5 * (torch.arange(9) - torch.arange(9)[:, None])), "bias|distance|alibi|position", "f")
    row("softmax over queries", at, qkv, sd(dim=-2), "quer|softmax|dim|transposed", "fh")
    row("strictly causal but the first", at, lambda: (*qkv(),), sd(mask=lambda n, l: torch.ones(n, l).tril(-1).bool() | (torch.arange(n)[:, None] == 0)), "causal|diagonal|itself|off by one", "f", dict(is_causal=True))
    row("causal upwards", at, lambda: (*qkv(),), sd(mask=lambda n, l: torch.ones(n, l).triu().bool()), "causal|triu|later|other|future|transpos|keys before", "f", dict(is_causal=True))
    row("weights not normalised", at, qkv, lambda q, k, v: (q @ k.mT * 8**-0.5 - (q @ k.mT * 8**-0.5).amax(-1, True)).exp() @ v, "sum|normal|divided", "f")
    row("window of 3", at, lambda: (*qkv(),), sd(mask=lambda n, l: torch.ones(n, l).tril().triu(-2).bool()), "window|3|last", "f", dict(is_causal=True))
    row("padding in the sum", at, qkv, sd(after=lambda p: p), "zero|padd", "", None)
    # recurrent cells
    gc = lambda: (x(9, 6), x(9, 5), x(15, 6), x(15, 5), x(15), x(15))
    lc = lambda: (x(9, 6), (x(9, 5), x(9, 5)), x(20, 6), x(20, 5), x(20), x(20))
    rc = lambda: (x(9, 6), x(9, 5), x(5, 6), x(5, 5), x(5), x(5))

    def gru_(order=(0, 1, 2), before=False, mix=False, bias=True, twice=False, inner=torch.tanh):
        def f(a, h, w, u, b, d):
            i, q = (a @ w.T + b + (b if twice else 0)).chunk(3, 1), (h @ u.T + (d if bias else 0)).chunk(3, 1)
            (ir, iz, ig), (hr, hz, hg) = [i[o] for o in order], [q[o] for o in order]
            r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
            n = inner(ig + ((r * h) @ u[10:].T + d[10:] if before else r * hg))
            return z * n + (1 - z) * h if mix else (1 - z) * n + z * h
        return f

    def lstm_(order=(0, 1, 2, 3), inner=torch.tanh, outer=torch.tanh, peep=False, twice=False, couple=False):
        def f(a, hc, w, u, b, d):
            h, s = hc
            p = (a @ w.T + h @ u.T + b + d + (b if twice else 0)).chunk(4, 1)
            i, f_, g, o = [p[k] for k in order]
            n = (1 - i.sigmoid() if couple else f_.sigmoid()) * s + i.sigmoid() * inner(g)
            return o.sigmoid() * outer(n), n
        return f

    same = lambda t: t
    row("gates z r n", "torch.gru_cell", gc, gru_(order=(1, 0, 2)), "gate|exchanged|order", "fh")
    row("gates r n z", "torch.gru_cell", gc, gru_(order=(0, 2, 1)), "gate|exchanged|order", "f")
    row("input bias twice", "torch.gru_cell", gc, gru_(twice=True), "b_ih", "f")
    row("hidden bias left out", "torch.gru_cell", gc, gru_(bias=False), "b_hh", "f")
    row("relu for tanh", "torch.gru_cell", gc, gru_(inner=torch.relu), "relu|tanh", "f")
    row("reset gate before", "torch.gru_cell", gc, gru_(before=True), "reset", "h")
    row("gates i f o g", "torch.lstm_cell", lc, lstm_(order=(0, 1, 3, 2)), "gate|exchanged|order", "fh")
    row("gates f i g o", "torch.lstm_cell", lc, lstm_(order=(1, 0, 2, 3)), "gate|exchanged|order", "f")
    row("no tanh of the cell", "torch.lstm_cell", lc, lstm_(outer=same), "tanh", "f")
    row("no tanh of g", "torch.lstm_cell", lc, lstm_(inner=same), "tanh", "f")
    row("sigmoid of g", "torch.lstm_cell", lc, lstm_(inner=torch.sigmoid), "sigmoid|tanh", "f")
    row("bias twice", "torch.lstm_cell", lc, lstm_(twice=True), "b_ih", "f")
    row("forget 1 - input", "torch.lstm_cell", lc, lstm_(couple=True), "forget|1 - |gate", "f")
    row("h and c exchanged", "torch.lstm_cell", lc, lambda a, hc, *r: lstm_()(a, hc[::-1], *r), "exchanged|backwards|order", "f")
    row("results exchanged", "torch.lstm_cell", lc, lambda *a: lstm_()(*a)[::-1], "exchanged", "f")
    row("no nonlinearity", "torch.rnn_tanh_cell", rc, lambda a, h, w, u, b, d: a @ w.T + h @ u.T + b + d, "tanh|atanh", "f")
    row("hidden weights transposed", "torch.rnn_relu_cell", rc, lambda a, h, w, u, b, d: (a @ w.T + h @ u + b + d).relu(), "w_hh.*(transposed|exchanged)", "f")
    flat = lambda n, i, h: [x(n * h, i), x(n * h, h), x(n * h), x(n * h)]
    seq = lambda n, layers=1: (lambda: (x(7, 3, 5), x(layers, 3, 5), [t for _ in range(layers) for t in flat(n, 5, 5)], True, layers, 0.0, False, False, False))
    row("gates z r n", "torch.gru", seq(3), lambda a, h, ps, *r: torch.gru(a, h, [torch.cat([t.chunk(3)[k] for k in (1, 0, 2)]) for t in ps], *r), "gate|exchanged|order|params", "f")
    row("hidden states of the other layer", "torch.gru", seq(3, 2), lambda a, h, ps, *r: torch.gru(a, h.flip(0), ps, *r), "backwards|hx|rolled|exchanged", "f")
    row("layers exchanged", "torch.gru", seq(3, 2), lambda a, h, ps, *r: torch.gru(a, h, ps[4:] + ps[:4], *r), "params|order|exchanged", "f")
    row("biases left out", "torch.rnn_tanh", seq(1), lambda a, h, ps, *r: torch.rnn_tanh(a, h, [ps[0], ps[1], 0 * ps[2], 0 * ps[3]], *r), "bias|params", "f")
    row("initial state ignored", "torch.rnn_tanh", seq(1), lambda a, h, ps, *r: torch.rnn_tanh(a, 0 * h, ps, *r), "hx", "f")
    row("relu", "torch.rnn_tanh", seq(1), lambda a, h, ps, *r: torch.rnn_relu(a, h, ps, *r), "relu", "f")
    ls = lambda: (x(7, 3, 5), [x(1, 3, 5), x(1, 3, 5)], flat(4, 5, 5), True, 1, 0.0, False, False, False)
    row("gates i f o g", "torch.lstm", ls, lambda a, hc, ps, *r: torch.lstm(a, hc, [torch.cat([t.chunk(4)[k] for k in (0, 1, 3, 2)]) for t in ps], *r), "gate|exchanged|order|params", "f")
    row("h and c exchanged", "torch.lstm", ls, lambda a, hc, ps, *r: torch.lstm(a, hc[::-1], ps, *r), "exchanged|backwards|order|hx", "f")
    row("sequence in reverse", "torch.lstm", ls, lambda a, hc, ps, *r: torch.lstm(a.flip(0), hc, ps, *r), "backwards", "f")


def nanfirst(a, d):
    k = torch.where(a.isnan(), torch.full_like(a, -math.inf), a)
    i = k.argsort(1, stable=True)
    return a.gather(1, i), i


def nohalf(a, n):
    s = a.shape[-1]
    at = torch.arange(n) * s / n
    lo = at.floor().long()
    hi = (lo + 1).clamp(max=s - 1)
    f = at - lo
    return a[..., lo] * (1 - f) + a[..., hi] * f


def gridgrad(g, a, r):
    r = r.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(F.grid_sample(a, r, align_corners=False), r, g)[0]


def optimizers7(c):
    """Steps of Adam and its like with one part wrong, in the form of causes.optimizers."""
    x = c.x
    kw = dict(lr=0.01, beta1=0.9, beta2=0.999, weight_decay=0.1, eps=1e-4, amsgrad=False, maximize=False, grad_scale=None, found_inf=None)

    def adam(own, first=True, second=True, eps="after", off=0, square=True, swap=False, lr_decay=True, eps_root=False, old=False, root=True, nesterov=False):
        def f(ps, gs, ms, vs, mx, steps, **k):
            b1, b2 = (k["beta2"], k["beta1"]) if swap else (k["beta1"], k["beta2"])
            for stored in zip(ps, gs, ms, vs, steps):
                p, g, m, v, s = (t.float().clone() for t in stored)
                t = float(s) + off
                if own:
                    p.mul_(1 - (k["lr"] if lr_decay else 1) * k["weight_decay"])
                else:
                    g = g + k["weight_decay"] * p
                m0 = m.clone()
                m.mul_(b1).add_((1 - b1) * g)
                v.mul_(b2).add_((1 - b2) * (g * g if square else g.abs()))
                c1, c2 = (1 - b1**t if first else 1), (1 - b2**t if second else 1)
                d = {"after": lambda: (v / c2).sqrt() + k["eps"], "inside": lambda: (v / c2 + k["eps"]).sqrt(), "before": lambda: (v.sqrt() + k["eps"]) / math.sqrt(c2), "none": lambda: (v / c2).sqrt(), "limit": lambda: (v / c2).sqrt().clamp(min=k["eps"])}[eps]()
                if not root:
                    d = v / c2 + k["eps"]
                u = m0 if old else b1 * m + (1 - b1) * g if nesterov else m
                p.sub_(k["lr"] / c1 * u / d)
                for t, made in zip((stored[0], *stored[2:4]), (p, m, v)):
                    t.copy_(made)
        return f

    def args():
        s = [(30, 8), (40,)]
        return ([x(*t, grad=False) for t in s], [x(*t, grad=False) for t in s], [x(*t, grad=False) * 0.1 for t in s],
                [x(*t, grad=False).abs() * 1e-3 for t in s], [], [torch.tensor(3.0) for _ in s])

    for op, own in (("torch._fused_adamw_", True), ("torch._fused_adam_", False)):
        yield "first moment not corrected", op, args, kw, adam(own, first=False), "first|correct|lr"
        yield "second moment not corrected", op, args, kw, adam(own, second=False), "second|correct"
        yield "eps inside of the root", op, args, kw, adam(own, eps="inside"), "eps|root"
        yield "eps before the correction", op, args, kw, adam(own, eps="before"), "eps"
        yield "eps left out", op, args, kw, adam(own, eps="none"), "eps"
        yield "step one early", op, args, kw, adam(own, off=1), "step"
        yield "betas exchanged", op, args, kw, adam(own, swap=True), "beta"
        yield "magnitude for the square", op, args, kw, adam(own, square=False), "square|magnitude|abs"
        yield "update by the average before the step", op, args, kw, adam(own, old=True), "before|old|exp_avg|average"
        yield "no root", op, args, kw, adam(own, root=False), "root"
        yield "nesterov", op, args, kw, adam(own, nesterov=True), "nesterov|grad"
    yield "decay not times lr", "torch._fused_adamw_", args, kw, adam(True, lr_decay=False), "decay|lr"
