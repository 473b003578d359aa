package parallel

import (
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// TestDeclared: a DTensor that is said to be replicated is the same on all ranks of one dimension of the mesh.
func TestDeclared(t *testing.T) {
	call := &step.Call{Entry: &capture.Entry{}}
	for _, tc := range []struct {
		name   string
		copies int
		ranks  [2]float64
		known  *info
		says   string
	}{
		{name: "no DTensor", ranks: [2]float64{1, 2}},
		{name: "replicated", copies: 1, ranks: [2]float64{1, 1}},
		{name: "of several meshes", copies: 2, ranks: [2]float64{1, 1}},
		{name: "others", copies: 1, ranks: [2]float64{1, 2}, says: "hold different elements of it"},
		{name: "partial sum", copies: 1, ranks: [2]float64{1, 2}, known: &info{places: []place{sum(1)}},
			says: "lacks an all_reduce"},
		{name: "after another fault", copies: 1, ranks: [2]float64{1, 2}, known: &info{lost: true}},
	} {
		m := &mesh{ranks: []int{0, 1}, dims: []dimension{{size: 2, groups: [][]int{{0, 1}}}}}
		p := &part{mesh: m}
		sides := map[int]*side{}
		for r, x := range tc.ranks {
			a := &array{tensor.Float32, []int{2}, []float64{x, 3}}
			sides[r] = &side{ins: []argument{{array: a, copies: tc.copies}}}
		}
		s := &site{calls: map[int]*step.Call{0: call, 1: call}, in: []*info{tc.known}}
		p.declared(s, sides)
		says := ""
		if len(p.broken) > 0 {
			says = p.broken[0].reason
		}
		if (says == "") != (tc.says == "") || !strings.Contains(says, tc.says) {
			t.Errorf("%s: %q", tc.name, says)
		}
	}
}

// TestRoundAsSent: gradients that ranks add up in a narrower dtype are no more exact than that.
func TestRoundAsSent(t *testing.T) {
	g := &gradient{sum: map[int]*array{0: {tensor.Float32, []int{2}, []float64{1, 2}}}}
	p := &part{mesh: &mesh{ranks: []int{0}}, order: []string{"w"}, grads: map[string]*gradient{"w": g}}
	for _, tc := range []struct {
		op   string
		sent tensor.DType
		x    []float64
		want tensor.DType
	}{
		{"torch.distributed.all_reduce", tensor.Float32, make([]float64, 2), tensor.Float32},
		{"torch.distributed.all_gather", tensor.BFloat16, make([]float64, 2), tensor.Float32},
		{"torch.distributed.all_reduce", tensor.BFloat16, make([]float64, 1), tensor.Float32}, // a count, or a norm
		{"torch.distributed.all_reduce", tensor.BFloat16, make([]float64, 2), tensor.BFloat16},
	} {
		call := &step.Call{Op: tc.op, Inputs: []*step.Value{{DType: tc.sent}}}
		p.roundAsSent(map[int]*tail{0: {exchanges: []exchanged{{call: call, x: tc.x}}}})
		if got := g.sum[0].dtype; got != tc.want {
			t.Errorf("%s of %d elements of %s: %s", tc.op, len(tc.x), tc.sent, got)
		}
	}
}
