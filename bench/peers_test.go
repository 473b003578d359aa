// Package bench measures optool on the files that peers.py writes, so that
// ratios to other tools come from one run.
package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	_ "github.com/optool/optool/internal/collector" // as the command has it
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// dir is where peers.py wrote its files; without it a benchmark is skipped.
func dir(b *testing.B) string {
	d := os.Getenv("OPTOOL_BENCH_DIR")
	if d == "" {
		b.Skip("OPTOOL_BENCH_DIR is not set: run bench/peers.py")
	}
	return d
}

// BenchmarkPairs loads and compares the two tensors of each dtype: nearly equal ones and ones
// of which no element is.
func BenchmarkPairs(b *testing.B) {
	for _, tag := range []string{"float32", "bfloat16", "float16", "float64"} {
		at := func(side string) string { return filepath.Join(dir(b), "pair", tag, side, "output.pth") }
		b.Run("load/"+tag, func(b *testing.B) {
			st, err := os.Stat(at("device"))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(st.Size())
			defer reportCPU(b)()
			for b.Loop() {
				f, x := open(b, at("device"))
				tensor.At[float64](x, 0)
				f.Close()
			}
		})
		for _, c := range []struct{ name, side string }{{"compare", "cpu"}, {"differ", "other"}} {
			b.Run(c.name+"/"+tag, func(b *testing.B) {
				f, x := open(b, at("device"))
				defer f.Close()
				g, y := open(b, at(c.side))
				defer g.Close()
				model := compare.Model{ULPs: 1, Cast: true}
				tol := compare.DefaultTolerance(x.DType)
				compare.Check(x, y, model, tol, nil) // maps the pages
				b.SetBytes(2 * x.Bytes())
				defer reportCPU(b)()
				for b.Loop() {
					compare.Check(x, y, model, tol, nil)
				}
			})
		}
	}
}

// BenchmarkOps replays the calls of peers.py.
func BenchmarkOps(b *testing.B) {
	reg := ops.Default()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for e, err := range capture.Scan(context.Background(), []string{filepath.Join(dir(b), "ops")}, capture.Options{}) {
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(e.Dir), func(b *testing.B) {
			b.SetBytes(e.Bytes())
			defer reportCPU(b)()
			for b.Loop() {
				o := replay.Run(e, replay.Options{Registry: reg, Tolerances: tol})
				if v := o.Verdict(); v != verdict.Pass && v != verdict.Warn && v != verdict.Mistrusted {
					b.Fatalf("%s: %+v", v, o.Results)
				}
			}
		})
	}
}

// BenchmarkLimits is what one core can do at best: copy memory that no cache holds, and multiply
// and add in the widest vector registers.
func BenchmarkLimits(b *testing.B) {
	b.Run("copy", func(b *testing.B) {
		from, to := make([]byte, 256<<20), make([]byte, 256<<20)
		copy(to, from) // maps the pages
		b.SetBytes(int64(len(from)))
		defer reportCPU(b)()
		for b.Loop() {
			copy(to, from)
		}
	})
	b.Run("multiply-add", func(b *testing.B) {
		const steps = 1 << 22
		flops := 0
		before := processorTime()
		for b.Loop() {
			flops += multiplyAdd(steps)
		}
		if spent := processorTime() - before; spent > 0 {
			b.ReportMetric(float64(flops)/float64(spent.Nanoseconds()), "GFLOP/s")
		}
	})
}

// reportCPU adds the processor time of an iteration to the results of b: on a
// machine that others use too it says more than the time passed.
func reportCPU(b *testing.B) func() {
	before := processorTime()
	return func() { b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op") }
}

func open(b *testing.B, path string) (*pthformat.File, *tensor.Tensor) {
	b.Helper()
	f, err := pthformat.Open(path, pthformat.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ts := value.Tensors(f.Root)
	if len(ts) != 1 {
		b.Fatalf("%s: %d tensors", path, len(ts))
	}
	return f, ts[0]
}
