package kernel

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// onAllCores is a Crew.
func onAllCores(pieces, scratch int, f func(u int, s []float64)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(pieces, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			s := make([]float64, scratch)
			for u := int(next.Add(1)) - 1; u < pieces; u = int(next.Add(1)) - 1 {
				f(u, s)
			}
		})
	}
	wg.Wait()
}

func BenchmarkConv(b *testing.B) {
	one := [3]int{1, 1, 1}
	for _, e := range []struct {
		name string
		c    Conv
	}{
		{"3x3", Conv{8, 1, 64, 64, [3]int{1, 56, 56}, [3]int{1, 56, 56}, [3]int{1, 3, 3}, one, one, [3]int{0, 1, 1}}},
		{"7x7", Conv{8, 1, 3, 64, [3]int{1, 224, 224}, [3]int{1, 112, 112}, [3]int{1, 7, 7}, [3]int{1, 2, 2}, one,
			[3]int{0, 3, 3}}},
		{"narrow", Conv{1, 8, 128, 128, [3]int{68, 68, 12}, [3]int{32, 32, 4}, [3]int{4, 4, 4}, [3]int{2, 2, 2},
			[3]int{2, 2, 2}, one}},
		{"depthwise", Conv{8, 256, 256, 256, [3]int{1, 56, 56}, [3]int{1, 56, 56}, [3]int{1, 3, 3}, one, one,
			[3]int{0, 1, 1}}},
	} {
		c := &e.c
		fill := func(n int) []float64 {
			x := make([]float64, n)
			for i := range x {
				x[i] = rand.NormFloat64()
			}
			return x
		}
		x, w, y := fill(c.Batch*c.InC*volume(c.In)), fill(c.OutC*c.Patch()), fill(c.Batch*c.OutC*volume(c.Out))
		for _, pass := range []struct {
			name string
			f    func()
		}{
			{"forward", func() { Forward(c, onAllCores, x, w, y) }},
			{"input", func() { InputGrad(c, onAllCores, x, w, y) }},
			{"weight", func() { WeightGrad(c, onAllCores, x, w, y) }},
		} {
			b.Run(e.name+"/"+pass.name, func(b *testing.B) {
				b.SetBytes(int64(8 * (len(x) + len(w) + len(y))))
				for b.Loop() {
					pass.f()
				}
				b.ReportMetric(2*float64(c.Batch*c.OutC*volume(c.Out))*float64(c.Patch())*float64(
					b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
