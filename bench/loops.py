"""Small training loops as users write them, for sound.py: losses, layers, optimizers and updates by hand.

LOOPS gives by name a function that makes an Example of programs.py. Those with `optimizer` bring their own, those with
`train` their own step: `train(model, inputs, amp, update)` gives the function that trains one step; `amp()` is the
context of the forward pass, `update(loss, optimizer)` the backward pass and the optimizer's step.
"""
import copy, math

import torch
import torch.nn as nn
import torch.nn.functional as F

from programs import BATCH, WORDS, Example, trains, words


def mlp(*sizes, act=nn.ReLU):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


# --- pictures ---------------------------------------------------------------------------------------------------------

def unet_segmentation():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            def block(a, b):
                return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
            self.a, self.b, self.c, self.up, self.out = block(1, 8), block(8, 16), block(16, 8), nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(8, 3, 1)
            self.register_buffer("weight", torch.tensor([.2, 1., 3.]))

        def forward(self, x, y):
            a = self.a(x)
            b = self.b(F.max_pool2d(a, 2))
            z = self.out(self.c(torch.cat([a, self.up(b)], 1)))
            ce = F.cross_entropy(z, y, weight=self.weight.to(z.dtype), ignore_index=255)
            p, keep = z.float().softmax(1), (y != 255).unsqueeze(1)
            hot = F.one_hot(y.masked_fill(y == 255, 0), 3).permute(0, 3, 1, 2).float() * keep
            p = p * keep
            dice = 1 - (2 * (p * hot).sum((0, 2, 3)) + 1) / (p.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + 1)
            return ce.float() + dice.mean()
    y = torch.randint(0, 3, (BATCH, 16, 16))
    y[:, :2] = 255
    return trains(Net(), torch.randn(BATCH, 1, 16, 16), y, images=True)


def crnn_ctc():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1)), nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((4, 2)))
            self.rnn, self.out = nn.LSTM(16, 12, 2, bidirectional=True), nn.Linear(24, 11)

        def forward(self, x, y, n, m):
            h = self.conv(x).squeeze(2).permute(2, 0, 1)
            logp = self.out(self.rnn(h)[0]).float().log_softmax(-1)
            return F.ctc_loss(logp, y, n, m, zero_infinity=True)
    return trains(Net(), torch.randn(3, 1, 8, 24), torch.randint(1, 11, (3, 5)), torch.tensor([12, 10, 4]), torch.tensor([5, 3, 4]), images=True)


def triplets():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(.1), nn.Conv2d(8, 16, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8))

        def forward(self, x, y):
            e = F.normalize(self.body(x).float(), dim=1)
            d = torch.cdist(e, e)
            same = y[:, None] == y
            far = d.masked_fill(~same, 0).max(1)[0]
            near = d.masked_fill(same, float("inf")).min(1)[0]
            margin = F.relu(far - near + .2).mean()
            a, p, n = e[0::3], e[1::3], e[2::3]
            return margin + F.triplet_margin_loss(a, p, n, margin=.5, swap=True) + F.triplet_margin_with_distance_loss(
                a, p, n, distance_function=lambda u, v: 1 - F.cosine_similarity(u, v))
    return trains(Net(), torch.randn(9, 3, 16, 16), torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 0]), images=True)


def simclr():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()), mlp(32, 16, 8)

        def forward(self, x):
            noisy = torch.cat([x + .1 * torch.randn_like(x), x.flip(-1)])
            z = F.normalize(self.head(self.body(noisy)), dim=-1)
            s = (z @ z.T / .5).float()
            s = s.masked_fill(torch.eye(len(s), dtype=torch.bool), float("-inf"))
            return F.cross_entropy(s, torch.arange(len(s)).roll(len(x)))
    return trains(Net(), torch.randn(6, 3, 12, 12), images=True)


def byol():
    net = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 8))
    model = nn.ModuleDict(dict(online=net, target=copy.deepcopy(net).requires_grad_(False), guess=mlp(8, 16, 8)))

    def train(model, inputs, amp, update):
        x, = inputs
        opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=.05, momentum=.9, weight_decay=1e-4)
        def step():
            a, b = x + .1 * torch.randn_like(x), x + .1 * torch.randn_like(x)
            with amp():
                with torch.no_grad():
                    ta, tb = model["target"](a), model["target"](b)
                loss = sum((2 - 2 * F.cosine_similarity(model["guess"](model["online"](u)), t.detach(), dim=-1)).mean() for u, t in ((a, tb), (b, ta)))
            update(loss, opt)
            with torch.no_grad():
                for o, t in zip(model["online"].parameters(), model["target"].parameters()):
                    t.data = .99 * t.data + (1 - .99) * o.data
            return loss
        return step
    return Example(model, (torch.randn(8, 12),), train=train)


def focal_boxes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.kind, self.box = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.SiLU()), nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)
            nn.init.constant_(self.kind.bias, -math.log(99))

        def forward(self, x, y, boxes):
            f = self.body(x)
            z, b = self.kind(f).permute(0, 2, 3, 1).flatten(1, 2).float(), self.box(f).permute(0, 2, 3, 1).flatten(1, 2).float()
            t = F.one_hot(y, 5)[..., 1:].float()
            p = torch.sigmoid(z)
            ce = F.binary_cross_entropy_with_logits(z, t, reduction="none")
            pt = p * t + (1 - p) * (1 - t)
            focal = ((.25 * t + .75 * (1 - t)) * ce * (1 - pt) ** 2).sum() / t.sum().clamp(min=1)
            some = y > 0
            c1, s1, c2, s2 = b[some][:, :2].sigmoid(), b[some][:, 2:].exp() * .2, boxes[some].float()[:, :2], boxes[some].float()[:, 2:]
            a, c = torch.cat([c1 - s1 / 2, c1 + s1 / 2], 1), torch.cat([c2 - s2 / 2, c2 + s2 / 2], 1)
            inter = (torch.min(a[:, 2:], c[:, 2:]) - torch.max(a[:, :2], c[:, :2])).clamp(min=0).prod(1)
            union = s1.prod(1) + s2.prod(1) - inter
            hull = (torch.max(a[:, 2:], c[:, 2:]) - torch.min(a[:, :2], c[:, :2])).clamp(min=0)
            iou = inter / (union + 1e-7)
            v = 4 / math.pi ** 2 * (torch.atan(s2[:, 0] / s2[:, 1]) - torch.atan(s1[:, 0] / s1[:, 1])) ** 2
            alpha = (v / (1 - iou + v + 1e-7)).detach()
            ciou = 1 - iou + (c1 - c2).square().sum(1) / (hull.square().sum(1) + 1e-7) + alpha * v
            return focal + ciou.mean() + F.smooth_l1_loss(b[some], boxes[some].float(), beta=.11)
    y = torch.zeros(BATCH, 64, dtype=torch.long)
    y[:, ::9] = torch.randint(1, 5, (BATCH, 8))
    return trains(Net(), torch.randn(BATCH, 3, 16, 16), y, torch.rand(BATCH, 64, 4) * .5 + .2, images=True)


def lovasz():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 12, 3, padding=2, dilation=2), nn.ELU(), nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.Conv2d(12, 1, 1))

        def forward(self, x, y):
            z = self.body(x).float().flatten(1)
            total = 0
            for s, t in zip(z, y.float().flatten(1)):
                errors, order = torch.sort(1 - s * (2 * t - 1), descending=True)
                g = t[order]
                left = g.sum() - g.cumsum(0)
                jaccard = 1 - left / (g.sum() + (1 - g).cumsum(0))
                total = total + F.elu(errors) @ torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
            tversky = (torch.sigmoid(z) * y.float().flatten(1)).sum() / (.3 * torch.sigmoid(z).sum() + .7 * y.float().sum() + 1)
            return total / len(z) + (1 - tversky) ** .75
    return trains(Net(), torch.randn(BATCH, 3, 10, 10), (torch.rand(BATCH, 10, 10) > .6).float(), images=True)


def superresolution():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.body, self.tail = nn.Conv2d(3, 12, 3, padding=1), nn.ModuleList([nn.Conv2d(12, 12, 3, padding=1, padding_mode="reflect") for _ in range(2)]), nn.Conv2d(12, 12, 3, padding=1)
            self.scale = nn.Parameter(torch.tensor(.1))

        def forward(self, x, y):
            h = self.head(x)
            for c in self.body:
                gate = F.hardsigmoid(h.mean((2, 3), keepdim=True))
                h = h + self.scale * c(F.relu(h)) * gate
            up = F.pixel_shuffle(self.tail(h), 2) + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
            charbonnier = torch.sqrt((up.float() - y.float()) ** 2 + 1e-6).mean()
            k = torch.exp(-(torch.arange(5.) - 2) ** 2 / 4.5)
            k = (k[:, None] * k / k.sum() ** 2).expand(3, 1, 5, 5)
            def blur(t):
                return F.conv2d(t, k, groups=3)
            a, b = up.float(), y.float()
            ma, mb = blur(a), blur(b)
            va, vb, cov = blur(a * a) - ma ** 2, blur(b * b) - mb ** 2, blur(a * b) - ma * mb
            ssim = ((2 * ma * mb + 1e-4) * (2 * cov + 9e-4)) / ((ma ** 2 + mb ** 2 + 1e-4) * (va + vb + 9e-4))
            tv = (up[..., 1:] - up[..., :-1]).abs().float().mean() + (up[..., 1:, :] - up[..., :-1, :]).abs().float().mean()
            return charbonnier + (1 - ssim.mean()) + .01 * tv
    return trains(Net(), torch.rand(BATCH, 3, 8, 8), torch.rand(BATCH, 3, 16, 16), images=True)


