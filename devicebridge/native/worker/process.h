// What a library leaves behind in the process that calls it.

#ifndef OPTOOL_WORKER_PROCESS_H_
#define OPTOOL_WORKER_PROCESS_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <locale>
#include <string>

namespace optool {

// Whether other plans can run in a process. The numbers are those of devicebridge (wire.go).
enum class Fitness : uint8_t {
  alone,    // as before
  crowded,  // it has threads of the library, which may still write what their call was given
  worn,     // no: addresses or descriptors have run out, or limits are lower for good
};

// A Process is this one as it was when the object was made: one call must not change
// what a later call computes, nor end it.
class Process {
 public:
  Process();
  // Puts locale, working directory, mask for new files and limits back and stops timers.
  Fitness restore() const;

 private:
  bool raiseLimits() const;

  std::locale locale_;
  std::string name_;  // of C's locale
  int directory_;  // -1 if it cannot be opened
  size_t probe_;   // bytes of addresses that were free, of at most 256 MiB
  mode_t mask_;    // for new files
  std::array<rlim_t, RLIM_NLIMITS> limits_ = {};
};

}  // namespace optool

#endif
