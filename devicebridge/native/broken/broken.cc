// A small device library, and under another file name one that is wrong in one
// way. The tests of the bridge and of the comparison say what verdict each must get.
//
// It is built as a stranger would build it: against diopi.h alone, without naming
// any host; the runtime's calls are weak imports.

#include <dlfcn.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <cmath>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#pragma GCC visibility push(default)
#include "../include/diopi.h"
#pragma GCC visibility pop

#pragma weak diopiGetTensorData
#pragma weak diopiGetTensorDataConst
#pragma weak diopiGetTensorShape
#pragma weak diopiGetTensorStride
#pragma weak diopiGetTensorDtype
#pragma weak diopiGetTensorDevice
#pragma weak diopiGetTensorNumel
#pragma weak diopiGetTensorElemSize
#pragma weak diopiGetStream
#pragma weak diopiRequireTensor
#pragma weak diopiRequireBuffer
#pragma weak diopiIsTensorSparse
#pragma weak diopiGetTensorCrowIndices
#pragma weak diopiGetTensorColIndices
#pragma weak diopiGetTensorValues
#pragma weak diopiGeneratorGetSeedAndOffset
#pragma weak diopiGeneratorSetSeedAndOffset

// The faults. The library's file name says which one it has: hangs.so hangs.
#define FAULTS(F) \
  F(none) \
  F(separate_memory) /* no fault: device memory that the host cannot touch */ \
  F(off_by_one_tile) /* the last column of a product lacks its last term */ \
  F(half_accumulate) /* sums in float16 */ \
  F(short_tail) /* a product leaves out the terms that do not fill a block of 16 */ \
  F(odd_rows) /* the last row of a product of an odd number of rows is 0 */ \
  F(wide_columns) /* columns of a product from number 128 on are 0 */ \
  F(half_products) /* a product of float16 lacks its last term */ \
  F(twice_biased) /* linear adds its bias twice */ \
  F(transposed_reads) /* a product reads its second operand as if it were dense */ \
  F(swapped_arguments) /* sub computes other - input */ \
  F(nan_last_lane) /* the last element is NaN */ \
  F(ignores_strides) /* reads and writes as if everything were dense */ \
  F(wrong_dtype) /* nonzero gives int32 */ \
  F(wrong_shape) /* nonzero gives one row too many */ \
  F(overwrites_input) \
  F(out_of_bounds) /* writes one element past the end */ \
  F(out_of_bounds_before) \
  F(writes_gaps) /* fills the whole storage of a strided output */ \
  F(partly_unwritten) /* leaves the last three elements */ \
  F(unwritten) /* writes nothing and says success */ \
  F(stale_workspace) /* returns what its workspace held */ \
  F(nondeterministic) \
  F(leaks) \
  F(frees_in_thread) /* no fault: another thread frees what an operator takes */ \
  F(hangs) \
  F(busy_hangs) \
  F(stuck_stream) /* the operator returns, its stream never finishes */ \
  F(segfaults) \
  F(aborts) \
  F(divides_by_zero) \
  F(frees_tensor) \
  F(exits) \
  F(throws) \
  F(throws_custom) \
  F(throws_in_thread) \
  F(lacks_dtype) /* says so in an exception of several lines, as ATen does */ \
  F(throws_lines) /* an exception with a backtrace */ \
  F(kills_parent) /* tries to, and to kill everything that it may */ \
  F(forks) /* two processes go on with the call */ \
  F(answers_late) /* a thread answers the first request again later */ \
  F(skips_mask) /* dropout leaves its mask as it is, which is no fault without training */ \
  F(out_of_memory) \
  F(wild_handle) /* stores a handle that is none */ \
  F(no_tensor) /* stores no handle where it has to make a tensor */ \
  F(rounds_up) /* leaves its caller's thread rounding upwards */ \
  F(overruns_workspace) /* with device memory: writes one byte past its workspace */ \
  F(changes_shape) /* writes into the shape of its output */ \
  F(leaves_child) /* starts a process that outlives the call */ \
  F(chatters) /* writes to stdout and stderr */ \
  F(floods) /* writes 64 MiB to each */ \
  F(writes_late) /* add leaves a thread that writes its output, and around it, after the call */ \
  F(holds_handles) /* add leaves a thread that goes on using its handles and context */ \
  F(changes_locale) /* add leaves another locale behind; relu is wrong in it */ \
  F(changes_directory) /* add leaves another working directory behind; relu is wrong there */ \
  F(throws_late) /* add leaves a thread that throws during the next call */ \
  F(exits_late) /* add leaves a thread that ends the process during the next call */ \
  F(closes_late) /* add leaves a thread that closes all descriptors during the next call */ \
  F(swaps_late) /* add leaves a thread that has the connection to optool lead nowhere during the next call */ \
  F(garbles_late) /* add leaves a thread that writes half an answer during the next call */ \
  F(times_late) /* add leaves a timer of the kernel that kills the process during the next call */ \
  F(stops_late) /* add leaves a thread that stops the process during the next call */ \
  F(garbles) /* writes an answer without end to the connection */ \
  F(forges) /* writes the last answer of the first request itself */ \
  F(forges_findings) /* and one of its call before, and a finding about nothing in it */ \
  F(dribbles) /* does not come back, and writes to the connection byte by byte */ \
  F(answers_others) /* does not come back, and gives answers to other requests */ \
  F(sets_alarm) /* add leaves a timer behind that ends the process */ \
  F(takes_addresses) /* add leaves none behind, without which relu is wrong */ \
  F(takes_descriptors) /* the same */ \
  F(flushes_subnormals) /* leaves its caller's thread flushing subnormal numbers to zero */ \
  F(writes_wider) /* writes its results as float64, whatever they are */ \
  F(frees_input) \
  F(exits_at_once) /* with code 0, as if all were well */ \
  F(closes_files) /* descriptors 0 to 20 */ \
  F(stops_itself) \
  F(kills_group) \
  F(jumps_out) /* into a frame that is gone */ \
  F(recurses) /* without end */ \
  F(unloads_itself) \
  F(traces_parent) /* tries to, which would stop it */ \
  F(signals_threads) /* of its victims */ \
  F(foreign_calls) /* signals its victims through system calls of another architecture */ \
  F(owns_signals) /* has the kernel signal its victims */ \
  F(writes_memory) /* of its victims */ \
  F(limits_others) /* leaves its victims no file sizes, no memory, no open files */ \
  F(writes_files) /* that its victims have open */ \
  F(catches_signals) /* and goes on after the one that a bad address raises */ \
  F(lowers_as) /* add leaves this limit of the process low, for good; relu is wrong under it */ \
  F(lowers_cpu) \
  F(lowers_data) \
  F(lowers_fsize) \
  F(lowers_nofile) \
  F(lowers_nproc) \
  F(lowers_stack) \
  F(changes_mask) /* add leaves another mask for new files behind; relu is wrong under it */ \
  F(maps_over) /* add leaves memory of its own where its output was */ \
  F(protects) /* add leaves its output's memory closed to writing */ \
  F(seals) /* add leaves the shared memory without a way to make it smaller or larger */ \
  F(shrinks) /* add leaves a process that takes the shared memory away again and again */ \
  F(truncates) /* takes the shared memory away */ \
  F(traps_floats) /* leaves its caller's thread with signals for divisions by zero */ \
  F(rounds_short) /* leaves its caller's thread computing long double in 24 bits */ \
  F(throws_foreign) /* an exception of another language */ \
  F(throws_nothing) /* an exception without a text */ \
  F(executes) /* another program, in place of the worker */ \
  F(executes_long) /* one that does not end */ \
  F(ends_thread) /* that calls it */ \
  F(traces_itself) /* has the process that started it told of every signal */ \
  F(forks_many) /* 300 processes that stay */ \
  F(leaves_zombies) /* no fault: 300 processes that have ended */ \
  F(waits_for_child) /* in a state in which only the child can go on */ \
  F(filters_calls) /* add leaves the process without a way to open files */ \
  F(writes_without_end) /* to stdout and stderr */ \
  F(asks_too_much) /* no fault: asks for tensors that cannot be, or for all memory */ \
  F(queues_files) /* tries to have the kernel read and write by itself */ \
  F(null_name) /* no text where its name is asked for */ \
  F(dangling_name) /* an address that holds nothing */ \
  F(endless_name) \
  F(throws_name) \
  F(dangling_error) /* fails, with an error text at such an address */ \
  F(keeps_error) /* no fault: the text of an add that failed is still there when sub is not implemented */ \
  F(crashes_on_load) \
  F(spins) /* no fault: an elementwise operator takes the microseconds in the first element of its input */ \
  F(spins_longer) /* 3 % longer */ \
  F(mixed) /* by the first element of the input: 1 crashes, 2 hangs, 3 throws, 4 exits */

