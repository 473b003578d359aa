package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// A Cause is a mistake under which the reference gives what was recorded: another
// argument, an operand that was read or rounded in another way.
type Cause struct {
	Text string // "eps is 0.01, not 1e-05"
	// Targets are the values that fail and that it explains.
	Targets []string
	// Exact says that each explained element is the nearest value of its dtype.
	Exact bool
	// Share is the part of the elements that is explained: below 1 where values are
	// rounded on the way, and some lie near the middle between two.
	Share float64
	// Pattern says that nothing was found that reproduces the value: Text is what its errors
	// depend on, "it is wrong only where self is below 0.5".
	Pattern bool
}

// Causes looks for what went wrong in a call that failed with this outcome: the
// reference runs again under what kernels get wrong, each mistake by itself, until a
// deadline. A mistake is a cause if all values of a pass that fail are within their
// bounds under it, and nearer than before by a factor of eight at least; of values that
// are rounded on the way nineteen of twenty elements that were wrong. Those that explain
// results come first, of these those that explain most. What a mistake explains, those after it
// need not, nor gradients where one explains results, from which they follow. What a value shows by itself comes before
// all of them. Where there is none, what the errors depend on is said.
func (c *Call) Causes(o *Outcome, until time.Time) []Cause {
	var fails []Result
	for _, r := range o.Results {
		if r.Verdict == verdict.Fail && r.Compared != nil && r.Layout == "" && r.Device == "" {
			fails = append(fails, r)
		}
	}
	if len(fails) == 0 || c.bound == nil || c.bound.Random() != "" {
		return nil
	}
	if c.opt.Device != nil {
		return c.asRecorded().Causes(&Outcome{Results: slices.DeleteFunc(fails, func(r Result) bool {
			return r.Phase != Forward || c.values.Output == nil
		})}, until)
	}
	plain, fails := c.plain(fails)
	if len(fails) == 0 {
		return plain
	}
	causes := append(plain, c.likeliest(fails, until)...)
	if causes == nil {
		return c.dependence(fails)
	}
	return causes
}

