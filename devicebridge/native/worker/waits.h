// How long threads wait for a processor.

#ifndef OPTOOL_WORKER_WAITS_H_
#define OPTOOL_WORKER_WAITS_H_

#include <cstdint>

namespace optool {

// Tells how long the threads of this process wait for a processor while
// something runs, as the scheduler counts it. Asking takes some time and empties
// some cache lines, so it asks of long runs alone.
class Waits {
 public:
  // A run is expected to take so many nanoseconds.
  explicit Waits(int64_t expected);
  void begin();
  // End of a run of so many nanoseconds: how many threads waited in it, at most those.
  int64_t end(int64_t elapsed);

 private:
  const bool long_;
  int64_t before_ = 0;
};

}  // namespace optool

#endif
