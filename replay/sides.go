package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// compareSides compares the arguments that a device/cpu pair recorded on both sides. op_tools copies them from the
// device to the CPU, so those that the operator does not write are the same. The first result tells those that are not:
// the call is judged by what the device side holds, and that may not be what the call read.
func (r *comparison) compareSides() {
	if !r.pair || r.entry == nil || len(r.out.Results) == 0 || r.opt.Device != nil || r.fwd == nil ||
		!r.entry.Has(capture.Host, capture.Input) {
		return
	}
	host, _ := r.entry.Load(capture.LoadOptions{Read: r.opt.Read, Side: capture.Host, Only: capture.Of(capture.Input)})
	defer host.Close()
	if host.Err(capture.Input) != nil {
		return
	}
	written := r.changedArguments()
	var found []string
	compared := func(l label, device, cpu value.Value) {
		g, isTensor := device.(*tensor.Tensor)
		w, hostTensor := cpu.(*tensor.Tensor)
		if _, writes := written[g]; !isTensor || !hostTensor || writes || !comparable(g, w) {
			return
		}
		if text := r.sidesOf(l, g, w); text != "" {
			found = append(found, text)
		}
	}
	ours, theirs := flatten(r.Record.Args), flatten(host.Args)
	if len(ours) == len(theirs) {
		for i := range ours {
			compared(leaf(Input, "input", i, len(ours)), ours[i], theirs[i])
		}
	}
	for _, it := range r.Record.Kwargs.Items {
		if key, ok := it.Key.(string); ok && key != "out" {
			other, _ := host.Kwargs.Get(key)
			compared(keyword(key), it.Value, other)
		}
	}
	r.out.Results[0].Sides = found
}

// comparable reports whether the elements of both tensors are at hand.
func comparable(g, w *tensor.Tensor) bool {
	return g.DType.Computable() && w.DType.Computable() && g.Summary() == nil && w.Summary() == nil &&
		slices.Equal(g.Shape, w.Shape) && !pthformat.IsTime(g) && !pthformat.IsTime(w)
}

// sidesOf says how an argument differs between both sides by more than the rounding of a conversion, "" if it does not.
func (r *comparison) sidesOf(l label, g, w *tensor.Tensor) string {
	m := compare.Model{ULPs: 1, Cast: true}
	if g.DType.IsFloat() && w.DType.IsFloat() && w.DType.Eps() > g.DType.Eps() {
		m.Round = w.DType
	}
	tol, asked := r.opt.Tolerances.For(r.Op, "", l.label, g.DType)
	c := compare.Check(g, w, m, tol, asked)
	if c.Verdict != verdict.Fail {
		return ""
	}
	files := [2]string{r.sideFile(capture.Device), r.sideFile(capture.Host)}
	reason := fmt.Sprintf("%d of %d elements differ between %s and %s, by up to %.3g", c.Mismatched, c.Numel, files[0],
		files[1], c.OpTools.MaxAbs)
	if m := strings.Index(c.Reason, ": at "); m >= 0 {
		reason += c.Reason[m:]
	}
	reason += "; the call does not write this argument: something else changed it on one side. What the call gave is" +
		" judged by " + files[0]
	for i := range r.out.Inputs {
		if r.out.Inputs[i].Label == l.label {
			r.out.Inputs[i].Numbers = c.OpTools
		}
	}
	return l.target + ": " + reason
}

// sideFile is the file with the arguments of one side, within the capture.
func (r *comparison) sideFile(s capture.Side) string {
	return strings.TrimPrefix(r.entry.RelPath(s, capture.Input), r.entry.Rel+"/")
}
