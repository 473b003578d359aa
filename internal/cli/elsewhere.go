package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// causesOf are the causes of what fails in a call. All screens show these. First come other values that have the
// elements, then mistakes under which the reference gives them. An error keeps what was found before it.
func causesOf(ctx context.Context, paths []string, e *capture.Entry, call *replay.Call, outcome *replay.Outcome,
	until time.Time) (out []reports.Cause, err error) {
	for i := range outcome.Results {
		if r := &outcome.Results[i]; r.Phase == replay.Forward && r.Layout == "" && r.Device == "" {
			out = append(out, elsewhere(ctx, paths, e, call, r, until)...)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	err = replay.Guard(func() error {
		for _, c := range call.Causes(outcome, until) {
			out = append(out, results.OfCause(e, c))
		}
		return nil
	})
	return out, err
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
func elsewhere(ctx context.Context, paths []string, e *capture.Entry, call *replay.Call, r *replay.Result,
	until time.Time) []reports.Cause {
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
			return ok && t.DType == got.DType && slices.Equal(t.Shape, got.Shape) &&
				bytes.Equal(t.AppendBytes(nil), b) && call.Explained(r, tried, t)
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
		for other, err := range capture.Scan(ctx, paths, capture.Options{}) {
			if time.Now().After(until) {
				return nil
			}
			if err != nil || other.PID != e.PID || other.Rank != e.Rank || other.Position() >= e.Position() {
				continue
			}
			rec, _ := other.Load(capture.LoadOptions{Only: capture.Of(capture.Output)})
			for i, t := range rec.Outputs() {
				text := fmt.Sprintf("output[%d] of the earlier %s, id %d,", i, other.Op, other.ID)
				if same(t) {
					what, exact = text+" is returned", true
				}
				if what == "" {
					k := call.SumOf(r, tried, text, t)
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

// largestElsewhere is the size in bytes of a result up to which others are compared.
const largestElsewhere = 1 << 26