def style_transfer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 3, 2, 1), nn.Tanh())
            self.look = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()).requires_grad_(False)

        def forward(self, x, style):
            y = self.net(x)
            fy, fx, fs = self.look(y), self.look(x), self.look(style)
            def gram(f):
                f = f.flatten(2)
                return torch.bmm(f, f.transpose(1, 2)) / f.shape[1] / f.shape[2]
            return F.mse_loss(fy, fx).float() + 10 * F.mse_loss(gram(fy), gram(fs).expand(BATCH, -1, -1)).float() + .1 * F.l1_loss(y[..., :-1], y[..., 1:]).float()
    return trains(Net(), torch.rand(BATCH, 3, 12, 12), torch.rand(1, 3, 12, 12), images=True)


def depth_warp():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.depth, self.pose = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ELU(), nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid()), nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 6))

        def forward(self, a, b):
            d = 1 / (.1 + 9.9 * self.depth(a).float())
            v = .01 * self.pose(torch.cat([a, b], 1)).float()
            w, t = v[:, :3], v[:, 3:]
            zero = torch.zeros_like(w[:, 0])
            k = torch.stack([zero, -w[:, 2], w[:, 1], w[:, 2], zero, -w[:, 0], -w[:, 1], w[:, 0], zero], -1).view(-1, 3, 3)
            r = torch.matrix_exp(k)
            n = a.shape[-1]
            ys, xs = torch.meshgrid(torch.arange(n) + .5, torch.arange(n) + .5, indexing="ij")
            p = torch.stack([(xs - n / 2) / n, (ys - n / 2) / n, torch.ones_like(xs)]).flatten(1)
            q = r @ (p * d.flatten(2)) + t[:, :, None]
            grid = (2 * q[:, :2] / q[:, 2:].clamp(min=1e-3)).transpose(1, 2).view(-1, n, n, 2)
            seen = F.grid_sample(b.float(), grid, padding_mode="border", align_corners=False)
            photo = (seen - a.float()).abs().mean(1, keepdim=True).minimum((b.float() - a.float()).abs().mean(1, keepdim=True))
            flat = d / d.mean((2, 3), keepdim=True)
            edges = (flat[..., 1:] - flat[..., :-1]).abs() * torch.exp(-(a[..., 1:] - a[..., :-1]).abs().mean(1, keepdim=True).float())
            return photo.mean() + .1 * edges.mean()
    return trains(Net(), torch.rand(BATCH, 3, 10, 10), torch.rand(BATCH, 3, 10, 10), images=True)


def keypoints():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.out = nn.Conv2d(3, 12, 3, 2, 1), nn.Conv2d(12, 12, 3, padding=1), nn.Conv2d(12, 5, 1)

        def forward(self, x, y):
            h = F.mish(self.a(x))
            h = h + F.interpolate(F.avg_pool2d(F.hardswish(self.b(h)), 2), scale_factor=2, mode="nearest")
            z = self.out(h).float()
            p = z.flatten(2).softmax(-1).view_as(z)
            at = torch.linspace(0, 1, z.shape[-1])
            xy = torch.stack([(p.sum(2) * at).sum(-1), (p.sum(3) * at).sum(-1)], -1)
            d = (xy - y.float()).abs() * 10
            wing = torch.where(d < 1, torch.log1p(d / .5), d - 1 + math.log(3))
            entropy = -(p * (p + 1e-9).log()).sum((2, 3)).mean()
            return wing.mean() + .01 * entropy + F.huber_loss(xy, y.float(), delta=.1)
    return trains(Net(), torch.randn(BATCH, 3, 16, 16), torch.rand(BATCH, 5, 2), images=True)


def mixup_cutmix():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.blocks, self.head = nn.Conv2d(3, 16, 4, 4), nn.ModuleList([nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.GroupNorm(1, 16), nn.Conv2d(16, 32, 1), nn.GELU(), nn.Conv2d(32, 16, 1)) for _ in range(2)]), nn.Linear(16, 7)
            self.gamma = nn.ParameterList([nn.Parameter(torch.full((16, 1, 1), .1)) for _ in range(2)])

        def forward(self, x, y):
            lam = torch.distributions.Beta(.8, .8).sample().item()
            order = torch.randperm(len(x))
            mixed = lam * x + (1 - lam) * x[order]
            mixed[:, :, 2:6, 4:8] = x[order][:, :, 2:6, 4:8]
            hot = F.one_hot(y, 7).float() * .9 + .1 / 7
            t = lam * hot + (1 - lam) * hot[order]
            h = self.stem(mixed)
            for g, b in zip(self.gamma, self.blocks):
                keep = torch.empty(len(x), 1, 1, 1, dtype=h.dtype).bernoulli_(.8) / .8
                h = h + keep * g * b(h)
            z = self.head(h.mean((-2, -1)))
            return F.cross_entropy(z.float(), t) + F.kl_div(z.float().log_softmax(-1), t, reduction="batchmean")
    return trains(Net(), torch.randn(4, 3, 16, 16), torch.tensor([1, 0, 6, 3]), images=True)


# --- sequences --------------------------------------------------------------------------------------------------------

def packed_language_model():
    class Net(nn.Module):
        def __init__(self, d=24):
            super().__init__()
            self.embed, self.rnn, self.out = nn.Embedding(WORDS, d, padding_idx=0), nn.LSTM(d, d, 2, dropout=.2, batch_first=True), nn.Linear(d, WORDS)
            self.out.weight = self.embed.weight

        def forward(self, ids, lengths):
            mask = torch.empty(len(ids), 1, 24, dtype=self.embed.weight.dtype).bernoulli_(.7) / .7
            x = nn.utils.rnn.pack_padded_sequence(self.embed(ids[:, :-1]) * mask, lengths - 1, batch_first=True, enforce_sorted=False)
            h, (last, _) = self.rnn(x)
            h, _ = nn.utils.rnn.pad_packed_sequence(h, batch_first=True, total_length=ids.shape[1] - 1)
            loss = F.cross_entropy(self.out(h).flatten(0, 1).float(), ids[:, 1:].flatten(), ignore_index=0)
            slow = (h[:, 1:] - h[:, :-1]).float().pow(2).mean()
            return loss + slow + 2 * h.float().pow(2).mean() + 0 * last.float().sum()
    ids = words(3, 10)
    ids[0, 7:] = ids[2, 4:] = 0
    return trains(Net(), ids, torch.tensor([7, 10, 4]))


class Rotary(nn.Module):
    """A decoder's block: RMSNorm, rotary positions, shared heads, SwiGLU."""

    def __init__(self, d=32, heads=4, shared=2):
        super().__init__()
        self.heads, self.shared, self.each = heads, shared, d // heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, n * self.each, bias=False) for n in (heads, shared, shared, heads))
        self.gate, self.up, self.down, self.n1, self.n2 = nn.Linear(d, 48, bias=False), nn.Linear(d, 48, bias=False), nn.Linear(48, d, bias=False), nn.RMSNorm(d, eps=1e-5), nn.RMSNorm(d, eps=1e-5)

    def turned(self, x, start):
        angle = torch.outer(torch.arange(start, start + x.shape[2]).float(), 1e4 ** (-torch.arange(0, self.each, 2) / self.each))
        c = torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
        return torch.view_as_real(c).flatten(-2).to(x.dtype)

    def forward(self, x, cache=None, window=None):
        h = self.n1(x)
        q, k, v = (f(h).unflatten(-1, (-1, self.each)).transpose(1, 2) for f in (self.q, self.k, self.v))
        start = cache[0].shape[2] if cache else 0
        q, k = self.turned(q, start), self.turned(k, start)
        if cache:
            k, v = torch.cat([cache[0].to(k.dtype), k], 2), torch.cat([cache[1].to(v.dtype), v], 2)
        n, m = q.shape[2], k.shape[2]
        i, j = torch.arange(m - n, m)[:, None], torch.arange(m)
        mask = (j <= i) & (j > i - (window or m))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), (k, v)


