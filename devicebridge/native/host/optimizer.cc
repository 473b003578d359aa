// One step of the optimizers, and arithmetic on lists of tensors.
#include "elementwise.h"

namespace host {
namespace {

// visitStored is visitFloat with a second zero of the type that is stored.
template <class F>
void visitStored(Dtype d, F&& f) {
  if (d == diopi_dtype_float16) return f(float{}, Half(0));
  if (d == diopi_dtype_bfloat16) return f(float{}, BFloat16(0));
  visitFloat(d, [&](auto zero) { f(zero, zero); });
}

// sgd is by definition a sequence of tensor operations: what they pass on has
// the dtype of the parameter.
void sgd(const Tensor& param, const Tensor& grad, const Tensor& buf, double lr, double momentum, double dampening, double decay,
         bool nesterov) {
  visitStored(param.dtype, [&](auto zero, auto stored) {
    using C = decltype(zero);
    const C l = C(lr), m = C(momentum), damp = C(1 - dampening), w = C(decay);
    const auto pass = [](C x) { return static_cast<C>(decltype(stored)(x)); };
    if (momentum == 0 || !buf) {
      // Without a buffer the momentum starts from this gradient.
      const C more = momentum != 0 && nesterov ? m : C(0);
      return update<C, 1>([=](C& p, const C& g) {
        const C d = pass(g + w * p);
        p -= l * pass(d + more * d);
      }, param, grad);
    }
    update<C, 2>([=](C& p, C& b, const C& g) {
      const C d = pass(g + w * p);
      b = pass(pass(m * b) + damp * d);
      p -= l * (nesterov ? pass(d + m * b) : b);
    }, param, buf, grad);
  });
}

struct AdamRates {
  double lr, beta1, beta2, eps, decay, step;
  bool amsgrad, decoupled, maximize;
};

// adam: decoupled decay (AdamW) shrinks the parameter, coupled decay adds to the gradient.
void adam(const Tensor& param, const Tensor& grad, const Tensor& expAvg, const Tensor& expAvgSq, const Tensor& maxExpAvgSq,
          const AdamRates& r) {
  visitFloat(param.dtype, [&](auto zero) {
    using C = decltype(zero);
    const C b1 = C(r.beta1), b2 = C(r.beta2), a1 = C(1 - r.beta1), a2 = C(1 - r.beta2), eps = C(r.eps);
    const C rate = C(r.lr / (1 - std::pow(r.beta1, r.step))), root = C(std::sqrt(1 - std::pow(r.beta2, r.step)));
    const C shrink = r.decoupled ? C(1 - r.lr * r.decay) : C(1), w = r.decoupled ? C(0) : C(r.decay);
    const C sign = r.maximize ? C(-1) : C(1);
    const auto moments = [=](C& p, C& m, C& v, const C& grad) {
      p *= shrink;
      const C g = sign * grad + w * p;
      m = b1 * m + a1 * g;
      v = b2 * v + a2 * g * g;
    };
    if (r.amsgrad) {
      update<C, 4>([=](C& p, C& m, C& v, C& largest, const C& g) {
        moments(p, m, v, g);
        largest = std::max(largest, v);
        p -= rate * m / (std::sqrt(largest) / root + eps);
      }, param, expAvg, expAvgSq, maxExpAvgSq, grad);
    } else {
      update<C, 3>([=](C& p, C& m, C& v, const C& g) {
        moments(p, m, v, g);
        p -= rate * m / (std::sqrt(v) / root + eps);
      }, param, expAvg, expAvgSq, grad);
    }
  });
}

void adadelta(const Tensor& param, const Tensor& grad, const Tensor& squareAvg, const Tensor& accDelta, double lr, double rho,
              double eps, double decay) {
  visitFloat(param.dtype, [&](auto zero) {
    using C = decltype(zero);
    const C l = C(lr), keep = C(rho), take = C(1 - rho), e = C(eps), w = C(decay);
    update<C, 3>([=](C& p, C& square, C& acc, const C& grad) {
      const C g = grad + w * p;
      square = keep * square + take * g * g;
      const C delta = std::sqrt(acc + e) / std::sqrt(square + e) * g;
      acc = keep * acc + take * delta * delta;
      p -= l * delta;
    }, param, squareAvg, accDelta, grad);
  });
}

void rmsprop(const Tensor& param, const Tensor& grad, const Tensor& squareAvg, const Tensor& gradAvg, const Tensor& momentumBuf,
             double lr, double alpha, double eps, double decay, double momentum, bool centered) {
  visitFloat(param.dtype, [&](auto zero) {
    using C = decltype(zero);
    const C l = C(lr), keep = C(alpha), take = C(1 - alpha), e = C(eps), w = C(decay), m = C(momentum);
    const auto average = [=](C& p, C& square, const C& grad) {
      const C g = grad + w * p;
      square = keep * square + take * g * g;
      return g;
    };
    if (centered && momentum > 0) {
      update<C, 4>([=](C& p, C& square, C& mean, C& buf, const C& grad) {
        const C g = average(p, square, grad);
        mean = keep * mean + take * g;
        buf = m * buf + g / (std::sqrt(square - mean * mean) + e);
        p -= l * buf;
      }, param, squareAvg, gradAvg, momentumBuf, grad);
    } else if (centered) {
      update<C, 3>([=](C& p, C& square, C& mean, const C& grad) {
        const C g = average(p, square, grad);
        mean = keep * mean + take * g;
        p -= l * g / (std::sqrt(square - mean * mean) + e);
      }, param, squareAvg, gradAvg, grad);
    } else if (momentum > 0) {
      update<C, 3>([=](C& p, C& square, C& buf, const C& grad) {
        const C g = average(p, square, grad);
        buf = m * buf + g / (std::sqrt(square) + e);
        p -= l * buf;
      }, param, squareAvg, momentumBuf, grad);
    } else {
      update<C, 2>([=](C& p, C& square, const C& grad) {
        const C g = average(p, square, grad);
        p -= l * g / (std::sqrt(square) + e);
      }, param, squareAvg, grad);
    }
  });
}

template <class Op>
void foreach(diopiTensorHandle_t* outs, diopiConstTensorHandle_t* inputs, int64_t count, const diopiScalar_t& other, Op op) {
  for (int64_t i = 0; i < count; i++) {
    const Tensor out(outs[i]), input(inputs[i]);
    visitNumber(computeType(promote(input.dtype, other), out.dtype), [&](auto zero) {
      using C = decltype(zero);
      const C s = as<C>(other);
      map<C>(out, [s, op](C x) { return op(x, s); }, in<C>(input));
    });
  }
}

}  // namespace
}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiSgd(diopiContextHandle_t, diopiTensorHandle_t param, diopiTensorHandle_t grad, diopiTensorHandle_t buf,
                      double lr, double momentum, double dampening, double weight_decay, bool nesterov) {
  return guard(__func__, [&] { sgd(param, grad, buf, lr, momentum, dampening, weight_decay, nesterov); });
}

