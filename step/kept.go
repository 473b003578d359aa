package step

import (
	"fmt"
	"slices"
)

// findUnkept finds values that are not what a recorded call left when it wrote there in place, also where another
// recorded value equals them. Most others that the
// same operator wrote in the same phase are as it left them: running statistics, averages of weights, gradients that
// were unscaled. A tensor with a name in the model needs no others, if torch has not counted a write since.
// A backward pass may have added to a gradient, so none lies between, except behind what a forward pass left in an
// argument.
func (p *Process) findUnkept() {
	type writer struct {
		op    string
		phase int
	}
	kept, unkept := map[writer]int{}, map[writer][]*Value{}
	var order []writer
	read := map[*Value]bool{} // what was written and found again
	inPlace := map[*Value]bool{}
	again := map[*Value][]*Value{}
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			if first := v.From.first; first != nil {
				again[first] = append(again[first], v)
				continue
			}
			w := v.writtenIn()
			if w == nil || read[w] && w == v.From.Value || w.leftPlain() || !w.inPlace(inPlace) {
				continue
			}
			read[w] = true
			at := writer{w.Call.Op, w.Call.phase()}
			switch {
			case w == v.From.Value:
				kept[at]++
			case w.lasts(v):
				if len(unkept[at]) == 0 {
					order = append(order, at)
				}
				unkept[at] = append(unkept[at], v)
			}
		}
	}
	for _, at := range order {
		vs := unkept[at]
		most := kept[at] >= few && kept[at] >= 3*len(vs)
		for _, v := range vs {
			evidence := fmt.Sprintf("%d others that the operator wrote are as it left them", kept[at])
			if !most {
				if !v.isStillNamed(v.latest) || p.exchanges && v.named != "" && !v.RequiresGrad {
					continue // DDP gives all ranks the buffers of one, without a recorded call or a counted write
				}
				evidence = fmt.Sprintf("it is still %s: torch has not counted a write since", v.named)
			}
			w := v.lay().viewed()
			v.unlink()
			v.From = Link{How: IsChanged, Value: w}
			v.reason = fmt.Sprintf("it is not what %s of %s left there, and no recorded call wrote there in between; %s",
				w.Target, w.Call, evidence)
			for _, r := range again[v] {
				r.From = v.From.again(v)
			}
			w.readers = append(append(w.readers, v), again[v]...)
		}
	}
}

// writtenIn is what lies where an input does, by its link or by its address, nil if that is not known to be kept.
func (v *Value) writtenIn() *Value {
	w := v.From.Value
	if (v.From.How == IsOutside && v.From.Role != "collective" || v.isCopied()) && (v.telling() ||
		v.latest != nil && v.Numel() > few && v.isStillNamed(v.latest)) {
		w = v.lay().viewed()
	}
	if w == nil || v.From.How == IsChanged || w.Call.phase() < 0 {
		return nil
	}
	return w
}

// inPlace reports whether a call wrote a value where an argument of it lies, and not in memory that a call of the same
// phase had made for it: that may be free again when something else is read there. Answers are kept in known.
func (v *Value) inPlace(known map[*Value]bool) bool {
	if is, ok := known[v]; ok {
		return is
	}
	is := false
	if was := v.overwrote(); was != nil {
		made := was.From.Value
		is = was.From.How == IsChanged || made == nil || made.Kind != outputKind && made.after == nil ||
			made.Call.phase() != v.Call.phase() || made.inPlace(known)
	}
	known[v] = is
	return is
}

// overwrote is the argument that lay where a call wrote a value, nil if none did.
func (v *Value) overwrote() *Value {
	if v.after != nil {
		return v
	}
	if v.Kind == outputKind && v.Call.writes {
		for _, u := range v.Call.Inputs {
			if u.Address != 0 && u.Address == v.Address && u.like(v) {
				return u
			}
		}
	}
	return nil
}

// leftPlain reports whether what was written does not tell one value from others.
func (w *Value) leftPlain() bool {
	if w.after != nil {
		return w.after.plain || w.Numel() <= few
	}
	return !w.telling()
}

// lasts reports whether only a call can have changed what w left, up to the reading v: no backward pass lies between,
// or the forward pass left it in an argument.
func (w *Value) lasts(v *Value) bool {
	wrote, read := w.Call.phase(), v.Call.phase()
	return wrote == read || wrote%2 == 1 && read == wrote+1 || wrote%2 == 0 && w.after != nil
}

// lay is what was made or written last where an input lies, nil if that is not known. Another name of the memory, such
// as x.data, is no write.
func (v *Value) lay() *Value {
	w := v.latest
	for w != nil {
		switch u := w.namedAnew(); {
		case w.Kind == inputKind && w.after == nil:
			w = w.From.Value
		case u != nil:
			w = u
		default:
			return w
		}
	}
	return nil
}

// namedAnew is the argument whose memory a call gave another name, v, and left as it was; nil if v is no such result.
func (v *Value) namedAnew() *Value {
	if v.Kind != outputKind || v.Address == 0 || v.Call.writes || v.Call.HasBackward() {
		return nil
	}
	i := slices.IndexFunc(v.Call.Inputs, func(u *Value) bool {
		return u.Address == v.Address && u.after == nil && u.overlays(v) && u.content.sum == v.content.sum
	})
	if i < 0 {
		return nil
	}
	return v.Call.Inputs[i]
}

// viewed is what was made or written where a call returned an argument as it was; v itself if it was none of these.
func (v *Value) viewed() *Value {
	if u := v.returned(); u != nil && u.From.Value != nil {
		return u.From.Value.viewed()
	}
	return v
}
