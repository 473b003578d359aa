// Matrix products: mm, bmm, matmul, addmm, baddbmm, linear, and products with sparse matrices.
#include <algorithm>

#include "dense.h"
#include "gemm.h"
#include "loop.h"

namespace host {

namespace {

// Conjugate is a tensor with its elements conjugated, the tensor itself if C is real.
template <class C>
struct Conjugate {
  explicit Conjugate(const Tensor& t) : of(t) {
    if constexpr (!std::is_arithmetic_v<C>) {
      buffer.reset(new C[static_cast<size_t>(std::max<int64_t>(1, t.numel))]);
      of = Tensor(buffer.get(), dtypeOf<C>(), t.shape);
      map<C>(of, [](C x) { return std::conj(x); }, in<C>(t));
    }
  }
  Tensor of;

 private:
  std::unique_ptr<C[]> buffer;
};

// Operand is a tensor as matrices of C over broadcast batch dimensions, used with
// its own strides when it has that type.
template <class C>
class Operand {
 public:
  Operand(const Tensor& t, const Dims& batch) : view_(t) {
    if (t.dtype != dtypeOf<C>()) {
      dense_ = In<C>(t);
      view_ = Tensor(const_cast<C*>(static_cast<const C*>(dense_)), dtypeOf<C>(), t.shape);
    }
    Dims full = batch;
    full.push(view_.size(view_.dim() - 2));
    full.push(view_.size(view_.dim() - 1));
    view_ = view_.expand(full);
  }
  Matrix<C> at(int64_t index) const {
    const int rank = view_.dim();
    int64_t offset = 0;
    for (int d = rank - 3; d >= 0; d--) {
      offset += index % view_.shape[d] * view_.stride[d];
      index /= view_.shape[d];
    }
    return {view_.ptr<C>() + offset, view_.stride[rank - 2], view_.stride[rank - 1]};
  }

 private:
  Tensor view_;
  In<C> dense_;
};

Dims batchOf(const Tensor& t) { return Dims(t.shape.v, t.dim() - 2); }

// product computes c = a b with c dense of shape batch x m x n.
template <class C>
void product(const Tensor& a, const Tensor& b, C* c) {
  const int ra = a.dim(), rb = b.dim();
  const int64_t m = a.size(ra - 2), k = a.size(ra - 1), n = b.size(rb - 1);
  if (b.size(rb - 2) != k) fail("matrices of shapes " + text(a.shape) + " and " + text(b.shape) + " cannot be multiplied");
  if (rb == 2 && ra > 2 && a.contiguous()) {  // one product of all the rows
    const Tensor rows(a.data, a.dtype, Dims{a.numel / std::max<int64_t>(k, 1), k});
    if (k > 0) return product(rows, b, c);
  }
  const Dims batch = broadcast(batchOf(a), batchOf(b));
  const Operand<C> left(a, batch), right(b, batch);
  const int64_t count = batch.product(), work = std::max<int64_t>(m * n * k, 1);
  const auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) gemm(m, n, k, left.at(i), right.at(i), c + i * m * n, n);
  };
  if (count >= 4 || work < 65536) parallelFor(count, std::max<int64_t>(1, 65536 / work), run);
  else run(0, count);
}

// multiply stores a b in out; vectors become matrices of one row or column.
void multiply(const Tensor& out, Tensor a, Tensor b) {
  check(a.dim() > 0 && b.dim() > 0, "matmul wants arguments of at least one dimension");
  if (a.dim() == 1) a = a.unsqueeze(0);
  if (b.dim() == 1) b = b.unsqueeze(1);
  visitNumber(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    Out<C> c(out);
    const int64_t matrices = broadcast(batchOf(a), batchOf(b)).product();
    if (c.numel != matrices * a.size(a.dim() - 2) * b.size(b.dim() - 1)) {
      fail("out of shape " + text(out.shape) + " cannot hold the product of " + text(a.shape) + " and " + text(b.shape));
    }
    product<C>(a, b, c);
  });
}

