#include <cxxabi.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>

#include "plan.h"

namespace optool {

namespace {

int64_t now() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Bytes the process has from malloc; before glibc 2.33 modulo 2^32, which growth
// does not show.
int64_t heapBytes() {
#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 33)
  struct mallinfo m = mallinfo();
#else
  struct mallinfo2 m = mallinfo2();
#endif
  return static_cast<int64_t>(m.uordblks) + static_cast<int64_t>(m.hblkhd);
}

// Walks through n bytes so that caches hold nothing else.
void flushCaches(std::vector<char>& buffer, int64_t n) {
  buffer.resize(static_cast<size_t>(n));
  for (size_t i = 0; i < buffer.size(); i += 64) *static_cast<volatile char*>(&buffer[i]) = static_cast<char>(buffer[i] + 1);
}

// Takes n bytes out of all caches; false where there is no instruction for it.
bool evict(const char* p, size_t n) {
  constexpr size_t line = 64;
  const char *first = p - reinterpret_cast<uintptr_t>(p) % line, *end = p + n;
#if defined(__x86_64__)
  for (; first < end; first += line) __builtin_ia32_clflush(first);
  __builtin_ia32_mfence();
  return true;
#elif defined(__aarch64__)
  for (; first < end; first += line) asm volatile("dc civac, %0" ::"r"(first) : "memory");
  asm volatile("dsb sy" ::: "memory");
  return true;
#else
  return first == end;
#endif
}

constexpr uint32_t leakRuns = 32;  // repetitions that confirm a leak: more blocks than malloc keeps of a size

constexpr unsigned backward = 1, inPlace = 2;  // Call::phase; 0 is forward

}  // namespace

void Plan::run(const std::function<void(Writer&)>& send) {
  Writer answer;
  const bool again = repeat_ > 1 || runs_ > 0;
  if (again) {
    for (Tensor& t : tensors_) {
      if (t.hasValue && t.writable) t.before.assign(t.image, t.image + t.handle.nbytes);
    }
  }
  reset(true, true);
  int64_t once = 0;
  bool ok = runAll(true, false, [&](uint32_t index, const Outcome& o) {
    once += o.elapsed;
    answer.clear();
    answer.put(Answer::call);
    answer.u32(index);
    answer.put(o.status);
    answer.put(o.code);
    answer.text(o.reason);
    answer.i64(o.elapsed);
    for (int64_t n : {o.asked.requests, o.asked.bytes, o.asked.kept}) answer.i64(n);
    writeFindings(answer);
    send(answer);
  });
  checkUnwritten();
  auto alive = [&, last = now()]() mutable {
    if (now() - last < 100'000'000) return;
    last = now();
    answer.clear();
    answer.put(Answer::alive);
    send(answer);
  };
  if (ok && repeat_ > 1) {
    keepRepetition();
    int64_t leak = INT64_MAX, heap = heapBytes();
    // The first repetition may fill a cache of the library, several those that malloc
    // keeps for its threads: what looks like a leak is repeated until that ends.
    for (uint32_t k = 1; ok && (k < repeat_ || (repeat_ > 2 && leak > 0 && k < repeat_ + leakRuns)); k++) {
      reset(false, true);
      ok = runAll(false, false, nullptr);
      compareRepetition();
      alive();
      int64_t grown = heapBytes() - heap;
      heap += grown;
      if (k > 1 && grown < leak) leak = grown;
    }
    if (repeat_ > 2 && leak > 0) found(FindingKind::leaked, 0, Subject::none, 0, {leak, 0});
  }
  Writer measured;
  uint32_t runs = ok && runs_ > 0 ? measure(measured, once, alive) : 0;
  answer.clear();
  answer.put(Answer::done);
  writeFindings(answer);
  const Fitness fitness = library_.process.restore();
  answer.put(arena_.isWhole() ? fitness : Fitness::worn);
  for (uint64_t v : outs_) answer.u64(v);
  writeAllocs(answer);
  answer.u32(runs);
  answer.append(measured);
  send(answer);
}

void Plan::reset(bool first, bool poison) {
  context_.clear();
  std::fill(allocs_.begin(), allocs_.end(), nullptr);
  outs_ = outsBefore_;
  for (size_t i = 0; i < generators_.size(); i++) {
    generators_[i].state.resize(2 * sizeof(uint64_t));
    generators_[i].setSeedAndOffset(seeds_[i].first, seeds_[i].second);
  }
  for (Tensor& t : tensors_) {
    if (!t.image) continue;
    if (!first && !t.writable) continue;
    if (!t.hasValue) {
      if (poison) std::memset(t.image, poison_, t.handle.nbytes);
    } else if (!first) {
      std::memcpy(t.image, t.before.data(), t.before.size());
    }
    if (t.onDevice && !toDevice(t)) throw std::runtime_error("device_memcpy_h2d_async fails");
  }
}

// Runs the calls in order. A call that does not end well ends its phase; backward
// calls need the forward ones. Cold: each phase begins with empty caches. Returns
// whether all ended well.
bool Plan::runAll(bool checked, bool cold, const std::function<void(uint32_t, const Outcome&)>& after) {
  bool failed[3] = {}, begun[3] = {};
  for (uint32_t i = 0; i < calls_.size(); i++) {
    Call& call = calls_[i];
    unsigned phase = call.phase <= inPlace ? call.phase : 0;
    Outcome o{Status::notRun};
    if (!failed[phase] && !(phase == backward && failed[0])) {
      if (checked) hashInputs(call);
      if (cold && !begun[phase]) coolDown();
      begun[phase] = true;
      o = runCall(call);
      if (checked) check(i, o);
    }
    failed[phase] |= o.status != Status::ok;
    if (after) after(i, o);
  }
  return !failed[0] && !failed[backward] && !failed[inPlace];
}

Plan::Outcome Plan::runCall(Call& call) {
  const Function& function = functions[call.function];
  void* symbol = library_.symbols[call.function];
  if (!symbol) return {Status::unsupported, 0, std::string("the library has no ") + function.name};
  for (auto [slot, k] : call.allocs) call.slots[slot].pointer = allocs_[k];
  const size_t before = context_.tensors().size();
  Outcome o = invoke(call, symbol);
  o.floatModeChanged = library_.floatMode.restore();
  if (o.status != Status::ok) return o;
  for (uint32_t k : call.made) {
    if (allocs_[k] && !isOwn(allocs_[k])) {
      allocs_[k] = nullptr;
      o.status = Status::failed;
      o.reason = "it stored a handle that is no tensor of the runtime";
      break;
    }
  }
  o.asked = asked(call, before);
  return o;
}

// What the call asked for, given the number of tensors before it.
Asked Plan::asked(const Call& call, size_t since) const {
  Asked a;
  const auto& tensors = context_.tensors();
  for (size_t i = since; i < tensors.size(); i++) {
    const diopiTensor& t = tensors[i];
    if (!t.data) continue;
    const auto bytes = static_cast<int64_t>(t.nbytes);
    a.requests++;
    a.bytes += bytes;
    if (std::any_of(call.made.begin(), call.made.end(), [&](uint32_t k) { return allocs_[k] == &t; })) a.kept += bytes;
  }
  return a;
}

// Calls the operator and waits for its stream, also after an error: what it has
// enqueued must not write into the memory of the next plan.
Plan::Outcome Plan::invoke(const Call& call, void* symbol) {
  Outcome o{Status::ok};
  const Function& function = functions[call.function];
  const int64_t start = now();
  try {
    o.code = function.call(symbol, call.slots.data());
    if (o.code != diopiSuccess) {
      o.status = Status::failed;
      o.reason = library_.errorText(static_cast<diopiError_t>(o.code), call.function);
    }
  } catch (abi::__forced_unwind&) {
    std::fputs("the operator ended the thread that called it\n", stderr);
    _exit(1);
  } catch (...) {
    o = {Status::threw, 0, describeException()};
  }
  if (diopiError_t e = context_.synchronize(); e != diopiSuccess && o.status == Status::ok) {
    o = {Status::failed, static_cast<int32_t>(e), "device_synchronize_stream fails"};
  }
  o.elapsed = now() - start;
  return o;
}

bool Plan::isOwn(const diopiTensor* t) const {
  for (const Tensor& own : tensors_) {
    if (&own.handle == t) return true;
  }
  for (const diopiTensor& own : context_.tensors()) {
    if (&own == t) return true;
  }
  return false;
}

bool Plan::toDevice(Tensor& t) {
  diopiStreamHandle_t stream = nullptr;
  return context_.getStream(&stream) == diopiSuccess &&
         library_.device.h2d(stream, t.onDevice, t.image - guardBytes, t.handle.nbytes + 2 * guardBytes) == diopiSuccess &&
         context_.synchronize() == diopiSuccess;
}

bool Plan::fromDevice(Tensor& t) {
  diopiStreamHandle_t stream = nullptr;
  return context_.getStream(&stream) == diopiSuccess &&
         library_.device.d2h(stream, t.image - guardBytes, t.onDevice, t.expected.nbytes + 2 * guardBytes) == diopiSuccess &&
         context_.synchronize() == diopiSuccess;
}

// Takes the tensors out of the caches: line by line, so that the operator's code
// stays where it is, in the host's memory; by writing flushBytes_ where the host
// has no instruction for it, or to a device with memory of its own.
void Plan::coolDown() {
  if (!library_.device.allocate) {
    bool all = true;
    for (const Tensor& t : tensors_) {
      if (t.image) all = evict(t.image, t.handle.nbytes) && all;
    }
    for (const diopiTensor* t : allocs_) {
      if (t) all = evict(static_cast<const char*>(t->data), t->nbytes) && all;
    }
    if (!all) flushCaches(flushBuffer_, flushBytes_);
    return;
  }
  flushBuffer_.resize(static_cast<size_t>(flushBytes_));
  if (!flushOnDevice_) flushOnDevice_ = static_cast<char*>(library_.device.allocate(static_cast<uint64_t>(flushBytes_)));
  diopiStreamHandle_t stream = nullptr;
  if (!flushOnDevice_ || context_.getStream(&stream) != diopiSuccess ||
      library_.device.h2d(stream, flushOnDevice_, flushBuffer_.data(), flushBuffer_.size()) != diopiSuccess || context_.synchronize() != diopiSuccess) {
    throw std::runtime_error("the device's caches cannot be flushed");
  }
}

uint32_t Plan::measure(Writer& elapsed, int64_t once, const std::function<void()>& alive) {
  const int64_t start = now();
  uint32_t done = 0;
  arena_.filling = false;
  Waits waits(once);
  for (uint32_t k = 0; k < warmUp_ + runs_; k++) {
    reset(false, false);
    std::vector<int64_t> run;
    waits.begin();
    if (!runAll(false, flushBytes_ > 0, [&](uint32_t, const Outcome& o) { run.push_back(o.elapsed); })) break;
    const int64_t waited = waits.end(std::accumulate(run.begin(), run.end(), int64_t{0}));
    if (k < warmUp_) continue;
    for (int64_t ns : run) elapsed.i64(ns);
    elapsed.i64(waited);
    done++;
    alive();
    if (budget_ > 0 && now() - start > budget_) break;
  }
  return done;
}

// Where the contents of a callee-made tensor can be read: in the arena.
char* Plan::allocImage(const diopiTensor& t) {
  if (arena_.holds(t.data)) return static_cast<char*>(t.data);
  for (Tensor& own : tensors_) {
    if (&own.handle == &t) return own.image;
  }
  char* image = arena_.block(t.nbytes);
  diopiStreamHandle_t stream = nullptr;
  if (!image || context_.getStream(&stream) != diopiSuccess || library_.device.d2h(stream, image, t.data, t.nbytes) != diopiSuccess ||
      context_.synchronize() != diopiSuccess) {
    return nullptr;
  }
  return image;
}

void Plan::writeAllocs(Writer& answer) {
  for (diopiTensor* t : allocs_) {
    char* image = t ? allocImage(*t) : nullptr;
    answer.u8(image != nullptr);
    if (!image) continue;
    answer.u8(static_cast<uint8_t>(t->dtype));
    answer.u64(arena_.offsetOf(image));
    answer.u64(t->nbytes);
    answer.ints(t->shape);
    answer.ints(t->stride);
  }
}

}  // namespace optool
