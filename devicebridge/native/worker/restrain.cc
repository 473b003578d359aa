#include "restrain.h"

#include <asm/ioctls.h>
#include <asm/sockios.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#define OPTOOL_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OPTOOL_AUDIT_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv)
#define OPTOOL_AUDIT_ARCH AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__)
#define OPTOOL_AUDIT_ARCH AUDIT_ARCH_PPC64LE
#elif defined(__loongarch__) && defined(AUDIT_ARCH_LOONGARCH64)
#define OPTOOL_AUDIT_ARCH AUDIT_ARCH_LOONGARCH64
#endif

namespace optool {

#ifdef OPTOOL_AUDIT_ARCH

namespace {

// Little-endian: the low half of an argument comes first.
constexpr uint32_t low(int arg) { return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * arg); }

sock_filter load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
sock_filter allow() { return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW); }
sock_filter refuse() { return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM); }
// Skips the next n instructions unless the value is v.
sock_filter unless(uint32_t v, uint8_t n) { return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v, 0, n); }

// A system call that sends a signal, or reaches into another process: its number, and
// which arguments say to whom and what; no signal for one of another kind. It is refused only if
// the argument `which` is `value`, if there is one.
struct Sender {
  uint32_t number;
  int target, signal;
  int which;
  uint32_t value;
};

constexpr int none = -1;

constexpr Sender senders[] = {
    {SYS_kill, 0, 1, none, 0},
    {SYS_tkill, 0, 1, none, 0},
    {SYS_tgkill, 0, 2, none, 0},
    {SYS_rt_sigqueueinfo, 0, 1, none, 0},
    {SYS_rt_tgsigqueueinfo, 0, 2, none, 0},
    {SYS_ptrace, 1, none, none, 0},
    {SYS_process_vm_writev, 0, none, none, 0},
    {SYS_prlimit64, 0, none, none, 0},
    {SYS_fcntl, 2, none, 1, F_SETOWN},
#ifdef SYS_pidfd_open
    {SYS_pidfd_open, 0, none, none, 0},
#endif
};

// A system call that names a process in memory, which a filter cannot read: it is refused if
// the argument `which` is `value`.
struct Hidden {
  uint32_t number;
  int which;
  uint32_t value;
};

constexpr Hidden hidden[] = {
    {SYS_fcntl, 1, F_SETOWN_EX},
    {SYS_ioctl, 1, FIOSETOWN},
    {SYS_ioctl, 1, SIOCSPGRP},
};

// System calls by which the kernel writes to memory, or to files, after a call has returned, without a thread of
// this process. Programs that use them have another way where a kernel lacks them.
constexpr uint32_t queues[] = {
    SYS_io_setup,
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
#endif
};

constexpr uint32_t x32 = 0x40000000;  // the bit that system calls of x86-64's other ABI have

}  // namespace

bool protectParent() {
  const auto parent = static_cast<uint32_t>(getppid()), group = static_cast<uint32_t>(-getpgid(getppid()));
  const uint32_t everyone = static_cast<uint32_t>(-1);
  std::vector<sock_filter> code = {load(offsetof(seccomp_data, arch)), unless(OPTOOL_AUDIT_ARCH, 1),
                                   BPF_STMT(BPF_JMP | BPF_JA, 1), refuse()};
#if defined(__x86_64__)
  code.push_back(load(offsetof(seccomp_data, nr)));
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, x32, 0, 1));
  code.push_back(refuse());
#endif
  for (const uint32_t number : queues) {
    code.push_back(load(offsetof(seccomp_data, nr)));
    code.push_back(unless(number, 1));
    code.push_back(refuse());
  }
  for (const Hidden& h : hidden) {
    code.push_back(load(offsetof(seccomp_data, nr)));
    code.push_back(unless(h.number, 3));
    code.push_back(load(low(h.which)));
    code.push_back(unless(h.value, 1));
    code.push_back(refuse());
  }
  for (const Sender& s : senders) {
    std::vector<sock_filter> body;
    if (s.which != none) {
      body.push_back(load(low(s.which)));
      body.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, s.value, 1, 0));
      body.push_back(allow());
    }
    if (s.signal != none) {
      body.push_back(load(low(s.signal)));
      body.push_back(unless(0, 1));
      body.push_back(allow());
    }
    body.push_back(load(low(s.target)));
    for (uint32_t target : {parent, group, everyone}) {
      body.push_back(unless(target, 1));
      body.push_back(refuse());
    }
    body.push_back(allow());
    code.push_back(load(offsetof(seccomp_data, nr)));
    code.push_back(unless(s.number, static_cast<uint8_t>(body.size())));
    code.insert(code.end(), body.begin(), body.end());
  }
  code.push_back(allow());
  sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#else

bool protectParent() { return false; }

#endif

}  // namespace optool
