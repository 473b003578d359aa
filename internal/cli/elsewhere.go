package cli

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// searches are what the searches for the causes of a run share.
type searches struct {
	past   pastResults
	budget causes.Budget
	found  map[string][]string // causes that were found, by the operator
}

// allow is what the search for the causes of a finding may take of the run's budget, whose call takes so much work to
// look at again. It is nil if nothing is left.
func (s *searches) allow(turn reports.Turn, again float64) *causes.Allowance {
	if turn.Further {
		return s.budget.Further(turn.Findings, again)
	}
	return s.budget.Allow(turn.Findings)
}

// spent reports whether nothing is left of the budget for a finding that is printed as a line.
func (s *searches) spent(turn reports.Turn) bool {
	return turn.Further && s.budget.Further(turn.Findings, 0) == nil
}

// explain adds to what was found about a finding why its call is wrong, if the budget allows to look for it.
func (s *searches) explain(ctx context.Context, paths []string, e *capture.Entry, call *replay.Call,
	outcome *replay.Outcome, until time.Time, turn reports.Turn, f *reports.Explained) (err error) {
	allowed := s.allow(turn, call.SearchWork())
	if f.Unsought = allowed == nil; f.Unsought {
		return nil
	}
	allowed.Until = until
	f.Sought = call.Seeks(outcome)
	f.Causes, err = s.causesOf(ctx, paths, e, call, outcome, allowed)
	f.Short = allowed.Short
	f.Kept = recordingAbove(e) != "" && keptWrong(e, outcome, f.Causes)
	return err
}

// causesOf are the causes of what fails in a call. All screens show these. First come other values that have the
// elements, then mistakes under which the reference gives them. An error keeps what was found before it.
func (s *searches) causesOf(ctx context.Context, paths []string, e *capture.Entry, call *replay.Call,
	outcome *replay.Outcome, allowed *causes.Allowance) (out []reports.Cause, err error) {
	for i := range outcome.Results {
		if r := &outcome.Results[i]; r.Phase == replay.Forward && r.Layout == "" && r.Device == "" {
			out = append(out, elsewhere(ctx, &s.past, paths, e, call, r)...)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if s.found == nil {
		s.found = map[string][]string{}
	}
	allowed.Likely = s.found[call.Op]
	err = replay.Guard(func() error {
		for _, c := range call.Causes(outcome, allowed) {
			out = append(out, results.OfCause(e, c))
			if !c.Pattern && !slices.Contains(allowed.Likely, c.Text) {
				s.found[call.Op] = append(s.found[call.Op], c.Text)
			}
		}
		return nil
	})
	s.budget.Spend(allowed.Took)
	return out, err
}

// keptWrong reports whether what a call kept for its backward pass may have been overwritten: its results are right,
// its gradients are wrong, and no mistake of the operator gives these.
func keptWrong(e *capture.Entry, outcome *replay.Outcome, found []reports.Cause) bool {
	right := false
	for i := range outcome.Results {
		if r := &outcome.Results[i]; r.Phase == replay.Forward {
			if r.Verdict == verdict.Fail {
				return false
			}
			right = right || r.Verdict == verdict.Pass
		}
	}
	return right && outcome.FailedBackward() && !e.IsPair() &&
		!slices.ContainsFunc(found, func(c reports.Cause) bool { return !c.Pattern })
}

// recordingAbove is the directory of the recording that holds a call: the nearest above it that has op_tools' name or a
// file of calls. It is "" if there is none.
func recordingAbove(e *capture.Entry) string {
	dir, err := filepath.Abs(e.Dir)
	if err != nil {
		return ""
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "calls.jsonl")); err == nil {
			return dir
		}
		if dir = filepath.Dir(dir); strings.HasPrefix(filepath.Base(dir), "op_capture_result") {
			return dir
		}
	}
	return ""
}

