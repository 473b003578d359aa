package parallel

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
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
		if got := p.unsummed(&site{in: []*info{tc.other, pieces}}); got != tc.want || got != (len(p.broken) == 1) {
			t.Errorf("next to %+v: %t", tc.other, got)
		}
	}
}