#define F(name) name,
enum Fault { FAULTS(F) };
#undef F

static Fault faultOfFile() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&faultOfFile), &info)) std::abort();
  std::string file = info.dli_fname;
  file = file.substr(file.rfind('/') + 1);
  file = file.substr(0, file.find(".so"));
#define F(name) \
  if (file == #name) return name;
  FAULTS(F)
#undef F
  return none;
}

static const Fault fault = faultOfFile();

namespace {

thread_local std::string lastError;

struct Unsupported {};  // not a std::exception

struct Silent : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

// _Float16 is not in every C++ compiler: x rounded to 11 bits.
float half(float x) {
  if (!std::isfinite(x) || x == 0) return x;
  int e;
  std::frexp(x, &e);
  float unit = std::ldexp(1.0f, std::max(e, -13) - 11);
  float r = std::nearbyint(x / unit) * unit;
  return std::fabs(r) > 65504.0f ? std::copysign(INFINITY, r) : r;
}

float fromHalf(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float v = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? std::ldexp(1024.0f + mantissa, exponent - 25) : std::ldexp(static_cast<float>(mantissa), -24);
  return h & 0x8000 ? -v : v;
}

uint16_t toHalf(float x) {
  auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  if (std::isnan(x)) return sign | 0x7E00;
  float a = std::fabs(half(x));
  if (std::isinf(a)) return sign | 0x7C00;
  if (a < std::ldexp(1.0f, -14)) return static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(a, 24)));
  int e;
  float m = std::frexp(a, &e);  // in [0.5, 1)
  return static_cast<uint16_t>(sign | ((e + 14) << 10) | (static_cast<int>(std::ldexp(m, 11)) - 1024));
}

// Device memory that the host cannot touch: every address is handed out of a
// region without any rights; kernels reach the bytes through a second mapping.
struct Region {
  static constexpr size_t size = size_t{1} << 30;
  char *device = nullptr, *real = nullptr;
  std::atomic<size_t> used{0}, live{0};
  Region() {
    int fd = memfd_create("device", MFD_CLOEXEC);
    if (ftruncate(fd, size) != 0) std::abort();
    device = static_cast<char*>(mmap(nullptr, size, PROT_NONE, MAP_SHARED, fd, 0));
    real = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  char* at(const void* p) {
    const char* c = static_cast<const char*>(p);
    if (c < device || c >= device + size) {
      std::fputs("a host address was given for a device address\n", stderr);
      std::abort();
    }
    return real + (c - device);
  }
};

Region& region() {
  static Region r;
  return r;
}

struct View {
  char* data;
  diopiDtype_t dtype;
  std::vector<int64_t> shape, stride;
  int64_t numel;

