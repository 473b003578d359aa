package opcheck

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// An UnsupportedError is a Runner's error for a call that it cannot run. No check reports it; Outcome counts it.
type UnsupportedError struct {
	Reason string // a sentence without a full stop
	// Form says that the device's function does not take these arguments, such as out= of a function without it.
	// With Suite.Forms that is a finding of the check "cases".
	Form bool
	// Refused says that the Runner has the function, and that it did not take the arguments. It may take other dtypes.
	Refused bool
}

func (e *UnsupportedError) Error() string { return e.Reason }

// ErrHung is wrapped by a Runner's error for a call that did not return in time.
var ErrHung = errors.New("the call did not return")

// checkReference compares the results and gradients of a Runner with those of the
// CPU reference, under the op's error model, in several layouts of the arguments.
func checkReference(x *subject) {
	if x.call.Random() != "" {
		return
	}
	for _, layout := range []struct {
		what string
		of   func(*tensor.Tensor) *tensor.Tensor
	}{
		{"", func(t *tensor.Tensor) *tensor.Tensor { return t }},
		{"arguments with gaps: ", opdef.NonContiguous},
		{"arguments in the middle of a storage: ", middle},
	} {
		x.doing.Store(layout.what)
		if err := x.againstReference(each(each(x.call, dense), layout.of)); err != nil {
			x.report("%s%v", layout.what, err)
			return // one wrong layout says what is wrong; dense arguments come first
		}
	}
}

// againstReference returns the first way in which the Runner is wrong.
func (x *subject) againstReference(c *opdef.Call) error {
	x.made = &Made{Call: c}
	want, err := c.Forward()
	if err != nil && x.suite.Rounds {
		return nil // a layout that torch refuses, too: the case itself was computed
	}
	if err != nil {
		return err
	}
	got, err := x.forward(c)
	if err != nil {
		return err
	}
	if err := x.sameOutputs(c, got, want); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want.After)) {
		for i, w := range want.After[name] {
			if i >= len(got.After[name]) || got.After[name][i] == nil || w == nil {
				continue
			}
			if why := judge(c, got.After[name][i], w, c.AfterBound(name, i, w)); why != "" {
				return fmt.Errorf("new %s: %s", name, why)
			}
		}
	}
	out := x.cotangents(want)
	if !differentiable(c) || !hasAny(out) {
		return nil
	}
	x.made.Out = out
	return x.sameGradients(c, got, want, out)
}

func (x *subject) sameOutputs(c *opdef.Call, got, want *opdef.Forward) error {
	failures := map[int]string{}
	for i, w := range want.Outs {
		if i >= len(got.Outs) || got.Outs[i] == nil { // results that the device does not give
			return nil
		}
		if why := judge(c, got.Outs[i], w, c.OutBound(want, i)); why != "" {
			failures[i] = why
		}
	}
	if len(failures) == 0 {
		return nil
	}
	accepted, ok := c.Accept(got.Outs, want.Outs)
	for _, i := range slices.Sorted(maps.Keys(failures)) {
		if !ok || !accepted[i].OK {
			return fmt.Errorf("result %d: %s", i, failures[i])
		}
	}
	return nil
}

func (x *subject) sameGradients(c *opdef.Call, got, want *opdef.Forward, out []*tensor.Tensor) error {
	wants, err := c.Backward(want, out, nil)
	if err != nil {
		return &UnsupportedError{Reason: fmt.Sprintf("%s the gradient: %v", ReferenceRefuses, err)}
	}
	grads, err := x.backward(c, got, out, nil)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(grads)) {
		for i, g := range grads[name] {
			if g == nil || i >= len(wants[name]) || wants[name][i] == nil {
				continue
			}
			r := judged(c, g, wants[name][i], c.GradBound(want, out, wants, name, i))
			if r.Verdict != verdict.Pass && c.ReadsResults() { // those that the device gave
				kept := c.From(got.Outs)
				from, err := kept.Backward(want, out, nil)
				if err != nil {
					return err
				}
				r = judged(kept, g, from[name][i], kept.GradBound(want, out, from, name, i))
			}
			if r.Verdict == verdict.Fail {
				return fmt.Errorf("gradient of %s: %s", name, r.Reason)
			}
		}
	}
	return nil
}

// judge says why a value is further from the reference than the error model allows,
// "" if it is not.
func judge(c *opdef.Call, got, want *tensor.Tensor, b opdef.Bound) string {
	if r := judged(c, got, want, b); r.Verdict == verdict.Fail {
		return r.Reason
	}
	return ""
}

// judged is the comparison under the error model.
func judged(c *opdef.Call, got, want *tensor.Tensor, b opdef.Bound) compare.Result {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return compare.Result{Verdict: verdict.Fail, Reason: fmt.Sprintf("is %s, want %s", got.Meta(), want.Meta())}
	}
	model := compare.Model{Exact: b.Class == opdef.Exact, ULPs: b.ULPs, Scale: b.Scale, Covers: b.Covers,
		Terms: b.Terms, Coarse: b.Coarse, Trivial: c.Entry.Trivial, Chain: b.Chain, Else: b.Else,
		Operand: b.Operand}
	return compare.Check(got, want, model, compare.DefaultTolerance(got.DType), nil)
}