def cached_decoder():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.blocks, self.norm = nn.Embedding(WORDS, 32), nn.ModuleList([Rotary(), Rotary()]), nn.RMSNorm(32)

        def forward(self, ids):
            x, caches = self.embed(ids[:, :8]), []
            for b in self.blocks:
                x, c = b(x)
                caches.append(c)
            seen = [x]
            for t in range(8, 11):
                x = self.embed(ids[:, t:t + 1])
                for i, b in enumerate(self.blocks):
                    x, caches[i] = b(x, caches[i], window=6)
                seen.append(x)
            z = F.linear(self.norm(torch.cat(seen, 1)), self.embed.weight).float()
            z = 30 * torch.tanh(z / 30)
            lse = torch.logsumexp(z, -1)
            return F.cross_entropy(z[:, :-1].flatten(0, 1), ids[:, 1:11].flatten()) + 1e-4 * lse.square().mean()
    return trains(Net(), words(BATCH, 11))


def alibi_window():
    class Net(nn.Module):
        def __init__(self, d=24, heads=3):
            super().__init__()
            self.embed, self.qkv, self.o, self.norm, self.ff, self.out, self.heads = nn.Embedding(WORDS, d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d), mlp(d, 48, d, act=nn.GELU), nn.Linear(d, WORDS, bias=False), heads

        def forward(self, ids):
            x = self.embed(ids)
            n = ids.shape[1]
            q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            far = torch.arange(n)[:, None] - torch.arange(n)
            bias = -far * (2. ** (-8 / self.heads * torch.arange(1, self.heads + 1)))[:, None, None]
            s = q @ k.transpose(-1, -2) * q.shape[-1] ** -.5 + bias
            s = s.masked_fill((far < 0) | (far >= 5), float("-inf"))
            p = F.dropout(F.softmax(s, -1, dtype=torch.float32), .1).to(v.dtype)
            x = x + self.o((p @ v).transpose(1, 2).flatten(2))
            x = x + self.ff(self.norm(x))
            return F.cross_entropy(self.out(x)[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), label_smoothing=.1)
    return trains(Net(), words(BATCH, 12))


def retention():
    class Net(nn.Module):
        def __init__(self, d=24, heads=3):
            super().__init__()
            self.embed, self.qkv, self.gate, self.o, self.norm, self.heads = nn.Embedding(WORDS, d), nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d), nn.Linear(d, WORDS), nn.GroupNorm(heads, d), heads

        def forward(self, ids):
            x = self.embed(ids)
            b, n, d = x.shape
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            gamma = 1 - 2. ** (-5 - torch.arange(self.heads))
            far = torch.arange(n)[:, None] - torch.arange(n)
            decay = torch.where(far >= 0, gamma[:, None, None] ** far.clamp(min=0), 0)
            y = (q @ k.mT * 8 ** -.5 * decay.to(q.dtype)) @ v
            state, steps = x.new_zeros(b, self.heads, 8, 8), []
            for t in range(n):
                state = gamma[:, None, None].to(x.dtype) * state + torch.einsum("bhd,bhe->bhde", k[:, :, t], v[:, :, t])
                steps.append(torch.einsum("bhd,bhde->bhe", q[:, :, t], state) * 8 ** -.5)
            y = (y + torch.stack(steps, 2)) / 2
            y = self.norm(y.transpose(1, 2).reshape(b * n, d)).view(b, n, d) * F.silu(self.gate(x))
            return F.cross_entropy(self.o(y)[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
    return trains(Net(), words(BATCH, 10))


def linear_attention():
    class Net(nn.Module):
        def __init__(self, d=24):
            super().__init__()
            self.embed, self.qkvb, self.o = nn.Embedding(WORDS, d), nn.Linear(d, 3 * d + 3), nn.Linear(d, WORDS)

        def forward(self, ids):
            x = self.embed(ids)
            y = self.qkvb(x)
            q, k, v = (t.unflatten(-1, (3, 8)) for t in y[..., :72].chunk(3, -1))
            beta = torch.sigmoid(y[..., 72:])
            fq, fk = F.elu(q) + 1, F.elu(k) + 1
            kv = torch.einsum("blhd,blhe->blhde", fk, v).cumsum(1)
            first = torch.einsum("blhd,blhde->blhe", fq, kv) / (torch.einsum("blhd,blhd->blh", fq, fk.cumsum(1))[..., None] + 1e-4)
            qn, kn, s, out = F.normalize(q, dim=-1), F.normalize(k, dim=-1), v.new_zeros(len(x), 3, 8, 8), []
            for t in range(x.shape[1]):
                old = torch.einsum("bhd,bhde->bhe", kn[:, t], s)
                s = s + torch.einsum("bhd,bhe->bhde", kn[:, t], beta[:, t, :, None] * (v[:, t] - old))
                out.append(torch.einsum("bhd,bhde->bhe", qn[:, t], s))
            z = self.o((first + torch.stack(out, 1)).flatten(2))
            return F.cross_entropy(z[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
    return trains(Net(), words(BATCH, 9))


def top1_moe():
    class Net(nn.Module):
        def __init__(self, d=16, n=4):
            super().__init__()
            self.embed, self.router, self.out = nn.Embedding(WORDS, d), nn.Linear(d, n, bias=False), nn.Linear(d, WORDS)
            self.w1, self.w2, self.n = nn.Parameter(torch.randn(n, d, 32) * .2), nn.Parameter(torch.randn(n, 32, d) * .2), n

        def forward(self, ids):
            x = self.embed(ids).flatten(0, 1)
            p = self.router(x).float().softmax(-1)
            gate, chosen = p.max(-1)
            hot = F.one_hot(chosen, self.n)
            place = ((hot.cumsum(0) - 1) * hot).sum(-1)
            room = int(1.0 * len(x) / self.n)
            kept = place < room
            box = x.new_zeros(self.n * room, x.shape[1]).index_copy(0, (chosen * room + place)[kept], x[kept]).view(self.n, room, -1)
            y = torch.bmm(torch.relu(torch.bmm(box, self.w1)), self.w2).flatten(0, 1)
            back = torch.zeros_like(x).masked_scatter(kept[:, None], y[(chosen * room + place)[kept]].to(x.dtype))
            x = x + gate[:, None].to(x.dtype) * back
            aux = self.n * (hot.float().mean(0) * p.mean(0)).sum()
            return F.cross_entropy(self.out(x).float(), ids.roll(-1, 1).flatten()) + .01 * aux
    return trains(Net(), words(BATCH, 12))


def translation():
    class Net(nn.Module):
        def __init__(self, d=24):
            super().__init__()
            self.a, self.b = nn.Embedding(WORDS, d), nn.Embedding(WORDS, d)
            self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 3, 32, .1, "gelu", batch_first=True, norm_first=True), 1, enable_nested_tensor=False)
            self.dec, self.out = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, 3, 32, .1, batch_first=True), 1), nn.Linear(d, WORDS)

        def forward(self, s, t, hidden):
            m = self.enc(self.a(s) * 24 ** .5, src_key_padding_mask=hidden)
            causal = torch.ones(t.shape[1] - 1, t.shape[1] - 1, dtype=torch.bool).triu(1)
            y = self.dec(self.b(t[:, :-1]), m, tgt_mask=causal, memory_key_padding_mask=hidden)
            return F.nll_loss(self.out(y).float().log_softmax(-1).flatten(0, 1), t[:, 1:].flatten(), ignore_index=5)
    hidden = torch.zeros(3, 9, dtype=torch.bool)
    hidden[1, 6:] = hidden[2, 3:] = True
    return trains(Net(), words(3, 9), words(3, 7), hidden)


def dilated_convolutions():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            from torch.nn.utils.parametrizations import weight_norm
            self.layers = nn.ModuleList([weight_norm(nn.Conv1d(4 if i == 0 else 16, 16, 3, dilation=2 ** i)) for i in range(3)])
            self.skip, self.out = nn.Conv1d(4, 16, 1), nn.Linear(16, 3)

        def forward(self, x, y):
            h = x
            for i, c in enumerate(self.layers):
                z = F.dropout(F.relu(c(F.pad(h, (2 << i, 0)))), .1)
                h = F.relu(z + (self.skip(h) if i == 0 else h))
            q = self.out(h[:, :, -1]).float()
            q = torch.cat([q[:, :1], q[:, :1] + F.softplus(q[:, 1:]).cumsum(1)], 1)
            e = y.float()[:, None] - q
            return torch.max(torch.tensor([.1, .5, .9]) * e, torch.tensor([-.9, -.5, -.1]) * e).sum(1).mean()
    return trains(Net(), torch.randn(4, 4, 20), torch.randn(4))


