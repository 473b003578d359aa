//go:build amd64 || arm64 || loong64 || ppc64le || riscv64

package devicebridge

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReachesOut: whatever a library does to its parent and to optool's process, whose number it is told,
// costs at most its own call.
func TestReachesOut(t *testing.T) {
	requireNative(t)
	seen, err := os.OpenFile(filepath.Join(t.TempDir(), "seen"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	limits := func() (all [3]unix.Rlimit) {
		for i, which := range []int{unix.RLIMIT_FSIZE, unix.RLIMIT_AS, unix.RLIMIT_NOFILE} {
			if err := unix.Getrlimit(which, &all[i]); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	before := limits()
	for _, fault := range []string{"signals_threads", "foreign_calls", "owns_signals", "writes_memory", "limits_others",
		"writes_files"} {
		t.Run(fault, func(t *testing.T) {
			sound := open(t, "none", Config{})
			d := open(t, fault, Config{Env: []string{fmt.Sprintf("OPTOOL_TEST_VICTIM=%d", os.Getpid())}})
			if len(d.Info().Isolation) < 2 {
				t.Skip("this system allows no namespaces:", d.Info().Isolation)
			}
			p, _ := addPlan()
			run(t, d, p, Options{})
			if got := limits(); got != before {
				t.Errorf("limits of this process: got %v, want %v", got, before)
			}
			if st, err := seen.Stat(); err != nil || st.Size() > 0 {
				t.Errorf("a file of this process has %d bytes, want none", st.Size())
			}
			p, out := addPlan()
			wantValues(t, run(t, sound, p, Options{}), out, 11, 22, 33, 44, 55)
		})
	}
}

// TestIsolation: a worker says that it has processes of its own where the kernel says so too. It has no terminal.
func TestIsolation(t *testing.T) {
	d := open(t, "none", Config{})
	for _, way := range isolations() {
		l := *d.launcher
		l.isolation = way
		a, err := newArena()
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		w, err := l.start(t.Context(), a)
		if err != nil && way != 0 {
			continue // it is not allowed here
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", w.pid()))
		if err != nil {
			t.Fatal(err)
		}
		session, err := unix.Getsid(w.pid())
		if own, _ := unix.Getsid(0); err != nil || session == own {
			t.Errorf("a worker in session %d, which is ours, %v", session, err)
		}
		ours, _ := os.Readlink("/proc/self/ns/pid")
		said := len(w.hello.Isolation) > 0 && w.hello.Isolation[0] == isolationOf(1)[0]
		if said != (own != ours) {
			t.Errorf("isolation %q in PID namespace %s, ours is %s", w.hello.Isolation, own, ours)
		}
	}
}
