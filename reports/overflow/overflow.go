// Package overflow looks for inf and nan in the values of a recorded call, and
// describes each tensor: smallest and largest element, mean, standard deviation
// and norm over those that are finite.
package overflow

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/cmplx"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/checkpoint"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Call is what the check of one call found.
type Call struct {
	Title    string // a line that names the call
	Results  reports.Results
	Failures []error // files that could not be read; each has a result too
	// Unwritten counts files into which torch saved nothing; each has a result too.
	Unwritten int

	// Registry has the operators by which values are known that nothing was written to; it may be nil.
	Registry *opdef.Registry

	known    map[*tensor.Tensor]reports.Stats // large tensors that a value holds more than once are read once
	read     int                              // results that have statistics
	overflow bool                             // any value holds inf or nan
	unjudged reports.Unjudged
}

// Add adds a result.
func (c *Call) Add(r *reports.Result) {
	c.Results.Append(r)
	c.unjudged.Add(r)
	if r.Stats != nil {
		c.read++
		c.overflow = c.overflow || r.NaN+r.Inf > 0
	}
}

// New is a call of which nothing was checked yet.
func New(e *capture.Entry) *Call {
	return &Call{Title: fmt.Sprintf("%s    forward_id: %s    %s", e.Op, e.Number(""), e.Rel),
		known: map[*tensor.Tensor]reports.Stats{}}
}

// GiveUp adds that the check of the call ended for a reason, such as a limit. Values checked before stay.
func (c *Call) GiveUp(e *capture.Entry, err error) {
	r := &reports.Result{Phase: "forward", Verdict: verdict.Error, Reason: err.Error()}
	results.Locate(r, e, e.Op)
	c.Add(r)
	c.Failures = append(c.Failures, fmt.Errorf("%s: %w", e.Rel, err))
}

// Check checks every value of the recorded call that c is about. If it panics, what was checked by then stays.
func (c *Call) Check(e *capture.Entry, read pthformat.ReadMode) {
	recorded, _ := e.Load(capture.LoadOptions{Read: read}) // gives what could be read, also with an error
	defer recorded.Close()
	c.Title = fmt.Sprintf("%s    forward_id: %s    %s", recorded.Op, e.Number(recorded.Identifier), e.Rel)
	for _, k := range capture.Kinds() {
		err := recorded.Err(k)
		switch {
		case errors.Is(err, capture.ErrNoFile):
		case errors.Is(err, capture.ErrNotCapture) && !e.ByOther():
			c.values(e, k, read)
		case err != nil:
			c.refuse(e, recorded.Op, k, err)
		default:
			c.file(e, recorded, k)
		}
	}
	if c.Registry != nil && c.Overflow() {
		results.MarkNotFinite(c.Results.Kept(), replay.Of(recorded, replay.Options{Registry: c.Registry}).NotFinite())
	}
}

// Overflow reports whether any value holds inf or nan.
func (c *Call) Overflow() bool { return c.overflow }