def speech_enhancement():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up, self.rnn = nn.Conv1d(1, 12, 8, 4, 2), nn.ConvTranspose1d(12, 1, 8, 4, 2), nn.GRU(12, 12, batch_first=True)
            self.glu = nn.Conv1d(12, 24, 1)

        def forward(self, noisy, clean):
            h = F.glu(self.glu(F.relu(self.down(noisy))), 1)
            h = h + self.rnn(h.transpose(1, 2))[0].transpose(1, 2)
            y, t = self.up(h).squeeze(1).float(), clean.squeeze(1).float()
            loss = F.l1_loss(y, t)
            for n in (16, 32):
                a, b = (torch.stft(s, n, n // 4, n, torch.hann_window(n), return_complex=True).abs().clamp(min=1e-5) for s in (y, t))
                loss = loss + torch.norm(b - a, p="fro") / torch.norm(b, p="fro") + F.l1_loss(a.log(), b.log())
            return loss
    return trains(Net(), torch.randn(BATCH, 1, 128), torch.randn(BATCH, 1, 128))


def attention_tts():
    class Net(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.embed, self.length, self.pitch, self.out = nn.Embedding(WORDS, d), nn.Conv1d(d, 1, 3, padding=1), nn.Conv1d(1, d, 3, padding=1), nn.Linear(d, 8)
            self.enc, self.attn = nn.Conv1d(d, d, 3, padding=1), nn.MultiheadAttention(d, 2, batch_first=True)

        def forward(self, ids, durations, f0, mel, hidden):
            x = F.relu(self.enc(self.embed(ids).transpose(1, 2)))
            d = self.length(x).squeeze(1).float()
            x = (x + self.pitch(f0[:, None])).transpose(1, 2)
            x = torch.nn.utils.rnn.pad_sequence([torch.repeat_interleave(a, n, 0) for a, n in zip(x, durations)], batch_first=True)
            y = x + self.attn(x, x, x, key_padding_mask=hidden, need_weights=False)[0]
            y = self.out(y).float()
            keep = (~hidden)[..., None]
            return ((y - mel.float()).abs() * keep).sum() / keep.sum() + F.mse_loss(d, torch.log1p(durations.float()))
    d = torch.tensor([[2, 1, 3, 2], [1, 1, 2, 1]])
    hidden = torch.zeros(BATCH, 8, dtype=torch.bool)
    hidden[1, 5:] = True
    return trains(Net(), words(BATCH, 4), d, torch.randn(BATCH, 4), torch.randn(BATCH, 8, 8), hidden)


# --- generative models ------------------------------------------------------------------------------------------------

def spectral_gan():
    from torch.nn.utils.parametrizations import spectral_norm
    g = nn.Sequential(nn.Linear(8, 64), nn.Unflatten(1, (4, 4, 4)), nn.BatchNorm2d(4), nn.ReLU(), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Tanh())
    d = nn.Sequential(spectral_norm(nn.Conv2d(1, 8, 4, 2, 1)), nn.LeakyReLU(.2), nn.Flatten(), spectral_norm(nn.Linear(128, 1)))

    def train(model, inputs, amp, update):
        g, d = model["g"], model["d"]
        real, = inputs
        og, od = torch.optim.Adam(g.parameters(), 2e-3, (.5, .999)), torch.optim.Adam(d.parameters(), 2e-3, (.5, .999))
        def step():
            z = torch.randn(len(real), 8, dtype=real.dtype)
            with amp():
                with torch.no_grad():
                    fake = g(z)
                loss = F.relu(1 - d(real)).mean() + F.relu(1 + d(fake)).mean()
            update(loss, od)
            with amp():
                lg = -d(g(z)).mean()
            update(lg, og)
            return loss
        return step
    return Example(nn.ModuleDict(dict(g=g, d=d)), (torch.randn(4, 1, 8, 8),), train=train)


def wgan_gp():
    def train(model, inputs, amp, update):
        g, d = model["g"], model["d"]
        real, = inputs
        og, od = torch.optim.RMSprop(g.parameters(), 1e-3), torch.optim.AdamW(d.parameters(), 1e-3, betas=(0., .9))
        def step():
            for _ in range(2):
                with amp():
                    fake = g(torch.randn(len(real), 6, dtype=real.dtype)).detach()
                    e = torch.rand(len(real), 1).to(real.dtype)
                    mid = (e * real + (1 - e) * fake).to(real.dtype).requires_grad_(True)
                    score = d(mid)
                slope, = torch.autograd.grad(score, mid, torch.ones_like(score), create_graph=True)
                with amp():
                    loss = d(fake).mean() - d(real).mean() + 10 * (slope.flatten(1).norm(2, dim=1) - 1).pow(2).mean()
                update(loss, od)
            with amp():
                lg = -d(g(torch.randn(len(real), 6, dtype=real.dtype))).mean()
            update(lg, og)
            return loss
        return step
    return Example(nn.ModuleDict(dict(g=mlp(6, 24, 10, act=nn.ELU), d=mlp(10, 24, 24, 1, act=nn.SiLU))), (torch.randn(8, 10),), train=train)


def realnvp():
    class Net(nn.Module):
        def __init__(self, d=6):
            super().__init__()
            self.nets, self.mix = nn.ModuleList([mlp(3, 24, 6, act=nn.Tanh) for _ in range(4)]), nn.Parameter(torch.linalg.qr(torch.randn(d, d))[0])
            self.scale, self.shift = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))

        def forward(self, x):
            x = (x.float() + self.shift.float()) * self.scale.float().exp()
            logdet = self.scale.float().sum().expand(len(x))
            x = x @ self.mix.float()
            logdet = logdet + torch.linalg.slogdet(self.mix.float())[1]
            for i, net in enumerate(self.nets):
                a, b = x.chunk(2, 1) if i % 2 else x.chunk(2, 1)[::-1]
                s, t = net(a.to(net[0].weight.dtype)).float().chunk(2, 1)
                s = 2 * torch.tanh(s / 2)
                b = b * s.exp() + t
                logdet = logdet + s.sum(1)
                x = torch.cat([a, b], 1)
            base = torch.distributions.Normal(torch.zeros(6), torch.ones(6))
            return -(base.log_prob(x).sum(1) + logdet).mean()
    return trains(Net(), torch.randn(12, 6))


def adaptive_ode():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.f, self.read = mlp(3, 20, 2, act=nn.Softplus), nn.Linear(2, 2)

        def forward(self, x, y):
            t, h = 0., .2
            cost = 0
            def f(t, x):
                return self.f(torch.cat([x, torch.full_like(x[:, :1], t)], 1)).to(x.dtype)
            for _ in range(5):
                k1 = f(t, x)
                k2 = f(t + h, x + h * k1)
                err = (h * .5 * (k2 - k1)).float().abs().amax().item()
                x = x + h * .5 * (k1 + k2)
                t, h = t + h, min(.5, h * min(2., .9 * math.sqrt(.05 / max(err, 1e-6))))
                cost = cost + h * k1.float().pow(2).sum(1).mean()
            return F.mse_loss(self.read(x).float(), y.float()) + .01 * cost
    return trains(Net(), torch.randn(6, 2), torch.randn(6, 2))


def mixture_vae():
    class Net(nn.Module):
        def __init__(self, k=4, d=3):
            super().__init__()
            self.enc, self.dec, self.mean, self.logvar, self.pi = mlp(10, 24, 2 * d), mlp(d, 24, 10), nn.Parameter(torch.randn(k, d)), nn.Parameter(torch.zeros(k, d)), nn.Parameter(torch.zeros(k))

        def forward(self, x):
            mu, logvar = self.enc(x).float().chunk(2, -1)
            z = mu + torch.randn_like(mu) * torch.exp(.5 * logvar)
            log_q = -.5 * (logvar + (z - mu) ** 2 / logvar.exp() + math.log(2 * math.pi)).sum(1)
            m, v = self.mean.float(), self.logvar.float()
            log_p = torch.logsumexp(self.pi.float().log_softmax(0) - .5 * (v + (z[:, None] - m) ** 2 / v.exp() + math.log(2 * math.pi)).sum(-1), 1)
            rec = F.binary_cross_entropy_with_logits(self.dec(z.to(x.dtype)).float(), (x > 0).float(), reduction="none").sum(1)
            return (rec + .5 * F.relu(log_q - log_p - .5)).mean()
    return trains(Net(), torch.randn(10, 10))


def vq_ema():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Conv1d(2, 8, 4, 2, 1), nn.ConvTranspose1d(8, 2, 4, 2, 1)
            self.register_buffer("book", torch.randn(12, 8))
            self.register_buffer("count", torch.ones(12))
            self.register_buffer("total", self.book.clone())

        def forward(self, x):
            z = self.enc(x).transpose(1, 2)
            flat = z.reshape(-1, 8).float()
            book = self.book.float()
            d = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ book.t() + book.pow(2).sum(1)
            i = d.argmin(1)
            hot = F.one_hot(i, 12).float()
            with torch.no_grad():
                self.count.mul_(.9).add_(hot.sum(0).to(self.count.dtype), alpha=.1)
                self.total.mul_(.9).add_((hot.t() @ flat).to(self.total.dtype), alpha=.1)
                n = self.count.sum()
                self.book.copy_(self.total / ((self.count + 1e-3) / (n + 12e-3) * n)[:, None])
            q = F.embedding(i, book).view(z.shape)
            commit = F.mse_loss(z.float(), q.detach())
            q = z + (q.to(z.dtype) - z).detach()
            use = hot.mean(0)
            perplexity = torch.exp(-(use * torch.log(use + 1e-10)).sum())
            return F.mse_loss(self.dec(q.transpose(1, 2)).float(), x.float()) + .25 * commit + 0 * perplexity
    return trains(Net(), torch.randn(BATCH, 2, 16))


def ddpm_ema():
    class Net(nn.Module):
        def __init__(self, c=8):
            super().__init__()
            self.a, self.b, self.c, self.t = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, 1, 3, padding=1), nn.Sequential(nn.Linear(c, c), nn.SiLU(), nn.Linear(c, 2 * c))
            self.n1, self.n2, self.qkv = nn.GroupNorm(2, c), nn.GroupNorm(2, c), nn.Conv2d(c, 3 * c, 1)

        def forward(self, x, t):
            w = torch.exp(-math.log(1e4) * torch.arange(4) / 4) * t[:, None].float()
            s, h = self.t(torch.cat([w.sin(), w.cos()], 1).to(x.dtype))[:, :, None, None].chunk(2, 1)
            y = F.silu(self.n1(self.a(x)))
            y = F.silu(self.n2(self.b(y)) * (1 + s) + h) + y
            q, k, v = self.qkv(y).flatten(2).transpose(1, 2)[:, None].chunk(3, -1)
            y = y + F.scaled_dot_product_attention(q, k, v)[:, 0].transpose(1, 2).view_as(y)
            return self.c(y)

    def train(model, inputs, amp, update):
        x, = inputs
        ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(.99))
        opt = torch.optim.AdamW(model.parameters(), 1e-3)
        ab = torch.cumprod(1 - torch.linspace(1e-4, .02, 50), 0)
        def step():
            t = torch.randint(0, 50, (len(x),))
            a, noise = ab[t].view(-1, 1, 1, 1).to(x.dtype), torch.randn_like(x)
            snr = ab[t] / (1 - ab[t])
            with amp():
                guess = model(a.sqrt() * x + (1 - a).sqrt() * noise, t)
                each = F.mse_loss(guess.float(), noise.float(), reduction="none").mean((1, 2, 3))
                loss = (each * torch.minimum(snr, torch.full_like(snr, 5.)) / snr).mean()
            update(loss, opt)
            ema.update_parameters(model)
            return loss
        return step
    return Example(Net(), (torch.randn(4, 1, 8, 8),), train=train)