  explicit View(diopiConstTensorHandle_t t) {
    diopiSize_t s, st;
    void* p;
    diopiGetTensorData(const_cast<diopiTensorHandle_t>(t), &p);
    diopiGetTensorDtype(t, &dtype);
    diopiGetTensorShape(t, &s);
    diopiGetTensorStride(t, &st);
    diopiGetTensorNumel(t, &numel);
    diopiDevice_t where;
    diopiGetTensorDevice(t, &where);
    data = (fault == separate_memory || fault == overruns_workspace) && where == diopi_device ? region().at(p) : static_cast<char*>(p);
    shape.assign(s.data, s.data + s.len);
    stride.assign(st.data, st.data + st.len);
    if (fault == ignores_strides) {
      int64_t n = 1;
      for (size_t i = shape.size(); i-- > 0;) stride[i] = n, n *= shape[i];
    }
  }
  int64_t offset(int64_t index) const {
    int64_t o = 0;
    for (size_t i = shape.size(); i-- > 0;) o += index % shape[i] * stride[i], index /= shape[i];
    return o;
  }
  double get(int64_t index) const {
    int64_t o = offset(index);
    switch (dtype) {
      case diopi_dtype_float32:
        return reinterpret_cast<float*>(data)[o];
      case diopi_dtype_float16:
        return fromHalf(reinterpret_cast<uint16_t*>(data)[o]);
      case diopi_dtype_float64:
        return reinterpret_cast<double*>(data)[o];
      case diopi_dtype_int32:
        return reinterpret_cast<int32_t*>(data)[o];
      case diopi_dtype_int64:
        return static_cast<double>(reinterpret_cast<int64_t*>(data)[o]);
      default:
        throw std::runtime_error("dtype " + std::to_string(dtype) + " is not supported");
    }
  }
  void set(int64_t index, double v) const {
    int64_t o = offset(index);
    switch (dtype) {
      case diopi_dtype_float32:
        reinterpret_cast<float*>(data)[o] = static_cast<float>(v);
        break;
      case diopi_dtype_float16:
        reinterpret_cast<uint16_t*>(data)[o] = toHalf(static_cast<float>(v));
        break;
      case diopi_dtype_float64:
        reinterpret_cast<double*>(data)[o] = v;
        break;
      case diopi_dtype_int32:
        reinterpret_cast<int32_t*>(data)[o] = static_cast<int32_t>(v);
        break;
      case diopi_dtype_int64:
        reinterpret_cast<int64_t*>(data)[o] = static_cast<int64_t>(v);
        break;
      default:
        throw std::runtime_error("dtype " + std::to_string(dtype) + " is not supported");
    }
  }
};

// A thread that frees what it is given.
class Freer {
 public:
  Freer() { std::thread([this] { run(); }).detach(); }
  void free(void* p) {
    std::unique_lock<std::mutex> lock(mutex_);
    given_ = p;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !given_; });
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return given_ != nullptr; });
      std::free(given_);
      given_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  void* given_ = nullptr;
};

[[noreturn]] void hang() {
  for (;;) pause();
}

void segfault() {
  volatile int* nowhere = reinterpret_cast<int*>(16);
  *nowhere = 1;
}

// An address that held something once.
const char* dangling() {
  static const char* p = [] {
    void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return static_cast<const char*>(page);
  }();
  return p;
}

void flood() {
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 64; i++) {
    for (int fd : {1, 2}) {
      for (size_t done = 0; done < line.size();) {
        ssize_t n = write(fd, line.data() + done, line.size() - done);
        if (n <= 0) std::abort();
        done += static_cast<size_t>(n);
      }
    }
  }
}

void takeAddresses() {
  for (size_t n = size_t{1} << 46; n >= 4096; n /= 2) {
    while (mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED) {
    }
  }
}

__attribute__((noinline)) void saveFrame(jmp_buf& frame) {
  if (setjmp(frame) != 0) segfault();
}

void jumpOut() {
  static jmp_buf frame;
  saveFrame(frame);
  std::vector<char> other(1 << 12, 'x');
  std::memset(reinterpret_cast<char*>(&frame), other[0], sizeof frame);
  std::longjmp(frame, 1);
}

// The processes that an attack is for: the parent, and the one that OPTOOL_TEST_VICTIM names.
std::vector<pid_t> victims() {
  std::vector<pid_t> all = {getppid()};
  if (const char* named = std::getenv("OPTOOL_TEST_VICTIM")) all.push_back(std::atoi(named));
  return all;
}

// The entries of a folder that are numbers.
std::vector<pid_t> numbers(const std::string& path) {
  std::vector<pid_t> all;
  DIR* dir = opendir(path.c_str());
  while (const dirent* entry = dir ? readdir(dir) : nullptr) {
    if (std::isdigit(entry->d_name[0])) all.push_back(std::atoi(entry->d_name));
  }
  if (dir) closedir(dir);
  return all;
}

__attribute__((noinline)) int recurse(int n) {
  volatile char frame[4096];
  frame[n % 4096] = static_cast<char>(n);
  return n < 0 ? 0 : recurse(n + 1) + frame[0];
}

void unload() {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&unload), &info);
  void* self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  for (int i = 0; i < 10; i++) dlclose(self);
}

void flushSubnormals() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);  // FTZ and DAZ
#else
  std::fesetround(FE_UPWARD);
#endif
}

std::atomic<bool> armed{false};  // add has run in this process

// What a thread that add left behind does during the next call.
void strike() {
  switch (fault) {
    case throws_late:
      throw std::runtime_error("late");
    case exits_late:
      _exit(7);
    case closes_late:
      for (int fd = 0; fd <= 20; fd++) close(fd);
      break;
    case swaps_late:
      if (dup2(open("/dev/null", O_RDWR), 3) < 0) std::abort();
      break;
    case garbles_late:
      if (write(3, "\x20\0\0", 3) != 3) std::abort();
      break;
    case stops_late:
      raise(SIGSTOP);
      break;
    default:
      break;
  }
}