// multiplyAdd stores beta input + alpha a b in out. With beta 0 input is not read.
void multiplyAdd(const Tensor& out, const Tensor& input, const Tensor& a, const Tensor& b, const diopiScalar_t* beta,
                 const diopiScalar_t* alpha) {
  visitNumber(out.dtype, [&](auto zero) {
    using C = decltype(zero);
    const C scale = as<C>(*alpha), keep = as<C>(*beta);
    Scratch<C> c(out.numel);
    product<C>(a, b, c);
    const In<C> add = keep == C(0) ? In<C>() : In<C>(input, out.shape);
    Out<C> to(out);
    for (int64_t i = 0; i < to.numel; i++) to[i] = (add ? keep * add[i] : C(0)) + scale * c[i];
  });
}

bool isSparse(diopiConstTensorHandle_t handle) {
  bool sparse = false;
  return diopiIsTensorSparse(handle, &sparse) == diopiSuccess && sparse;
}

// StoredRows are the rows of a matrix, dense or in compressed row form.
template <class C>
class StoredRows {
 public:
  explicit StoredRows(diopiConstTensorHandle_t handle) {
    if (!isSparse(handle)) {
      const Tensor t(handle);
      width_ = t.size(1);
      terms_ = In<C>(t);
      return;
    }
    diopiConstTensorHandle_t crow = nullptr, col = nullptr, values = nullptr;
    check(diopiGetTensorCrowIndices(handle, &crow) == diopiSuccess && diopiGetTensorColIndices(handle, &col) == diopiSuccess &&
              diopiGetTensorValues(handle, &values) == diopiSuccess,
          "the parts of the sparse matrix cannot be read");
    starts_ = In<int64_t>(crow);
    columns_ = In<int64_t>(col);
    terms_ = In<C>(values);
  }
  // each calls f with column and value of the elements of a row that are stored.
  template <class F>
  void each(int64_t row, F f) const {
    if (!starts_) {
      for (int64_t j = 0; j < width_; j++) f(j, terms_[row * width_ + j]);
      return;
    }
    for (int64_t p = starts_[row]; p < starts_[row + 1]; p++) f(columns_[p], terms_[p]);
  }

 private:
  int64_t width_ = 0;
  In<int64_t> starts_, columns_;
  In<C> terms_;
};

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiMm(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                     diopiConstTensorHandle_t mat2) {
  return guard(__func__, [&] { multiply(out, input, mat2); });
}

diopiError_t diopiBmm(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                      diopiConstTensorHandle_t mat2) {
  return guard(__func__, [&] { multiply(out, input, mat2); });
}

diopiError_t diopiMatmul(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                         diopiConstTensorHandle_t other) {
  return guard(__func__, [&] { multiply(out, input, other); });
}

diopiError_t diopiAddmm(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                        diopiConstTensorHandle_t mat1, diopiConstTensorHandle_t mat2, const diopiScalar_t* beta,
                        const diopiScalar_t* alpha) {
  return guard(__func__, [&] { multiplyAdd(out, input, mat1, mat2, beta, alpha); });
}

diopiError_t diopiBaddbmm(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                          diopiConstTensorHandle_t batch1, diopiConstTensorHandle_t batch2, double beta, double alpha) {
  return guard(__func__, [&] {
    const diopiScalar_t keep = scalar(beta), scale = scalar(alpha);
    multiplyAdd(out, input, batch1, batch2, &keep, &scale);
  });
}

diopiError_t diopiBaddbmmInp(diopiContextHandle_t, diopiTensorHandle_t input, diopiConstTensorHandle_t batch1,
                             diopiConstTensorHandle_t batch2, double beta, double alpha) {
  return guard(__func__, [&] {
    const diopiScalar_t keep = scalar(beta), scale = scalar(alpha);
    multiplyAdd(input, input, batch1, batch2, &keep, &scale);
  });
}

diopiError_t diopiLinear(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                         diopiConstTensorHandle_t weight, diopiConstTensorHandle_t bias) {
  return guard(__func__, [&] {
    const Tensor x(input), w(weight), b(bias), y(out);
    const Tensor rows = x.dim() == 1 ? x.unsqueeze(0) : x;
    visitNumber(y.dtype, [&](auto zero) {
      using C = decltype(zero);
      Out<C> to(y);
      product<C>(rows, w.dim() == 1 ? w.unsqueeze(1) : w.transpose(0, 1), to);
      if (!b) return;
      if (b.dim() <= 1) {  // one value per column
        const In<C> add(b);
        const int64_t step = add.numel == 1 ? 0 : 1, n = y.dim() && w.dim() > 1 ? y.size(y.dim() - 1) : 1;
        for (int64_t i = 0, j = 0; i < to.numel; i++, j = j + 1 == n ? 0 : j + 1) to[i] += add[j * step];
      } else {
        const In<C> add(b, y.shape);
        for (int64_t i = 0; i < to.numel; i++) to[i] += add[i];
      }
    });
  });
}

