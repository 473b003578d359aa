package cli

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// availableAddresses is how many bytes of addresses the process may still take; 0 if
// they are not limited.
func availableAddresses() int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil || limit.Cur > math.MaxInt64 {
		return 0
	}
	used := int64(0)
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		fmt.Sscan(string(b), &used)
	}
	return max(1, int64(limit.Cur)-used*int64(os.Getpagesize()))
}
