// The thread pool and the walk over strided operands.
#include "loop.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace host {

namespace {

thread_local bool insidePool = false;

// Pool keeps one thread less than the hardware has; the caller is the last.
// Threads start at the first parallel call and are joined when the library is
// unloaded or the process exits.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  int threads() const { return count_; }

  void run(int64_t n, int64_t piece, FunctionRef<void(int64_t, int64_t)> body) {
    std::unique_lock<std::mutex> only(busy_, std::try_to_lock);
    if (!only.owns_lock()) return body(0, n);  // another thread uses the pool
    Job job{n, piece, &body};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      while (static_cast<int>(workers_.size()) < count_ - 1) workers_.emplace_back([this] { work(); });
      job_ = &job;
      generation_++;
    }
    wake_.notify_all();
    insidePool = true;
    job.run();
    insidePool = false;
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = nullptr;
    done_.wait(lock, [&] { return active_ == 0; });
    if (job.error) std::rethrow_exception(job.error);
  }

 private:
  struct Job {
    int64_t n, piece;
    FunctionRef<void(int64_t, int64_t)>* body;
    std::atomic<int64_t> next{0};
    std::mutex mutex{};
    std::exception_ptr error{};

    void run() {
      for (;;) {
        const int64_t begin = next.fetch_add(piece);
        if (begin >= n) return;
        try {
          (*body)(begin, std::min(n, begin + piece));
        } catch (...) {
          std::lock_guard<std::mutex> lock(mutex);
          if (!error) error = std::current_exception();
          next.store(n);
        }
      }
    }
  };

  Pool() : count_(std::max(1u, std::thread::hardware_concurrency())) {}

  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  void work() {
    insidePool = true;
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || (generation_ != seen && job_ != nullptr); });
      if (stop_) return;
      seen = generation_;
      Job* job = job_;
      active_++;
      lock.unlock();
      job->run();
      lock.lock();
      if (--active_ == 0) done_.notify_all();
    }
  }

  const int count_;
  std::mutex busy_, mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  Job* job_ = nullptr;
  uint64_t generation_ = 0;
  int active_ = 0;
  bool stop_ = false;
};

}  // namespace

void parallelFor(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (n <= grain || insidePool || Pool::instance().threads() == 1) return body(0, n);
  // Four pieces a thread even out their speeds.
  const int64_t pieces = std::min((n + grain - 1) / grain, int64_t{4} * Pool::instance().threads());
  Pool::instance().run(n, (n + pieces - 1) / pieces, body);
}

Rows& Rows::add(const Tensor& t) {
  check(operands_ < kMaxOperands, "too many operands");
  const Tensor e = t.expand(shape_);
  data_[operands_] = e.data;
  stride_[operands_] = e.stride;
  for (int64_t& s : stride_[operands_]) s *= e.itemsize();
  operands_++;
  return *this;
}

void Rows::prepare() {
  for (int d = shape_.n - 1; d >= 0; d--) {
    if (shape_[d] != 1) continue;
    shape_.erase(d);
    for (int k = 0; k < operands_; k++) stride_[k].erase(d);
  }
  // Outermost first: a dimension goes before another if the first operand that
  // tells them apart has the longer stride there.
  const auto before = [&](int a, int b) {
    for (int k = 0; k < operands_; k++) {
      const int64_t x = std::abs(stride_[k][a]), y = std::abs(stride_[k][b]);
      if (x != y) return x > y;
    }
    return false;
  };
  for (int i = 1; i < shape_.n; i++) {
    for (int d = i; d > 0 && before(d, d - 1); d--) {
      std::swap(shape_[d], shape_[d - 1]);
      for (int k = 0; k < operands_; k++) std::swap(stride_[k][d], stride_[k][d - 1]);
    }
  }
  for (int d = shape_.n - 2; d >= 0; d--) {
    bool merge = true;
    for (int k = 0; k < operands_; k++) merge = merge && stride_[k][d] == stride_[k][d + 1] * shape_[d + 1];
    if (!merge) continue;
    shape_[d] *= shape_[d + 1];
    shape_.erase(d + 1);
    for (int k = 0; k < operands_; k++) stride_[k].erase(d);
  }
}

void Rows::walk(Body body, int64_t begin, int64_t end) const {
  if (begin >= end) return;
  const int inner = shape_.n - 1;
  int64_t index[Dims::kMax], step[kMaxOperands] = {};
  char* p[kMaxOperands];
  std::copy(data_.begin(), data_.begin() + operands_, p);
  if (inner < 0) return body(p, step, 1);
  int64_t rest = begin;
  for (int d = inner; d >= 0; d--) {
    index[d] = rest % shape_[d];
    rest /= shape_[d];
    for (int k = 0; k < operands_; k++) p[k] += index[d] * stride_[k][d];
  }
  for (int k = 0; k < operands_; k++) step[k] = stride_[k][inner];
  for (int64_t at = begin;;) {
    const int64_t n = std::min(shape_[inner] - index[inner], end - at);
    body(p, step, n);
    at += n;
    if (at >= end) return;
    // The row ended: back to its start, and on to the next.
    for (int k = 0; k < operands_; k++) p[k] -= index[inner] * step[k];
    index[inner] = 0;
    for (int d = inner - 1; d >= 0; d--) {
      for (int k = 0; k < operands_; k++) p[k] += stride_[k][d];
      if (++index[d] < shape_[d]) break;
      for (int k = 0; k < operands_; k++) p[k] -= index[d] * stride_[k][d];
      index[d] = 0;
    }
  }
}

void Rows::run(Body body, int64_t cost) {
  prepare();
  parallelFor(shape_.product(), grainFor(cost), [&](int64_t begin, int64_t end) { walk(body, begin, end); });
}

void Rows::runInOrder(Body body) {
  prepare();
  walk(body, 0, shape_.product());
}

void copy(const Tensor& dst, const Tensor& src) {
  const Converter convert = converter(dst.dtype, src.dtype);
  Rows rows(dst.shape);
  rows.add(dst).add(src);
  rows.run([&](char* const* p, const int64_t* stride, int64_t n) { convert(p[0], stride[0], p[1], stride[1], n); });
}

void fill(const Tensor& dst, diopiScalar_t value) {
  if (isIntegral(value)) return copy(dst, Tensor(&value.ival, diopi_dtype_int64, Dims()));
  copy(dst, Tensor(&value.fval, diopi_dtype_float64, Dims()));
}

void fillZero(const Tensor& dst) { fill(dst, scalar(int64_t{0})); }

}  // namespace host