// A timer that no exec and no handler of the process ends.
void killSoon() {
  struct sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  const struct itimerspec soon = {{0, 0}, {0, 1000000}};
  int timer;  // timer_create of old libraries lies in another one
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0) std::abort();
  if (syscall(SYS_timer_settime, timer, 0, &soon, nullptr) != 0) std::abort();
}

// Writes messages to the connection for ever, each of n bytes, which are 0 behind the length.
[[noreturn]] void writeForEver(size_t n) {
  std::vector<char> m(4 + n);
  m[0] = static_cast<char>(n);
  for (;;) {
    for (char c : m) {
      if (write(3, &c, 1) != 1) std::abort();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// The limit of the process that a fault lowers, -1 for other faults.
int lowered() {
  switch (fault) {
    case lowers_as:
      return RLIMIT_AS;
    case lowers_cpu:
      return RLIMIT_CPU;
    case lowers_data:
      return RLIMIT_DATA;
    case lowers_fsize:
      return RLIMIT_FSIZE;
    case lowers_nofile:
      return RLIMIT_NOFILE;
    case lowers_nproc:
      return RLIMIT_NPROC;
    case lowers_stack:
      return RLIMIT_STACK;
    default:
      return -1;
  }
}

constexpr rlim_t few = 5;  // of what a lowered limit counts

// The pages around an output.
char* pagesOf(const char* data) {
  return const_cast<char*>(data) - reinterpret_cast<uintptr_t>(data) % 4096;
}

// Leaves every attempt to open a file without success.
void filterCalls() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program = {4, code};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) std::abort();
}

// What add leaves behind, for the calls that follow.
void leaveBehind(diopiContextHandle_t ctx, diopiTensorHandle_t out, const char* data, int64_t nbytes) {
  using std::chrono::milliseconds;
  armed = true;
  switch (fault) {
    case writes_late:
      std::thread([data, nbytes] {
        for (int i = 0; i < 20; i++) {
          std::this_thread::sleep_for(milliseconds(1));
          std::memset(const_cast<char*>(data) - 64, 7, static_cast<size_t>(nbytes) + 128);
        }
      }).detach();
      break;
    case holds_handles:
      std::thread([ctx, out] {
        for (int i = 0; i < 20; i++) {
          std::this_thread::sleep_for(milliseconds(1));
          int64_t n = 4;
          diopiSize_t size{&n, 1};
          diopiTensorHandle_t t;
          void* p;
          if (diopiRequireTensor(ctx, &t, &size, nullptr, diopi_dtype_float32, diopi_device) == diopiSuccess && diopiGetTensorData(t, &p) == diopiSuccess) std::memset(p, 7, 16);
          if (diopiGetTensorData(out, &p) == diopiSuccess) std::memset(p, 7, 20);
        }
      }).detach();
      break;
    case changes_locale:
      if (!std::setlocale(LC_ALL, "C.UTF-8") && !std::setlocale(LC_ALL, "C.utf8")) std::abort();
      break;
    case changes_directory:
      if (chdir("/proc") != 0) std::abort();
      break;
    case sets_alarm: {
      struct itimerval soon = {{0, 0}, {0, 20000}};
      setitimer(ITIMER_REAL, &soon, nullptr);
      break;
    }
    case takes_addresses:
      takeAddresses();
      break;
    case takes_descriptors:
      while (open("/", O_PATH) >= 0) {
      }
      break;
    case lowers_as:
    case lowers_cpu:
    case lowers_data:
    case lowers_fsize:
    case lowers_nofile:
    case lowers_nproc:
    case lowers_stack: {
      const struct rlimit low = {few, few};
      if (setrlimit(static_cast<__rlimit_resource>(lowered()), &low) != 0) std::abort();
      break;
    }
    case changes_mask:
      umask(0777);
      break;
    case maps_over:
      if (mmap(pagesOf(data), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) std::abort();
      break;
    case protects:
      if (mprotect(pagesOf(data), 4096, PROT_READ) != 0) std::abort();
      break;
    case seals:
      fcntl(4, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
      break;
    case shrinks:
      if (fork() == 0) {
        for (int i = 0; i < 1000; i++) {
          if (ftruncate(4, 0) != 0) _exit(1);
          usleep(50);
        }
        _exit(0);
      }
      break;
    case filters_calls:
      filterCalls();
      break;
    default:
      break;
  }
}

// Whether relu finds what add has left behind.
bool isLeft() {
  char directory[4096];
  switch (fault) {
    case changes_locale:
      return std::strcmp(std::setlocale(LC_ALL, nullptr), "C") != 0;
    case changes_directory:
      return getcwd(directory, sizeof directory) && std::strcmp(directory, "/proc") == 0;
    case takes_addresses:
      return mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
    case takes_descriptors:
      return open("/", O_PATH) < 0;
    case changes_mask:
      return (umask(022) & 0777) == 0777;
    case filters_calls:
      return open("/", O_PATH) < 0;
    case lowers_as:
    case lowers_cpu:
    case lowers_data:
    case lowers_fsize:
    case lowers_nofile:
    case lowers_nproc:
    case lowers_stack: {
      struct rlimit now;
      return getrlimit(static_cast<__rlimit_resource>(lowered()), &now) != 0 || now.rlim_cur == few;
    }
    default:
      return false;
  }
}

// What goes wrong around any operator, whatever it computes.
void misbehave(diopiContextHandle_t ctx, const View& in) {
  switch (fault) {
    case hangs:
      hang();
    case busy_hangs:
      for (volatile bool forever = true; forever;) {
      }
      break;
    case segfaults:
      std::fputs("about to touch address 16\n", stderr);
      segfault();
      break;
    case aborts:
      std::fputs("internal error 42\n", stderr);
      std::abort();
    case divides_by_zero:
      raise(SIGFPE);
      break;
    case frees_tensor: {
      diopiTensorHandle_t t;
      int64_t n = 4;
      diopiSize_t size{&n, 1};
      diopiRequireTensor(ctx, &t, &size, nullptr, diopi_dtype_float32, diopi_device);
      void* p;
      diopiGetTensorData(t, &p);
      void (*volatile release)(void*) = std::free;
      release(p);
      break;
    }
    case exits:
      std::exit(3);
    case throws:
      throw std::runtime_error("not today");
    case throws_custom:
      throw Unsupported{};
    case lacks_dtype:
      throw std::runtime_error("\"add_stub\" not implemented for 'Half'\nException raised from operator()\nframe #0: 0x7f");
    case throws_lines:
      throw std::runtime_error("\n  index out of range\nframe #0: 0x7f\nframe #1: 0x7e\n");
    case kills_parent:
      for (pid_t p : {getppid(), -getpgid(getppid()), -1}) {
        if (kill(p, 0) != 0 && errno != EPERM && errno != ESRCH) std::abort();
        if (kill(p, SIGKILL) == 0) std::abort();
      }
      break;
    case forks:
      fork();
      break;
    case answers_late:
      std::thread([] {
        std::vector<char> m(34);  // length, request 1, answer 2: call 0 failed with code 1; no text, time or findings
        m[0] = 30, m[4] = 1, m[8] = 2, m[13] = 1, m[14] = 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (write(3, m.data(), m.size()) < 0) std::abort();
      }).detach();
      break;
    case throws_in_thread:
      std::thread([] { throw std::runtime_error("in a thread"); }).join();
      break;
    case out_of_memory: {
      std::vector<char> v(size_t{1} << 46);
      std::printf("%p\n", static_cast<void*>(v.data()));
      break;
    }
    case rounds_up:
      std::fesetround(FE_UPWARD);
      break;
    case flushes_subnormals:
      flushSubnormals();
      break;
    case floods:
      flood();
      break;
    case frees_input:
      std::free(in.data);
      break;
    case exits_at_once:
      _exit(0);
    case throws_late:
    case exits_late:
    case closes_late:
    case swaps_late:
    case garbles_late:
    case stops_late:
      if (armed) std::thread(strike).join();
      break;
    case times_late:
      if (armed) killSoon(), hang();
      break;
    case garbles:
      if (write(3, "\xff\xff\xff\xff", 4) != 4) std::abort();
      break;
    case forges:
    case forges_findings: {
      // Both begin with a length and request 1. Answer 2: call 0 ended well; no code, text, time, memory or findings.
      // Answer 4: one finding, about tensor 9999; no repetitions.
      std::vector<char> call(58), done(44);
      call[0] = 54, call[4] = 1, call[8] = 2;
      done[0] = 40, done[4] = 1, done[8] = 4, done[9] = 1, done[18] = 1, done[19] = 0x0f, done[20] = 0x27;
      if (fault == forges_findings && write(3, call.data(), call.size()) < 0) std::abort();
      if (write(3, done.data(), done.size()) < 0) std::abort();
      break;
    }
    case dribbles:
      writeForEver(0);
    case answers_others:
      writeForEver(12);
    case closes_files:
      for (int fd = 0; fd <= 20; fd++) close(fd);
      break;
    case stops_itself:
      raise(SIGSTOP);
      break;
    case kills_group:
      kill(0, SIGKILL);
      break;
    case jumps_out:
      jumpOut();
      break;
    case recurses:
      std::printf("%d\n", recurse(0));
      break;
    case unloads_itself:
      unload();
      break;
    case traces_parent:
      if (ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr) == 0) std::abort();
      break;
    case signals_threads:
      for (pid_t p : victims()) {
        for (pid_t t : numbers("/proc/" + std::to_string(p) + "/task")) syscall(SYS_tkill, t, SIGKILL);
        kill(p, SIGKILL);
      }
      break;
    case foreign_calls:
#if defined(__x86_64__)
      for (pid_t p : victims()) {
        long result = 37;  // kill, for 32 bits
        asm volatile("int $0x80" : "+a"(result) : "b"(p), "c"(SIGKILL) : "memory");
        syscall(0x40000000 | SYS_kill, p, SIGKILL);  // x32
      }
#endif
      break;
    case owns_signals:
      for (pid_t p : victims()) {
        int pair[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        struct f_owner_ex owner = {F_OWNER_PID, p};
        fcntl(pair[0], F_SETFL, O_ASYNC);
        fcntl(pair[0], F_SETSIG, SIGKILL);
        for (int way = 0; way < 3; way++) {
          if (way == 0) fcntl(pair[0], F_SETOWN, p);
          if (way == 1) fcntl(pair[0], F_SETOWN_EX, &owner);
          if (way == 2) ioctl(pair[0], FIOSETOWN, &p);
          if (write(pair[1], "x", 1) != 1) std::perror("write");
        }
      }
      break;
    case writes_memory:
      for (pid_t p : victims()) {
        const std::string dir = "/proc/" + std::to_string(p);
        std::ifstream maps(dir + "/maps");
        const int mem = open((dir + "/mem").c_str(), O_RDWR);
        for (std::string line; mem >= 0 && std::getline(maps, line);) {
          if (line.find(" rw-p ") == std::string::npos) continue;
          const std::vector<char> junk(4096, '\x5a');
          if (pwrite(mem, junk.data(), junk.size(), std::stol(line, nullptr, 16)) < 0) std::perror("pwrite");
        }
      }
      break;
    case limits_others:
      for (pid_t p : victims()) {
        const struct rlimit nothing = {0, 0};
        for (auto limit : {RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_NOFILE}) prlimit(p, limit, &nothing, nullptr);
      }
      break;
    case writes_files:
      for (pid_t p : victims()) {
        const std::string dir = "/proc/" + std::to_string(p) + "/fd";
        for (pid_t fd : numbers(dir)) {
          const int file = open((dir + "/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK);
          if (file >= 0 && write(file, "\x1b[31m", 5) < 0) std::perror("write");
        }
      }
      break;
    case catches_signals:
      std::signal(SIGSEGV, [](int) {});
      segfault();
      break;
    case truncates:
      if (ftruncate(4, 0) != 0) std::abort();
      break;
    case traps_floats:
      feenableexcept(FE_DIVBYZERO | FE_INVALID);
      break;
    case rounds_short: {
#if defined(__x86_64__)
      unsigned short control;
      asm volatile("fnstcw %0" : "=m"(control));
      control &= static_cast<unsigned short>(~0x300);
      asm volatile("fldcw %0" : : "m"(control));
#else
      std::fesetround(FE_UPWARD);
#endif
      break;
    }
    case throws_foreign: {
      auto* e = new _Unwind_Exception();
      std::memcpy(&e->exception_class, "MOZ\0RUST", sizeof e->exception_class);
      _Unwind_RaiseException(e);
      std::abort();
    }
    case throws_nothing:
      throw Silent{};
    case executes:
      execl("/bin/true", "true", nullptr);
      std::abort();
    case executes_long:
      execl("/bin/sleep", "sleep", "600", nullptr);
      std::abort();
    case ends_thread:
      pthread_exit(nullptr);
    case traces_itself:
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGUSR1);
      break;
    case forks_many:
    case leaves_zombies:
      for (int i = 0; i < 300; i++) {
        if (fork() != 0) continue;
        if (fault == leaves_zombies) _exit(0);
        for (;;) pause();
      }
      break;
    case waits_for_child:
      if (vfork() == 0) {
        for (;;) pause();
      }
      break;
    case writes_without_end:
      for (;;) flood();
    case asks_too_much: {
      int64_t wild[3] = {int64_t{1} << 40, int64_t{1} << 40, -1};
      diopiTensorHandle_t t;
      for (diopiSize_t size : {diopiSize_t{wild, 2}, diopiSize_t{wild, 1}, diopiSize_t{wild + 2, 1}, diopiSize_t{wild, -1}}) {
        if (diopiRequireTensor(ctx, &t, &size, nullptr, diopi_dtype_float32, diopi_device) == diopiSuccess) std::abort();
      }
      const int64_t all = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
      for (int64_t bytes : {int64_t{-1}, all}) {
        if (diopiRequireBuffer(ctx, &t, bytes, diopi_device) == diopiSuccess) std::abort();
      }
      break;
    }
    case queues_files: {
      char parameters[512] = {};
      unsigned long context = 0;
      if (syscall(SYS_io_uring_setup, 8, parameters) >= 0 || syscall(SYS_io_setup, 8, &context) == 0) std::abort();
      break;
    }
    case overruns_workspace: {
      diopiTensorHandle_t t;
      diopiRequireBuffer(ctx, &t, 100, diopi_device);
      View(t).data[100] = 7;
      break;
    }
    case frees_in_thread: {
      static Freer* freer = new Freer;
      freer->free(std::malloc(100));
      break;
    }
    case leaks: {
      void* volatile lost = std::malloc(100);
      static_cast<void>(lost);
      break;
    }
    case leaves_child:
      if (fork() == 0) {
        execl("/bin/sleep", "sleep", "600", nullptr);
        _exit(1);
      }
      break;
    case chatters:
      std::puts("this goes to stdout");
      std::fflush(stdout);
      std::fputs("this goes to stderr\n", stderr);
      break;
    case mixed:
      if (in.numel > 0) {
        switch (static_cast<int>(in.get(0))) {
          case 1:
            segfault();
            break;
          case 2:
            hang();
          case 3:
            throw std::runtime_error("asked to throw");
          case 4:
            std::exit(4);
        }
      }
      break;
    default:
      break;
  }
}

// What goes wrong with the result of any operator.
void spoil(const View& out, const View& in) {
  int64_t item;
  switch (fault) {
    case writes_wider:
      for (int64_t i = 0; i < out.numel; i++) reinterpret_cast<double*>(out.data)[i] = 7;
      break;
    case nan_last_lane:
      if (out.numel > 0) out.set(out.numel - 1, NAN);
      break;
    case overwrites_input:
      if (in.numel > 1) in.set(1, in.get(1) + 1);
      break;
    case out_of_bounds:
      reinterpret_cast<float*>(out.data)[out.numel] = 7;
      break;
    case out_of_bounds_before:
      reinterpret_cast<float*>(out.data)[-1] = 7;
      break;
    case writes_gaps:
      item = out.offset(out.numel - 1);
      for (int64_t i = 0; i <= item; i++) reinterpret_cast<float*>(out.data)[i] = 7;
      break;
    case nondeterministic: {
      static std::atomic<int> calls{0};
      if (out.numel > 0) out.set(0, out.get(0) * (1 + 1e-6 * calls++));
      break;
    }
    default:
      break;
  }
}

// Lives as long as an input asks for: what an operator that declares one first
// takes is known.
class Spin {
 public:
  void ask(const View& in) {
    if (in.numel == 0) return;
    if (fault == spins) wanted_ = Microseconds(in.get(0));
    if (fault == spins_longer) wanted_ = Microseconds(in.get(0) * 1.03);
  }
  ~Spin() {
    while (Clock::now() - start_ < wanted_) {
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Microseconds = std::chrono::duration<double, std::micro>;
  Clock::time_point start_ = Clock::now();
  Microseconds wanted_{0};
};

template <class F>
diopiError_t elementwise(diopiContextHandle_t ctx, diopiTensorHandle_t outHandle, diopiConstTensorHandle_t inHandle, diopiConstTensorHandle_t otherHandle, F f) {
  Spin spin;
  diopiStreamHandle_t stream;
  diopiGetStream(ctx, &stream);
  View out(outHandle), in(inHandle), other(otherHandle ? otherHandle : inHandle);
  if (in.shape != out.shape || other.shape != out.shape) {
    lastError = "shapes differ";
    return diopiErrorOccurred;
  }
  if (fault == dangling_error) return diopiErrorOccurred;
  misbehave(ctx, in);
  spin.ask(in);
  if (fault == changes_shape) {
    diopiSize_t size;
    diopiGetTensorShape(outHandle, &size);
    const_cast<int64_t*>(size.data)[0]++;
  }
  int64_t n = out.numel;
  if (fault == unwritten || fault == stale_workspace) n = 0;
  if (fault == partly_unwritten) n -= 3;
  for (int64_t i = 0; i < n; i++) out.set(i, f(in.get(i), other.get(i)));
  if (fault == stale_workspace) {
    diopiTensorHandle_t workspace;
    diopiSize_t size{out.shape.data(), static_cast<int64_t>(out.shape.size())};
    diopiRequireTensor(ctx, &workspace, &size, nullptr, out.dtype, diopi_device);
    View w(workspace);
    std::memcpy(out.data, w.data, static_cast<size_t>(out.numel) * sizeof(float));
  }
  spoil(out, in);
  return diopiSuccess;
}

// The rows of a times a second operand, of which f is the element of a term and a column.
template <class F>
void product(const View& out, const View& a, F f) {
  int64_t k = a.shape.back(), n = out.shape.back(), m = n ? out.numel / n : 0;
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      int64_t terms = k;
      if (fault == off_by_one_tile && j + 1 == n) terms = k - 1;
      if (fault == half_products && a.dtype == diopi_dtype_float16) terms = k - 1;
      if (fault == short_tail) terms = k - k % 16;
      if (fault == odd_rows && m % 2 == 1 && i + 1 == m) terms = 0;
      if (fault == wide_columns && j >= 128) terms = 0;
      for (int64_t l = 0; l < terms; l++) {
        float term = static_cast<float>(a.get(i * k + l)) * static_cast<float>(f(l, j));
        sum = fault == half_accumulate ? half(sum + half(term)) : sum + term;
      }
      out.set(i * n + j, sum);
    }
  }
}

}  // namespace

extern "C" {

const char* diopiGetVendorName() {
  static const std::string endless(1 << 20, 'x');
  switch (fault) {
    case null_name:
      return nullptr;
    case dangling_name:
      return dangling();
    case endless_name:
      return endless.c_str();
    case throws_name:
      throw std::runtime_error("no name");
    default:
      return "Stranger";
  }
}
const char* diopiGetImplVersion() { return "0.1"; }
const char* diopiGetLastErrorString() { return fault == dangling_error ? dangling() : lastError.c_str(); }

diopiError_t diopiAdd(diopiContextHandle_t ctx, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiConstTensorHandle_t other, const diopiScalar_t* alpha) {
  if (fault == keeps_error) {
    lastError = "add: launch failed";
    return diopiErrorOccurred;
  }
  double a = alpha->stype <= diopi_dtype_uint64 ? static_cast<double>(alpha->ival) : alpha->fval;
  diopiError_t e = elementwise(ctx, out, input, other, [a](double x, double y) { return x + a * y; });
  View v(out);
  leaveBehind(ctx, out, v.data, v.numel * static_cast<int64_t>(sizeof(float)));
  return e;
}

diopiError_t diopiSub(diopiContextHandle_t ctx, diopiTensorHandle_t out, diopiConstTensorHandle_t input, diopiConstTensorHandle_t other, const diopiScalar_t*) {
  if (fault == keeps_error) return diopiDtypeNotSupported;
  return elementwise(ctx, out, input, other, [](double x, double y) { return fault == swapped_arguments ? y - x : x - y; });
}

diopiError_t diopiRelu(diopiContextHandle_t ctx, diopiTensorHandle_t out, diopiConstTensorHandle_t input) {
  const double left = isLeft() ? 1 : 0;
  return elementwise(ctx, out, input, nullptr, [left](double x, double) { return left + (x > 0 ? x : 0); });
}

diopiError_t diopiReluInp(diopiContextHandle_t ctx, diopiTensorHandle_t input) {
  return elementwise(ctx, input, input, nullptr, [](double x, double) { return x > 0 ? x : 0; });
}

// The gradient where the output was positive.
diopiError_t diopiThresholdBackward(diopiContextHandle_t ctx, diopiTensorHandle_t grad_input, diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t input,
                                    const diopiScalar_t*) {
  return elementwise(ctx, grad_input, grad_output, input, [](double g, double x) { return x > 0 ? g : 0; });
}

diopiError_t diopiMm(diopiContextHandle_t ctx, diopiTensorHandle_t outHandle, diopiConstTensorHandle_t input, diopiConstTensorHandle_t mat2) {
  View out(outHandle), a(input), b(mat2);
  misbehave(ctx, a);
  int64_t n = b.shape[1];
  if (fault == transposed_reads) b.stride = {n, 1};
  product(out, a, [&](int64_t l, int64_t j) { return b.get(l * n + j); });
  spoil(out, a);
  return diopiSuccess;
}

diopiError_t diopiLinear(diopiContextHandle_t ctx, diopiTensorHandle_t outHandle, diopiConstTensorHandle_t input, diopiConstTensorHandle_t weight,
                         diopiConstTensorHandle_t bias) {
  View out(outHandle), a(input), w(weight);
  misbehave(ctx, a);
  int64_t k = a.shape.back(), n = w.shape[0];
  product(out, a, [&](int64_t l, int64_t j) { return w.get(j * k + l); });
  if (bias) {
    View b(bias);
    for (int64_t i = 0; i < out.numel; i++) out.set(i, out.get(i) + (fault == twice_biased ? 2 : 1) * b.get(i % n));
  }
  spoil(out, a);
  return diopiSuccess;
}

diopiError_t diopiEqual(diopiContextHandle_t ctx, bool* out, diopiConstTensorHandle_t input, diopiConstTensorHandle_t other) {
  View a(input), b(other);
  misbehave(ctx, a);
  *out = a.shape == b.shape;
  for (int64_t i = 0; *out && i < a.numel; i++) *out = a.get(i) == b.get(i);
  return diopiSuccess;
}

diopiError_t diopiNonzero(diopiContextHandle_t ctx, diopiTensorHandle_t* out, diopiConstTensorHandle_t input) {
  View in(input);
  misbehave(ctx, in);
  if (fault == wild_handle) {
    *out = reinterpret_cast<diopiTensorHandle_t>(0x1234);
    return diopiSuccess;
  }
  if (fault == no_tensor) {
    *out = nullptr;
    return diopiSuccess;
  }
  std::vector<int64_t> at;
  for (int64_t i = 0; i < in.numel; i++) {
    if (in.get(i) != 0) at.push_back(i);
  }
  int64_t shape[2] = {static_cast<int64_t>(at.size()) + (fault == wrong_shape ? 1 : 0), static_cast<int64_t>(in.shape.size())};
  diopiSize_t size{shape, 2};
  diopiError_t e = diopiRequireTensor(ctx, out, &size, nullptr, fault == wrong_dtype ? diopi_dtype_int32 : diopi_dtype_int64, diopi_device);
  if (e != diopiSuccess) return e;
  View result(*out);
  for (size_t i = 0; i < at.size(); i++) {
    int64_t rest = at[i];
    for (size_t d = in.shape.size(); d-- > 0; rest /= in.shape[d]) {
      result.set(static_cast<int64_t>(i * in.shape.size() + d), static_cast<double>(rest % in.shape[d]));
    }
  }
  return diopiSuccess;
}

// A sparse matrix times a dense one.
diopiError_t diopiSpMM(diopiContextHandle_t, diopiTensorHandle_t outHandle, diopiConstTensorHandle_t input, diopiConstTensorHandle_t mat2) {
  bool sparse;
  diopiConstTensorHandle_t crow, col, values;
  if (diopiIsTensorSparse(input, &sparse) != diopiSuccess || !sparse || diopiGetTensorCrowIndices(input, &crow) != diopiSuccess ||
      diopiGetTensorColIndices(input, &col) != diopiSuccess || diopiGetTensorValues(input, &values) != diopiSuccess) {
    lastError = "input is not sparse";
    return diopiErrorOccurred;
  }
  View out(outHandle), b(mat2), starts(crow), columns(col), v(values);
  int64_t n = b.shape[1];
  for (int64_t i = 0; i < out.shape[0]; i++) {
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (auto p = static_cast<int64_t>(starts.get(i)); p < static_cast<int64_t>(starts.get(i + 1)); p++) {
        sum += v.get(p) * b.get(static_cast<int64_t>(columns.get(p)) * n + j);
      }
      out.set(i * n + j, sum);
    }
  }
  return diopiSuccess;
}

// The identity, which is right without training.
diopiError_t diopiDropout(diopiContextHandle_t, diopiTensorHandle_t outHandle, diopiTensorHandle_t maskHandle, diopiConstTensorHandle_t input, double, bool,
                          diopiGeneratorHandle_t) {
  View out(outHandle), mask(maskHandle), in(input);
  for (int64_t i = 0; i < out.numel; i++) out.set(i, in.get(i));
  for (int64_t i = 0; i < mask.numel && fault != skips_mask; i++) mask.data[i] = 1;
  spoil(out, in);
  return diopiSuccess;
}

// Numbers that depend on seed and offset alone.
diopiError_t diopiUniformInp(diopiContextHandle_t, diopiTensorHandle_t inout, double from, double to, diopiGeneratorHandle_t generator) {
  uint64_t seed, offset;
  diopiGeneratorGetSeedAndOffset(generator, &seed, &offset);
  View t(inout);
  for (int64_t i = 0; i < t.numel; i++) {
    uint64_t x = (seed + offset + static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15;
    t.set(i, from + (to - from) * static_cast<double>((x ^ (x >> 31)) >> 11) / 9007199254740992.0);
  }
  diopiGeneratorSetSeedAndOffset(generator, seed, offset + static_cast<uint64_t>(t.numel));
  return diopiSuccess;
}

// What the kit's build would have compiled in: the vendor's device functions.
#if defined(HAS_DEVICE_FUNCTIONS)
#pragma GCC visibility push(default)
void* device_malloc(uint64_t bytes) {
  Region& r = region();
  r.live++;
  size_t at = r.used.fetch_add((bytes + 255) / 256 * 256);
  return at + bytes > Region::size ? nullptr : r.device + at;
}
void device_free(void*) {
  Region& r = region();
  if (--r.live == 0) r.used = 0;
}
diopiError_t device_memcpy_h2d_async(diopiStreamHandle_t, void* dst, const void* src, uint64_t n) {
  std::memcpy(region().at(dst), src, n);
  return diopiSuccess;
}
diopiError_t device_memcpy_d2h_async(diopiStreamHandle_t, void* dst, const void* src, uint64_t n) {
  std::memcpy(dst, region().at(src), n);
  return diopiSuccess;
}
diopiError_t device_memcpy_d2d_async(diopiStreamHandle_t, void* dst, const void* src, uint64_t n) {
  std::memmove(region().at(dst), region().at(src), n);
  return diopiSuccess;
}
diopiError_t device_make_stream(diopiStreamHandle_t* s) {
  *s = new int(0);
  return diopiSuccess;
}
diopiError_t device_destroy_stream(diopiStreamHandle_t s) {
  delete static_cast<int*>(s);
  return diopiSuccess;
}
diopiError_t device_synchronize_stream(diopiStreamHandle_t) {
  if (fault == stuck_stream) hang();
  return diopiSuccess;
}
diopiError_t initLibrary() { return diopiSuccess; }
diopiError_t finalizeLibrary() { return region().live == 0 ? diopiSuccess : diopiErrorOccurred; }
#pragma GCC visibility pop
#endif

}  // extern "C"

namespace {

struct OnLoad {
  OnLoad() {
    if (fault == crashes_on_load) segfault();
  }
} onLoad;

}  // namespace
