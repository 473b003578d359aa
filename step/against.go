package step

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// An attribute is an argument of a call that is no tensor, in a form that can be
// compared.
type attribute struct{ name, text string }

// attributes are the arguments of a bound call that are no tensors. Dtypes are left
// out: runs in two precisions differ in them by nature.
func attributes(b *opdef.Call) []attribute {
	if b == nil {
		return nil
	}
	var out []attribute
	for _, a := range b.Arguments() {
		v := a.Python()
		if _, isDType := v.(tensor.DType); isDType || len(tensorsIn(v)) > 0 {
			continue
		}
		out = append(out, attribute{a.Name, value.Repr(v)})
	}
	return out
}

// differing are the attributes in which two calls of one operator differ: "eps=1e-05
// instead of 0.001".
func differing(a, b *Call) string {
	was := map[string]string{}
	for _, x := range a.attributes {
		was[x.name] = x.text
	}
	var out []string
	for _, x := range b.attributes {
		if w, ok := was[x.name]; ok && w != x.text {
			out = append(out, fmt.Sprintf("%s=%s instead of %s", x.name, x.text, w))
		}
	}
	return strings.Join(out, ", ")
}

// Against compares a trace with that of another run, a: calls are aligned by
// sequence, process by process, and the findings of both comparisons merged. What
// is wrong with t by itself must have been found before.
func (t *Trace) Against(ctx context.Context, a *Trace, opt replay.Options) error {
	var all []*Finding
	for i, p := range t.Processes {
		if i >= len(a.Processes) {
			for _, c := range p.Calls {
				all = append(all,
					&Finding{Rule: verdict.Inserted, Call: c, Reason: "the other run has no such process"})
			}
			continue
		}
		fs, err := against(ctx, a.Processes[i], p, opt)
		if err != nil {
			return err
		}
		all = append(all, fs...)
	}
	for i := len(t.Processes); i < len(a.Processes); i++ {
		for _, c := range a.Processes[i].Calls {
			all = append(all, &Finding{Rule: verdict.Missing, Call: c, Reason: "this run has no such process"})
		}
	}
	t.merge(all)
	return nil
}

// merge adds findings of a comparison to a trace's own, in order of time, those
// about missing and inserted calls last.
func (t *Trace) merge(fs []*Finding) {
	own := map[*Call]*Finding{}
	var faults, others []*Finding
	for _, f := range t.Findings {
		if f.Rule == verdict.Drift {
			others = append(others, f)
			continue
		}
		own[f.Call] = f
		faults = append(faults, f)
	}
	var rest []*Finding
	for _, f := range fs {
		switch {
		case f.Rule != verdict.Diverged:
			rest = append(rest, f)
		case own[f.Call] != nil:
			own[f.Call].Peer = f.Peer
		default:
			faults = append(faults, f)
		}
	}
	sort.SliceStable(faults, func(i, j int) bool { return faults[i].before(faults[j]) })
	t.Findings = append(append(faults, others...), rest...)
}

// against compares two processes.
func against(ctx context.Context, a, b *Process, opt replay.Options) ([]*Finding, error) {
	al := align(a.Calls, b.Calls)
	for _, p := range al.pairs {
		p[1].Peer = p[0]
	}
	var out []*Finding
	given := 0 // pairs that were given different leaves
	for _, p := range al.pairs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, leaf := diverged(p[0], p[1], opt)
		switch {
		case leaf && given > 0:
			given++
		case leaf:
			given++
			out = append(out, f)
		case f != nil:
			out = append(out, f)
		}
	}
	if given > 1 {
		for _, f := range out {
			if strings.HasSuffix(f.Reason, givenOther) {
				f.Reason += fmt.Sprintf(", as %d calls were", given)
				break
			}
		}
	}
	for _, c := range al.missing {
		out = append(out, &Finding{Rule: verdict.Missing, Call: c, Reason: "only in the other run"})
	}
	for _, c := range al.inserted {
		out = append(out, &Finding{Rule: verdict.Inserted, Call: c, Reason: "not in the other run"})
	}
	return out, nil
}

const givenOther = "the runs were given different ones"