diopiError_t diopiLinearBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_weight,
                                 diopiTensorHandle_t grad_bias, diopiConstTensorHandle_t grad_output,
                                 diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight) {
  return guard(__func__, [&] {
    const Tensor g(grad_output), x(input), w(weight);
    const int64_t outs = w.dim() == 1 ? 1 : w.size(0), ins = w.size(w.dim() - 1), rows = x.numel / std::max<int64_t>(ins, 1);
    visitNumber(g.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> grad(g);
      const Matrix<C> go{grad, outs, 1};
      if (const Tensor t(grad_input); t) {
        const Conjugate<C> weights(w);
        const In<C> from(weights.of);
        Out<C> to(t);
        gemm(rows, ins, outs, go, {from, ins, 1}, static_cast<C*>(to), ins);
      }
      if (const Tensor t(grad_weight); t) {
        const Conjugate<C> inputs(x);
        const In<C> from(inputs.of);
        Out<C> to(t);
        gemm(outs, ins, rows, go.transposed(), {from, ins, 1}, static_cast<C*>(to), ins);
      }
      if (const Tensor t(grad_bias); t) {
        Out<C> to(t);
        sumTo<C>(to, t.shape, grad, g.shape);
      }
    });
  });
}

diopiError_t diopiMatmulBackward(diopiContextHandle_t, diopiTensorHandle_t grad_input, diopiTensorHandle_t grad_other,
                                 diopiConstTensorHandle_t grad_out, diopiConstTensorHandle_t input,
                                 diopiConstTensorHandle_t other) {
  return guard(__func__, [&] {
    const Tensor x(input), y(other), g(grad_out);
    const Tensor a = x.dim() == 1 ? x.unsqueeze(0) : x, b = y.dim() == 1 ? y.unsqueeze(1) : y;
    Dims shape = broadcast(batchOf(a), batchOf(b));
    const Dims batch = shape;
    const int64_t m = a.size(a.dim() - 2), k = a.size(a.dim() - 1), n = b.size(b.dim() - 1);
    shape.push(m);
    shape.push(n);
    visitFloatOrComplex(g.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Conjugate<C> left(a), right(b);
      const In<C> dense(g);
      const Tensor grad(const_cast<C*>(static_cast<const C*>(dense)), dtypeOf<C>(), shape);
      const auto give = [&](const Tensor& to, const Tensor& like, const Tensor& left, const Tensor& right, int64_t rows,
                            int64_t cols) {
        if (!to) return;
        Dims full = batch;
        full.push(rows);
        full.push(cols);
        Scratch<C> all(full.product());
        product<C>(left, right, all);
        Out<C> out(to);
        sumTo<C>(out, like.shape, all, full);
      };
      give(Tensor(grad_input), a, grad, right.of.transpose(b.dim() - 2, b.dim() - 1), m, k);
      give(Tensor(grad_other), b, left.of.transpose(a.dim() - 2, a.dim() - 1), grad, k, n);
    });
  });
}

diopiError_t diopiSpMM(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t input,
                       diopiConstTensorHandle_t mat2) {
  return guard(__func__, [&] {
    if (!isSparse(input) && !isSparse(mat2)) return multiply(out, input, mat2);
    const Tensor y(out);
    visitFloat(y.dtype, [&](auto zero) {
      using C = decltype(zero);
      const StoredRows<C> left(input), right(mat2);
      Out<C> to(y);
      to.zero();
      const int64_t n = y.size(1);
      parallelFor(y.size(0), 16, [&](int64_t from, int64_t end) {
        for (int64_t i = from; i < end; i++) {
          left.each(i, [&](int64_t k, C a) { right.each(k, [&](int64_t j, C b) { to[i * n + j] += a * b; }); });
        }
      });
    });
  });
}

}  // extern "C"
