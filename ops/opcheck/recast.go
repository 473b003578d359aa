package opcheck

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// recasts are a case in the other dtypes that a Runner may take if it refuses those of the case: the floating tensors
// in one, integers as they are or in the one of 32 or 64 bits, then numbers of any kind in a floating dtype. Values
// that a dtype cannot hold make no case of it.
func recasts(c *opdef.Call) (all []*opdef.Call) {
	has := func(k func(tensor.DType) bool) bool {
		return slices.ContainsFunc(c.Tensors(), func(a opdef.Arg) bool {
			return !a.Tensor.Wrapped && k(a.Tensor.DType)
		})
	}
	same := func(dt tensor.DType) tensor.DType { return dt }
	floats, ints := []func(tensor.DType) tensor.DType{same}, []func(tensor.DType) tensor.DType{same}
	floating := has(func(dt tensor.DType) bool { return dt.Kind() >= tensor.KindFloat })
	if floating {
		for _, to := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float64} {
			floats = append(floats, func(dt tensor.DType) tensor.DType {
				switch {
				case dt.IsComplex():
					return to.Complex()
				case dt.IsFloat():
					return to
				}
				return dt
			})
		}
	}
	if has(tensor.DType.IsIntegral) {
		for _, to := range []tensor.DType{tensor.Int32, tensor.Int64} {
			ints = append(ints, func(dt tensor.DType) tensor.DType {
				if dt.IsIntegral() {
					return to
				}
				return dt
			})
		}
	}
	seen := []string{dtypesOf(c)}
	add := func(to func(tensor.DType) tensor.DType) {
		if d := recast(c, to); d != nil && !slices.Contains(seen, dtypesOf(d)) {
			seen, all = append(seen, dtypesOf(d)), append(all, d)
		}
	}
	for _, f := range floats {
		for _, i := range ints {
			add(func(dt tensor.DType) tensor.DType { return i(f(dt)) })
		}
	}
	if has(func(dt tensor.DType) bool { return !dt.IsFloat() && !dt.IsComplex() }) {
		// Operators of numbers. Those of indices and masks refuse it.
		for _, to := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float16, tensor.Float64} {
			add(func(dt tensor.DType) tensor.DType {
				if dt.IsComplex() {
					return to.Complex()
				}
				return to
			})
		}
	}
	return all
}

// dtypesOf names the dtypes of a call's tensors.
func dtypesOf(c *opdef.Call) (names string) {
	for _, a := range c.Tensors() {
		names += a.Tensor.DType.String() + " "
	}
	return names
}

// recast is a call with its tensors, and the arguments that are dtypes, in others; nil if a value does not fit, or if
// torch refuses the call.
func recast(c *opdef.Call, to func(tensor.DType) tensor.DType) (d *opdef.Call) {
	fits := true
	done := map[*tensor.Tensor]*tensor.Tensor{} // what is shared stays shared
	err := guard(func() error {
		d = each(c, func(t *tensor.Tensor) *tensor.Tensor {
			dt := to(t.DType)
			if dt == t.DType || !t.DType.Computable() || !dt.Computable() {
				return t
			}
			if done[t] == nil {
				done[t] = opdef.Cast(t, dt).Rounded()
				done[t].RequiresGrad, done[t].Parameter = t.RequiresGrad && dt.Kind() >= tensor.KindFloat, t.Parameter
				fits = fits && holds(t, done[t])
				if !t.IsContiguous() {
					done[t] = opdef.NonContiguous(done[t])
				}
			}
			return done[t]
		}).MapDTypes(to)
		_, err := d.Forward()
		return err
	})
	if err != nil || !fits {
		return nil
	}
	return d
}

// holds reports whether the elements of a tensor in another dtype are those of the tensor, up to rounding.
func holds(t, in *tensor.Tensor) bool {
	a, b := tensor.Data[complex128](t), tensor.Data[complex128](in)
	integers := in.DType.Kind() < tensor.KindFloat || t.DType.Kind() < tensor.KindFloat
	for i := range a {
		for _, x := range [][2]float64{{real(a[i]), real(b[i])}, {imag(a[i]), imag(b[i])}} {
			lost := !math.IsInf(x[0], 0) && x[0] == x[0] && (math.IsInf(x[1], 0) || x[1] != x[1])
			if lost || integers && x[0] != x[1] && x[0] == x[0] {
				return false
			}
		}
	}
	return true
}