// Write prints op_tools' table of some of the call's results, with a row for each value that could be read, in lines
// of at most width columns, 0 for no limit.
func (c *Call) Write(w io.Writer, width int, some []*reports.Result) error {
	var rows []reports.OverflowRow
	for _, r := range some {
		if r.Stats != nil {
			rows = append(rows, r.OverflowRow())
		}
	}
	if _, err := fmt.Fprintln(w, reports.OneLine(c.Title)); err != nil {
		return err
	}
	if err := reports.WriteOverflow(w, width, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// refuse records a file that could not be read.
func (c *Call) refuse(e *capture.Entry, op string, k capture.Kind, err error) {
	phase, _ := results.Phase(k)
	r := &reports.Result{Phase: phase, Verdict: verdict.Invalid, Reason: err.Error(),
		Unwritten: errors.Is(err, pthformat.ErrNothingSaved)}
	if r.Unwritten {
		c.Unwritten++
	} else {
		c.Failures = append(c.Failures, err)
	}
	results.Locate(r, e, op)
	c.Add(r)
}

// file checks the leaves of one file.
func (c *Call) file(e *capture.Entry, recorded *capture.Call, k capture.Kind) {
	refuse := func(err error) {
		c.refuse(e, recorded.Op, k, &capture.FileError{Path: e.RelPath(capture.Device, k), Err: err})
	}
	leaves, err := value.Leaves(recorded.Values(k))
	if err != nil {
		refuse(err)
		return
	}
	phase, target := results.Phase(k)
	for i, v := range leaves {
		all, err := value.Open("", v)
		if err != nil {
			refuse(err)
			continue
		}
		for j, n := range all {
			r := &reports.Result{Phase: phase, Target: fmt.Sprintf("%s[%d]", target, i),
				Label: fmt.Sprintf("%s[%d]", k, i)}
			if j > 0 {
				r.Target, r.Label = value.Join(r.Target, n.Name), value.Join(r.Label, n.Name)
			}
			results.Locate(r, e, recorded.Op)
			c.add(r, n.Value, refuse)
		}
	}
}

// add adds the result of a value.
func (c *Call) add(r *reports.Result, v value.Value, refuse func(error)) {
	quota.Check()
	r.Verdict = verdict.Pass
	if reason := unread(v); reason != "" {
		r.Verdict, r.Reason = verdict.Unsupported, reason
		c.Add(r)
		return
	}
	t, _ := v.(*tensor.Tensor)
	if known, ok := c.known[t]; ok && t != nil {
		describe(t, r)
		*r.Stats = known
	} else if err := examine(v, r); err != nil {
		refuse(err)
		return
	} else if t != nil && t.Numel() > t.Block() {
		c.known[t] = *r.Stats
	}
	if r.NaN+r.Inf > 0 {
		r.Verdict, r.Reason = verdict.Fail, countText(r.NaN, r.Inf)
	}
	c.Add(r)
}

// unread says what a value is that may hold inf or nan, but cannot be read; "" for others.
func unread(v value.Value) string {
	switch v := v.(type) {
	case *value.Opaque:
		if !v.Whole {
			return cmp.Or(v.Reason, "object of class "+v.Global)
		}
	case *tensor.Tensor:
		if v.DType == tensor.Bits8 { // the quantized dtypes and float4 have neither
			return "elements that are no numbers"
		}
	}
	return ""
}

// values checks a file that holds values by name instead of a call.
func (c *Call) values(e *capture.Entry, k capture.Kind, read pthformat.ReadMode) {
	c.Title = e.Rel
	refuse := func(err error) { c.refuse(e, "", k, &capture.FileError{Path: e.RelPath(capture.Device, k), Err: err}) }
	f, err := pthformat.Open(e.Path(capture.Device, k), pthformat.Options{Read: read})
	if err != nil {
		refuse(err)
		return
	}
	defer f.Close()
	named, err := checkpoint.Flatten(f.Root)
	if err != nil {
		refuse(err)
		return
	}
	for _, n := range named {
		r := &reports.Result{}
		results.Locate(r, e, n.Name)
		r.Phase, r.Target = "forward", n.Name
		c.add(r, n.Value, refuse)
	}
}

// examine fills in a value's statistics.
func examine(v value.Value, r *reports.Result) error {
	r.Stats = &reports.Stats{}
	switch v := v.(type) {
	case float64:
		countScalar(r.Stats, math.IsNaN(v), math.IsInf(v, 0))
	case complex128:
		countScalar(r.Stats, math.IsNaN(real(v)) || math.IsNaN(imag(v)), cmplx.IsInf(v))
	case *tensor.Tensor:
		describe(v, r)
		if !v.DType.Computable() {
			return nil
		}
		if s := v.Summary(); s != nil {
			*r.Stats = ofSummary(s)
			return nil
		}
		st, err := statsOf(v)
		if err != nil {
			return err
		}
		if pthformat.IsTime(v) {
			st.nan = notTimes(v)
		}
		*r.Stats = reports.Stats{NaN: st.nan, Inf: st.inf, Min: known(st.min), Max: known(st.max),
			Mean: known(st.mean), Std: known(st.std), Norm: reports.Num(st.norm)}
	}
	return nil
}

// describe fills in what a tensor is, and no statistics.
func describe(t *tensor.Tensor, r *reports.Result) {
	r.Stats = &reports.Stats{}
	if t.DType.Computable() {
		dtype, n := t.DType.String(), t.Numel()
		r.DType, r.Shape, r.Numel = &dtype, results.Shape(t.Shape), &n
	}
}

// notTimes counts the NaT of times.
func notTimes(t *tensor.Tensor) int {
	n := 0
	v := make([]int64, min(t.Block(), t.Numel()))
	for lo := 0; lo < t.Numel(); lo += len(v) {
		part := v[:min(len(v), t.Numel()-lo)]
		tensor.Load(t, lo, part)
		for _, x := range part {
			if x == pthformat.NotATime {
				n++
			}
		}
	}
	return n
}

// ofSummary is what statistics without elements tell: that there is at least one
// nan, or one inf.
func ofSummary(s *tensor.Summary) reports.Stats {
	number := func(x *float64) *reports.Number {
		if x == nil {
			return nil
		}
		return reports.Num(*x)
	}
	st := reports.Stats{Min: number(s.Min), Max: number(s.Max), Mean: number(s.Mean), Norm: number(s.Norm)}
	for _, x := range []*float64{s.Min, s.Max} {
		switch {
		case x == nil:
		case math.IsNaN(*x):
			st.NaN = 1
		case math.IsInf(*x, 0):
			st.Inf = 1
		}
	}
	return st
}

// countScalar counts a number that is no tensor: nan in either part goes first.
func countScalar(s *reports.Stats, nan, inf bool) {
	switch {
	case nan:
		s.NaN = 1
	case inf:
		s.Inf = 1
	}
}

// known is x for JSON, null where a statistic does not exist.
func known(x float64) *reports.Number {
	if math.IsNaN(x) {
		return nil
	}
	return reports.Num(x)
}

func countText(nan, inf int) string {
	var parts []string
	if nan > 0 {
		parts = append(parts, fmt.Sprintf("%d nan", nan))
	}
	if inf > 0 {
		parts = append(parts, fmt.Sprintf("%d inf", inf))
	}
	return strings.Join(parts, ", ")
}

// A Summary is the last line of a check.
type Summary struct {
	Kind        string `json:"kind"`
	Captures    int    `json:"captures"`
	Values      int    `json:"values"`
	Overflow    int    `json:"overflow"`  // captures that hold inf or nan
	Refused     int    `json:"refused"`   // files and directories that could not be read
	Unwritten   int    `json:"unwritten"` // files into which torch saved nothing
	Interrupted bool   `json:"interrupted"`
	reports.Unjudged
	Exit int `json:"exit_code"`
	// Settings are what the run was told about what to check.
	Settings reports.Settings `json:"settings,omitempty"`
}

// Add counts a call.
func (s *Summary) Add(c *Call) {
	s.Captures++
	s.Unjudged.Join(&c.unjudged)
	s.Values += c.read
	s.Refused += len(c.Failures)
	s.Unwritten += c.Unwritten
	if c.Overflow() {
		s.Overflow++
	}
}

// Write prints the totals; where the style is quiet, only what was not judged.
func (s *Summary) Write(w io.Writer, st reports.Style) error {
	if text := s.Unjudged.String(); text != "" {
		fmt.Fprintln(w, st.Wrap(text, 2))
	}
	if st.Quiet {
		return nil
	}
	_, err := fmt.Fprintln(w, s)
	return err
}

// String is the last line of the totals.
func (s *Summary) String() string {
	text := fmt.Sprintf("%s, %s: inf or nan in %s", reports.Count(s.Captures, "capture"),
		reports.Count(s.Values, "value"), reports.Count(s.Overflow, "capture"))
	if s.Unwritten > 0 {
		text += "; " + reports.NothingSaved(s.Unwritten)
	}
	return text
}