def flow_matching():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.net = nn.Embedding(4, 8), mlp(2 + 1 + 8, 32, 32, 2, act=nn.SiLU)

        def forward(self, x, y):
            t = torch.sigmoid(torch.randn(len(x), 1)).to(x.dtype)
            noise = torch.randn_like(x)
            y = torch.where(torch.rand(len(x)) < .1, 3, y)
            v = self.net(torch.cat([torch.lerp(noise, x, t), t, self.embed(y)], 1))
            return F.mse_loss(v.float(), (x - noise).float()) + .1 * (1 - F.cosine_similarity(v.float(), (x - noise).float())).mean()
    return trains(Net(), torch.randn(16, 2), torch.randint(0, 3, (16,)))


def gumbel_vae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = mlp(12, 24, 15), mlp(15, 24, 12)

        def forward(self, x):
            z = self.enc(x).view(-1, 3, 5).float()
            y = F.gumbel_softmax(z, tau=.7, hard=True)
            soft = F.gumbel_softmax(z, tau=1.5)
            q = z.softmax(-1)
            kl = (q * (q.clamp(min=1e-9).log() - math.log(1 / 5))).sum((1, 2)).mean()
            return F.binary_cross_entropy(torch.sigmoid(self.dec(y.flatten(1).to(x.dtype)).float()), torch.sigmoid(x.float())) + .1 * kl + .1 * soft.max(-1)[0].mean()
    return trains(Net(), torch.randn(8, 12))


# --- reinforcement learning -------------------------------------------------------------------------------------------

def double_dqn():
    net = nn.ModuleDict(dict(body=mlp(6, 24, 24), value=nn.Linear(24, 1), gain=nn.Linear(24, 3)))
    model = nn.ModuleDict(dict(q=net, old=copy.deepcopy(net).requires_grad_(False)))

    def q(net, s):
        h = F.relu(net["body"](s))
        a = net["gain"](h)
        return net["value"](h) + a - a.mean(1, keepdim=True)

    def train(model, inputs, amp, update):
        s, a, r, s2, done, weight = inputs
        opt = torch.optim.Adam(model["q"].parameters(), 1e-3, eps=1.5e-4)
        def step():
            with amp():
                with torch.no_grad():
                    best = q(model["q"], s2).argmax(1, keepdim=True)
                    aim = r + .99 * (1 - done) * q(model["old"], s2).gather(1, best).squeeze(1)
                now = q(model["q"], s).gather(1, a[:, None]).squeeze(1)
                loss = (weight * F.smooth_l1_loss(now.float(), aim.float(), reduction="none")).mean()
            update(loss, opt)
            with torch.no_grad():
                for p, o in zip(model["q"].parameters(), model["old"].parameters()):
                    o.lerp_(p, .005)
            return loss
        return step
    return Example(model, (torch.randn(16, 6), torch.randint(0, 3, (16,)), torch.randn(16), torch.randn(16, 6), (torch.rand(16) > .8).float(), torch.rand(16)), train=train)


def recurrent_actor():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.pi, self.v = nn.GRU(5, 16), nn.Linear(16, 4), nn.Linear(16, 1)

        def forward(self, s, a, r, done, old):
            h = self.rnn(s)[0]
            v = self.v(h).squeeze(-1).float()
            with torch.no_grad():
                gae, out = torch.zeros(s.shape[1]), []
                for t in reversed(range(len(s) - 1)):
                    delta = r[t].float() + .99 * v[t + 1] * (1 - done[t].float()) - v[t]
                    gae = delta + .95 * .99 * (1 - done[t].float()) * gae
                    out.insert(0, gae)
                adv = torch.stack(out)
                returns = adv + v[:-1]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pi = torch.distributions.Categorical(logits=self.pi(h[:-1]).float())
            ratio = (pi.log_prob(a) - old.float()).exp()
            kl = (ratio - 1 - ratio.log()).mean()
            return -torch.min(ratio * adv, ratio.clamp(.8, 1.2) * adv).mean() + .5 * F.mse_loss(v[:-1], returns) - .01 * pi.entropy().mean() + .1 * kl
    return trains(Net(), torch.randn(7, 4, 5), torch.randint(0, 4, (6, 4)), torch.randn(6, 4), (torch.rand(6, 4) > .8).float(), -1.4 + .1 * torch.randn(6, 4))


def td3():
    actor, critics = mlp(5, 24, 2), nn.ModuleList([mlp(7, 24, 1), mlp(7, 24, 1)])
    model = nn.ModuleDict(dict(actor=actor, critics=critics, actor2=copy.deepcopy(actor).requires_grad_(False), critics2=copy.deepcopy(critics).requires_grad_(False)))

    def train(model, inputs, amp, update):
        s, a, r, s2 = inputs
        oa, oc = torch.optim.Adam(model["actor"].parameters(), 1e-3), torch.optim.Adam(model["critics"].parameters(), 1e-3)
        def step():
            with amp():
                with torch.no_grad():
                    noise = (torch.randn_like(a) * .2).clamp(-.5, .5)
                    a2 = (torch.tanh(model["actor2"](s2)) + noise).clamp(-1, 1)
                    aim = r[:, None] + .99 * torch.min(*(c(torch.cat([s2, a2], 1)) for c in model["critics2"]))
                loss = sum(F.mse_loss(c(torch.cat([s, a], 1)).float(), aim.float()) for c in model["critics"])
            update(loss, oc)
            with amp():
                q = model["critics"][0](torch.cat([s, torch.tanh(model["actor"](s))], 1))
                la = -q.mean() / q.abs().mean().detach()
            update(la, oa)
            with torch.no_grad():
                for n in ("actor", "critics"):
                    new, old = list(model[n].parameters()), list(model[n + "2"].parameters())
                    torch._foreach_mul_(old, .995)
                    torch._foreach_add_(old, new, alpha=.005)
            return loss
        return step
    return Example(model, (torch.randn(12, 5), torch.rand(12, 2) * 2 - 1, torch.randn(12), torch.randn(12, 5)), train=train)


# --- graphs, points, fields, tables -----------------------------------------------------------------------------------