diopiError_t diopiAdam(diopiContextHandle_t, diopiTensorHandle_t param, diopiConstTensorHandle_t grad,
                       diopiTensorHandle_t exp_avg, diopiTensorHandle_t exp_avg_sq, diopiTensorHandle_t max_exp_avg_sq,
                       float lr, float beta1, float beta2, float eps, float weight_decay, int64_t step, bool amsgrad) {
  return guard(__func__, [&] {
    adam(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq,
         {lr, beta1, beta2, eps, weight_decay, static_cast<double>(step), amsgrad, false, false});
  });
}

diopiError_t diopiAdamW(diopiContextHandle_t, diopiTensorHandle_t param, diopiConstTensorHandle_t grad,
                        diopiTensorHandle_t exp_avg, diopiTensorHandle_t exp_avg_sq, diopiTensorHandle_t max_exp_avg_sq,
                        float lr, float beta1, float beta2, float eps, float weight_decay, int64_t step, bool amsgrad) {
  return guard(__func__, [&] {
    adam(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq,
         {lr, beta1, beta2, eps, weight_decay, static_cast<double>(step), amsgrad, true, false});
  });
}

diopiError_t diopiFusedAdamW(diopiContextHandle_t, diopiTensorHandle_t* params, diopiConstTensorHandle_t* grads,
                             diopiTensorHandle_t* exp_avgs, diopiTensorHandle_t* exp_avg_sqs,
                             diopiTensorHandle_t* max_exp_avg_sqs, diopiConstTensorHandle_t* state_steps, int64_t nums,
                             double lr, double beta1, double beta2, double eps, double weight_decay, bool amsgrad,
                             bool maximize) {
  return guard(__func__, [&] {
    for (int64_t i = 0; i < nums; i++) {
      const Dense<double> step{Tensor(state_steps[i])};
      check(step.size() == 1, "a step is one number");
      adam(params[i], grads[i], exp_avgs[i], exp_avg_sqs[i], amsgrad ? Tensor(max_exp_avg_sqs[i]) : Tensor(),
           {lr, beta1, beta2, eps, weight_decay, step[0], amsgrad, true, maximize});
    }
  });
}

diopiError_t diopiAdadelta(diopiContextHandle_t, diopiTensorHandle_t param, diopiConstTensorHandle_t grad,
                           diopiTensorHandle_t square_avg, diopiTensorHandle_t acc_delta, float lr, float rho, float eps,
                           float weight_decay) {
  return guard(__func__, [&] { adadelta(param, grad, square_avg, acc_delta, lr, rho, eps, weight_decay); });
}

diopiError_t diopiRmsprop(diopiContextHandle_t, diopiTensorHandle_t param, diopiConstTensorHandle_t grad,
                          diopiTensorHandle_t square_avg, diopiTensorHandle_t grad_avg, diopiTensorHandle_t momentum_buf,
                          float lr, float alpha, float eps, float weight_decay, float momentum, bool centered) {
  return guard(__func__, [&] {
    rmsprop(param, grad, square_avg, grad_avg, momentum_buf, lr, alpha, eps, weight_decay, momentum, centered);
  });
}

diopiError_t diopiForeachaddScalar(diopiContextHandle_t, diopiTensorHandle_t* outs, diopiConstTensorHandle_t* inputs,
                                   int64_t inputSize, const diopiScalar_t* other) {
  return guard(__func__, [&] { foreach(outs, inputs, inputSize, *other, [](auto x, auto y) { return x + y; }); });
}

diopiError_t diopiForeachmulScalar(diopiContextHandle_t, diopiTensorHandle_t* outs, diopiConstTensorHandle_t* inputs,
                                   int64_t inputSize, const diopiScalar_t* other) {
  return guard(__func__, [&] { foreach(outs, inputs, inputSize, *other, [](auto x, auto y) { return x * y; }); });
}

}
