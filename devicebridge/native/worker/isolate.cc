#include "isolate.h"

#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace optool {

namespace {

constexpr int mostFds = 64;  // optool gives this process fewer

// Privileges that only the mounts needed. Root's are root's own and stay: device drivers may ask for
// them.
void dropPrivileges() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (geteuid() == 0) return;
  __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &head, none);
}

bool mountProcfs() {
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

[[noreturn]] void waitFor(pid_t child, int statusFd) {
  for (int fd = 0; fd < mostFds; fd++) {
    if (fd != statusFd) close(fd);
  }
  for (;;) {
    int status;
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended == child && !WIFSTOPPED(status)) {  // one that asked to be traced stops: nobody has it go on
      const ssize_t written = write(statusFd, &status, sizeof status);
      _exit(written == sizeof status ? 0 : 1);
    }
    if (ended < 0 && errno != EINTR) _exit(1);
  }
}

}  // namespace

uint8_t ownNamespace(int statusFd) {
  uint8_t got = 0;
  if (getpid() == 1) {
    got = ownProcesses | (mountProcfs() ? ownProcfs : 0);
    dropPrivileges();
    const pid_t child = fork();
    if (child < 0) {
      std::perror("worker: fork");
      _exit(1);
    }
    if (child > 0) waitFor(child, statusFd);
  }
  close(statusFd);
  return got;
}

}  // namespace optool
