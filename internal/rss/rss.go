// Package rss tells how much memory the process has: the pages that are resident.
package rss

import (
	"runtime/debug"
	"sync/atomic"
)

// before is the largest resident set before the system last forgot it.
var before atomic.Int64

// Peak is the largest resident set of the process so far, in bytes; 0 where the system
// does not tell.
func Peak() int64 { return max(before.Load(), peak()) }

// Growth runs f and says by how many bytes the resident set grew at most meanwhile:
// false where the system does not tell. What else the process does meanwhile counts,
// memory that was free in its heap before does not. The system's count of pages lags, and
// so the growth is right to within some MiB.
func Growth(f func()) (int64, bool) {
	debug.FreeOSMemory() // twice: what is pooled survives once
	debug.FreeOSMemory()
	before.Store(Peak())
	now, ok := forget()
	f()
	if !ok {
		return 0, false
	}
	return max(0, peak()-now), true
}
