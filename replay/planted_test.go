package replay_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

const demo = "../fixtures/demo"

func options(t testing.TB) replay.Options {
	t.Helper()
	reg := ops.Default()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return replay.Options{Registry: reg, Tolerances: tol}
}

// entries lists the captures under dir.
func entries(t testing.TB, dir string) []*capture.Entry {
	t.Helper()
	var es []*capture.Entry
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		es = append(es, e)
	}
	if len(es) == 0 {
		t.Fatalf("no captures under %s", dir)
	}
	return es
}

// TestDemo replays the captures that ship with the source: the planted one
// fails, nothing else does, and everything is supported.
func TestDemo(t *testing.T) {
	for _, e := range entries(t, demo) {
		o := replay.Run(e, options(t))
		want := []verdict.Verdict{verdict.Pass, verdict.Mistrusted, verdict.Skipped, verdict.Warn}
		if e.IsPair() {
			want = []verdict.Verdict{verdict.Fail}
		}
		if !slices.Contains(want, o.Verdict()) {
			t.Errorf("%s: %s, want one of %v: %+v", e.Rel, o.Verdict(), want, o.Results)
		}
	}
}

// An errorKind changes correct values into wrong ones; it reports false where
// it would change nothing that matters.
type errorKind struct {
	name  string
	plant func(r *rand.Rand, v []float64, shape []int, dt tensor.DType) bool
}

var errorKinds = []errorKind{
	{"add", func(r *rand.Rand, v []float64, _ []int, dt tensor.DType) bool {
		v[large(r, v)] += max(32*dt.Eps(), 0.002) * maxAbs(v)
		return true
	}},
	{"tail", func(_ *rand.Rand, v []float64, _ []int, _ tensor.DType) bool {
		tail := v[len(v)-max(1, len(v)/8):]
		if maxAbs(tail) < maxAbs(v)/4 {
			return false
		}
		clear(tail)
		return true
	}},
	{"negate", func(r *rand.Rand, v []float64, _ []int, _ tensor.DType) bool {
		i := large(r, v)
		v[i] = -v[i]
		return true
	}},
	{"rows", func(_ *rand.Rand, v []float64, shape []int, dt tensor.DType) bool {
		if len(shape) == 0 || shape[0] < 2 {
			return false
		}
		n := len(v) / shape[0]
		a, b := v[:n], v[len(v)-n:]
		differ := 0.0
		for i := range a {
			differ = max(differ, math.Abs(a[i]-b[i]))
		}
		if !(differ > max(32*dt.Eps(), 0.002)*maxAbs(v)) || math.IsInf(differ, 0) {
			return false
		}
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
		return true
	}},
	{"scale", func(_ *rand.Rand, v []float64, _ []int, dt tensor.DType) bool {
		for i := range v {
			v[i] *= 1 + max(0x1p-6, 8*dt.Eps())
		}
		return true
	}},
	{"nan", func(r *rand.Rand, v []float64, _ []int, _ tensor.DType) bool {
		v[large(r, v)] = math.NaN()
		return true
	}},
	{"inf", func(r *rand.Rand, v []float64, _ []int, _ tensor.DType) bool {
		v[large(r, v)] = math.Inf(1)
		return true
	}},
}

func maxAbs(v []float64) float64 {
	m := 0.0
	for _, x := range v {
		if a := math.Abs(x); a > m && !math.IsInf(a, 0) {
			m = a
		}
	}
	return m
}

// large picks a finite element larger than a quarter of the largest.
func large(r *rand.Rand, v []float64) int {
	var at []int
	for i, x := range v {
		if a := math.Abs(x); a > maxAbs(v)/4 && !math.IsInf(a, 0) {
			at = append(at, i)
		}
	}
	return at[r.IntN(len(at))]
}

// TestPlantedErrors changes correct recorded results in every way of
// errorKinds; each must come out as a failure.
func TestPlantedErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	planted := 0
	for _, e := range entries(t, demo) {
		if e.IsPair() {
			continue
		}
		opt := options(t)
		opt.ForwardOnly = true
		if o := replay.Run(e, opt); o.Verdict() != verdict.Pass || o.Results[0].Compared == nil {
			continue // nothing to compare: trivial, or judged by its distribution
		}
		for _, kind := range errorKinds {
			t.Run(kind.name+"/"+e.Op, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "call")
				if !plant(t, r, e, kind, dir) {
					return
				}
				planted++
				o := replay.Run(entries(t, dir)[0], opt)
				if o.Verdict() != verdict.Fail {
					t.Errorf("%s: planted %s: got %s, want fail: %+v", e.Rel, kind.name, o.Verdict(), o.Results)
				}
			})
		}
	}
	if planted < 100 {
		t.Errorf("only %d errors were planted", planted)
	}
}

// plant writes e with a wrong result to dir.
func plant(t *testing.T, r *rand.Rand, e *capture.Entry, kind errorKind, dir string) bool {
	t.Helper()
	f, err := pthformat.Open(e.Path(capture.Device, capture.Output), pthformat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := false
	root := replaceTensors(f.Root, func(x *tensor.Tensor) *tensor.Tensor {
		if done || !x.DType.IsFloat() || x.Numel() == 0 {
			return x
		}
		v := slices.Clone(tensor.Data[float64](x))
		if maxAbs(v) == 0 || !kind.plant(r, v, x.Shape, x.DType) {
			return x
		}
		done = true
		return tensor.New(x.DType, x.Shape, v).Rounded()
	})
	if !done {
		return false
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := pthformat.WriteFile(filepath.Join(dir, "output.pth"), root); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.Path(capture.Device, capture.Input))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "input.pth"), b, 0o666); err != nil {
		t.Fatal(err)
	}
	return true
}

func replaceTensors(v value.Value, f func(*tensor.Tensor) *tensor.Tensor) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		return f(v)
	case *value.Sequence:
		c := &value.Sequence{Kind: v.Kind, Class: v.Class}
		for _, it := range v.Items {
			c.Items = append(c.Items, replaceTensors(it, f))
		}
		return c
	case *value.Dict:
		c := &value.Dict{Class: v.Class}
		for _, it := range v.Items {
			c.Items = append(c.Items, value.Item{Key: it.Key, Value: replaceTensors(it.Value, f)})
		}
		return c
	}
	return v
}
