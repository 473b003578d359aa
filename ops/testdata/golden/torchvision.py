#!/usr/bin/env python3
"""Golden values of torchvision's operators of detectors, from torchvision itself.

  python3 ops/testdata/golden/torchvision.py

writes torchvision.jsonl beside this file, in the form of record.py. Needs torch 2 and torchvision. In float16 and
bfloat16 only what its CPU kernels take is recorded.
"""
import os, sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != here]  # this file has torchvision's name
import torch, torchvision

sys.path.append(here)
import record

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
ops, native = torchvision.ops, torch.ops.torchvision


def calls():
    g = torch.Generator().manual_seed(record.SEED)

    def t(dt, *shape, grad=True):
        return torch.randn(*shape, generator=g).to(dt).requires_grad_(grad)

    def boxes(dt, n, grad=True, shift=0):
        # Multiples of 1/16, of which none occurs twice: versions differ in gradients where boxes touch.
        lo, size = (torch.randperm(80, generator=g)[:2 * n].reshape(n, 2), 1 + torch.arange(2 * n).reshape(n, 2))
        lo, size = 2 * lo + shift, 20 + 4 * size
        return (torch.cat([lo, lo + size], -1) / 16).to(dt).requires_grad_(grad)

    def call(name, *args, op=None, **kwargs):
        return op or name, ["torchvision.ops." + name], getattr(ops, name), args, kwargs

    def kernel(name, *args):
        return name if name.startswith("_") else name + ".native", ["torch.ops.torchvision." + name], getattr(native, name), args, {}

    for dt in (F64, F32, F16, BF16):
        for fmt in ("xyxy", "xywh", "cxcywh"):
            yield call("box_area", boxes(dt, 3), fmt)
            yield call("box_iou", boxes(dt, 4), boxes(dt, 3, shift=1), fmt)
            for other in ("xyxy", "xywh", "cxcywh"):
                yield call("box_convert", boxes(dt, 3), fmt, other)
        yield call("generalized_box_iou", boxes(dt, 4), boxes(dt, 3, shift=1))
        yield call("distance_box_iou", boxes(dt, 4), boxes(dt, 3, shift=1), 1e-3)
        yield call("complete_box_iou", boxes(dt, 4), boxes(dt, 3, shift=1))
        for name in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
            for reduction in ("none", "mean", "sum"):
                yield call(name, boxes(dt, 6), boxes(dt, 6, shift=1), reduction, 1e-3)
        yield call("clip_boxes_to_image", boxes(dt, 4, shift=1), (5, 6))
        yield call("remove_small_boxes", boxes(dt, 8, False), 3.0)
        yield call("stochastic_depth", t(dt, 3, 4), 0.5, "row", False)
    for dt in (F64, F32):
        for a, b, n in (("cxcywhr", "xywhr", 5), ("xywhr", "cxcywhr", 5), ("cxcywhr", "xyxyxyxy", 5),
                        ("xyxyxyxy", "cxcywhr", 8), ("xywhr", "xyxyxyxy", 5), ("xyxyxyxy", "xywhr", 8)):
            yield call("box_convert", (1 + 4 * torch.rand(3, n, generator=g)).to(dt).requires_grad_(), a, b)
        rois = torch.tensor([[0, 1, 1, 6, 5], [1, -0.75, 0, 8.25, 7], [0, 3.25, 2, 3.75, 9], [1, 5, 4, 2, 1]], dtype=dt)
        per_image = [boxes(dt, 2, False), boxes(dt, 1, False)]
        for name, c in (("roi_pool", 2), ("ps_roi_pool", 8)):
            yield call(name, t(dt, 2, c, 6, 8), rois, 2, 0.75)
            yield call(name, t(dt, 2, c, 6, 8), per_image, (2, 2), op=name + ".list")
            yield kernel(name, t(dt, 2, c, 6, 8), rois, 1.0, 2, 2)
        yield call("ps_roi_align", t(dt, 2, 12, 6, 8), rois, (2, 3), 0.75, 2)
        yield call("ps_roi_align", t(dt, 2, 8, 6, 8), rois, 2, 0.5)
        yield call("ps_roi_align", t(dt, 2, 8, 7, 6), per_image, 2, 0.75, 2, op="ps_roi_align.list")
        yield kernel("ps_roi_align", t(dt, 2, 12, 6, 8), rois, 0.75, 2, 3, 2)
        yield call("deform_conv2d", t(dt, 2, 4, 5, 6), t(dt, 2, 8, 4, 5), t(dt, 3, 4, 2, 2), t(dt, 3))
        yield call("deform_conv2d", t(dt, 1, 4, 5, 6), t(dt, 1, 16, 3, 2), t(dt, 2, 2, 2, 2), None, (2, 2), (1, 0), (1, 3),
                   t(dt, 1, 8, 3, 2))
        yield call("deform_conv2d", t(dt, 1, 2, 4, 4), torch.zeros(1, 18, 4, 4, dtype=dt).requires_grad_(),
                   t(dt, 2, 2, 3, 3), padding=1)
        yield kernel("deform_conv2d", t(dt, 2, 4, 5, 6), t(dt, 4, 2, 2, 2), t(dt, 2, 8, 4, 5), t(dt, 2, 4, 4, 5), t(dt, 4),
                     1, 1, 0, 0, 1, 1, 2, 1, True)
    whole = torch.randint(0, 9, (3, 4), generator=g)
    for dt in (torch.int16, torch.int32, torch.int64):
        yield call("box_area", whole.to(dt), "xywh")
        yield call("box_convert", whole.to(dt), "xywh", "xyxy")
        yield call("box_convert", whole.to(dt), "xyxy", "cxcywh")
        yield call("box_iou", whole.to(dt) + torch.tensor([0, 0, 9, 9], dtype=dt),
                   whole.to(dt) + torch.tensor([1, 2, 9, 9], dtype=dt))
        yield call("clip_boxes_to_image", whole.to(dt), (5, 6))
    masks = torch.zeros(3, 5, 6, dtype=torch.bool)
    masks[0, 1:3, 2:5] = masks[2, 4, 0] = True
    yield call("masks_to_boxes", masks)
    yield call("masks_to_boxes", masks.float())
    # What torchvision's own backward passes call, from version 0.29 on.
    for dt in (F64, F32):
        rois = torch.tensor([[0, 1, 1, 6, 5], [1, 0.75, 0, 7.25, 6], [0, 3.25, 2, 3.75, 5]], dtype=dt)
        up, image = (3, 2, 2, 3), (2, 2, 6, 8)
        yield kernel("_roi_align_backward", t(dt, *up, grad=False), rois, 0.75, 2, 3, *image, 2, False)
        yield kernel("_roi_align_backward", t(dt, *up, grad=False), rois, 1.0, 2, 3, *image, -1, True)
        _, places = native.roi_pool(t(dt, *image, grad=False), rois, 0.75, 2, 3)
        yield kernel("_roi_pool_backward", t(dt, *up, grad=False), rois, places, 0.75, 2, 3, *image)
        _, channels = native.ps_roi_align(t(dt, 2, 12, 6, 8, grad=False), rois, 0.75, 2, 3, 2)
        yield kernel("_ps_roi_align_backward", t(dt, *up, grad=False), rois, channels, 0.75, 2, 3, 2, 2, 12, 6, 8)
        _, channels = native.ps_roi_pool(t(dt, 2, 12, 6, 8, grad=False), rois, 0.75, 2, 3)
        yield kernel("_ps_roi_pool_backward", t(dt, *up, grad=False), rois, channels, 0.75, 2, 3, 2, 12, 6, 8)
        for mask, used in ((t(dt, 2, 4, 4, 5, grad=False), True), (torch.zeros(2, 1, dtype=dt), False)):
            yield kernel("_deform_conv2d_backward", t(dt, 2, 4, 4, 5, grad=False), t(dt, 2, 4, 5, 6, grad=False),
                         t(dt, 4, 2, 2, 2, grad=False), t(dt, 2, 8, 4, 5, grad=False), mask, t(dt, 4, grad=False),
                         1, 1, 0, 0, 1, 1, 2, 1, used)

if __name__ == "__main__":
    record.write("torchvision", calls())
