package rss

import (
	"bytes"
	"os"
	"strconv"
)

// peak is the largest resident set since the last forget, in bytes.
func peak() int64 {
	n, _ := status("VmHWM:")
	return n
}

// forget makes the resident set of now the largest, and returns it (proc_pid_clear_refs(5)).
func forget() (int64, bool) {
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return 0, false
	}
	return status("VmHWM:")
}

// status reads a field of /proc/self/status that is in kB.
func status(name string) (int64, bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == name {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}
