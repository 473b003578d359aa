package step

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// patched reports whether an input is linked to the call that wrote to a part of its memory last. What it should hold
// is known from several values then: what lay there before, and what recorded calls wrote since.
func (v *Value) patched() bool { return v.From.written && v.From.under != nil && v.From.first == nil }

// comparePatched compares an input with what lay in its memory, where recorded calls wrote to parts of that since.
func (v *Value) comparePatched(opt Options) error {
	want, exact, err := v.patchedMemory(opt)
	if err != nil {
		return err
	}
	if want == nil {
		v.From.unsure = true
		return nil
	}
	var x []float64
	err = v.with(opt, func(t *tensor.Tensor) { x = slices.Clone(tensor.Data[float64](lying(t.Dense(), v))) })
	if err != nil {
		return err
	}
	differ, first := v.differing(x, want, exact)
	if differ == 0 {
		return nil
	}
	w, under, patches := v.From.Value, v.From.under, v.From.patches
	v.unlink()
	did := v.changedSince(w, under, x, want, differ, first)
	if did == "" {
		v.From = Link{How: IsOutside, Role: v.role()}
		return nil
	}
	v.From = Link{How: IsChanged, Value: w, under: under, patches: patches}
	had := "found"
	if under.Kind == outputKind || under.after != nil {
		had = "left"
	}
	v.reason = fmt.Sprintf("%s: %s of %s wrote a part of it last, what %s of %s %s is around that, and no recorded call "+
		"wrote there in between", did, w.Target, w.Call, under.Target, under.Call, had)
	v.right = v.patchwork
	w.readers = append(w.readers, v)
	return nil
}

// differing counts the elements of v that are not those wanted, bit for bit where these are exact, and says which is
// the first.
func (v *Value) differing(x, want []float64, exact bool) (n, first int) {
	if !exact {
		first, n, _, ok := outliers(x, want, want, 1, v.DType, 0.5)
		if !ok {
			return len(x), 0
		}
		return n, first
	}
	for i := range x {
		if x[i] != want[i] && (x[i] == x[i] || want[i] == want[i]) {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	return n, first
}

// changedSince says how the elements of v changed since w wrote a part of its memory last, around which lay what under
// has; "" if what v holds may be another value.
func (v *Value) changedSince(w, under *Value, x, want []float64, differ, first int) string {
	same := v.version < 0 || v.version == w.counted()
	part := len(x)-differ > few && float64(len(x)-differ) >= leastShare*float64(len(x)) && v.telling()
	still := v.named != "" && v.named == under.named && v.version > 0 && v.version == w.counted() && w.lasts(v)
	switch {
	case same && v.telling() && permuted(x, want):
		return "it has the elements in another order than they were left there"
	case same && part, still:
		return fmt.Sprintf("%d of %d elements are not what was left there, the first %.6g instead of %.6g", differ,
			len(x), x[first], want[first])
	}
	return ""
}

// patchwork is what recorded calls left where v lies, by what lay in all of its memory and the parts that they wrote.
func (v *Value) patchwork(opt Options) (*tensor.Tensor, error) {
	want, _, err := v.patchedMemory(opt)
	if err != nil || want == nil {
		return nil, err
	}
	return lyingIn(tensor.New(v.DType, []int{len(want)}, want), v, 0).Dense(), nil
}

// patchedMemory is what the memory of v holds, in the order of addresses, by what lay under what was written there
// since; nil if that is not known. It is exact if all of it was recorded, and the reference computed none.
func (v *Value) patchedMemory(opt Options) (memory []float64, exact bool, err error) {
	if !v.DType.Computable() || v.DType.IsComplex() || !dense(v.Shape, v.strides()) {
		return nil, false, nil
	}
	exact = true
	memory = tensor.Make[float64](v.Numel())
	known := 0
	for i, w := range append([]*Value{v.From.under}, v.From.patches...) {
		if w.DType != v.DType {
			return nil, false, nil
		}
		t, err := w.left(opt)
		if err != nil || t == nil {
			return nil, false, err
		}
		if w.after != nil {
			t, exact = opdef.Cast(t, w.DType), false
		}
		x, stride := tensor.Data[float64](t), w.strides()
		if len(stride) != len(w.Shape) {
			return nil, false, nil
		}
		at := make([]int, len(w.Shape))
		for _, e := range x {
			lies := 0
			for d, k := range at {
				lies += k * stride[d]
			}
			address := w.Address + uint64(lies*w.DType.Size())
			if address >= v.Address && address < v.end() {
				memory[int(address-v.Address)/w.DType.Size()] = e
				if i == 0 {
					known++
				}
			}
			for d := len(at) - 1; d >= 0; d-- {
				if at[d]++; at[d] < w.Shape[d] {
					break
				}
				at[d] = 0
			}
		}
	}
	if known < len(memory) {
		return nil, false, nil
	}
	return memory, exact, nil
}
