package parallel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
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
			c.Entry.Unended = "killed"
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
		number := map[*step.Call]int{}
		for _, p := range tc.ranks {
			numberSteps(p, func(e *capture.Entry) int { return e.Step }, number)
		}
		for _, ps := range bySteps(tc.ranks, number) {
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

// TestUnknown: where ranks were not recorded, what a part exchanges with others than its own ranks is not known, also
// if these were recorded and are of another part.
func TestUnknown(t *testing.T) {
	for _, tc := range []struct {
		group   []int
		missing map[int]bool
		want    bool
	}{
		{[]int{0, 2}, map[int]bool{3: true}, false},
		{[]int{0, 1}, map[int]bool{3: true}, true},
		{[]int{2, 3}, map[int]bool{3: true}, true},
		{[]int{0, 1}, nil, false},
	} {
		p := &part{mesh: &mesh{ranks: []int{0, 2}}, checker: &checker{missing: tc.missing}}
		call := &step.Call{Op: "torch.distributed.all_reduce", Entry: &capture.Entry{Group: tc.group}}
		if got := p.unknown(call); got != tc.want {
			t.Errorf("%v without %v: got %v", tc.group, tc.missing, got)
		}
	}
}

// TestMultiplied: a rank that recorded a line without a loss behind it recorded that line.
func TestMultiplied(t *testing.T) {
	process := func(rank int, lines ...string) *step.Process {
		p := &step.Process{Rank: rank}
		for _, line := range lines {
			at, order := strings.TrimPrefix(line, "idle "), 1
			if at != line {
				order = -1
			}
			p.Calls = append(p.Calls, &step.Call{Op: "torch.Tensor.mul", Outputs: []*step.Value{{}},
				Entry: &capture.Entry{Location: at, BackwardOrder: order, Within: -1, WithinBackward: -1}})
		}
		return p
	}
	for _, tc := range []struct {
		ranks []*step.Process
		want  string // the line that is found
	}{
		{[]*step.Process{process(0, "a"), process(1, "a")}, ""},
		{[]*step.Process{process(0, "a"), process(1, "a", "b")}, "b"},
		{[]*step.Process{process(0, "a"), process(1, "idle a", "b")}, "b"},
		{[]*step.Process{process(0, "a"), process(1, "idle a")}, ""},
		{[]*step.Process{process(0), process(1, "idle a")}, ""},
	} {
		got := ""
		if v := multiplied(tc.ranks); v != nil {
			got = v.call.Entry.Location
		}
		if got != tc.want {
			t.Errorf("found %q, want %q", got, tc.want)
		}
	}
}

// TestMistakeKeepsTheRest: a mistake of this package costs the judgement of the ranks as one program, and nothing else.
func TestMistakeKeepsTheRest(t *testing.T) {
	tr := &step.Trace{Processes: []*step.Process{{Rank: 0, Calls: []*step.Call{nil}}, {Rank: 1}}}
	err := Check(t.Context(), tr, step.Options{}, nil)
	if !errors.As(err, new(*replay.InternalError)) {
		t.Fatalf("the error is %v", err)
	}
	if len(tr.Unjoined) != 1 || !strings.HasPrefix(tr.Unjoined[0].What, "2 ranks not judged as one program: internal error") {
		t.Errorf("the trace says %v", tr.Unjoined)
	}
}
