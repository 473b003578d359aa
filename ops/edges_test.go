package ops_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops"
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
	deviate("masked_var masked_std", "output 0", "torch 2.5 and later divide by n - 1, as we do not by default"),
	deviate("softshrink", "output 0", "NaN gives 0 in torch up to 2.5"),
)

func deviate(ops, problem, why string) (ds []goldenDeviation) {
	for op := range strings.FieldsSeq(ops) {
		ds = append(ds, goldenDeviation{op, problem, why})
	}
	return ds
}

// TestEdges compares every operator, forward and backward, with what torch gave for NaN, infinity and
// negative zero.
func TestEdges(t *testing.T) {
	reg, seen, operators := ops.Default(), map[int]bool{}, map[string]bool{}
	for _, r := range readGolden(t, goldenDir+"/edges") {
		operators[r.Op] = true
		for _, name := range r.Names {
			j := &goldenJudge{record: r}
			j.guard(func() { j.run(reg, name) })
			for _, p := range j.problems {
				if !known(edgeDeviations, r.Op, p, seen) {
					t.Errorf("%s: %s: %s", r.at, name, p)
				}
			}
		}
	}
	for i, d := range edgeDeviations {
		if !seen[i] {
			t.Errorf("no %s deviates from torch in %q any more (%s)", d.op, d.problem, d.why)
		}
	}
	if t.Logf("%d operators", len(operators)); len(operators) < 600 {
		t.Errorf("%d operators, want 600 at least", len(operators))
	}
}