// diverged compares a call of a run, b, with its peer. leaf reports that an input
// of both runs that no recorded call made differs.
//
// A call diverges if its inputs agree, as far as the rounding of the runs so far
// allows, and its results do not. Two calls that are both right by themselves can
// only do that if their other arguments differ.
func diverged(a, b *Call, opt replay.Options) (f *Finding, leaf bool) {
	err := replay.Guard(func() error {
		in, at, err := apart(a.Inputs, b.Inputs, opt)
		if err != nil {
			return err
		}
		eps := max(coarsest(a), coarsest(b), tensor.Float32.Eps())
		if in > 8*eps {
			if at.From.How == IsLeaf && at.peerOf(a).From.How == IsLeaf && b.phase()%2 != 1 {
				leaf = true
				f = &Finding{Rule: verdict.Diverged, Call: b, Target: at.Target, Peer: a,
					Reason: fmt.Sprintf("this %s differs by %.2g: %s", at.From.Role, in, givenOther)}
			}
			return nil
		}
		out, at, err := apart(a.Outputs, b.Outputs, opt)
		if err != nil || out == 0 {
			return err
		}
		f = &Finding{Rule: verdict.Diverged, Call: b, Target: at.Target, Peer: a}
		what := differing(a, b)
		resolution := max(a.DType().Eps(), b.DType().Eps())
		switch wrong := a.wrong() != b.wrong(); {
		case wrong && b.wrong():
			f.Reason = "it is wrong by itself"
		case wrong:
			f.Reason = "the other run's is wrong by itself"
		case what != "" && out > 4*max(in, resolution):
			f.Reason = what
		case b.random != "" && out > 8*max(in, resolution):
			f.Reason = b.random
		case in == 0 && out > 64*resolution, !b.judged() && out > 8*max(in, resolution):
			f.Reason = "the arguments agree"
		default:
			f = nil
			return nil
		}
		f.Reason = fmt.Sprintf("the results differ by %.2g, the inputs by %.2g: %s", out, in, f.Reason)
		return nil
	})
	if err != nil {
		return nil, false
	}
	return f, leaf
}

// wrong reports whether a result of the forward pass failed.
func (c *Call) wrong() bool {
	for _, r := range c.Results {
		if r.Verdict == verdict.Fail && r.Phase != replay.Backward {
			return true
		}
	}
	return false
}

// judged reports whether replay decided about the call's results.
func (c *Call) judged() bool {
	return c.Verdict == verdict.Pass || c.Verdict == verdict.Warn || c.Verdict == verdict.Fail
}

// peerOf is the value of a that has v's target, or v if there is none.
func (v *Value) peerOf(a *Call) *Value {
	if w := a.find(v.Target); w != nil {
		return w
	}
	return v
}

// coarsest is the largest eps of the floating dtypes that a process computed with
// up to a call.
func coarsest(c *Call) float64 {
	return c.Process.coarse[c.Order]
}

// coarseness fills p.coarse.
func (p *Process) coarseness() {
	p.coarse = make([]float64, len(p.Calls))
	eps := 0.0
	for i, c := range p.Calls {
		for _, v := range append(append([]*Value(nil), c.Inputs...), c.Outputs...) {
			if v.DType.IsFloat() {
				eps = max(eps, v.DType.Eps())
			}
		}
		p.coarse[i] = eps
	}
}

// apart is the largest relative distance of the values with the same target in two
// calls, and the value of the second where it is; infinite where shapes differ.
func apart(as, bs []*Value, opt replay.Options) (worst float64, at *Value, err error) {
	for _, b := range bs {
		for _, a := range as {
			if a.Target != b.Target {
				continue
			}
			d, err := a.apart(b, opt)
			if err != nil {
				return 0, nil, err
			}
			if d > worst {
				worst, at = d, b
			}
		}
	}
	return worst, at, nil
}

// apart is the relative distance of two values.
func (v *Value) apart(w *Value, opt replay.Options) (float64, error) {
	if v.equals(w) {
		return 0, nil
	}
	x, closeX, err := v.load(opt)
	if err != nil {
		return 0, err
	}
	defer closeX()
	y, closeY, err := w.load(opt)
	if err != nil {
		return 0, err
	}
	defer closeY()
	switch {
	case comparable(x, y):
		return distance(y, x, nil).relative(), nil
	case !sameShape(x.Shape, y.Shape) || x.DType.IsFloat() || y.DType.IsFloat() || x.DType.IsComplex() ||
		y.DType.IsComplex():
		return 1, nil
	}
	m, n := tensor.Data[int64](x), tensor.Data[int64](y)
	differ := 0
	for i := range m {
		if m[i] != n[i] {
			differ++
		}
	}
	return float64(differ) / float64(max(1, len(m))), nil
}