def edge_attention():
    class Net(nn.Module):
        def __init__(self, heads=2):
            super().__init__()
            self.l, self.r, self.e, self.a, self.out = nn.Linear(6, 16), nn.Linear(6, 16), nn.Linear(3, 16), nn.Parameter(torch.randn(heads, 8) * .3), nn.Linear(16, 4)
            self.eps, self.mlp = nn.Parameter(torch.zeros(1)), nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())

        def forward(self, x, edges, features, y, batch):
            src, dst = edges
            n = len(x)
            m = F.leaky_relu((self.l(x)[src] + self.r(x)[dst] + self.e(features)).view(-1, 2, 8), .2)
            score = (m * self.a).sum(-1).float()
            top = torch.full((n, 2), float("-inf")).scatter_reduce(0, dst[:, None].expand(-1, 2), score, "amax", include_self=False)
            w = (score - top.detach()[dst]).exp()
            total = torch.zeros(n, 2).index_add(0, dst, w)
            w = w / (total[dst] + 1e-16)
            h = torch.zeros(n, 2, 8).index_add(0, dst, w[..., None] * self.l(x)[src].view(-1, 2, 8).float()).flatten(1)
            h = self.mlp(((1 + self.eps.float()) * h + torch.zeros(n, 16).scatter_add(0, dst[:, None].expand(-1, 16), h[src])).to(x.dtype))
            pooled = torch.zeros(3, 16, dtype=h.dtype).scatter_reduce(0, batch[:, None].expand(-1, 16), h, "mean", include_self=False)
            return F.cross_entropy(self.out(pooled).float(), y)
    edges = torch.randint(0, 12, (2, 30))
    edges[1, :12] = torch.arange(12)
    return trains(Net(), torch.randn(12, 6), edges, torch.randn(30, 3), torch.tensor([0, 3, 1]), torch.arange(12) // 4)


def point_sets():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.out = nn.Sequential(nn.Conv2d(3, 16, 1), nn.BatchNorm2d(16), nn.ReLU()), nn.Sequential(nn.Conv1d(19, 16, 1), nn.ReLU()), nn.Linear(16, 5)
            self.turn = nn.Linear(3, 9)

        def forward(self, x, y):
            turn = self.turn(x.mean(1)).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype)
            x = torch.bmm(x, turn)
            b, n, _ = x.shape
            far, dist, at = torch.zeros(b, 6, dtype=torch.long), torch.full((b, n), 1e10), torch.zeros(b, dtype=torch.long)
            with torch.no_grad():
                for i in range(6):
                    far[:, i] = at
                    d = (x - x[torch.arange(b), at][:, None]).float().pow(2).sum(-1)
                    dist = torch.minimum(dist, d)
                    at = dist.max(-1)[1]
            c = torch.gather(x, 1, far[..., None].expand(-1, -1, 3))
            with torch.no_grad():
                near = torch.cdist(c.float(), x.float()).topk(4, largest=False)[1]
            g = x[torch.arange(b)[:, None, None], near] - c[:, :, None]
            f = self.a(g.permute(0, 3, 1, 2)).amax(-1)
            f = self.b(torch.cat([c.transpose(1, 2), f], 1)).max(-1)[0]
            chamfer = torch.cdist(c.float(), x.float()).min(1)[0].mean()
            ortho = (turn @ turn.mT - torch.eye(3, dtype=turn.dtype)).float().norm(dim=(1, 2)).mean()
            return F.cross_entropy(self.out(f).float(), y) + .001 * ortho + .01 * chamfer
    return trains(Net(), torch.randn(BATCH, 20, 3), torch.tensor([1, 4]))


def fine_field():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(3 + 18, 24, 24, 4)

        def field(self, p):
            e = torch.cat([p, *(f(2. ** i * math.pi * p) for i in range(3) for f in (torch.sin, torch.cos))], -1)
            y = self.net(e).float()
            return torch.sigmoid(y[..., :3]), F.softplus(y[..., 3] - 1)

        def render(self, o, d, t):
            rgb, sigma = self.field(o[:, None] + d[:, None] * t[..., None].to(o.dtype))
            delta = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e10)], -1)
            alpha = 1 - torch.exp(-sigma * delta)
            w = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
            return (w[..., None] * rgb).sum(1), w

        def forward(self, o, d, aim):
            t = torch.linspace(.5, 2, 8).expand(len(o), 8)
            t = t + (torch.rand_like(t) - .5) * .1
            coarse, w = self.render(o, d, t)
            with torch.no_grad():
                mid = .5 * (t[:, 1:] + t[:, :-1])
                pdf = w[:, 1:-1] + 1e-5
                cdf = F.pad((pdf / pdf.sum(-1, keepdim=True)).cumsum(-1), (1, 0))
                u = torch.rand(len(o), 8)
                i = torch.searchsorted(cdf, u, right=True)
                below, above = (i - 1).clamp(min=0), i.clamp(max=cdf.shape[-1] - 1)
                c0, c1, b0, b1 = cdf.gather(1, below), cdf.gather(1, above), mid.gather(1, below), mid.gather(1, above)
                width = torch.where(c1 - c0 < 1e-5, torch.ones_like(c0), c1 - c0)
                t = torch.sort(torch.cat([t, b0 + (u - c0) / width * (b1 - b0)], -1), -1)[0]
            fine, _ = self.render(o, d, t)
            return F.mse_loss(coarse, aim.float()) + F.mse_loss(fine, aim.float())
    return trains(Net(), torch.randn(6, 3) * .1, F.normalize(torch.randn(6, 3), dim=-1), torch.rand(6, 3))


def poincare():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.at = nn.Parameter(torch.rand(20, 3) * .2 - .1)

        def forward(self, a, b):
            u, v = self.at[a].float()[:, None], self.at[b].float()
            top = (u - v).square().sum(-1)
            d = torch.acosh(1 + 2 * top / ((1 - u.square().sum(-1)) * (1 - v.square().sum(-1))) + 1e-7)
            x = torch.tanh(v.norm(dim=-1).clamp(min=1e-6)) * 2 * torch.atanh(v.norm(dim=-1).clamp(1e-6, .99))
            return F.cross_entropy(-d, torch.zeros(len(a), dtype=torch.long)) + .01 * x.mean()
    return trains(Net(), torch.arange(8), torch.randint(8, 20, (8, 6)))


def feature_tokens():
    class Net(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.w, self.b, self.cat, self.cls = nn.Parameter(torch.randn(4, d) * .3), nn.Parameter(torch.zeros(4, d)), nn.Embedding(30, d), nn.Parameter(torch.zeros(1, 1, d))
            self.attn, self.n1, self.n2, self.ff, self.ff2, self.head = nn.MultiheadAttention(d, 4, .1, batch_first=True), nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 48), nn.Linear(24, d), nn.Linear(d, 1)
            self.register_buffer("offset", torch.tensor([0, 10, 20]))

        def forward(self, x, c, y):
            h = torch.cat([self.cls.expand(len(x), -1, -1), x[..., None] * self.w + self.b, self.cat(c + self.offset)], 1)
            z = self.n1(h)
            a, p = self.attn(z, z, z)
            h = h + a
            u, g = self.ff(self.n2(h)).chunk(2, -1)
            h = h + self.ff2(u * F.relu(g))
            z = self.head(F.relu(h[:, 0])).squeeze(-1).float()
            return F.gaussian_nll_loss(z, y.float(), torch.full_like(z, .5)) + F.poisson_nll_loss(z, y.float().abs().round()) + F.huber_loss(z, y.float()) + 0 * p.float().sum()
    return trains(Net(), torch.randn(8, 4), torch.randint(0, 10, (8, 3)), torch.randn(8))


def survival():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.shape = nn.Sequential(nn.Linear(6, 16), nn.SELU(), nn.AlphaDropout(.1), nn.Linear(16, 2)), nn.Parameter(torch.tensor(.2))

        def forward(self, x, time, event):
            z = self.net(x).float()
            order = time.argsort(descending=True)
            h, e = z[order, 0], event.float()[order]
            cox = -((h - torch.logcumsumexp(h, 0)) * e).sum() / e.sum()
            k, scale = F.softplus(self.shape.float()) + .1, F.softplus(z[:, 1]) + .1
            r = time.float() / scale
            weibull = -(event.float() * (torch.log(k / scale) + (k - 1) * torch.log(r)) - r ** k).mean()
            return cox + weibull
    return trains(Net(), torch.randn(12, 6), torch.rand(12) + .05, (torch.rand(12) > .3).float())


def density_network():
    class Net(nn.Module):
        def __init__(self, k=3):
            super().__init__()
            self.body, self.pi, self.mu, self.sigma = mlp(2, 20, 20, act=nn.Tanh), nn.Linear(20, k), nn.Linear(20, k), nn.Linear(20, k)

        def forward(self, x, y):
            h = torch.tanh(self.body(x))
            mix = torch.distributions.MixtureSameFamily(
                torch.distributions.Categorical(logits=self.pi(h).float()), torch.distributions.Normal(self.mu(h).float(), F.softplus(self.sigma(h).float()) + 1e-3))
            student = torch.distributions.StudentT(3., self.mu(h).float().mean(1), .5)
            return -mix.log_prob(y.float()).mean() - .1 * student.log_prob(y.float()).mean()
    return trains(Net(), torch.randn(14, 2), torch.randn(14))


