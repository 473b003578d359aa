package replay_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesUnderAutocast: a call whose arguments autocast casts to 16 bits has the causes that one of arguments in 16
// bits has. Where its sums are kept in 16 bits, both have a warning, and where these are far off, both a cause.
func TestCausesUnderAutocast(t *testing.T) {
	const rows, in, out = 160, 40, 12
	const op = "torch.nn.functional.linear" // as the hook records it
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := replay.Options{Registry: ops.Default(), Tolerances: tol}
	half := tensor.BFloat16.Round
	r := rand.New(rand.NewPCG(3, 9))
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = half(r.NormFloat64() + 1)
		}
		return v
	}
	x, w, b, g := draw(rows*in), draw(out*in), draw(out), draw(rows*out)
	steep := slices.Clone(g) // whose first terms are so large that those after them are lost
	for i := range out {
		steep[i] = 512
	}
	sum := func(n int, round func(float64) float64, term func(k int) float64) float64 {
		total := 0.0
		for k := range n {
			total = round(total + round(term(k)))
		}
		return total
	}
	exact := func(x float64) float64 { return x }
	call := func(dt tensor.DType, bias bool, g []float64, round func(float64) float64) string {
		y, gx, gw := make([]float64, rows*out), make([]float64, rows*in), make([]float64, out*in)
		for i := range y {
			y[i] = sum(in, exact, func(k int) float64 { return x[i/out*in+k] * w[i%out*in+k] })
			if bias {
				y[i] += b[i%out]
			}
		}
		for i := range gx {
			gx[i] = half(sum(out, exact, func(k int) float64 { return g[i/in*out+k] * w[k*in+i%in] }))
		}
		for i := range gw {
			gw[i] = half(sum(rows, round, func(k int) float64 { return g[k*out+i/in] * x[k*in+i%in] }))
		}
		args := []value.Value{needsGrad(stored(dt, []int{4, rows / 4, in}, x...)),
			needsGrad(stored(dt, []int{out, in}, w...)), stored(dt, []int{out}, b...)}
		grads := value.NewTuple(stored(dt, []int{4, rows / 4, in}, gx...), stored(dt, []int{out, in}, gw...), nil)
		return recordAs(t, op+"/", op, args, stored(tensor.BFloat16, []int{4, rows / 4, out}, y...), grads,
			value.NewTuple(stored(tensor.BFloat16, []int{4, rows / 4, out}, g...)))
	}
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float32} {
		for _, tc := range []struct {
			dir   string
			want  verdict.Verdict
			cause string
		}{
			{call(dt, false, g, exact), verdict.Fail, "bias is left out"},
			{call(dt, true, g, half), verdict.Warn, ""},
			{call(dt, true, steep, half), verdict.Fail,
				"in the gradient, products and their sums are kept in bfloat16"},
		} {
			e := entries(t, tc.dir)[0]
			got := verdict.Pass
			for _, r := range replay.Run(e, opt).Results {
				got = verdict.Worse(got, r.Verdict)
			}
			found := explain(e, opt)
			if got != tc.want || tc.cause != "" && (len(found) != 1 || !says(found[0], tc.cause)) {
				t.Errorf("%s: %s, causes %+v, want %s, %q", dt, got, found, tc.want, tc.cause)
			}
		}
	}
}
