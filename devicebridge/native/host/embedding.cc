// Embedding tables: lookup, its gradient, and renormalisation of the rows used.
#include <cmath>
#include <vector>

#include "dense.h"
#include "loop.h"
#include "vector_norm.h"

namespace host {

namespace {

void checkIndices(const In<int64_t>& indices, int64_t rows) {
  for (int64_t i = 0; i < indices.numel; i++) {
    if (indices[i] < 0 || indices[i] >= rows) {
      fail("index " + std::to_string(indices[i]) + " lies outside of a table of " + std::to_string(rows) + " rows");
    }
  }
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiEmbedding(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t weight,
                            diopiConstTensorHandle_t indices, int64_t, bool, bool) {
  return guard(__func__, [&] {
    const Tensor table(weight), to(out);
    check(table.dim() == 2, "weight must have two dimensions");
    const In<int64_t> rows(indices);
    checkIndices(rows, table.size(0));
    visitFloat(table.dtype, [&](auto zero) {
      using C = decltype(zero);
      const int64_t width = table.size(1);
      // Rows of the storage are moved as they are where both are dense.
      if (to.dtype == table.dtype && to.contiguous() && table.contiguous()) {
        const int64_t bytes = width * table.itemsize();
        parallelFor(rows.numel, grainFor(bytes / 8), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; i++) std::memcpy(to.data + i * bytes, table.data + rows[i] * bytes, bytes);
        });
        return;
      }
      const In<C> from(table);
      Out<C> y(to);
      for (int64_t i = 0; i < rows.numel; i++) std::copy_n(from + rows[i] * width, width, y + i * width);
    });
  });
}

diopiError_t diopiEmbeddingBackward(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t grad,
                                    diopiConstTensorHandle_t indices, int64_t num_weights, int64_t padding_idx,
                                    bool scale_grad_byfreq, bool) {
  return guard(__func__, [&] {
    const Tensor to(out);
    const In<int64_t> rows(indices);
    checkIndices(rows, num_weights);
    visitFloat(to.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> g(grad);
      Out<C> table(to);
      table.zero();
      const int64_t width = num_weights > 0 ? table.numel / num_weights : 0;
      std::vector<int64_t> uses(scale_grad_byfreq ? num_weights : 0);
      if (scale_grad_byfreq) {
        for (int64_t i = 0; i < rows.numel; i++) uses[rows[i]]++;
      }
      for (int64_t i = 0; i < rows.numel; i++) {
        if (rows[i] == padding_idx) continue;
        const C scale = scale_grad_byfreq ? C(1) / static_cast<C>(uses[rows[i]]) : C(1);
        C* row = table + rows[i] * width;
        for (int64_t j = 0; j < width; j++) row[j] += g[i * width + j] * scale;
      }
    });
  });
}

diopiError_t diopiEmbeddingRenorm_(diopiContextHandle_t, diopiTensorHandle_t inout, diopiConstTensorHandle_t indices,
                                   double max_norm, double norm_type) {
  return guard(__func__, [&] {
    const Tensor table(inout);
    check(table.dim() == 2, "weight must have two dimensions");
    const In<int64_t> rows(indices);
    checkIndices(rows, table.size(0));
    visitFloat(table.dtype, [&](auto zero) {
      using C = decltype(zero);
      Out<C> weight(table);
      weight.load();
      const int64_t width = table.size(1);
      std::vector<bool> done(table.size(0));
      for (int64_t i = 0; i < rows.numel; i++) {
        if (done[rows[i]]) continue;
        done[rows[i]] = true;
        C* row = weight + rows[i] * width;
        const C norm = vectorNorm<C>(row, width, norm_type);
        if (!(norm > static_cast<C>(max_norm))) continue;
        const C scale = static_cast<C>(max_norm / (static_cast<double>(norm) + 1e-7));
        for (int64_t j = 0; j < width; j++) row[j] *= scale;
      }
    });
  });
}

}  // extern "C"
