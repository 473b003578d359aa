package parallel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
)

// TestBySteps: ranks are judged step by step, by the steps that all have recorded to their end.
func TestBySteps(t *testing.T) {
	process := func(steps ...int) *step.Process {
		p := &step.Process{}
		for _, n := range steps {
			p.Calls = append(p.Calls, &step.Call{Entry: &capture.Entry{Step: n}})
		}
		return p
	}
	cut := func(p *step.Process) *step.Process {
		for _, c := range p.Calls {
			c.Entry.Unended = true
		}
		return p
	}
	for _, tc := range []struct {
		ranks []*step.Process
		want  string
	}{
		{[]*step.Process{process(0, 0), process(0)}, "[2 1]"},
		{[]*step.Process{process(3, 3, 4), process(3, 4, 4)}, "[2 1] [1 2]"},
		{[]*step.Process{process(0, 1), process(0, 2)}, "[1 1]"},
		{[]*step.Process{process(0, 1), process(2, 3)}, "[2 2]"},
		{[]*step.Process{process(0, 1), cut(process(0, 1))}, "[1 1]"},
		{[]*step.Process{process(1, 0), process(0, 1)}, "[1 1] [1 1]"},
	} {
		var got []string
		for _, ps := range bySteps(tc.ranks) {
			var n []int
			for _, p := range ps {
				n = append(n, len(p.Calls))
			}
			got = append(got, fmt.Sprint(n))
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%d calls of rank 0: got %s, want %s", len(tc.ranks[0].Calls), s, tc.want)
		}
	}
}