def weight_uncertainty():
    class Layer(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.mu, self.rho, self.bias = nn.Parameter(torch.randn(b, a) * .2), nn.Parameter(torch.full((b, a), -3.)), nn.Parameter(torch.zeros(b))

        def forward(self, x):
            sigma = F.softplus(self.rho.float())
            q = torch.distributions.Normal(self.mu.float(), sigma)
            w = q.rsample()
            kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(torch.zeros_like(sigma), .5)).sum()
            return F.linear(x, w.to(x.dtype), self.bias.to(x.dtype)), kl

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Layer(5, 16), Layer(16, 1)

        def forward(self, x, y):
            h, k1 = self.a(x)
            z, k2 = self.b(F.softsign(h))
            return F.mse_loss(z.squeeze(-1).float(), y.float()) + (k1 + k2) / 500
    return trains(Net(), torch.randn(10, 5), torch.randn(10))


def skip_gram():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.bag = nn.Embedding(50, 12), nn.Embedding(50, 12), nn.EmbeddingBag(80, 12, mode="sum", padding_idx=0)

        def forward(self, centre, context, noise, grams):
            v = self.a(centre) + self.bag(grams)
            near = F.logsigmoid((v * self.b(context)).sum(-1))
            far = F.logsigmoid(-torch.bmm(self.b(noise), v[:, :, None])).squeeze(-1).sum(1)
            return -(near + far).float().mean()
    return trains(Net(), torch.randint(0, 50, (9,)), torch.randint(0, 50, (9,)), torch.randint(0, 50, (9, 5)), torch.randint(0, 80, (9, 4)))


def two_towers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.user, self.item, self.a, self.b, self.scale = nn.Embedding(30, 12), nn.Embedding(40, 12), mlp(12, 16, 8), mlp(12, 16, 8), nn.Parameter(torch.tensor(math.log(10.)))

        def forward(self, u, i, often):
            a, b = F.normalize(self.a(self.user(u)), dim=-1), F.normalize(self.b(self.item(i)), dim=-1)
            s = (a @ b.t()).float() * self.scale.float().exp().clamp(max=100) - often.float().log()
            same = (i[:, None] == i) & ~torch.eye(len(i), dtype=torch.bool)
            s = s.masked_fill(same, torch.finfo(s.dtype).min)
            pair = F.cosine_embedding_loss(a, b.roll(1, 0), torch.ones(len(u)).where(torch.arange(len(u)) % 2 == 0, torch.tensor(-1.)), margin=.2)
            d = F.pairwise_distance(a.float(), b.float())
            old = (d[::2] ** 2).mean() + F.relu(1 - d[1::2]).pow(2).mean()
            return .5 * (F.cross_entropy(s, torch.arange(len(u))) + F.cross_entropy(s.t(), torch.arange(len(u)))) + pair.float() + old
    return trains(Net(), torch.randint(0, 30, (8,)), torch.randint(0, 40, (8,)), torch.rand(8) * .2 + .01)


# --- how one trains ---------------------------------------------------------------------------------------------------

def distillation():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher, self.student, self.map = nn.ModuleList([nn.Linear(10, 32), nn.Linear(32, 6)]).requires_grad_(False), nn.ModuleList([nn.Linear(10, 12), nn.Linear(12, 6)]), nn.Linear(12, 32)

        def forward(self, x, y):
            with torch.no_grad():
                th = F.gelu(self.teacher[0](x))
                t = self.teacher[1](th)
            h = F.gelu(self.student[0](x))
            z = self.student[1](h)
            T = 4.
            kd = F.kl_div(F.log_softmax(z.float() / T, -1), F.log_softmax(t.float() / T, -1), reduction="batchmean", log_target=True) * T * T
            hint = 1 - F.cosine_similarity(self.map(h).float(), th.float()).mean()
            m = .5 * (z.float().softmax(-1) + t.float().softmax(-1))
            js = .5 * (F.kl_div(m.log(), z.float().softmax(-1), reduction="batchmean") + F.kl_div(m.log(), t.float().softmax(-1), reduction="batchmean"))
            return .5 * kd + .5 * F.cross_entropy(z.float(), y) + hint + js
    return trains(Net(), torch.randn(8, 10), torch.randint(0, 6, (8,)))


def averaged_weights():
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))

    def train(model, inputs, amp, update):
        x, y = inputs
        opt = torch.optim.SGD(model.parameters(), .05, momentum=.9, nesterov=True)
        swa, plan = torch.optim.swa_utils.AveragedModel(model), None
        plan = torch.optim.swa_utils.SWALR(opt, swa_lr=.02, anneal_epochs=3)
        def step():
            with amp():
                loss = F.multi_margin_loss(model(x).float(), y) + F.cross_entropy(model(x).float(), y, label_smoothing=.2)
            update(loss, opt)
            plan.step()
            swa.update_parameters(model)
            torch.optim.swa_utils.update_bn([x], swa)
            return loss
        return step
    return Example(model, (torch.randn(12, 6), torch.randint(0, 3, (12,))), train=train)


def reentrant():
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    class Net(nn.Module):
        def __init__(self, d=24):
            super().__init__()
            self.embed, self.layers, self.rest, self.out = nn.Embedding(WORDS, d), nn.ModuleList([nn.TransformerEncoderLayer(d, 3, 48, .1, batch_first=True) for _ in range(2)]), nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, d)), nn.Linear(d, WORDS)

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=True)
            x = checkpoint_sequential(self.rest, 2, x, use_reentrant=False)
            return F.cross_entropy(self.out(x).flatten(0, 1).float(), ids.flatten())
    return trains(Net(), words(BATCH, 8))


def compiled():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(10, 32), nn.Linear(32, 4), nn.LayerNorm(32)
            self.run = torch.compile(self.body, backend="aot_eager")

        def body(self, x, y):
            h = self.norm(F.gelu(self.a(x), approximate="tanh"))
            z = self.b(F.dropout(h, .1)).float()
            return F.cross_entropy(z, y) + 1e-3 * z.logsumexp(-1).square().mean()

        def forward(self, x, y):
            return self.run(x, y)
    return trains(Net(), torch.randn(8, 10), torch.randint(0, 4, (8,)))


def adapters():
    class Lora(nn.Module):
        def __init__(self, base, r=2):
            super().__init__()
            self.base, self.a, self.b, self.drop = base.requires_grad_(False), nn.Parameter(torch.randn(r, base.in_features) * .1), nn.Parameter(torch.randn(base.out_features, r) * .1), nn.Dropout(.1)
            self.m = nn.Parameter(base.weight.detach().norm(dim=1))

        def forward(self, x):
            w = self.base.weight + 2 * self.b @ self.a
            w = self.m[:, None] * w / w.norm(dim=1, keepdim=True).detach()
            return F.linear(x, w, self.base.bias) + 0.5 * (self.drop(x) @ self.a.t()) @ self.b.t()

    class Net(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.embed, self.q, self.k, self.v, self.out = nn.Embedding(WORDS, d).requires_grad_(False), Lora(nn.Linear(d, d)), nn.Linear(d, d).requires_grad_(False), Lora(nn.Linear(d, d)), nn.Linear(d, WORDS).requires_grad_(False)
            self.lk, self.lv, self.prompt = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d)), nn.Parameter(torch.randn(3, d) * .1)

        def forward(self, ids):
            x = torch.cat([self.prompt.expand(len(ids), -1, -1), self.embed(ids)], 1)
            y = F.scaled_dot_product_attention(self.q(x)[:, None], (self.k(x) * self.lk)[:, None], (self.v(x) * self.lv)[:, None], is_causal=True)[:, 0]
            return F.cross_entropy(self.out(x + y)[:, 3:-1].flatten(0, 1).float(), ids[:, 1:].flatten())
    return trains(Net(), words(BATCH, 9))


def classifier(d=12, n=5):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b, self.c = nn.Linear(d, 24), nn.LayerNorm(24), nn.Linear(24, 24), nn.Linear(24, n)

        def forward(self, x, y):
            h = self.norm(F.silu(self.a(x)))
            return F.cross_entropy(self.c(h + F.relu(self.b(h)).square()).float(), y)
    return Net(), (torch.randn(10, d), torch.randint(0, n, (10,)))


class ByHand(torch.optim.Optimizer):
    """An optimizer whose update of one parameter is a function of it, its gradient and its state."""

    def __init__(self, parameters, rule, **options):
        super().__init__(parameters, options)
        self.rule = rule

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.rule(p, p.grad, self.state[p], group)


def by_hand(rule, **options):
    def make():
        model, inputs = classifier()
        return Example(model, inputs, loss=lambda m, i: m(*i), optimizer=lambda ps: ByHand(ps, rule, **options))
    return make


def lion(p, g, state, o):
    m = state.setdefault("m", torch.zeros_like(p))
    p.mul_(1 - o["lr"] * .01)
    p.add_(m.mul(.9).add(g, alpha=.1).sign_(), alpha=-o["lr"])
    m.mul_(.99).add_(g, alpha=.01)


