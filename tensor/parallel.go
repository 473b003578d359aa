package tensor

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/optool/optool/internal/quota"
)

// Parallel calls f over the ranges that partition [0, n), each at least grain
// long, from up to GOMAXPROCS goroutines. Small work runs on the caller's. A
// panic in f reaches the caller, after all goroutines have stopped, also the fault of
// a memory map whose file shrank. It panics with quota.ErrStopped if computing is
// stopped.
func Parallel(n, grain int, f func(lo, hi int)) {
	grain = max(grain, 1)
	workers := min(runtime.GOMAXPROCS(0), (n+grain-1)/grain)
	quota.Check()
	if workers <= 1 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	// Chunks are smaller than a worker's share so that uneven work balances.
	chunk := max(grain, (n+workers*4-1)/(workers*4))
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var failure any
	for range workers {
		wg.Go(func() {
			debug.SetPanicOnFault(true)
			defer func() {
				if r := recover(); r != nil {
					once.Do(func() { failure = r })
					next.Store(int64(n))
				}
			}()
			for {
				lo := int(next.Add(int64(chunk))) - chunk
				if lo >= n {
					return
				}
				quota.Check()
				f(lo, min(lo+chunk, n))
			}
		})
	}
	wg.Wait()
	if failure != nil {
		panic(failure)
	}
}
