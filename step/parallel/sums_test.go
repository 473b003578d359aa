package parallel

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// TestUnsummed: parts of a partial sum next to parts of a whole lack a reduction; next to a value of which nothing is
// known they may be on their way through one.
func TestUnsummed(t *testing.T) {
	made := &site{calls: map[int]*step.Call{0: {Op: "torch.chunk", Entry: &capture.Entry{}}}}
	pieces := &info{pieces: true, made: made}
	for _, tc := range []struct {
		other *info
		want  bool
	}{{&info{places: []place{{kind: sharded, factor: 1}}}, true}, {nil, false}, {&info{lost: true}, false}} {
		p := &part{mesh: &mesh{ranks: []int{0, 1}}}
		if got := p.unsummed(&site{in: []*info{tc.other, pieces}}, nil); got != tc.want || got != (len(p.broken) == 1) {
			t.Errorf("next to %+v: %t", tc.other, got)
		}
	}
}

// TestMeans: a DTensor that is the mean of the ranks' gradients is not their sum.
func TestMeans(t *testing.T) {
	for mean, want := range map[bool]float64{false: 8, true: 4} {
		tails := map[int]*tail{}
		for r, x := range []float64{3, 5} {
			g := &array{dtype: tensor.Float32, shape: []int{1}, x: []float64{x}}
			tails[r] = &tail{updates: map[string][]update{"w": {{gradient: g, terms: []int{0, 1}, mean: mean}}}}
		}
		(&part{mesh: &mesh{ranks: []int{0, 1}}}).addTerms(tails)
		if got := tails[0].updates["w"][0].gradient.x[0]; got != want {
			t.Errorf("mean %t: %g, want %g", mean, got, want)
		}
	}
}
