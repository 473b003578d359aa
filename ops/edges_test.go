package ops_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// decomposed are operators whose libraries end the process, or loop, where a matrix is not finite.
var decomposed = []string{"linalg", "eig", "svd", "qr", "lu", "cholesky", "inverse", "pinverse", "lstsq", "solve", "pca",
	"matrix_exp", "matrix_power", "ormqr", "orgqr", "det", "logdet", "slogdet", "nuclear", "triangular", "norm.", "chain",
	"cov", "corrcoef"}

// edges are the values that are put into calls.
var edges = []float64{math.NaN(), math.Inf(1), math.Copysign(0, -1)}

// TestEdgeCalls writes, with -calls, the calls that record.py --edges makes with torch: a small one of each
// operator in float32, whose first element is one of edges.
func TestEdgeCalls(t *testing.T) {
	w := callsFile(t)
	for _, e := range ops.Default().Entries() {
		if foreign(e.Names[0]) || slices.ContainsFunc(decomposed, func(s string) bool {
			return strings.Contains(e.Schema.Name, s)
		}) {
			continue
		}
		calls := chooseCalls(e)
		i := slices.IndexFunc(calls, func(c *opdef.Call) bool {
			return c.Random() == "" && strings.Contains(signature(c), "float32") && elements(c) <= goldenMostElements
		})
		for _, edge := range edges {
			if i < 0 {
				break
			}
			if c, ok := withEdge(calls[i], edge); ok {
				fmt.Fprintln(w, callJSON(e, c))
			}
		}
	}
}

// withEdge is a call with another first element of its first tensor of floats, which asks for no gradient.
func withEdge(c *opdef.Call, edge float64) (changed *opdef.Call, ok bool) {
	changed = c.Map(func(a opdef.Arg) *tensor.Tensor {
		if ok || !a.Tensor.DType.IsFloat() || a.Tensor.Numel() == 0 || a.Tensor.Wrapped {
			return a.Tensor
		}
		ok = true
		v := slices.Clone(tensor.Data[float64](a.Tensor))
		v[0] = edge
		return tensor.New(a.Tensor.DType, a.Tensor.Shape, v).Rounded()
	})
	return changed, ok
}

// TestPointwiseCalls writes, with -calls, the calls that record.py --pointwise makes: every pointwise operator
// in each dtype, once for each of its tensors, whose elements are extremes.
func TestPointwiseCalls(t *testing.T) {
	w := callsFile(t)
	for _, e := range ops.Default().Entries() {
		if foreign(e.Names[0]) {
			continue
		}
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float16} {
			for _, c := range pointwiseCalls(e, dt) {
				fmt.Fprintln(w, callJSON(e, c))
			}
		}
	}
}

// extremes are values of dt where functions have branches, or leave the range of numbers.
func extremes(dt tensor.DType) []float64 {
	inf, normal := math.Inf(1), dt.SmallestNormal()
	return []float64{math.NaN(), inf, -inf, 0, math.Copysign(0, -1), dt.Max(), -dt.Max(), normal, -normal, normal / 4,
		-normal / 4, 1, -1}
}

// pointwiseCalls are calls of e, if it is pointwise: the extremes are the elements of one tensor of floats after the
// other, and its other tensors of the same shape have ordinary numbers. Other arguments are those of its first case.
func pointwiseCalls(e *opdef.Entry, dt tensor.DType) (calls []*opdef.Call) {
	chosen := chooseCalls(e)
	i := slices.IndexFunc(chosen, func(c *opdef.Call) bool { return c.Random() == "" && firstFloats(c) != nil })
	if i < 0 {
		return nil
	}
	c, values := chosen[i], extremes(dt)
	shape := firstFloats(c).Shape
	fill := func(k int, values []float64) *opdef.Call {
		n := 0
		return c.Map(func(a opdef.Arg) *tensor.Tensor {
			t := a.Tensor
			if t.Wrapped || !t.DType.IsFloat() {
				return t
			}
			if !slices.Equal(t.Shape, shape) {
				return tensor.New(dt, t.Shape, tensor.Data[float64](t)).Rounded()
			}
			v := slices.Clone(values)
			if n != k {
				for i, own := 0, tensor.Data[float64](t); i < len(v); i++ {
					v[i] = own[i%len(own)]
				}
			}
			n++
			changed := tensor.New(dt, []int{len(v)}, v).Rounded()
			changed.RequiresGrad = e.HasGrad
			return changed
		})
	}
	for k := range len(c.Tensors()) {
		ones := slices.Repeat([]float64{1}, len(values))
		if pointwise(fill(k, ones), fill(k, append([]float64{0.75}, ones[1:]...))) {
			calls = append(calls, fill(k, values))
		}
	}
	return calls
}

