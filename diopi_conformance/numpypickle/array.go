package numpypickle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// typeCodes are numpy's codes of its types, which begin with the kind and end
// with the bytes of an element.
//
// Source: numpy.dtype.str.
var typeCodes = map[tensor.DType]string{
	tensor.Bool: "b1", tensor.Int8: "i1", tensor.Int16: "i2", tensor.Int32: "i4", tensor.Int64: "i8",
	tensor.Uint8: "u1", tensor.Uint16: "u2", tensor.Uint32: "u4", tensor.Uint64: "u8",
	tensor.Float16: "f2", tensor.Float32: "f4", tensor.Float64: "f8", tensor.Complex64: "c8", tensor.Complex128: "c16",
}

// versions of the states that numpy 1.24 writes for arrays and dtypes.
const (
	arrayVersion = 1
	dtypeVersion = 3
)

// array writes what ndarray.__reduce__ gives: an empty array by _reconstruct,
// then its state (version, shape, dtype, is column-major, bytes).
func (p *pickler) array(t *tensor.Tensor) error {
	if p.get(t) {
		return nil
	}
	code, ok := typeCodes[t.DType]
	if !ok {
		return fmt.Errorf("numpy has no dtype %s", t.DType)
	}
	data, fortran, err := content(t)
	if err != nil {
		return err
	}
	p.global("numpy.core.multiarray", "_reconstruct")
	p.boundary()
	p.global("numpy", "ndarray")
	if err := p.tuple(nil, int64(0)); err != nil {
		return err
	}
	p.boundary()
	p.bytes([]byte("b"))
	p.endTuple(3)
	p.memoize(nil)
	p.op('R')
	p.memoize(t)

	p.op('(')
	if err := p.save(int64(arrayVersion)); err != nil {
		return err
	}
	shape := make([]value.Value, len(t.Shape))
	for i, n := range t.Shape {
		shape[i] = int64(n)
	}
	p.boundary()
	if err := p.tuple(nil, shape...); err != nil {
		return err
	}
	p.boundary()
	if err := p.dtype(t.DType, code); err != nil {
		return err
	}
	p.boundary()
	p.bool(fortran)
	p.boundary()
	p.bytes(data)
	p.endTuple(5)
	p.memoize(nil)
	p.op('b')
	return nil
}

// dtype writes what dtype.__reduce__ gives.
func (p *pickler) dtype(dt tensor.DType, code string) error {
	if p.get(memoDType(dt)) {
		return nil
	}
	p.global("numpy", "dtype")
	if err := p.reduce(memoDType(dt), func() error { return p.tuple(nil, code, false, true) }); err != nil {
		return err
	}
	order := "<"
	if dt.Size() == 1 {
		order = "|"
	}
	if err := p.tuple(nil, int64(dtypeVersion), order, nil, nil, nil, int64(-1), int64(-1), int64(0)); err != nil {
		return err
	}
	p.op('b')
	return nil
}

// content returns t's elements as numpy stores them: column-major if that is
// how t lies in memory and row-major is not, else row-major.
func content(t *tensor.Tensor) (data []byte, fortran bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			re, ok := r.(*tensor.ReadError)
			if !ok {
				panic(r)
			}
			err = errors.New(re.Error())
		}
	}()
	if !t.IsContiguous() {
		dims := make([]int, t.Dim())
		for i := range dims {
			dims[i] = len(dims) - 1 - i
		}
		if back := t.Permute(dims...); back.IsContiguous() {
			t, fortran = back, true
		}
	}
	return t.AppendBytes(slices.Grow([]byte(nil), int(t.Bytes()))), fortran, nil
}
