// Package collector has Go's garbage collector start later than it would by itself.
//
// By itself it starts at 4 MiB, in the middle of the initialisation of packages, and then whenever
// the heap has doubled. Calls keep little and make much that is used once, so a small heap is
// collected, given back to the system and faulted in anew all the time. As much resident memory
// as the headroom has is the price (docs/performance.md has the figures).
package collector

import (
	"cmp"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// perProcessor is by how many bytes later the collector starts for each processor.
const perProcessor = 32 << 20

// leastHeap is where the runtime first collects at 100 percent (GOGC); of other percentages it
// is as much more or less.
const leastHeap = 4 << 20

// A headroom is what the heap may have beyond what is in use. Until the first collection the
// percentage gives it; then a block that is never touched, and so never resident, does, since
// a percentage is one of the heap in use, which may be large.
type headroom struct {
	mu        sync.Mutex
	percent   int // of later collections; 0: as the environment says
	size      int64
	collected bool
	block     []byte
}

var room = begin()

func begin() *headroom {
	h := &headroom{size: int64(runtime.GOMAXPROCS(0)) * perProcessor}
	if _, chosen := os.LookupEnv("GOGC"); chosen {
		h.collected = true
		return h
	}
	h.percent = debug.SetGCPercent(h.first())
	runtime.AddCleanup(new([64]byte), (*headroom).take, h) // nothing holds it: it goes with the first collection
	return h
}

// first is the percentage by which the first collection begins at the size of the headroom.
func (h *headroom) first() int { return int(max(h.size, leastHeap) * 100 / leastHeap) }

// take is called after the first collection.
func (h *headroom) take() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.collected = true
	h.set()
}

// set has the collector start by the size of the headroom later than the percentage says.
func (h *headroom) set() {
	if !h.collected {
		debug.SetGCPercent(h.first())
		return
	}
	if n := h.size * 100 / int64(cmp.Or(h.percent, 100)); int64(len(h.block)) != n {
		h.block = make([]byte, n)
	}
	if h.percent > 0 {
		debug.SetGCPercent(h.percent)
	}
}

// Limit has the runtime keep the memory of this process within total bytes where it can, of
// which the headroom is at most a sixteenth.
func Limit(total int64) {
	h := room
	h.mu.Lock()
	defer h.mu.Unlock()
	h.size = min(int64(runtime.GOMAXPROCS(0))*perProcessor, total/16)
	h.set()
	debug.SetMemoryLimit(total + h.size)
}

// keeping is the percentage of a process that keeps much of what it makes.
const keeping = 115

// Keep says that the process keeps much of what it makes, such as what a step knows of each call. The collector goes
// through all of that each time, so it waits until as much as 115 percent of it is new, not 100. It stays as it is
// where the environment chose a percentage.
func Keep() {
	h := room
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.percent > 0 {
		h.percent = keeping
		h.set()
	}
}

// Untouched is how many bytes of the heap the headroom has.
func Untouched() int64 {
	room.mu.Lock()
	defer room.mu.Unlock()
	return int64(len(room.block))
}