// firstFloats is the first tensor of floats among the arguments that has elements.
func firstFloats(c *opdef.Call) *tensor.Tensor {
	for _, a := range c.Tensors() {
		if a.Tensor.DType.IsFloat() && !a.Tensor.Wrapped && a.Tensor.Numel() > 0 {
			return a.Tensor
		}
	}
	return nil
}

// pointwise reports whether two calls whose first elements differ have results that differ there only.
func pointwise(a, b *opdef.Call) bool {
	x, errX := a.Forward()
	y, errY := b.Forward()
	if errX != nil || errY != nil || len(x.Outs) != 1 {
		return false
	}
	v, w := tensor.Data[complex128](x.Outs[0]), tensor.Data[complex128](y.Outs[0])
	return len(v) == len(w) && len(v) == len(extremes(tensor.Float32)) && slices.Equal(v[1:], w[1:])
}

// edgeDeviations are differences from torch at such values.
var edgeDeviations = slices.Concat(
	deviate("fft ifft rfft ihfft fft2 ifft2 rfft2 ihfft2 fftn ifftn rfftn ihfftn stft", "output 0",
		"of real input torch computes half, with imaginary parts of 0 at 0 and in the middle; NaN times 0 is NaN"),
	deviate("var_mean var_mean.dim var_mean.correction std_mean std_mean.dim std_mean.correction native_layer_norm "+
		"native_group_norm", "output 1", "torch updates its mean by differences from it, infinity from infinity"),
	deviate("fake_quantize_per_tensor_affine fake_quantize_per_channel_affine", "output 0",
		"torch converts NaN and infinity to integers, which C leaves open"),
	deviate("multi_dot pinv cond", "output 0", "another order of products, or none where all values are 0"),
	deviate("polar", "gradient of angle", "torch multiplies complex numbers, infinity times 0"),
)

func deviate(ops, problem, why string) (ds []goldenDeviation) {
	for op := range strings.FieldsSeq(ops) {
		ds = append(ds, goldenDeviation{op, problem, why})
	}
	return ds
}

// pointwiseDeviations are differences from torch at extremes.
var pointwiseDeviations = slices.Concat(
	deviate("_foreach_addcmul.Scalar", "",
		"torch multiplies in another order, and the first product overflows"),
	deviate("_foreach_addcdiv.Scalar", "gradient of tensor1",
		"1/tensor2 overflows before it is multiplied"),
	deviate("special_erfcx special_log_ndtr", "gradient of self", "torch computes infinity less infinity, or times 0"),
	deviate("special_zeta special_bessel_y1 special_airy_ai", "output 0",
		"intermediate results overflow in the dtype at the largest and smallest numbers"),
	deviate("digamma polygamma polygamma.method", "gradient of self",
		"pi*self overflows in the dtype at the largest number"),
	deviate("mvlgamma", "", "arguments below 1 are outside of its domain; float16 has not the same values there"),
	deviate("fake_quantize_per_tensor_affine", "output 0",
		"torch converts NaN and infinity to integers, which C leaves open"),
	deviate("as_strided_scatter", "gradient of self", "torch's gradient is wrong: it keeps what was overwritten"),
)

// TestPointwise compares every pointwise operator, forward and backward, with what torch gave for the extremes of each
// dtype.
func TestPointwise(t *testing.T) {
	if n := testDirectory(t, goldenDir+"/pointwise", pointwiseDeviations); n < 200 {
		t.Errorf("%d operators, want 200 at least", n)
	}
}

// TestEdges compares every operator, forward and backward, with what torch gave for NaN, infinity and
// negative zero.
func TestEdges(t *testing.T) {
	if n := testDirectory(t, goldenDir+"/edges", edgeDeviations); n < 600 {
		t.Errorf("%d operators, want 600 at least", n)
	}
}

// testDirectory compares the operators with torch's values in dir and returns how many there are.
func testDirectory(t *testing.T, dir string, deviations []goldenDeviation) int {
	reg, seen, operators := ops.Default(), map[int]bool{}, map[string]bool{}
	for _, r := range readGolden(t, dir) {
		operators[r.Op] = true
		for _, name := range r.Names {
			j := &goldenJudge{record: r}
			j.guard(func() { j.run(reg, name) })
			for _, p := range j.problems {
				if !known(deviations, r.Op, p, seen) {
					t.Errorf("%s: %s: %s", r.at, name, p)
				}
			}
		}
	}
	for i, d := range deviations {
		if !seen[i] {
			t.Errorf("no %s deviates from torch in %q any more (%s)", d.op, d.problem, d.why)
		}
	}
	t.Logf("%d operators", len(operators))
	return len(operators)
}
