//go:build amd64 || arm64 || loong64 || ppc64le || riscv64

package devicebridge

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/faulttest"
	"github.com/optool/optool/tensor"
)

// children are the live processes whose parent is this one.
func children(t *testing.T) (pids []int) {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if ppid, _ := strconv.Atoi(fields[1]); ppid == os.Getpid() {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func entries(t *testing.T, dir string) map[string]bool {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	m := map[string]bool{}
	for _, e := range list {
		m[e.Name()] = true
	}
	return m
}

// A run of 1000 plans, of which 20 crash, 5 hang, 5 throw and 5 exit, ends with
// exactly that and leaves no process, descriptor or file behind.
func TestMixedRun(t *testing.T) {
	requireNative(t)
	cache, _ := os.UserCacheDir()
	shm, cached, fds, procs := entries(t, "/dev/shm"), entries(t, cache), descriptors(t), len(children(t))
	d, err := Open(t.Context(), Config{Library: faulttest.Library(t, "mixed"), Workers: 2,
		Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	want := map[Status]int{Crashed: 20, TimedOut: 5, Threw: 5, Exited: 5, OK: 965}
	what := make([]float64, 1000)
	at := 0
	for code, n := range map[float64]int{1: 20, 2: 5, 3: 5, 4: 5} {
		for range n {
			what[at*28] = code
			at++
		}
	}
	got := map[Status]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for i := part; i < len(what); i += 4 {
				code := what[i]
				if code == 0 {
					code = float64(10 + i)
				}
				out := output("out", 2)
				r, err := d.Run(context.Background(),
					plan(relu(diopi.Forward, out, input("input", floats([]int{2}, code, -1)))))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got[r.Calls[0].Status]++
				mu.Unlock()
				if r.Calls[0].Status == OK {
					if v, _ := r.Tensor(out); v == nil || tensor.At[float64](v, 0) != code {
						t.Errorf("plan %d: %v, want %v", i, v, code)
					}
				}
			}
		})
	}
	wg.Wait()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	d.Close()
	if n := len(children(t)); n > procs {
		t.Errorf("%d processes are left", n-procs)
	}
	if n := descriptors(t); n > fds {
		t.Errorf("%d descriptors are left", n-fds)
	}
	for dir, before := range map[string]map[string]bool{"/dev/shm": shm, cache: cached} {
		for name := range entries(t, dir) {
			if !before[name] && strings.Contains(name, "optool") {
				t.Errorf("%s/%s is left", dir, name)
			}
		}
	}
}

// What a library starts ends with its worker.
func TestNoOrphans(t *testing.T) {
	d := open(t, "leaves_child", Config{})
	p, _ := addPlan()
	run(t, d, p, Options{})
	group := d.slots[0].worker.cmd.Process.Pid
	left := func() (n int) {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, name := range stats {
			b, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
			if fields[2] == strconv.Itoa(group) && fields[0] != "Z" {
				n++
			}
		}
		return n
	}
	want := 2
	if d.launcher.isolation != 0 {
		want = 3 // with the first process of the namespace
	}
	if n := left(); n != want {
		t.Fatalf("%d processes in the worker's group, want %d", n, want)
	}
	d.Close()
	for range 100 {
		if left() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d processes of the worker's group are left", left())
}

// residentBytes is the anonymous memory a process holds.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "RssAnon:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// Many small calls grow neither the worker nor optool. OPTOOL_SOAK is the number
// of calls, 5000 without it.
func TestSoak(t *testing.T) {
	calls := 5000
	if n, err := strconv.Atoi(os.Getenv("OPTOOL_SOAK")); err == nil {
		calls = n
	}
	d := open(t, "none", Config{})
	p, _ := addPlan()
	a := &diopi.Alloc{Role: "made"}
	p.Calls = append(p.Calls, call(diopi.Forward, "diopiNonzero", map[string]diopi.Arg{"out": a,
		"input": p.Calls[0].Args["input"]}))
	pid := 0
	var resident int64
	var fds, workerFds int
	var heap, heapAfter runtime.MemStats
	measure := func() (int64, int, int) {
		heap = heapAfter
		runtime.GC()
		runtime.ReadMemStats(&heapAfter)
		return residentBytes(t, pid), descriptors(t), len(entries(t, fmt.Sprintf("/proc/%d/fd", pid)))
	}
	start := time.Now()
	for i := range calls {
		if i == calls/5 { // caches are warm
			pid = d.slots[0].worker.cmd.Process.Pid
			resident, fds, workerFds = measure()
		}
		if r := run(t, d, p, Options{}); r.Worst() != nil {
			t.Fatalf("call %d: %+v", i, r.Worst())
		}
	}
	after, fdsAfter, workerFdsAfter := measure()
	if d.slots[0].worker.cmd.Process.Pid != pid {
		t.Error("the worker was replaced")
	}
	if heapAfter.HeapAlloc > heap.HeapAlloc+256<<10 {
		t.Errorf("optool's heap grew from %d to %d bytes", heap.HeapAlloc, heapAfter.HeapAlloc)
	}
	if after > resident+256<<10 || fdsAfter > fds || workerFdsAfter > workerFds {
		t.Errorf("worker %d -> %d bytes, %d -> %d descriptors; optool %d -> %d descriptors", resident, after, workerFds,
			workerFdsAfter, fds, fdsAfter)
	}
	t.Logf("%d plans of 2 calls in %v; worker %d -> %d bytes", calls, time.Since(start).Round(time.Millisecond),
		resident, after)
}

// BenchmarkRun is the cost of a plan of one small call; direct-ns is what the
// call itself takes in the worker.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{5, 1 << 10, 1 << 20} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			d := open(b, "none", Config{})
			v := tensor.Full(tensor.Float32, []int{n}, 1.0).Rounded()
			out := output("out", n)
			p := plan(relu(diopi.Forward, out, input("input", v)))
			r := run(b, d, p, Options{Time: &Timing{WarmUp: 3, Runs: 20}})
			best := r.Calls[0].Runs[0]
			for _, x := range r.Calls[0].Runs {
				best = min(best, x)
			}
			b.SetBytes(int64(8 * n))
			for b.Loop() {
				run(b, d, p, Options{})
			}
			b.ReportMetric(float64(best.Nanoseconds()), "direct-ns/op")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)-float64(best.Nanoseconds()), "bridge-ns/op")
		})
	}
}

// A worker whose operator hangs ends when optool is killed.
func TestOptoolKilled(t *testing.T) {
	requireNative(t)
	if os.Getenv("OPTOOL_HANGING") != "" { // the process to be killed
		d := open(t, "hangs", Config{})
		fmt.Println("worker", d.slots[0].worker.pid())
		p, _ := addPlan()
		run(t, d, p, Options{})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOptoolKilled$")
	cmd.Env = append(os.Environ(), "OPTOOL_HANGING=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscanf(out, "worker %d\n", &pid)
	time.Sleep(50 * time.Millisecond) // the operator has begun, most likely
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("worker %d is left", pid)
}
