package pairs

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// An origin says what wrote an argument last in both recordings.
type origin struct {
	by    [2]*capture.Entry // nil if no recorded call wrote there; both if addresses were not recorded
	same  bool              // both are one call of the program
	noise string            // the last gradient of the argument, if its rounding error is as large as itself; else ""
	first int               // the first step that was recorded
}

// origins finds what wrote an argument of a pair last.
func (d *Divergence) origins(p Pair, r *reports.Result) (o origin) {
	for i, e := range [2]*capture.Entry{p.A, p.B} {
		before := d.before(e, i == 1)
		first := e
		if len(before) > 0 {
			first = before[len(before)-1]
		}
		o.first = max(o.first, first.Step)
		rec, _ := e.Load(capture.LoadOptions{Only: capture.Of(capture.Input)})
		var read leaf
		for _, l := range leaves(rec, capture.Input) {
			if t := l.Target("input"); t == r.Target || t == r.Target+"[0]" { // a list of one is named as what it holds
				read = l
			}
		}
		if read.address == "" { // nothing is known of this recording
			rec.Close()
			return origin{}
		}
		at := lastWriter(before, read)
		rec.Close()
		if at < 0 {
			continue
		}
		if o.by[i] = before[at]; i == 0 {
			o.noise = d.noisy(before[at:], read.address)
		}
	}
	o.same = o.by[0] != nil && d.partner[o.by[0]] == o.by[1]
	return o
}

// before are the calls of a process before e, the last one first.
func (d *Divergence) before(e *capture.Entry, second bool) []*capture.Entry {
	var out []*capture.Entry
	add := func(x *capture.Entry) {
		if x.Rank == e.Rank && x.PID == e.PID && later(e, x) > 0 {
			out = append(out, x)
		}
	}
	for _, of := range d.processes {
		for _, c := range of.calls {
			if second {
				add(c.pair.B)
			} else {
				add(c.pair.A)
			}
		}
	}
	for _, p := range d.unpaired {
		if p.inserted == second {
			add(p.A)
		}
	}
	slices.SortFunc(out, func(a, b *capture.Entry) int { return later(b, a) })
	return out
}

func later(a, b *capture.Entry) int { return cmp.Or(a.Step-b.Step, a.Position()-b.Position()) }

// noisy names the gradient of what lies at an address, if all calls of the writer's step that read it give gradients
// which are within their rounding error of zero. The writer comes first, then what ran before it.
func (d *Divergence) noisy(calls []*capture.Entry, address string) (name string) {
	if d.Noise == nil {
		return ""
	}
	for _, e := range calls[1:] {
		if e.Step != calls[0].Step {
			break
		}
		if !e.Has(capture.Device, capture.GradInputs) {
			continue
		}
		rec, _ := e.Load(capture.LoadOptions{Only: capture.Of(capture.Input)})
		for _, l := range leaves(rec, capture.Input) {
			if l.address != address {
				continue
			}
			target := l.Target("grad")
			if !d.Noise(e, target) {
				rec.Close()
				return ""
			}
			name = target + " of " + called(e)
		}
		rec.Close()
	}
	return name
}

// lastWriter is the number of the call that wrote what is read, of calls of which the last comes first; -1 if there is
// none. What the last call at its address left there is something else if the memory was used anew since, or if a call
// that was not recorded wrote there.
func lastWriter(before []*capture.Entry, read leaf) int {
	for i, e := range before {
		if wrote, same := writes(e, read); wrote && same {
			return i
		} else if wrote {
			break
		}
	}
	return -1
}

// writes reports whether a call made a value at the address of what is read, or changed it in place, and whether that
// may be what is read.
func writes(e *capture.Entry, read leaf) (wrote, same bool) {
	rec, _ := e.Load(capture.LoadOptions{Only: capture.Of(capture.Input, capture.Output, capture.After)})
	defer rec.Close()
	after := map[string]*tensor.Tensor{}
	for _, l := range leaves(rec, capture.After) {
		after[l.Path] = l.Tensor
	}
	reads := false
	for _, l := range leaves(rec, capture.Input) {
		if l.address != read.address {
			continue
		}
		reads = true
		if now := after[l.Path]; now != nil && !rec.Unseen[now] && !sameElements(l.Tensor, now) {
			return true, mayBe(now, read.Tensor)
		}
	}
	for _, l := range leaves(rec, capture.Output) {
		if !reads && l.address == read.address {
			wrote, same = true, same || mayBe(l.Tensor, read.Tensor)
		}
	}
	return wrote, same
}

// mayBe reports whether a value may be what was left at its address: the same elements, or as many of its dtype where
// elements were not recorded or are seen in another shape. A part of it is as well.
func mayBe(left, read *tensor.Tensor) bool {
	switch {
	case left.DType != read.DType || read.Numel() > left.Numel():
		return false
	case left.Meta() != read.Meta() || left.Summary() != nil || read.Summary() != nil || readable(left, read) != nil:
		return true
	}
	return sameElements(left, read)
}

// sameElements reports whether two tensors hold the same elements; what cannot be read does not.
func sameElements(a, b *tensor.Tensor) bool {
	if a.Meta() != b.Meta() || a.Summary() != nil || b.Summary() != nil || readable(a, b) != nil {
		return false
	}
	return bytes.Equal(a.AppendBytes(nil), b.AppendBytes(nil))
}

// A leaf is a tensor of a call and where it lies in memory.
type leaf struct {
	capture.Leaf
	address string // "" if it was not recorded
}

// leaves lists the tensors of a file of a call; none of a container that holds itself.
func leaves(rec *capture.Call, k capture.Kind) (all []leaf) {
	ls, err := rec.Leaves(k)
	if err != nil {
		return nil
	}
	at := rec.Addresses(k)
	for _, l := range ls {
		all = append(all, leaf{l, at[l.Path]})
	}
	return all
}

// called is a call with the place in the program that made it.
func called(e *capture.Entry) string {
	if e.Location == "" {
		return name(e)
	}
	return name(e) + " (" + path.Base(e.Location) + ")"
}

// String says what wrote the value.
func (o origin) String() string {
	who := func(e *capture.Entry) string {
		if e == nil {
			return "no recorded call"
		}
		return called(e)
	}
	switch {
	case o.by[0] == nil && o.by[1] == nil && o.first > 0:
		return fmt.Sprintf("no recorded call wrote it, and step %d is the first that was recorded. The runs may part in an "+
			"earlier one: record steps=[0]", o.first)
	case o.by[0] == nil && o.by[1] == nil:
		return "no recorded call is known to have written it: the runs were given different values, or a call that was " +
			"not recorded made them"
	case o.same:
		return who(o.by[0]) + " wrote it in both recordings"
	}
	return fmt.Sprintf("%s wrote it in the new recording, %s in the old one", who(o.by[0]), who(o.by[1]))
}