// likeliest are the causes of values that fail, the likeliest first.
func (c *Call) likeliest(fails []Result, until time.Time) []Cause {
	var causes []Cause
	for _, f := range fails {
		if f.Mistake != "" && !slices.ContainsFunc(causes, func(k Cause) bool { return k.Text == f.Mistake }) {
			causes = append(causes, Cause{Text: f.Mistake, Targets: []string{f.Target}, Share: 1})
		}
	}
	ofResult := func(k Cause) bool { return strings.HasPrefix(k.Targets[0], "output") }
	sources, rest := c.mistakes(fails)
	for i, source := range slices.Concat(sources, rest) {
		if i >= len(sources) && slices.ContainsFunc(causes, ofResult) {
			break // what is fitted explains much that has another cause
		}
		before, like := causes, ""
		for m := range source {
			if time.Now().After(until) {
				break
			}
			if like != "" && m.like == like {
				continue
			}
			k, ok := c.explains(m, fails)
			if ok && !slices.ContainsFunc(before, func(b Cause) bool { return b.covers(k) }) {
				causes, like = append(causes, k), m.like
			}
		}
		if slices.ContainsFunc(causes, func(k Cause) bool { return len(k.Targets) == len(fails) }) {
			break
		}
	}
	slices.SortStableFunc(causes, func(a, b Cause) int {
		switch {
		case ofResult(a) != ofResult(b):
			if ofResult(a) {
				return -1
			}
			return 1
		case len(a.Targets) != len(b.Targets):
			return len(b.Targets) - len(a.Targets)
		case a.Exact != b.Exact:
			if a.Exact {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Share, a.Share)
	})
	var first []Cause
	for _, k := range causes {
		if !slices.ContainsFunc(first, func(b Cause) bool { return b.covers(k) || ofResult(b) && !ofResult(k) }) {
			first = append(first, k)
		}
	}
	return first
}

// covers reports whether k explains all that l does.
func (k Cause) covers(l Cause) bool {
	return !slices.ContainsFunc(l.Targets, func(t string) bool { return !slices.Contains(k.Targets, t) })
}

// asRecorded is the call with what a device gave in place of what was recorded, its
// forward pass alone.
func (c *Call) asRecorded() *Call {
	d := *c
	out := c.values.RecordedOutput
	if len(out) > 1 {
		out = []value.Value{value.NewTuple(out...)}
	}
	d.Record = capture.Made(map[capture.Kind]*capture.Record{capture.Input: c.Record.Record(capture.Input),
		capture.Output: {Name: c.Record.Op, Args: out, Identifier: c.Record.Identifier}})
	d.opt.Device, d.opt.Stress, d.opt.ForwardOnly = nil, false, true
	return &d
}

// explains runs the call with a mistake.
func (c *Call) explains(m mistake, fails []Result) (Cause, bool) {
	k := Cause{Text: m.text, Exact: true, Share: 1}
	var way reading
	if err := Guard(func() (err error) { way, err = m.make(); return err }); err != nil || way.call == nil {
		return k, false
	}
	for i := range fails {
		first := fails[i].Phase == Forward && fails[i].Target == "output[0]" || fails[i].Phase == Input && i == 0
		if first && c.refuted(m, way, &fails[i]) {
			return k, false
		}
	}
	alt := &comparison{Call: c.readAs(way), out: &Outcome{Op: c.Op}}
	alt.opt.Runs = 1
	alt.guard(alt.compareCall)
	passes := map[Phase]bool{}
	for _, f := range fails {
		i := slices.IndexFunc(alt.out.Results, func(r Result) bool {
			return r.Phase == f.Phase && r.Target == f.Target
		})
		ok := i >= 0 && (nearer(alt.out.Results[i], f) || m.rounds && mostly(alt.out.Results[i], f, m.few()))
		if ok {
			r := alt.out.Results[i].Compared
			k.Targets = append(k.Targets, f.Target)
			k.Exact = k.Exact && r.MaxULP == 0
			if alt.out.Results[i].Verdict == verdict.Fail {
				k.Share = min(k.Share, 1-float64(r.Mismatched)/float64(r.Numel))
			}
		}
		if before, seen := passes[f.Phase]; seen {
			ok = ok && before
		}
		passes[f.Phase] = ok
	}
	for phase, ok := range passes { // part of a pass is no explanation of it
		if !ok {
			k.Targets = slices.DeleteFunc(k.Targets, func(t string) bool {
				return slices.ContainsFunc(fails, func(f Result) bool { return f.Phase == phase && f.Target == t })
			})
		}
	}
	return k, len(k.Targets) > 0 && !(m.all && len(k.Targets) < len(fails))
}

// refuted reports whether some elements of the first result, which cost little beside a whole
// comparison with its bounds and gradients, show that a mistake does not explain it.
func (c *Call) refuted(m mistake, way reading, r *Result) bool {
	got, _, ok := c.Pair(r)
	if r.Phase == Input {
		got, ok = c.after(r.Target)
	}
	was := r.Compared.OpTools.MaxAbs
	if !ok || !got.DType.IsFloat() || r.Compared.Loose > 0 || math.IsNaN(was) || math.IsInf(was, 0) {
		return false
	}
	refuted := false
	err := Guard(func() error {
		f, err := way.call.Forward()
		if err != nil {
			return err
		}
		var z *tensor.Tensor
		if r.Phase == Input {
			z = c.readAs(way).changed(f, r.Target)
		} else if len(f.Outs) > 0 {
			z = f.Outs[0]
		}
		if z == nil {
			return nil
		}
		if way.alter != nil {
			z = way.alter(r.Target, z)
		}
		if !slices.Equal(z.Shape, got.Shape) || !z.DType.IsFloat() {
			refuted = true
			return nil
		}
		far, x, y := 0, pieces(got), pieces(z)
		for i := range x {
			if math.Abs(x[i]-got.DType.Round(y[i])) > (1+1e-3)*was/nearness {
				far++
			}
		}
		refuted = far > 0 && !m.rounds || far > len(x)/20
		return nil
	})
	return err == nil && refuted
}

// argumentAt is the place of an argument among all that are recorded, by its target: "input[3]".
func (c *Call) argumentAt(target string, among []value.Value) (*tensor.Tensor, bool) {
	for i, v := range flatten(among) {
		if fmt.Sprintf("input[%d]", i) == target {
			t, ok := v.(*tensor.Tensor)
			return t, ok
		}
	}
	return nil, false
}

// after is an argument as it was recorded after the call.
func (c *Call) after(target string) (*tensor.Tensor, bool) {
	return c.argumentAt(target, c.Record.After)
}

// changed is an argument as the call has changed it, nil if it has not.
func (c *Call) changed(f *opdef.Forward, target string) *tensor.Tensor {
	was, ok := c.argumentAt(target, c.Record.Args)
	if !ok {
		return nil
	}
	for _, a := range c.bound.Tensors() {
		if ts, i := f.After[a.Name], max(a.Index, 0); i < len(ts) && ts[i] != nil && c.recorded(a.Tensor) == was {
			return ts[i]
		}
	}
	return nil
}

// nearness is how much nearer values have to be under a mistake.
const nearness = 8

// nearer reports whether a value is explained by r, where it failed as f.
func nearer(r, f Result) bool {
	switch {
	case r.Verdict != verdict.Pass && r.Verdict != verdict.Warn || r.Compared == nil:
		return false
	case f.Compared.Loose > 0:
		return explainsLoose(r, f)
	case r.Verdict == verdict.Warn && r.Compared.Numel < fewestLoose: // some mistake comes as near by chance
		return false
	}
	now, was := r.Compared.OpTools.MaxAbs, f.Compared.OpTools.MaxAbs
	return math.IsNaN(was) || math.IsInf(was, 0) || now <= was/nearness
}

// mostly reports whether all elements but one in so many of those that were wrong in f are
// explained by r. There are enough of both to tell.
func mostly(r, f Result, few int) bool {
	return r.Compared != nil && f.Compared.Mismatched >= 2*few && few*r.Compared.Mismatched <= f.Compared.Mismatched
}

// few is of how many elements that were wrong one may still be under the mistake: of more
// where a number was fitted to them, which comes near to much.
func (m mistake) few() int {
	if m.like != "" {
		return 50
	}
	return 20
}

// Explain replays a capture and looks for the causes of what fails.
func Explain(e *capture.Entry, opt Options, until time.Time) []Cause {
	c := Open(e, opt)
	defer c.Close()
	return c.Causes(c.Compare(), until)
}
