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
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// BenchmarkPeers runs over the folders of OPTOOL_BENCH_DIR, which peers.py sets.
func BenchmarkPeers(b *testing.B) {
	dir := os.Getenv("OPTOOL_BENCH_DIR")
	if dir == "" {
		b.Skip("OPTOOL_BENCH_DIR is not set: run bench/peers.py")
	}
	for _, tag := range []string{"float32", "bfloat16", "float64"} {
		device, cpu := filepath.Join(dir, "pair", tag, "device", "output.pth"), filepath.Join(dir, "pair", tag, "cpu",
			"output.pth")
		b.Run("load/"+tag, func(b *testing.B) {
			st, err := os.Stat(device)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(st.Size())
			for b.Loop() {
				f, x := open(b, device)
				tensor.At[float64](x, 0)
				f.Close()
			}
		})
		b.Run("compare/"+tag, func(b *testing.B) {
			f, x := open(b, device)
			defer f.Close()
			g, y := open(b, cpu)
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
	reg := ops.Default()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for e, err := range capture.Scan(context.Background(), []string{filepath.Join(dir, "ops")}, capture.Options{}) {
		if err != nil {
			b.Fatal(err)
		}
		b.Run("ops/"+filepath.Base(e.Dir), func(b *testing.B) {
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
