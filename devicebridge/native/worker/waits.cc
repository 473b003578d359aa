#include "waits.h"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace optool {

namespace {

constexpr int64_t longRun = 100'000;  // nanoseconds from which asking adds little

// What all threads have waited, 0 if it cannot be read.
int64_t threadWaits() {
  const std::string dir = "/proc/self/task/";
  int64_t sum = 0;
  DIR* threads = opendir(dir.c_str());
  if (!threads) return 0;
  while (const dirent* t = readdir(threads)) {
    std::FILE* f = t->d_name[0] == '.' ? nullptr : std::fopen((dir + t->d_name + "/schedstat").c_str(), "r");
    if (!f) continue;  // it may have ended
    long long waited = 0;
    if (std::fscanf(f, "%*d %lld", &waited) == 1) sum += waited;
    std::fclose(f);
  }
  closedir(threads);
  return sum;
}

}  // namespace

Waits::Waits(int64_t expected) : long_(expected >= longRun) {}

void Waits::begin() {
  if (long_) before_ = threadWaits();
}

int64_t Waits::end(int64_t elapsed) {
  return long_ ? std::clamp(threadWaits() - before_, int64_t{0}, elapsed) : 0;
}

}  // namespace optool
