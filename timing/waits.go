package timing

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// waits tells how long the threads of this process wait for a processor while
// something runs, as Linux's scheduler counts it; nothing elsewhere. Asking
// takes some time and empties some cache lines, so it does not ask before the
// runs have turned out to be long.
type waits struct {
	long   bool // the run before was
	before time.Duration
}

// long is the time of runs from which asking adds little.
const long = 100 * time.Microsecond

func (w *waits) begin() {
	if w.long {
		w.before = threadWaits()
	}
}

// end of a run that took d: how long threads waited in it, at most d.
func (w *waits) end(d time.Duration) (waited time.Duration) {
	if w.long {
		waited = min(max(0, threadWaits()-w.before), d)
	}
	w.long = d >= long
	return waited
}

// threadWaits sums what all threads have waited, 0 if it cannot be read.
func threadWaits() (sum time.Duration) {
	const dir = "/proc/self/task/"
	threads, _ := os.ReadDir(dir)
	for _, t := range threads {
		text, _ := os.ReadFile(dir + t.Name() + "/schedstat") // a thread may have ended
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
