#!/usr/bin/env python3
"""Golden values of ATen's operators that give gradients.

  python3 ops/testdata/golden/gradients.py

writes gradients.jsonl beside this file, in the form of record.py. Needs torch 2.15 alone.
"""
import torch

import record

aten = torch.ops.aten


def calls():
    g = torch.Generator().manual_seed(record.SEED)
    numbers = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=g).to(dtype)

    def call(name, *args, **kwargs):
        return name, ["torch.ops.aten." + name], getattr(aten, name), args, kwargs

    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        x = lambda *shape: numbers(*shape, dtype=dtype)
        for name in ("silu", "mish", "hardswish", "hardsigmoid", "tanh", "sigmoid", "gelu"):
            yield call(name + "_backward", x(2, 5), x(2, 5).tanh())
        yield call("gelu_backward", x(2, 5), x(2, 5), approximate="tanh")
        scores = x(2, 5)
        yield call("log_sigmoid_backward", x(2, 5), scores, aten.log_sigmoid_forward(scores)[1])
        yield call("threshold_backward", x(2, 5), x(2, 5), 0)
        yield call("leaky_relu_backward", x(2, 5), x(2, 5), .1, False)
        yield call("leaky_relu_backward", x(2, 5), x(2, 5), .1, True)
        yield call("hardtanh_backward", x(2, 5), x(2, 5), -.5, 1.)
        yield call("softplus_backward", x(2, 5), x(2, 5), 2., 1.)
        yield call("_prelu_kernel_backward", x(2, 5), x(2, 5), x(1, 5).expand(2, 5))
        for reduction, shape in ((0, (2, 5)), (1, ()), (2, ())):
            yield call("mse_loss_backward", x(*shape), x(2, 5), x(2, 5), reduction)
            yield call("smooth_l1_loss_backward", x(*shape), x(2, 5), x(2, 5), reduction, .5)
            yield call("huber_loss_backward", x(*shape), x(2, 5), x(2, 5), reduction, .5)
        scores, target = x(3, 5).log_softmax(-1), torch.tensor([4, 0, 1])
        for weight in (None, x(5).abs()):
            for reduction, shape in ((0, (3,)), (1, ()), (2, ())):
                total = aten.nll_loss_forward(scores, target, weight, reduction, 0)[1]
                yield call("nll_loss_backward", x(*shape), scores, target, weight, reduction, 0, total)
        yield call("nll_loss2d_backward", x(), x(2, 5, 2, 2), torch.arange(8).reshape(2, 2, 2) % 5, None, 1, -100, torch.tensor(8.).to(dtype))
        for name, y, dim in (("_softmax_backward_data", x(2, 5).softmax(-1), -1), ("_log_softmax_backward_data", x(2, 5).log_softmax(0), 0)):
            yield name, ["torch." + name, "torch.ops.aten." + name], getattr(torch, name), (x(2, 5), y, dim, dtype), {}
        yield call("native_dropout_backward", x(2, 5), torch.rand(2, 5, generator=g) > .3, 1.25)
        yield call("select_backward", x(3), [2, 3], 0, -1)
        yield call("slice_backward", x(2, 2), [2, 5], 1, 1, 2 ** 63 - 1, 2)
        yield call("slice_backward", x(2, 2), [4, 2], 0, -3, -1, 1)
        yield call("diagonal_backward", x(3), [3, 4], 1, 0, 1)
        yield call("embedding_dense_backward", x(6, 3), torch.tensor([0, 1, 1, 3, 3, 3]), 4, 1, False)
        yield call("embedding_dense_backward", x(2, 3, 3), torch.tensor([[0, 1, 1], [3, 3, 3]]), 4, -1, True)
        yield call("avg_pool2d_backward", x(1, 2, 2, 2), x(1, 2, 4, 4), [2, 2], [], [0, 0], False, True, None)
        yield call("avg_pool2d_backward", x(1, 2, 3, 3), x(1, 2, 4, 4), [2, 2], [2, 2], [1, 1], False, False, None)
        yield call("_adaptive_avg_pool2d_backward", x(1, 2, 2, 3), x(1, 2, 4, 5))
        image = x(1, 2, 5, 5)
        y, at = aten.max_pool2d_with_indices(image, [3, 3], [1, 1], [1, 1])
        yield call("max_pool2d_with_indices_backward", x(*y.shape), image, [3, 3], [1, 1], [1, 1], [1, 1], False, at)
        yield call("reflection_pad1d_backward", x(1, 2, 7), x(1, 2, 4), [1, 2])
        yield call("reflection_pad2d_backward", x(1, 2, 6, 7), x(1, 2, 4, 4), [1, 2, 1, 1])
        yield call("replication_pad1d_backward", x(1, 2, 7), x(1, 2, 4), [1, 2])
        yield call("replication_pad2d_backward", x(1, 2, 6, 7), x(1, 2, 4, 4), [1, 2, 1, 1])
        mask = [True, True, True]
        image, w, b = x(3, 6), x(6), x(6)
        _, mean, rstd = aten.native_layer_norm(image, [6], w, b, 1e-5)
        yield call("native_layer_norm_backward", x(3, 6), image, [6], mean, rstd, w, b, mask)
        image, w = x(2, 4, 3), x(4)
        _, mean, rstd = aten.native_group_norm(image, w, None, 2, 4, 3, 2, 1e-5)
        yield call("native_group_norm_backward", x(2, 4, 3), image, mean, rstd, w, 2, 4, 3, 2, mask)
        mean, var = x(4), x(4).abs() + .5
        _, save_mean, save_rstd = aten.native_batch_norm(image, w, w, mean.clone(), var.clone(), True, .1, 1e-5)
        yield call("native_batch_norm_backward", x(2, 4, 3), image, w, mean, var, save_mean, save_rstd, True, 1e-5, mask)
        yield call("native_batch_norm_backward", x(2, 4, 3), image, w, mean, var, x(0), x(0), False, 1e-5, mask)
        for causal in (False, True):
            q, k, v = x(1, 2, 3, 4), x(1, 2, 3, 4), x(1, 2, 3, 4)
            y, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0., causal)
            yield call("_scaled_dot_product_flash_attention_for_cpu_backward", x(*y.shape), q, k, v, y, logsumexp, 0., causal)
        mask = x(3, 3)
        y, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0., False, attn_mask=mask, scale=.3)
        yield call("_scaled_dot_product_flash_attention_for_cpu_backward", x(*y.shape), q, k, v, y, logsumexp, 0., False, attn_mask=mask, scale=.3)
        yield call("_to_copy", x(2, 3), dtype=torch.bfloat16)
        yield ("index_put", ["torch.ops.aten._unsafe_index_put"], aten._unsafe_index_put,
               (x(3, 2), [torch.tensor([0, 2, 2])], x(3, 2), True), {})
        yield "slice_copy", ["torch.ops.aten.slice"], aten.slice, (x(4, 2), 0, 1, 2 ** 63 - 1, 2), {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        x = lambda *shape: numbers(*shape, dtype=dtype)
        yield call("elu_backward", x(2, 5), 1.5, 1.25, .5, False, x(2, 5))
        yield call("elu_backward", x(2, 5), 1., 1., 1., True, x(2, 5).clamp(-.9))
        yield call("hardshrink_backward", x(2, 5), x(2, 5), .5)
        yield call("softshrink_backward", x(2, 5), x(2, 5), .5)
        yield call("glu_backward", x(2, 3), x(2, 6), -1)
        yield call("logit_backward", x(2, 5), x(2, 5).abs().clamp(.01, .9), .05)
        yield call("rrelu_with_noise_backward", x(2, 5), x(2, 5), x(2, 5), .125, .25, True, False)
        for reduction, shape in ((0, (2, 5)), (1, ())):
            yield call("soft_margin_loss_backward", x(*shape), x(2, 5), x(2, 5).sign(), reduction)
            yield call("binary_cross_entropy_backward", x(*shape), x(2, 5).sigmoid(), x(2, 5).sigmoid(), None, reduction)
        if dtype in (torch.float32, torch.float64):
            scores, target = x(3, 5), torch.tensor([[0, 2, -1, 1, 1], [3, -1, 0, 0, 0], [-1, 0, 0, 0, 0]])
            yield call("multilabel_margin_loss_backward", x(3), scores, target, 0, aten.multilabel_margin_loss_forward(scores, target, 0)[1])
            yield call("multi_margin_loss_backward", x(), scores, torch.tensor([0, 3, 1]), 2, .5, x(5).abs(), 1)
            scores, target = x(5, 2, 4).log_softmax(-1), torch.tensor([[1, 3], [2, 1]])
            for lengths in (([5, 4], [2, 1]), (torch.tensor([5, 4]), torch.tensor([2, 1]))):
                yield call("_ctc_loss_backward", x(2), scores, target, *lengths, *aten._ctc_loss(scores, target, *lengths), 0)
            a, b = x(3, 5), x(4, 5)
            for p in (1., 2., 3.):
                yield call("_cdist_backward", x(3, 4), a, b, p, torch.cdist(a, b, p))
                yield call("_pdist_backward", x(6), b, p, torch.pdist(b, p))
                yield call("_cdist_forward", a, b, p, None)
            yield call("cumprod_backward", x(3, 5), a, 1, a.cumprod(1))
            v, scale = x(3, 4), x(3, 1)
            yield call("_weight_norm_interface_backward", x(3, 4), v, scale, aten._weight_norm_interface(v, scale, 0)[1], 0)
            for reduce in ("sum", "mean", "max"):
                y = torch.segment_reduce(a, reduce, lengths=torch.tensor([2, 1]))
                yield call("_segment_reduce_backward", x(2, 5), y, a, reduce, lengths=torch.tensor([2, 1]))
            bags = torch.tensor([0, 3, 3, 1]), torch.tensor([0, 2, 2])
            for mode in range(3):
                table, weights = x(4, 2), x(4) if mode == 0 else None
                _, bag, size, top = aten._embedding_bag(table, *bags, mode=mode, per_sample_weights=weights)
                yield call("_embedding_bag_backward", x(3, 2), *bags, bag, size, top, 4, False, mode, False, weights)
            yield call("_embedding_bag_per_sample_weights_backward", x(3, 2), table, *bags, torch.tensor([0, 0, 2, 2]), 0)
            yield call("_embedding_bag_backward", x(3, 2), *bags, bag, size, top, 4, True, 0, False, None, 1)
            for mode in range(3):
                yield call("grid_sampler_2d_backward", x(1, 2, 2, 3), x(1, 2, 4, 4), x(1, 2, 3, 2), mode, mode, True, [True, True])
            yield call("grid_sampler_3d_backward", x(1, 2, 2, 2, 3), x(1, 2, 4, 4, 4), x(1, 2, 2, 3, 3), 0, 0, False, [True, True])
            for size, scales in (([7, 5], [None, None]), ([8, 6], [2., 1.5])):
                for name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
                    yield call(name + "_backward", x(1, 2, *size), size, [1, 2, 4, 4], *scales)
                for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
                    yield call(name + "_backward", x(1, 2, *size), size, [1, 2, 4, 4], False, *scales)
            yield call("upsample_trilinear3d_backward", x(1, 2, 3, 5, 6), [3, 5, 6], [1, 2, 4, 4, 4], True)
    for dtype in (torch.bfloat16, torch.float16):  # with weights in float32
        image, w, b = numbers(16, 6, dtype=dtype), numbers(6), numbers(6)
        _, mean, rstd = aten.native_layer_norm(image, [6], w, b, 1e-5)
        yield call("native_layer_norm_backward", numbers(16, 6, dtype=dtype), image, [6], mean, rstd, w, b, [True, True, True])
    # What returns what such operators need.
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        x = lambda *shape: numbers(*shape, dtype=dtype)
        q, k, v = x(1, 4, 3, 4), x(1, 4, 5, 4), x(1, 4, 5, 4)
        yield call("_scaled_dot_product_flash_attention_for_cpu", q, k, v)
        yield call("_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0., True, scale=.3)
        hidden = torch.tensor([[0, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 1]], dtype=dtype)
        hidden = torch.where(hidden == 1, -torch.inf, hidden)
        yield call("_scaled_dot_product_flash_attention_for_cpu", q, k, v, attn_mask=hidden)
        for shape in ([6], [3, 6]):
            yield call("_fused_rms_norm", x(2, 3, 6), shape, x(*shape), 1e-3)
            yield call("_fused_rms_norm", x(2, 3, 6), shape, None, None)


if __name__ == "__main__":
    record.write("gradients", calls())
