// Sampling and boxes of detection: grid_sample, roi_align with its gradient, nms.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "dense.h"
#include "loop.h"
#include "window.h"

namespace host {

namespace {

// corners calls f(offset, weight) for the grid points inside an image around a
// position, with the weights of linear interpolation.
template <class C, class F>
void corners(const Space& size, const C* at, int rank, F&& f) {
  C base[3];
  for (int d = 0; d < rank; d++) base[d] = std::floor(at[d]);
  for (int corner = 0; corner < 1 << rank; corner++) {
    int64_t offset = 0;
    C weight = 1;
    bool inside = true;
    for (int d = 0; d < rank; d++) {
      const int64_t n = size[3 - rank + d];
      const C place = base[d] + static_cast<C>(corner >> d & 1);
      inside = inside && place >= 0 && place < static_cast<C>(n);
      if (!inside) break;
      offset = offset * n + static_cast<int64_t>(place);
      weight *= 1 - std::abs(at[d] - place);
    }
    if (inside) f(offset, weight);
  }
}

// Roi is a region of interest cut into bins, each sampled on a regular grid.
template <class C>
struct Roi {
  int64_t image;
  C top, left, binHeight, binWidth;
  int64_t rows, columns;  // samples per bin

  Roi(const C* box, double scale, int64_t height, int64_t width, int64_t ratio, bool aligned) {
    const C s = static_cast<C>(scale), offset = aligned ? C(0.5) : C(0);
    image = static_cast<int64_t>(box[0]);
    left = box[1] * s - offset;
    top = box[2] * s - offset;
    C w = box[3] * s - offset - left, h = box[4] * s - offset - top;
    if (!aligned) {
      w = std::max(w, C(1));
      h = std::max(h, C(1));
    }
    binHeight = h / static_cast<C>(height);
    binWidth = w / static_cast<C>(width);
    rows = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(binHeight));
    columns = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(binWidth));
  }
  // samples calls f(offset, weight) for all inputs of a bin; the weights make a mean.
  template <class F>
  void samples(int64_t binRow, int64_t binColumn, int64_t height, int64_t width, F&& f) const {
    const C share = C(1) / static_cast<C>(std::max<int64_t>(1, rows * columns));
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t j = 0; j < columns; j++) {
        C y = top + static_cast<C>(binRow) * binHeight + (static_cast<C>(i) + C(0.5)) * binHeight / static_cast<C>(rows);
        C x = left + static_cast<C>(binColumn) * binWidth + (static_cast<C>(j) + C(0.5)) * binWidth / static_cast<C>(columns);
        if (y < -1 || y > static_cast<C>(height) || x < -1 || x > static_cast<C>(width)) continue;
        y = std::clamp(y, C(0), static_cast<C>(height - 1));
        x = std::clamp(x, C(0), static_cast<C>(width - 1));
        const int64_t y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x);
        const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
        const C ly = y - static_cast<C>(y0), lx = x - static_cast<C>(x0);
        f(y0 * width + x0, (1 - ly) * (1 - lx) * share);
        f(y0 * width + x1, (1 - ly) * lx * share);
        f(y1 * width + x0, ly * (1 - lx) * share);
        f(y1 * width + x1, ly * lx * share);
      }
    }
  }
};

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

// Positions are given in [-1, 1], whose ends are the outer borders of the image.
diopiError_t diopiGridSample(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                             diopiConstTensorHandle_t grid, const char* mode) {
  return guard(__func__, [&] {
    const Tensor x(input), g(grid);
    check(x.dim() == 4 || x.dim() == 5, "input must have 4 or 5 dimensions");
    const int rank = x.dim() - 2;
    check(g.dim() == rank + 2 && g.size(rank + 1) == rank && g.size(0) == x.size(0), "grid does not fit the input");
    const bool linear = !mode || std::strcmp(mode, "bilinear") == 0;
    if (!linear && std::strcmp(mode, "nearest") != 0) fail("mode must be bilinear or nearest", diopiNoImplement);
    const Planes p(x.shape, rank);
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(x), positions(g);
      Out<C> to{Tensor(out)};
      const int64_t pixels = p.size.volume(), outputs = positions.numel / std::max<int64_t>(1, p.batch * rank);
      parallelFor(p.batch * outputs, grainFor(p.channels * 16), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
          const int64_t n = i / outputs, o = i % outputs;
          C at[3];
          for (int d = 0; d < rank; d++) {  // the grid names x first
            at[d] = ((positions[i * rank + rank - 1 - d] + 1) * static_cast<C>(p.size[3 - rank + d]) - 1) / 2;
            if (!linear) at[d] = std::nearbyint(at[d]);
          }
          for (int64_t c = 0; c < p.channels; c++) to[(n * p.channels + c) * outputs + o] = 0;
          corners<C>(p.size, at, rank, [&](int64_t offset, C weight) {
            if (weight == 0) return;
            for (int64_t c = 0; c < p.channels; c++) {
              to[(n * p.channels + c) * outputs + o] += weight * from[(n * p.channels + c) * pixels + offset];
            }
          });
        }
      });
    });
  });
}

