package collector

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

const helper = "OPTOOL_COLLECTOR_TEST"

var sink []byte

func allocate(mib int) {
	for range mib {
		sink = make([]byte, 1<<20)
	}
}

func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

// TestMain runs the other process of TestStart.
func TestMain(m *testing.M) {
	if os.Getenv(helper) == "" {
		os.Exit(m.Run())
	}
	allocate(24)
	early := collections()
	Limit(1 << 30)
	allocate(400)
	for range 500 { // the runtime calls cleanups on a goroutine of its own
		if Untouched() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	held := Untouched()
	Limit(160 << 20)
	most := min(int64(runtime.GOMAXPROCS(0))*32<<20, 64<<20)
	usual := debug.SetGCPercent(-1)
	limited := Untouched()
	Keep()
	fmt.Print(early, collections() > 0, usual, debug.SetGCPercent(-1), held == most, limited == min(most, 10<<20))
}

// TestStart: the first collection comes late, and the percentage is the usual one after it, unless the process keeps
// much.
func TestStart(t *testing.T) {
	for _, tc := range []struct{ gogc, want string }{
		{"", "0 true 100 115 true true"},
		{"50", " true 50 -1 true true"}, // as somebody chose
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helper+"=1")
		if tc.gogc != "" {
			cmd.Env = append(cmd.Env, "GOGC="+tc.gogc)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), tc.want) {
			t.Errorf("GOGC=%s: %q, %v, want %q", tc.gogc, out, err, tc.want)
		}
	}
}
