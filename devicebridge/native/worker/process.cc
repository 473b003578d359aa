#include "process.h"

#include <fcntl.h>
#include <locale.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>

namespace optool {

namespace {

constexpr nlink_t ownThreads = 2;  // the one that makes the calls, and the one that waits for optool's end
constexpr size_t most = size_t{256} << 20;

bool canMap(size_t n) {
  void* p = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p != MAP_FAILED && munmap(p, n) == 0;
}

bool canOpen() {
  const int fd = open("/", O_PATH | O_CLOEXEC);
  return fd >= 0 && close(fd) == 0;
}

mode_t fileMask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

// RLIM_INFINITY is the largest number.
bool getLimit(size_t which, struct rlimit* limit) { return getrlimit(static_cast<__rlimit_resource>(which), limit) == 0; }

bool isAlone() {
  struct stat st;
  return stat("/proc/self/task", &st) == 0 && st.st_nlink == 2 + ownThreads;
}

}  // namespace

Process::Process() : name_(std::setlocale(LC_ALL, nullptr)), directory_(open(".", O_PATH | O_CLOEXEC)), probe_(most), mask_(fileMask()) {
  while (probe_ > 0 && !canMap(probe_)) probe_ /= 2;
  struct rlimit limit;
  for (size_t i = 0; i < limits_.size(); i++) limits_[i] = getLimit(i, &limit) ? limit.rlim_cur : 0;
}

// Limits that a library raised stay so: what it has taken since may need them. False: one is lower for good.
bool Process::raiseLimits() const {
  struct rlimit limit;
  for (size_t i = 0; i < limits_.size(); i++) {
    if (!getLimit(i, &limit) || limit.rlim_cur >= limits_[i]) continue;
    limit.rlim_cur = limits_[i];
    limit.rlim_max = std::max(limit.rlim_max, limits_[i]);
    if (setrlimit(static_cast<__rlimit_resource>(i), &limit) != 0) return false;
  }
  return true;
}

Fitness Process::restore() const {
  uselocale(LC_GLOBAL_LOCALE);
  if (std::locale() != locale_) std::locale::global(locale_);
  if (name_ != std::setlocale(LC_ALL, nullptr)) std::setlocale(LC_ALL, name_.c_str());
  if (directory_ >= 0 && fchdir(directory_) != 0) return Fitness::worn;
  umask(mask_);
  if (!raiseLimits()) return Fitness::worn;
  const struct itimerval off = {};
  for (int timer : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) setitimer(static_cast<decltype(ITIMER_REAL)>(timer), &off, nullptr);
  if ((probe_ > 0 && !canMap(probe_)) || !canOpen()) return Fitness::worn;
  return isAlone() ? Fitness::alone : Fitness::crowded;
}

}  // namespace optool