// elsewhere names another value with the bytes of a wrong result: an argument of the call, or a result of an earlier
// call of the process. Then a buffer was not written. It also names a value that is added to the right one: then a sum
// does not begin with 0. A finding needs the evidence that any cause needs, and elements that differ.
func elsewhere(ctx context.Context, seen *pastResults, paths []string, e *capture.Entry, call *replay.Call,
	r *replay.Result) []reports.Cause {
	got, _, ok := call.Pair(r)
	if !ok || r.Verdict != verdict.Fail || got.Numel() < 2 || got.Bytes() > largestElsewhere {
		return nil
	}
	what, exact, tried := "", true, 0
	err := replay.Guard(func() error {
		b, size := got.AppendBytes(nil), got.DType.Size()
		if bytes.Equal(b[size:], b[:len(b)-size]) {
			return nil
		}
		same := func(v value.Value) bool {
			t, ok := v.(*tensor.Tensor)
			tried++
			return ok && likeTensor(t, got) && bytes.Equal(t.AppendBytes(nil), b) && call.Explained(r, tried, t)
		}
		for _, a := range call.Bound().Tensors() {
			if same(a.Tensor) {
				what = a.Name + " is returned as it is"
				return nil
			}
		}
		if dir := recordingAbove(e); dir != "" { // of which the paths may be a part
			paths = []string{dir}
		}
		before, n := seen.like(ctx, paths, e, call, r)
		tried += n
		for _, o := range before {
			rec, _ := o.entry.Load(capture.LoadOptions{Only: capture.Of(capture.Output)})
			outs := rec.Outputs()
			text := fmt.Sprintf("output[%d] of the earlier %s, id %d,", o.index, o.entry.Op, o.entry.ID)
			if o.index < len(outs) && !slices.ContainsFunc(call.Bound().Tensors(), func(a opdef.Arg) bool {
				return isCopy(a.Tensor, outs[o.index]) // as an argument it has a name
			}) {
				if same(outs[o.index]) {
					what, exact = text+" is returned", true
				} else {
					k := call.SumOf(r, tried, text, outs[o.index])
					what, exact = k.Text, k.Exact
				}
			}
			rec.Close()
			if what != "" {
				return nil
			}
		}
		return nil
	})
	if err != nil || what == "" {
		return nil
	}
	return []reports.Cause{{Capture: e.Rel, Op: e.Op, ForwardID: results.Known(e.ID), Targets: []string{r.Target},
		Text: what, Exact: exact}}
}

// likeTensor reports whether two tensors have the same dtype and shape.
func likeTensor(t, u *tensor.Tensor) bool {
	return t.DType == u.DType && slices.Equal(t.Shape, u.Shape)
}

// isCopy reports whether t has the elements of u, perhaps rounded to its dtype.
func isCopy(t, u *tensor.Tensor) bool {
	if t.DType == u.DType || !t.DType.IsFloat() || !u.DType.IsFloat() || !slices.Equal(t.Shape, u.Shape) {
		return likeTensor(t, u) && bytes.Equal(t.AppendBytes(nil), u.AppendBytes(nil))
	}
	x, y := some(t), some(u)
	for i := range x {
		if float64(x[i]) != t.DType.Round(float64(y[i])) {
			return false
		}
	}
	return true
}

// largestElsewhere is the size in bytes of a result up to which others are compared.
const largestElsewhere = 1 << 26

// pastResults keeps a few elements of each of the results before a call.
type pastResults struct {
	mu     sync.Mutex
	before string // the call, and the paths of the recording
	all    []output
}

// An output is a result of a call, by its place.
type output struct {
	place
	shape uint64 // a hash of it
	some  [sampledOutput]float32
}

const (
	sampledOutput = 8       // elements
	calledBefore  = 1 << 12 // calls before one whose results are looked at
)

// A place is a result of a call.
type place struct {
	entry *capture.Entry
	index int
}

// like are the results of the calls of the process before e that may be a wrong one, or a part of the sum that it is,
// as a few of their elements say, and the number of all that were looked at.
func (s *pastResults) like(ctx context.Context, paths []string, e *capture.Entry, call *replay.Call,
	r *replay.Result) (found []place, earlier int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := strings.Join(append(slices.Clone(paths), e.Rel), "\n"); s.before != before {
		s.before, s.all = before, nil
		s.read(ctx, paths, e)
	}
	got, due, _ := call.Pair(r)
	shape, x, y := hashOf(got.Shape), some(got), some(due)
	for _, o := range s.all {
		if o.shape == shape && causes.MayBeSum(x[:], y[:], o.some[:], got.DType) {
			found = append(found, o.place)
		}
	}
	return found, len(s.all)
}

// read reads the results before a call.
func (s *pastResults) read(ctx context.Context, paths []string, call *capture.Entry) {
	for e, err := range capture.Scan(ctx, paths, capture.Options{}) {
		if err != nil || e.PID != call.PID || e.Rank != call.Rank || e.Position() >= call.Position() ||
			e.Position() < call.Position()-calledBefore {
			continue
		}
		rec, _ := e.Load(capture.LoadOptions{Only: capture.Of(capture.Output)})
		for i, t := range rec.Outputs() {
			_ = replay.Guard(func() error { // what cannot be read is no other value
				if t.Numel() > 1 && t.DType.Computable() && !t.DType.IsComplex() {
					s.all = append(s.all, output{place{e, i}, hashOf(t.Shape), some(t)})
				}
				return nil
			})
		}
		rec.Close()
	}
}

// some are elements of a tensor, evenly spread.
func some(t *tensor.Tensor) (out [sampledOutput]float32) {
	one, n := make([]float64, 1), t.Numel()
	for i := range out {
		tensor.Load(t, i*(n-1)/(sampledOutput-1), one)
		out[i] = float32(one[0])
	}
	return out
}

func hashOf(shape []int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, shape)
	return h.Sum64()
}
