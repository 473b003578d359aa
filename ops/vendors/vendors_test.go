package vendors_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/vendors"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// registry has the operators of the files alone.
func registry() *opdef.Registry { return opdef.TrustedRegistry().WithFamilies(vendors.Families()...) }

// TestValues compares forward results with the formulas torch_npu documents, written out.
func TestValues(t *testing.T) {
	vector := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float64, []int{len(v)}, v) }
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	rms := math.Sqrt((1+4+9+16)/4. + 1e-6)
	for _, tc := range []struct {
		op   string
		args []value.Value
		want []float64
	}{
		{"npu_swiglu", []value.Value{vector(1, -2, 3, 0.5), int64(0)},
			[]float64{1 * sigmoid(1) * 3, -2 * sigmoid(-2) * 0.5}},
		{"fast_gelu", []value.Value{vector(1, -2)}, []float64{sigmoid(1.702), -2 * sigmoid(-3.404)}},
		{"npu_rms_norm", []value.Value{vector(1, 2, 3, 4), vector(1, 1, 2, 1), 1e-6},
			[]float64{1 / rms, 2 / rms, 6 / rms, 4 / rms}},
		{"npu_rotary_mul", []value.Value{vector(1, 2, 3, 4), vector(1, 1, 1, 1), vector(5, 6, 7, 8), "half"},
			[]float64{1 - 3*5, 2 - 4*6, 3 + 1*7, 4 + 2*8}},
		{"npu_rotary_mul", []value.Value{vector(1, 2, 3, 4), vector(1, 1, 1, 1), vector(5, 6, 7, 8), "interleave"},
			[]float64{1 - 2*5, 2 + 1*6, 3 - 4*7, 4 + 3*8}},
	} {
		c, err := registry().Bind("torch_npu."+tc.op, tc.args, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range tensor.Data[float64](f.Outs[0]) {
			if math.Abs(x-tc.want[i]) > 1e-12 {
				t.Errorf("%s: element %d is %v, want %v", tc.op, i, x, tc.want[i])
			}
		}
	}
}

// TestRefusals: what a file refuses is told as an operator in Go tells it, with the argument and without a place in the
// file; what it does not support is told apart.
func TestRefusals(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2, 4}, make([]float64, 8))
	ids := tensor.New(tensor.Int64, []int{2}, []int64{0, 7})
	for _, tc := range []struct {
		name        string
		args        []value.Value
		want        string
		unsupported bool
	}{
		{"torch_npu.npu_geglu", []value.Value{x, int64(-1), int64(3)},
			`op npu_geglu: argument "approximate": want 0 or 1, got 3`, false},
		{"flash_attn.bert_padding.index_first_axis", []value.Value{x, ids},
			`op index_first_axis: argument "indices": row 7 is not among 2`, false},
		{"torch_npu.npu_swiglu", []value.Value{x, int64(5)}, "op npu_swiglu: argument", false},
		{"dlinfer.ops.linear", []value.Value{x, x, nil, true}, `argument "all_reduce": a sum over processes`, true},
	} {
		c, err := registry().Bind(tc.name, tc.args, nil)
		if err == nil {
			_, err = c.Forward()
		}
		var refused *opdef.RefusedError
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), ".star") {
			t.Errorf("%s: got error %v, want %s", tc.name, err, tc.want)
		} else if !errors.As(err, &refused) || refused.Limit != tc.unsupported {
			t.Errorf("%s: got %#v, want unsupported %v", tc.name, err, tc.unsupported)
		}
	}
}

// TestChecks runs every check of package opcheck on the operators of the files.
func TestChecks(t *testing.T) {
	var tables [][]*opdef.Entry
	for _, f := range vendors.Families() {
		tables = append(tables, f.Entries())
	}
	reg, err := opdef.NewRegistry(tables...)
	if err != nil {
		t.Fatal(err)
	}
	s := &opcheck.Suite{Registry: reg, Seed: 1}
	for _, e := range reg.Entries() {
		t.Run(e.Op(), func(t *testing.T) {
			t.Parallel()
			for _, f := range s.Entry(e) {
				t.Error(f)
			}
		})
	}
}

// TestNamespaces: each name of a file is in a namespace that makes it be read, and each
// namespace has a name.
func TestNamespaces(t *testing.T) {
	for _, f := range vendors.Families() {
		used := map[string]bool{}
		for _, e := range f.Entries() {
			for _, n := range e.Names {
				first, _, _ := strings.Cut(strings.TrimPrefix(n, "torch.ops."), ".")
				if used[first] = true; !slices.Contains(f.Namespaces, first) {
					t.Errorf("%s: %s answers to %s, whose namespace is not among %v", e.Place, e.Op(), n, f.Namespaces)
				}
			}
		}
		for _, n := range f.Namespaces {
			if !used[n] {
				t.Errorf("no operator of a file is in its namespace %s", n)
			}
		}
	}
}
