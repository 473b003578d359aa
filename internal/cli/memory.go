package cli

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/optool/optool/tensor"
)

// A memoryBudget keeps the captures that run at once within memory.
type memoryBudget struct {
	sem   *semaphore.Weighted // nil: no limit known
	total int64
}

// newMemoryBudget limits the process to nine tenths of the available memory:
// a call that does not fit is skipped, not killed.
func newMemoryBudget() *memoryBudget {
	avail := availableMemory() / 10 * 9
	tensor.SetMemoryLimit(avail)
	if avail <= 0 {
		return &memoryBudget{}
	}
	return &memoryBudget{sem: semaphore.NewWeighted(avail), total: avail}
}

// acquire waits until a capture of so many bytes on disk can run beside those
// that do, and returns what ends it. Widened to float64, a bfloat16 operand
// takes four times its size, and results and gradients as much again.
func (m *memoryBudget) acquire(ctx context.Context, bytes int64) (release func()) {
	need := min(8*bytes, m.total)
	if m.sem == nil || m.sem.Acquire(ctx, need) != nil {
		return func() {}
	}
	return func() { m.sem.Release(need) }
}

// availableMemory is how many bytes the process can use without being killed:
// the kernel's estimate of available memory, or what is left of the control
// group's limit if that is less; 0 if neither is known.
func availableMemory() int64 {
	var avail int64
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		sc := bufio.NewScanner(bytes.NewReader(b))
		for sc.Scan() {
			if rest, ok := strings.CutPrefix(sc.Text(), "MemAvailable:"); ok {
				kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				if err == nil {
					avail = kb << 10
				}
			}
		}
	}
	limit, ok1 := readInt("/sys/fs/cgroup/memory.max")
	used, ok2 := readInt("/sys/fs/cgroup/memory.current")
	if left := limit - used; ok1 && ok2 && left > 0 && (avail == 0 || left < avail) {
		return left
	}
	return avail
}

func readInt(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return v, err == nil
}
