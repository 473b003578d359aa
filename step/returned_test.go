package step

import (
	"math"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestEncloses: which calls a call made, itself or by others.
func TestEncloses(t *testing.T) {
	entry := func(id, within int) *capture.Entry {
		e := &capture.Entry{Within: within}
		e.ID = id
		return e
	}
	p := &Process{}
	for i, within := range []int{-1, 0, 1, -1, 3} { // by number
		p.Calls = append(p.Calls, &Call{Process: p, Order: i, Entry: entry(i, within)})
	}
	p.nest()
	for _, tc := range []struct {
		outer, inner int
		want         bool
	}{{0, 1, true}, {0, 2, true}, {1, 2, true}, {0, 3, false}, {0, 4, false}, {3, 4, true}, {1, 0, false},
		{2, 2, false}} {
		if got := p.Calls[tc.outer].encloses(p.Calls[tc.inner]); got != tc.want {
			t.Errorf("%d encloses %d: got %v", tc.outer, tc.inner, got)
		}
	}
}

// TestCounts: an effect that a judged call has as a whole is not added again for the calls that it made.
func TestCounts(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name         string
		outer, inner float64
		verdict      verdict.Verdict // of the outer call
		want         float64
	}{
		{"both are known", 3, 2, verdict.Pass, 3},
		{"the outer call is not known", nan, 2, verdict.Unsupported, 2},
		{"the outer call has no gradient", nan, 2, verdict.Pass, 2},
	} {
		outer := &Call{Verdict: tc.verdict, Effect: tc.outer}
		s := &Step{Calls: []*Call{outer, {Effect: tc.inner, outer: outer}}}
		if sums := s.Sums(func(*Call) string { return "" }); len(sums) != 1 || sums[0].Effect != tc.want ||
			sums[0].Calls != 1 {
			t.Errorf("%s: %+v, want one call with %g", tc.name, sums, tc.want)
		}
		if top := s.Largest(2); len(top) != 1 || top[0].Effect != tc.want {
			t.Errorf("%s: largest %+v, want one call with %g", tc.name, top, tc.want)
		}
	}
}

// TestCopiedOver: a parameter that equals a result at another address does not hold what the update left, unless torch
// has counted the copy or it is another tensor.
func TestCopiedOver(t *testing.T) {
	for _, tc := range []struct {
		name, was, now string // what the parameter is called when it is written and when it is read
		writes         int    // that torch counted since the update
		later          bool   // a later reading finds the parameter as the update left it
		want           bool
	}{
		{"the same tensor", "weight", "weight", 0, true, true},
		{"written in between", "weight", "weight", 2, true, false},
		{"another tensor", "weight", "bias", 0, true, false},
		{"without a name now", "weight", "", 0, false, false},
		{"without a name", "", "", 0, false, true},
		{"without a name, found again", "", "", 0, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &Process{}
			add := func(op string, step int, v *Value) *Value {
				v.DType, v.Shape, v.Stride, v.item = tensor.Float32, []int{8}, []int{1}, -1
				v.Call = &Call{Op: op, Order: len(p.Calls), Step: &Step{Number: step}, Process: p}
				p.Calls = append(p.Calls, v.Call)
				return v
			}
			update := add("torch.Tensor.add_", 0, &Value{Kind: outputKind, Address: 64, version: 3, named: tc.was})
			old := add("torch.Tensor.roll", 0, &Value{Kind: outputKind, Address: 128})
			v := add("torch.nn.functional.linear", 1, &Value{Kind: inputKind, Address: 64, version: 3 + tc.writes,
				named: tc.now, latest: update, From: Link{How: ByContent, Value: old}})
			v.Call.Inputs = []*Value{v}
			later := add("torch.nn.functional.linear", 1, &Value{Kind: inputKind,
				From: Link{How: ByContent, Value: update}})
			if tc.later {
				update.readers = []*Value{later}
			}
			p.findReturned()
			if got := v.From.How == IsChanged; got != tc.want || got && v.From.Value != update {
				t.Errorf("changed: %v of %v, want %v", got, v.From.Value.Call, tc.want)
			}
		})
	}
}

// TestWrittenLater: what lies where a collective may write after it was recorded is not what the call before it wrote.
func TestWrittenLater(t *testing.T) {
	value := func(c *Call, kind capture.Kind, sum uint64) *Value {
		return &Value{Call: c, Kind: kind, DType: tensor.Float32, Shape: []int{8}, Stride: []int{1}, Address: 64,
			content: fingerprint{sum: sum, block: sum}}
	}
	for op, written := range map[string]bool{"torch.distributed.all_reduce": false, "torch.Tensor.view": true} {
		mul := &Call{Order: 0, Op: "torch.Tensor.mul", Verdict: verdict.Pass, Entry: &capture.Entry{}}
		w := value(mul, outputKind, 5)
		reads := value(&Call{Order: 1, Op: op, Entry: &capture.Entry{}}, inputKind, 5)
		reads.From = Link{How: ByStorage, Value: w}
		v := value(&Call{Order: 2, Op: "torch.Tensor.add", Entry: &capture.Entry{}}, inputKind, 9)
		v.latest = reads
		if got := v.overwritten() == w; got != written {
			t.Errorf("behind %s: it is what a call overwrote: %t, want %t", op, got, written)
		}
	}
}