def orthogonal(p, g, state, o):
    m = state.setdefault("m", torch.zeros_like(p))
    m.lerp_(g, .05)
    u = g.lerp(m, .95)
    if u.dim() == 2:
        x = u.bfloat16()
        x = x.mT if u.shape[0] > u.shape[1] else x
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        u = (x.mT if u.shape[0] > u.shape[1] else x) * max(1, u.shape[0] / u.shape[1]) ** .5
    p.add_(u.to(p.dtype), alpha=-o["lr"])


def lamb(p, g, state, o):
    if not state:
        state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
    state["t"] += 1
    m, v = state["m"].mul_(.9).add_(g, alpha=.1), state["v"].mul_(.999).addcmul_(g, g, value=.001)
    u = (m / (1 - .9 ** state["t"])) / ((v / (1 - .999 ** state["t"])).sqrt().add_(1e-6)) + .01 * p
    a, b = p.norm(), u.norm()
    trust = torch.where((a > 0) & (b > 0), a / b, torch.ones_like(a))
    p.sub_(o["lr"] * trust * u)


def adan(p, g, state, o):
    if not state:
        state.update(m=torch.zeros_like(p), v=torch.zeros_like(p), n=torch.zeros_like(p), g=g.clone())
    d = g - state["g"]
    state["m"].lerp_(g, .02)
    state["v"].lerp_(d, .08)
    u = g + .92 * d
    state["n"].mul_(.99).addcmul_(u, u, value=.01)
    p.addcdiv_(state["m"] + .92 * state["v"], state["n"].sqrt() + 1e-4, value=-o["lr"]).div_(1 + o["lr"] * .02)
    state["g"].copy_(g)


def schedule_free(p, g, state, o):
    if not state:
        state.update(t=0, z=p.clone(), v=torch.zeros_like(p))
    state["t"] += 1
    state["v"].mul_(.999).addcmul_(g, g.conj(), value=1 - .999)
    step = g / (state["v"].div(1 - .999 ** state["t"]).sqrt_() + 1e-5)
    c = 1 / state["t"]
    p.lerp_(state["z"], c)
    p.add_(step, alpha=o["lr"] * (.9 * (1 - c) - 1))
    state["z"].sub_(step, alpha=o["lr"])


def sophia():
    model, inputs = classifier()

    def train(model, inputs, amp, update):
        ps = list(model.parameters())
        m, h = [torch.zeros_like(p) for p in ps], [torch.zeros_like(p) for p in ps]
        def step():
            with amp():
                loss = model(*inputs)
            gs = torch.autograd.grad(loss, ps, create_graph=True)
            us = [torch.randint_like(p, 0, 2) * 2 - 1 for p in ps]
            hv = torch.autograd.grad(sum((g * u).sum() for g, u in zip(gs, us)), ps)
            with torch.no_grad():
                for p, g, u, v, a, b in zip(ps, gs, us, hv, m, h):
                    a.mul_(.965).add_(g, alpha=.035)
                    b.mul_(.99).add_((u * v).clamp_(min=0), alpha=.01)
                    p.mul_(1 - 1e-3).add_((a / torch.clamp(.05 * b, min=1e-3)).clamp_(-1, 1), alpha=-1e-3)
            return loss
        return step
    return Example(model, inputs, train=train)


def sharpness():
    model, inputs = classifier()

    def train(model, inputs, amp, update):
        opt, ps = torch.optim.SGD(model.parameters(), .05, momentum=.9), list(model.parameters())
        def step():
            with amp():
                loss = model(*inputs)
            gs = torch.autograd.grad(loss, ps)
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gs]))
            away = [g * (.05 / (norm + 1e-12)) for g in gs]
            with torch.no_grad():
                torch._foreach_add_(ps, away)
            with amp():
                second = model(*inputs)
            second.backward()
            with torch.no_grad():
                torch._foreach_sub_(ps, away)
            opt.step()
            opt.zero_grad(set_to_none=False)
            return loss
        return step
    return Example(model, inputs, train=train)


def accumulated():
    model, inputs = classifier()

    def train(model, inputs, amp, update):
        opt = torch.optim.AdamW([dict(params=[p for p in model.parameters() if p.dim() > 1]), dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0)], 3e-3)
        plan = torch.optim.lr_scheduler.OneCycleLR(opt, .01, total_steps=20)
        def step():
            for x, y in zip(inputs[0].split(3), inputs[1].split(3)):
                with amp():
                    loss = model(x, y) * len(x) / 10
                loss.backward()
            torch.nn.utils.clip_grad_value_(model.parameters(), .1)
            torch.nn.utils.clip_grad_norm_(model.parameters(), .5, norm_type=math.inf, foreach=True)
            for p in model.parameters():
                p.grad.add_(torch.randn_like(p.grad), alpha=1e-3)
            opt.step()
            plan.step()
            opt.zero_grad(set_to_none=True)
            return loss
        return step
    return Example(model, inputs, train=train)


def ensemble():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1, self.b1, self.w2 = nn.Parameter(torch.randn(4, 6, 16) * .4), nn.Parameter(torch.zeros(4, 1, 16)), nn.Parameter(torch.randn(4, 16, 2) * .3)

        def forward(self, x, y):
            def one(w1, b1, w2, x):
                return torch.tanh(x @ w1 + b1) @ w2
            z = torch.func.vmap(one, (0, 0, 0, None))(self.w1, self.b1, self.w2, x).float()
            mean, logvar = z.unbind(-1)
            logvar = 1 - F.softplus(1 - logvar)
            nll = ((mean - y.float()) ** 2 * torch.exp(-logvar) + logvar).mean()
            flat = z[..., 0] - z[..., 0].mean(1, keepdim=True)
            spread = (flat @ flat.T / flat.shape[1]).float()
            return nll + .01 * torch.linalg.matrix_norm(spread, ord="nuc")
    return trains(Net(), torch.randn(9, 6), torch.randn(9))


def adversarial():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.CELU(), nn.Flatten(), nn.LazyLinear(4))
            self.net(torch.zeros(1, 1, 8, 8))

        def forward(self, x, y):
            delta = torch.zeros_like(x).uniform_(-.1, .1)
            for _ in range(2):
                delta.requires_grad_(True)
                g, = torch.autograd.grad(F.cross_entropy(self.net(x + delta).float(), y), delta)
                delta = (delta.detach() + .04 * g.sign()).clamp(-.1, .1)
            clean, hard = self.net(x).float(), self.net((x + delta).clamp(0, 1)).float()
            margin = hard.gather(1, y[:, None]).squeeze(1) - hard.scatter(1, y[:, None], float("-inf")).amax(1)
            return F.cross_entropy(clean, y) + 6 * F.kl_div(hard.log_softmax(1), clean.softmax(1), reduction="batchmean") + .1 * F.softplus(-margin).mean()
    return trains(Net(), torch.rand(4, 1, 8, 8), torch.randint(0, 4, (4,)), images=True)


LOOPS = dict(
    unet_segmentation=unet_segmentation, crnn_ctc=crnn_ctc, triplets=triplets, simclr=simclr, byol=byol, focal_boxes=focal_boxes, lovasz=lovasz,
    superresolution=superresolution, style_transfer=style_transfer, depth_warp=depth_warp, keypoints=keypoints, mixup_cutmix=mixup_cutmix,
    packed_language_model=packed_language_model, cached_decoder=cached_decoder, alibi_window=alibi_window, retention=retention,
    linear_attention=linear_attention, top1_moe=top1_moe, translation=translation, dilated_convolutions=dilated_convolutions,
    speech_enhancement=speech_enhancement, attention_tts=attention_tts, spectral_gan=spectral_gan, wgan_gp=wgan_gp, realnvp=realnvp,
    adaptive_ode=adaptive_ode, mixture_vae=mixture_vae, vq_ema=vq_ema, ddpm_ema=ddpm_ema, flow_matching=flow_matching, gumbel_vae=gumbel_vae,
    double_dqn=double_dqn, recurrent_actor=recurrent_actor, td3=td3, edge_attention=edge_attention, point_sets=point_sets, fine_field=fine_field,
    poincare=poincare, feature_tokens=feature_tokens, survival=survival, density_network=density_network, weight_uncertainty=weight_uncertainty,
    skip_gram=skip_gram, two_towers=two_towers, distillation=distillation, averaged_weights=averaged_weights, reentrant=reentrant, compiled=compiled,
    adapters=adapters, sophia=sophia, sharpness=sharpness, accumulated=accumulated, ensemble=ensemble, adversarial=adversarial,
    lion=by_hand(lion, lr=1e-3), orthogonal=by_hand(orthogonal, lr=1e-2), lamb=by_hand(lamb, lr=1e-2), adan=by_hand(adan, lr=1e-3),
    schedule_free=by_hand(schedule_free, lr=1e-3),
)

# Which have pictures (channels_last).
IMAGES = {"unet_segmentation", "crnn_ctc", "triplets", "simclr", "focal_boxes", "lovasz", "superresolution", "style_transfer", "depth_warp", "keypoints", "mixup_cutmix"}
