package step

import (
	"errors"
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// indexLater lists and hashes the gradients of arguments in later backward passes.
func (c *Call) indexLater() error {
	if len(c.Entry.LaterOrder) == 0 {
		return nil
	}
	rec, err := c.Entry.LoadLater()
	if err != nil {
		return errors.Join(err, rec.Close())
	}
	defer rec.Close()
	ls, err := rec.Leaves(capture.GradInputs)
	if err != nil || len(rec.GradInputs) == 0 {
		return err
	}
	for _, l := range ls {
		n := len(c.Inputs)
		if l.Number%n >= n {
			continue
		}
		c.later = append(c.later, &Value{Call: c, Kind: capture.GradInputs,
			Target: fmt.Sprintf("grad[%d] of backward pass %d", l.Number%n, l.Number/n+2),
			DType:  l.Tensor.DType, Shape: l.Tensor.Shape, Stride: l.Tensor.Stride, leaf: l.Number % n,
			pass: l.Number/n + 1, item: -1, version: -1, content: newFingerprint(l.Tensor)})
	}
	return nil
}

// passesOf are the gradients that backward passes before a call gave for readings of a parameter: those of the first
// pass through each call, and of later ones. known reports that every reading has one.
func passesOf(readings []*Value, before *Call) (first, later []*Value, known bool) {
	known = true
	for _, r := range readings {
		g := r.Call.gradientOf(r)
		if g != nil {
			first = append(first, g)
		}
		had := g != nil
		for _, g := range r.Call.later {
			if r.Call.Inputs[g.leaf] == r && r.Call.Entry.LaterOrder[g.pass-1] <= before.Entry.Order {
				later, had = append(later, g), true
			}
		}
		known = known && had
	}
	return first, later, known
}

// severalPasses reports whether later backward passes gave gradients for readings of a parameter before a call.
func severalPasses(readings []*Value, before *Call) bool {
	_, later, _ := passesOf(readings, before)
	return len(later) > 0
}

// settlePasses links a gradient of a parameter for which several backward passes through a call gave gradients: it is
// the sum of those of all passes, or of the later ones, where autograd.grad asked for the first. Otherwise off says
// how it differs from want, the sum of all; "" if a reading has none.
func (v *Value) settlePasses(readings []*Value, opt Options) (off string, want *tensor.Tensor, err error) {
	first, later, known := passesOf(readings, v.Call)
	if !known {
		return "", nil, nil
	}
	all := slices.Concat(first, later)
	for _, parts := range [][]*Value{all, later} {
		if sum, ok := sumOf(parts); ok && sum.is(v) {
			v.unlink()
			v.From = Link{How: ByContent, Role: "gradient", Parts: parts}
			return "", nil, nil
		}
	}
	if want, err = total(all, opt); err != nil {
		return "", nil, err
	}
	err = v.with(opt, func(t *tensor.Tensor) {
		if !comparable(t, want) {
			return
		}
		x, y := tensor.Data[float64](t), tensor.Data[float64](want)
		if off = departs(x, y, v.Shape); off != "" && reordered(x, y, v.DType) {
			off = otherOrder
		}
	})
	return off, want, err
}

// total adds up recorded gradients, in float64.
func total(parts []*Value, opt Options) (sum *tensor.Tensor, err error) {
	for _, g := range parts {
		err := g.with(opt, func(t *tensor.Tensor) {
			if t = solid(opdef.Cast(t, tensor.Float64)); sum == nil {
				sum = t
			} else {
				sum = plus(sum, t, 1)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return sum, nil
}