diopiError_t diopiRoiAlign(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                           diopiConstTensorHandle_t rois, double spatial_scale, int64_t pooled_height, int64_t pooled_width,
                           int64_t sampling_ratio, bool aligned) {
  return guard(__func__, [&] {
    const Tensor x(input), boxes(rois);
    check(boxes.dim() == 2 && boxes.size(1) == 5, "rois wants rows of image, x1, y1, x2, y2");
    const Planes p(x.shape, 2);
    const int64_t height = p.size[1], width = p.size[2], bins = pooled_height * pooled_width;
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(x), regions(boxes);
      Out<C> to{Tensor(out)};
      check(to.numel == boxes.size(0) * p.channels * bins, "out has the wrong number of elements");
      to.zero();
      for (int64_t r = 0; r < boxes.size(0); r++) {
        const Roi<C> roi(regions + r * 5, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned);
        check(roi.image >= 0 && roi.image < p.batch, "a region belongs to no image of the batch");
        parallelFor(p.channels, grainFor(bins * 64), [&](int64_t begin, int64_t end) {
          for (int64_t i = 0; i < bins; i++) {
            roi.samples(i / pooled_width, i % pooled_width, height, width, [&](int64_t offset, C weight) {
              for (int64_t c = begin; c < end; c++) {
                to[(r * p.channels + c) * bins + i] += weight * from[(roi.image * p.channels + c) * height * width + offset];
              }
            });
          }
        });
      }
    });
  });
}

diopiError_t diopiRoiAlignBackward(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t grad,
                                   diopiConstTensorHandle_t rois, double spatial_scale, int64_t pooled_height,
                                   int64_t pooled_width, int64_t batch_size, int64_t channels, int64_t height, int64_t width,
                                   int64_t sampling_ratio, bool aligned) {
  return guard(__func__, [&] {
    const Tensor x(out), boxes(rois);
    check(boxes.dim() == 2 && boxes.size(1) == 5, "rois wants rows of image, x1, y1, x2, y2");
    const int64_t bins = pooled_height * pooled_width;
    visitFloat(x.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(grad), regions(boxes);
      Out<C> to(x);
      check(to.numel == batch_size * channels * height * width, "out has the wrong number of elements");
      to.zero();
      for (int64_t r = 0; r < boxes.size(0); r++) {
        const Roi<C> roi(regions + r * 5, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned);
        check(roi.image >= 0 && roi.image < batch_size, "a region belongs to no image of the batch");
        parallelFor(channels, grainFor(bins * 64), [&](int64_t begin, int64_t end) {
          for (int64_t i = 0; i < bins; i++) {
            roi.samples(i / pooled_width, i % pooled_width, height, width, [&](int64_t offset, C weight) {
              for (int64_t c = begin; c < end; c++) {
                to[(roi.image * channels + c) * height * width + offset] += weight * from[(r * channels + c) * bins + i];
              }
            });
          }
        });
      }
    });
  });
}

// Non-maximum suppression keeps boxes by falling score, less those that overlap a
// kept one by more than the threshold.
diopiError_t diopiNms(diopiContextHandle_t ctx, diopiTensorHandle_t* out, diopiConstTensorHandle_t boxes,
                      diopiConstTensorHandle_t confidence, double iou_threshold) {
  return guard(__func__, [&] {
    const Tensor b(boxes);
    check(b.dim() == 2 && b.size(1) == 4, "boxes wants rows of x1, y1, x2, y2");
    std::vector<int64_t> kept;
    visitFloat(b.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> box(b), score(confidence);
      const int64_t n = b.size(0);
      check(score.numel == n, "there must be one score per box");
      const auto area = [&](int64_t i) { return (box[i * 4 + 2] - box[i * 4]) * (box[i * 4 + 3] - box[i * 4 + 1]); };
      std::vector<int64_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return score[i] > score[j]; });
      std::vector<bool> dropped(n);
      for (int64_t a = 0; a < n; a++) {
        const int64_t i = order[a];
        if (dropped[i]) continue;
        kept.push_back(i);
        for (int64_t k = a + 1; k < n; k++) {
          const int64_t j = order[k];
          const C w = std::min(box[i * 4 + 2], box[j * 4 + 2]) - std::max(box[i * 4], box[j * 4]);
          const C h = std::min(box[i * 4 + 3], box[j * 4 + 3]) - std::max(box[i * 4 + 1], box[j * 4 + 1]);
          const C common = std::max(w, C(0)) * std::max(h, C(0));
          if (common / (area(i) + area(j) - common) > static_cast<C>(iou_threshold)) dropped[j] = true;
        }
      }
    });
    *out = requireTensor(ctx, Dims{static_cast<int64_t>(kept.size())}, diopi_dtype_int64);
    Out<int64_t> to(*out);
    std::copy(kept.begin(), kept.end(), static_cast<int64_t*>(to));
  });
}

}  // extern "C"
