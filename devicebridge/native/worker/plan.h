// A plan of calls: decoded from a request, run, checked, answered.

#ifndef OPTOOL_WORKER_PLAN_H_
#define OPTOOL_WORKER_PLAN_H_

#include <algorithm>
#include <deque>
#include <functional>

#include "arena.h"
#include "checks.h"
#include "library.h"
#include "waits.h"
#include "wire.h"

namespace optool {

// The numbers below are those of devicebridge (Status, FindingKind, wire.go).
enum class Status : uint8_t { ok, failed, unsupported, threw, notRun = 7 };
enum class FindingKind : uint8_t { outOfBounds, gapWritten, inputChanged, unwritten, nondeterministic, leaked, metadataChanged, floatModeChanged };
enum class Subject : uint8_t { none, tensor, alloc, out };
enum class Answer : uint8_t { hello = 1, call, alive, done, problem };

struct Finding {
  FindingKind kind;
  uint32_t call;
  Subject subject;
  uint32_t index;
  Damage damage;
};

// What a call asked the runtime for: tensors and buffers, of how many bytes, and how
// many of those bytes hold results that it hands out. Nothing is given back before the
// next run, so that is also its peak.
struct Asked {
  int64_t requests = 0, bytes = 0, kept = 0;
};

class Plan {
 public:
  // Decodes a request. The tensors' values lie in the arena already. Throws
  // std::runtime_error for a request that is none.
  Plan(Reader& request, Arena& arena, const Library& library);
  ~Plan();
  // Runs all calls, sends an answer after each and one at the end.
  void run(const std::function<void(Writer&)>& send);
  // Gives memory and stream back. Handles and plain results stay where they are, for threads
  // of the library that outlive their call, until the plan is destroyed.
  void end();

 private:
  struct Tensor {
    diopiTensor handle;    // what the operators see
    diopiTensor expected;  // its metadata, to see whether they were changed
    char* image = nullptr;   // its memory in the arena, between guard bands
    char* onDevice = nullptr;  // the same on a device with memory of its own
    bool hasValue = false;
    bool writable = false;  // by some call
    bool written = false;   // by a call that has run
    bool hashed = false;    // hash is that of the image
    uint64_t hash = 0;
    std::vector<char> before;  // its value, if it must be restored
    std::vector<char> first;   // after the first repetition
  };
  struct Call {
    uint32_t function;
    uint8_t phase;
    std::vector<Slot> slots;
    std::vector<std::pair<size_t, uint32_t>> allocs;  // slots that take the handle of an earlier callee-made tensor
    std::vector<uint32_t> written;
    std::vector<uint32_t> outs;
    std::vector<uint32_t> made;  // callee-made tensors
  };
  struct Outcome {
    Status status = Status::ok;
    int32_t code = 0;
    std::string reason = {};
    int64_t elapsed = 0;
    bool floatModeChanged = false;
    Asked asked = {};
  };

  void decodeTensor(Reader& r);
  void decodeCall(Reader& r);
  Slot decodeArg(Reader& r, Call& call);

  // Everything as it was before the first call.
  void reset(bool first, bool poison);
  Outcome runCall(Call& call);
  Outcome invoke(const Call& call, void* symbol);
  void coolDown();
  bool runAll(bool checked, bool cold, const std::function<void(uint32_t, const Outcome&)>& after);
  void hashInputs(const Call& call);
  void check(uint32_t index, const Outcome& outcome);
  void checkTensor(uint32_t index, uint32_t k, bool written, bool ok);
  void checkUnwritten();
  void keepRepetition();
  void compareRepetition();
  uint32_t lastWriter(Subject subject, uint32_t index) const;
  // Appends the nanoseconds of each call of each run, then those that the threads
  // waited for a processor in it; returns the number of runs. Once is the time of
  // a run so far.
  uint32_t measure(Writer& elapsed, int64_t once, const std::function<void()>& alive);
  void writeAllocs(Writer& answer);
  char* allocImage(const diopiTensor& t);
  bool toDevice(Tensor& t);
  bool fromDevice(Tensor& t);
  bool isOwn(const diopiTensor* t) const;
  Asked asked(const Call& call, size_t since) const;
  void found(FindingKind kind, uint32_t call, Subject subject, uint32_t index, Damage damage);
  void writeFindings(Writer& answer);

  Arena& arena_;
  const Library& library_;
  diopiContext context_;
  unsigned char poison_;
  uint32_t repeat_, warmUp_, runs_;
  int64_t flushBytes_, budget_;
  std::vector<char> flushBuffer_;
  char* flushOnDevice_ = nullptr;
  bool ended_ = false;
  std::deque<Tensor> tensors_;
  std::vector<diopiTensorHandle_t> allocs_;
  std::vector<uint64_t> outs_, outsBefore_, outsFirst_;
  std::vector<std::vector<char>> allocsFirst_;
  std::deque<diopiGenerator> generators_;
  std::vector<std::pair<uint64_t, uint64_t>> seeds_;
  std::deque<Call> calls_;
  std::vector<Finding> findings_;
  // What slots point to.
  std::deque<std::vector<void*>> arrays_;
  std::deque<diopiScalar_t> scalars_;
  std::deque<diopiSize_t> sizes_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<double> doubles_;
  std::deque<char> bools_;
  std::deque<std::string> strings_;
};

}  // namespace optool

#endif
