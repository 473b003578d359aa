package step

import (
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
)

// TestSeen: what is counted of a step in which everything is linked, and the gap of a step whose recorder lacks weight
// gradients.
func TestSeen(t *testing.T) {
	for _, tc := range []struct {
		trace *Trace
		gap   string // "" if only zeros were not judged
	}{
		{analyse(t, unpack(t, "scaler")), ""},
		{analyse(t, unpack(t, "accumulate")), ""},
		{analyse(t, unpack(t, "two-optimizers")), ""},
		{open(t, "picked"), "call without recorded weight gradients: faults there cannot be seen"},
	} {
		s := tc.trace.Seen()
		found := false
		for _, g := range s.Gaps {
			found = found || tc.gap != "" && strings.Contains(g.What, tc.gap)
			if tc.gap == "" && !strings.HasSuffix(g.What, "zero on both sides") {
				t.Errorf("gap %+v", g)
			}
		}
		if found != (tc.gap != "") {
			t.Errorf("no gap %q in %+v", tc.gap, s.Gaps)
		}
		if tc.gap == "" && (s.Proven != s.Links || s.Unexplained > 0 || s.ByContent == 0 || s.ByAddress == 0) {
			t.Errorf("not all is proven: %s", s)
		}
		if s.Calls != len(tc.trace.Calls()) || s.Judged > s.Calls || s.All() != (len(s.Gaps) == 0) {
			t.Errorf("counts are %+v", s)
		}
	}
}

// TestUnended: nothing is an all-clear where a recording has no end.
func TestUnended(t *testing.T) {
	tr := analyse(t, unpack(t, "scaler"))
	before := len(tr.Seen().Gaps)
	for _, c := range tr.Calls() {
		c.Entry.Unended = "the program was killed in step 0"
	}
	gaps := tr.Seen().Gaps
	if len(gaps) != before+1 || !strings.Contains(gaps[0].What, "a recording is not whole: the program was killed in step 0") {
		t.Errorf("gaps %+v", gaps)
	}
}

// TestUnaddressed: nothing is an all-clear, and no input is linked for certain, where addresses were not recorded.
func TestUnaddressed(t *testing.T) {
	tr := analyse(t, unpack(t, "scaler"))
	before, links := tr.Seen(), 0
	for _, c := range tr.Calls() {
		for _, v := range c.Inputs {
			v.Address = 0
			if v.From.How == ByContent {
				links++
			}
		}
	}
	s := tr.Seen()
	if !strings.Contains(s.Gaps[0].What, "values read without a recorded address") {
		t.Errorf("gaps %+v", s.Gaps)
	}
	if s.ByContentOnly != links || s.ByContent != before.ByContent-links || s.Links != before.Links {
		t.Errorf("%d of %d links are known by content only: %s", s.ByContentOnly, links, s)
	}
}

// TestNoLoss: a recording of updates alone is no all-clear; one without updates has no gap for it.
func TestNoLoss(t *testing.T) {
	for _, update := range []bool{true, false} {
		c := &Call{Entry: &capture.Entry{}, Op: "torch._foreach_add_", writes: true}
		v := &Value{Call: c, Kind: inputKind, Address: 64, Shape: []int{2}, RequiresGrad: update}
		c.Inputs, c.Outputs = []*Value{v}, []*Value{{Call: c, Kind: outputKind, Address: 64}}
		s := (&Trace{Processes: []*Process{{Calls: []*Call{c}}}}).Seen()
		if got := strings.Contains(s.Gaps[0].What, "no loss was recorded"); got != update {
			t.Errorf("updates %v: gaps %+v", update, s.Gaps)
		}
	}
}

// TestTurned: a transposed square parameter is no update.
func TestTurned(t *testing.T) {
	c := &Call{Entry: &capture.Entry{}, Op: "torch.Tensor.transpose", writes: true}
	v := &Value{Call: c, Kind: inputKind, Address: 64, Shape: []int{2, 2}, Stride: []int{2, 1}, Parameter: true}
	o := &Value{Call: c, Kind: outputKind, Address: 64, Shape: []int{2, 2}, Stride: []int{1, 2}}
	c.Inputs, c.Outputs = []*Value{v}, []*Value{o}
	p := &Process{Calls: []*Call{c}}
	if got := p.firstUpdate(); got != nil {
		t.Errorf("%s updates a parameter", got.Op)
	}
	if o.Stride = v.Stride; p.firstUpdate() != c {
		t.Error("a written parameter is no update")
	}
}

// TestPiecewise: updates are judged call by call where basic operators write a parameter behind the loss. They are not
// where one call is the step of an optimizer, where a call makes them, or where they only fill or copy.
func TestPiecewise(t *testing.T) {
	for _, tc := range []struct {
		op    string
		phase int
		inner bool
		want  bool
	}{
		{"torch.Tensor.addcdiv_", 1, false, true},
		{"torch._foreach_addcdiv_", 1, false, true},
		{"torch.Tensor.addcdiv_", 1, true, false},
		{"torch.Tensor.addcdiv_", 0, false, false},
		{"torch.Tensor.copy_", 1, false, false},
		{"torch._fused_adamw_", 1, false, false},
	} {
		s := &Step{}
		c := &Call{Op: tc.op, writes: true, Step: s, Order: 1, Verdict: verdict.Pass}
		v := &Value{Call: c, Kind: inputKind, Target: "input[0]", Address: 64, Shape: []int{2}, RequiresGrad: true}
		c.Inputs, c.Outputs = []*Value{v}, []*Value{{Call: c, Kind: outputKind, Address: 64}}
		if tc.inner {
			c.outer = &Call{}
		}
		if tc.phase == 1 {
			s.Tail = []*Call{c}
		}
		tr := &Trace{Processes: []*Process{{Calls: []*Call{c}}}}
		if got := tr.Piecewise(); (got == c) != tc.want {
			t.Errorf("%+v: got %v", tc, got)
		}
	}
}

// TestReadAtFirst: a loss of a step that was not recorded is a leaf where it is read before any call gives a tensor; a
// tensor that appears later is not, and neither is one that the first call computes with.
func TestReadAtFirst(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before int // calls that give a tensor
		gives  bool
		want   Seen
	}{
		{"printed", 0, false, Seen{Leaves: 1}},
		{"printed later", 1, false, Seen{Links: 1, Unexplained: 1}},
		{"computed with", 0, true, Seen{Links: 1, Unexplained: 1}},
	} {
		p := &Process{}
		for range tc.before {
			p.Calls = append(p.Calls, &Call{Process: p, Outputs: []*Value{{}}})
		}
		c := &Call{Process: p, Entry: &capture.Entry{}, Order: tc.before}
		if p.Calls = append(p.Calls, c); tc.gives {
			c.Outputs = []*Value{{Call: c}}
		}
		v := &Value{Call: c, Kind: inputKind, Target: "input[0]", Address: 64, From: Link{How: IsOutside}}
		var got Seen
		got.link(v, &gaps{by: map[string]*Gap{}})
		if got.Leaves != tc.want.Leaves || got.Links != tc.want.Links || got.Unexplained != tc.want.Unexplained {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}
