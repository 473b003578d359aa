//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package devicebridge

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An isolation is a way to start a worker: the namespaces that it gets.
type isolation uintptr

// isolations are the ways that this process may try, the strictest first. Root needs no user
// namespace, and in one it would lose the right to open devices of other users.
func isolations() []isolation {
	const own = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	if os.Geteuid() == 0 {
		return []isolation{own, 0}
	}
	return []isolation{own | unix.CLONE_NEWUSER, 0}
}

// attributes start a process so. In a user namespace it keeps its numbers of user and group,
// and has the one privilege that mounting /proc needs. In a session of its own it has no terminal, which it could
// write to past optool.
func (i isolation) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Cloneflags: uintptr(i)}
	if i&unix.CLONE_NEWUSER != 0 {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return a
}

// isolationOf says what a worker's first answer has of optool::Isolation (native/worker/isolate.h).
func isolationOf(bits uint8) (all []string) {
	for i, what := range []string{"PID namespace", "own /proc", "seccomp filter"} {
		if bits&(1<<i) != 0 {
			all = append(all, what)
		}
	}
	return all
}

// hide keeps processes of the same user from reading and writing the memory and the files of this one.
// Processes in a user namespace cannot, and hiding would keep this one from making any.
func hide() { unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// endedWith is how a worker ended: what the first process of its namespace wrote before it ended, or
// how the process that was started did.
func endedWith(status *os.File, p *os.ProcessState) syscall.WaitStatus {
	defer status.Close()
	status.SetReadDeadline(time.Now().Add(graceToDrain))
	var b [4]byte
	if _, err := io.ReadFull(status, b[:]); err == nil {
		return syscall.WaitStatus(le.Uint32(b[:]))
	}
	s, _ := p.Sys().(syscall.WaitStatus)
	return s
}

// pid is the number of the process that has loaded the library: a child of the one that was started, if
// that is the first of a namespace.
func (w *worker) pid() int {
	started := w.cmd.Process.Pid
	if w.cmd.SysProcAttr.Cloneflags == 0 {
		return started
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", started))
	child := 0
	if _, scanErr := fmt.Sscan(strings.TrimSpace(string(b)), &child); err != nil || scanErr != nil {
		return started
	}
	return child
}
