package timing

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A HostFunc times a function on the host's monotonic clock.
type HostFunc struct {
	// Run is what is timed; it returns when the work is done.
	Run func() error
	// Restore, if not nil, undoes what Run did to its inputs.
	Restore func() error
	// Caches are evicted before cold runs.
	Caches *Evictor

	waits waits
}

// Clock is the host's.
func (h *HostFunc) Clock() Clock { return HostClock }

// Sample implements Runner.
func (h *HostFunc) Sample(ctx context.Context, cache Cache, n int) ([]Sample, error) {
	samples := make([]Sample, 0, n)
	for range n {
		if err := ctx.Err(); err != nil {
			return samples, err
		}
		if h.Restore != nil {
			if err := h.Restore(); err != nil {
				return samples, err
			}
		}
		if cache == Cold {
			h.Caches.Evict()
		}
		h.waits.begin()
		start := time.Now()
		err := h.Run()
		d := time.Since(start)
		if err != nil {
			return samples, err
		}
		samples = append(samples, Sample{Elapsed: d, Waited: h.waits.end(d)})
	}
	return samples, nil
}

// An Evictor empties the host's caches by writing to a buffer of twice the size
// of the last level.
type Evictor struct{ buf []byte }

// NewEvictor returns an evictor for caches of size bytes, or of the size that
// [CacheSize] reports for 0.
func NewEvictor(size int) *Evictor {
	if size == 0 {
		size = CacheSize()
	}
	return &Evictor{buf: make([]byte, 2*size)}
}

// Evict overwrites the buffer: one write per cache line.
func (e *Evictor) Evict() {
	for i := 0; i < len(e.buf); i += cacheLine {
		e.buf[i]++
	}
}

// Size is the number of bytes an eviction touches.
func (e *Evictor) Size() int { return len(e.buf) }

const (
	cacheLine        = 64
	defaultCacheSize = 64 << 20
)

// CacheSize is the size in bytes of the host's largest cache as Linux reports
// it, 64 MiB where it does not.
func CacheSize() int {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*/size")
	largest := 0
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			largest = max(largest, parseSize(strings.TrimSpace(string(text))))
		}
	}
	if largest == 0 {
		return defaultCacheSize
	}
	return largest
}

// parseSize reads "512K" and "32M"; 0 if it is neither.
func parseSize(s string) int {
	unit := 1
	if t, ok := strings.CutSuffix(s, "K"); ok {
		s, unit = t, 1<<10
	} else if t, ok := strings.CutSuffix(s, "M"); ok {
		s, unit = t, 1<<20
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return n * unit
}

// ClockOverhead measures the host's clock: what two readings without anything
// between them are apart (the median), and the smallest difference it can show.
func ClockOverhead() (overhead, resolution time.Duration) {
	const n = 10000
	apart := make([]Sample, n)
	for i := range apart {
		start := time.Now()
		apart[i].Elapsed = time.Since(start)
	}
	resolution = time.Hour
	last := time.Now()
	for range n {
		for {
			now := time.Now()
			if d := now.Sub(last); d > 0 {
				resolution, last = min(resolution, d), now
				break
			}
		}
	}
	return Summarize(apart).Median, resolution
}
