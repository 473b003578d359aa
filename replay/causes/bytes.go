package causes

import (
	"slices"

	"github.com/optool/optool/tensor"
)

// kindred are dtypes whose elements have one size, of which one may be taken for another.
var kindred = [][]tensor.DType{
	{tensor.BFloat16, tensor.Float16},
	{tensor.Float8E4M3FN, tensor.Float8E5M2, tensor.Float8E4M3FNUZ, tensor.Float8E5M2FNUZ},
}

// halved are the dtypes of half as many bits, two of whose elements are one.
var halved = map[tensor.DType]tensor.DType{tensor.Int64: tensor.Int32, tensor.Int32: tensor.Int16}

// asOtherDTypes are a tensor's bytes read as those of another dtype: of as many bits, or of half as many.
func asOtherDTypes(t *tensor.Tensor) (all []transformation) {
	dt := t.DType
	if half, is := halved[dt]; is {
		all = append(all, transformation{numbers: true, text: "the bytes of %s are read as those of " + half.String(),
			of: func(t *tensor.Tensor) *tensor.Tensor { return reread(t, half, dt) }})
	}
	for _, other := range kin(dt) {
		all = append(all, transformation{numbers: true, text: "the bytes of %s are read as those of " + other.String(),
			of: func(t *tensor.Tensor) *tensor.Tensor { return reread(t, other, dt) }})
	}
	return all
}

// asHalves are whole numbers whose bytes are read as those of half as many bits.
func asHalves(t *tensor.Tensor) []transformation {
	if !t.DType.IsIntegral() {
		return nil
	}
	return asOtherDTypes(t)
}

// writtenAsOtherDTypes are the bytes of another dtype that are written for a tensor's elements.
func writtenAsOtherDTypes(t *tensor.Tensor) (all []transformation) {
	dt := t.DType
	for _, other := range kin(dt) {
		all = append(all, transformation{numbers: true, text: "%s is written in the bytes of " + other.String(),
			of: func(t *tensor.Tensor) *tensor.Tensor {
				return reread(tensor.New(other, t.Shape, elements(t)).Rounded(), dt, dt)
			}})
	}
	return all
}

// kin are the other dtypes of floating numbers for which one may be taken.
func kin(dt tensor.DType) []tensor.DType {
	for _, k := range kindred {
		if slices.Contains(k, dt) {
			return slices.DeleteFunc(slices.Clone(k), func(d tensor.DType) bool { return d == dt })
		}
	}
	return nil
}

// reread are the first bytes of a tensor read as elements of a dtype, in a tensor of another one.
func reread(t *tensor.Tensor, as, in tensor.DType) *tensor.Tensor {
	v, err := tensor.NewView(tensor.NewStorage(t.AppendBytes(nil)), tensor.View{DType: as, Shape: t.Shape,
		Stride: tensor.Contiguous(t.Shape)})
	if err != nil {
		return nil
	}
	if as.IsFloat() {
		return tensor.New(in, t.Shape, elements(v))
	}
	return tensor.New(in, t.Shape, whole64(v))
}
