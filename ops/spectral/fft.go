package spectral

import (
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/shape"
	"github.com/optool/optool/tensor"
)

// fftOps are discrete Fourier transforms.
var fftOps = []*opdef.Entry{
	fft1("fft", fullSpectrum, false), fft1("ifft", fullSpectrum, true),
	fft1("rfft", fromReal, false), fft1("irfft", toReal, true),
	fft1("hfft", toReal, false), fft1("ihfft", fromReal, true),
	fft2("fft2", fullSpectrum, false), fft2("ifft2", fullSpectrum, true),
	fft2("rfft2", fromReal, false), fft2("irfft2", toReal, true),
	fft2("hfft2", toReal, false), fft2("ihfft2", fromReal, true),
	fftn("fftn", fullSpectrum, false), fftn("ifftn", fullSpectrum, true),
	fftn("rfftn", fromReal, false), fftn("irfftn", toReal, true),
	fftn("hfftn", toReal, false), fftn("ihfftn", fromReal, true),
	fftShift("fftshift", 0), fftShift("ifftshift", 1),
}

// spectrum tells which half of a transform's data is redundant.
type spectrum uint8

const (
	fullSpectrum spectrum = iota
	fromReal              // real input: the first half of the result is kept
	toReal                // real result: the first half of the input is given
)

// fftCall is a transform of some dimensions of a tensor.
type fftCall struct {
	self    *tensor.Tensor
	kind    spectrum
	inverse bool
	dims    []int // in the order of s; the last is the one with a half spectrum
	size    []int // of the transforms; with toReal of the result
	scale   float64
}

// newFFT checks a call. s may be nil: the sizes of the input.
func newFFT(self *tensor.Tensor, kind spectrum, inverse bool, s, dims []int, norm *string) (*fftCall, error) {
	c := &fftCall{self: self, kind: kind, inverse: inverse, scale: 1}
	if kind == fromReal && self.DType.IsComplex() {
		return nil, opdef.Refuse("self", "want a real tensor, got %s", self.DType)
	}
	if self.Dim() == 0 {
		return nil, opdef.Refuse("self", "want at least 1 dimension, got a 0-d tensor")
	}
	switch {
	case s != nil && dims != nil && len(s) != len(dims):
		return nil, opdef.Refuse("s", "want %d sizes, one per dimension, got %d", len(dims), len(s))
	case len(s) > self.Dim() && dims == nil:
		return nil, opdef.Refuse("s", "%d sizes are too many for %d dimensions", len(s), self.Dim())
	case dims == nil && s == nil:
		dims = elements.AllDims(self.Dim())
	case dims == nil:
		dims = elements.AllDims(self.Dim())[self.Dim()-len(s):]
	}
	if err := c.setSizes(s, dims); err != nil {
		return nil, err
	}
	if kind != fullSpectrum && len(c.dims) == 0 {
		return nil, opdef.Refuse("dim", "want at least one dimension")
	}
	if err := c.setScale(norm); err != nil {
		return nil, err
	}
	return c, nil
}

// setSizes resolves the dimensions; s is nil or has the size of the transform for each, -1 for that of the input.
func (c *fftCall) setSizes(s, dims []int) error {
	for i, d := range dims {
		r, err := opdef.Dim("dim", d, c.self.Dim())
		if err != nil {
			return err
		}
		if slices.Contains(c.dims, r) {
			return opdef.Refuse("dim", "dimension %d appears twice", d)
		}
		n := c.self.Shape[r]
		if c.kind == toReal && i == len(dims)-1 {
			n = 2 * (n - 1)
		}
		if s != nil && s[i] != -1 {
			n = s[i]
		}
		if n < 1 || n > 1<<40 {
			return opdef.Refuse("s", "invalid number of data points %d", n)
		}
		c.dims, c.size = append(c.dims, r), append(c.size, n)
	}
	return nil
}

// setScale finds the factor of the transform.
func (c *fftCall) setScale(norm *string) error {
	total := 1.0
	for _, n := range c.size {
		total *= float64(n)
	}
	mode := "backward"
	if norm != nil {
		mode = *norm
	}
	switch {
	case mode == "ortho":
		c.scale = 1 / math.Sqrt(total)
	case mode != "backward" && mode != "forward":
		return opdef.Refuse("norm", "want backward, forward or ortho, got %q", mode)
	case (mode == "backward") == c.inverse:
		c.scale = 1 / total
	}
	return nil
}

// dtype is the dtype of the result.
func (c *fftCall) dtype() tensor.DType {
	dt := c.self.DType
	if dt.Kind() < tensor.KindFloat {
		dt = tensor.DefaultDType
	}
	if c.kind == toReal {
		return dt.Real()
	}
	return dt.Complex()
}

// An array is a dense complex array.
type array struct {
	shape []int
	data  []complex128
}

// along calls f for every line of the array along dimension d, whose result
// has n elements.
func (a array) along(d, n int, f func(dst, src []complex128)) array {
	out := array{slices.Clone(a.shape), nil}
	out.shape[d] = n
	out.data = tensor.Make[complex128](tensor.Numel(out.shape))
	inner := tensor.Numel(a.shape[d+1:])
	m := a.shape[d]
	lines := tensor.Numel(a.shape[:d]) * inner
	tensor.Parallel(lines, max(1, 4096/max(m+n, 1)), func(lo, hi int) {
		src, dst := tensor.Make[complex128](m), tensor.Make[complex128](n)
		for l := lo; l < hi; l++ {
			o, i := l/inner, l%inner
			for j := range src {
				src[j] = a.data[(o*m+j)*inner+i]
			}
			f(dst, src)
			for j, v := range dst {
				out.data[(o*n+j)*inner+i] = v
			}
		}
	})
	return out
}

// transform is the unscaled transform of n points of every line along d, cut
// or extended with zeros first.
func (a array) transform(d, n int, inverse bool) array {
	return a.along(d, n, func(dst, src []complex128) {
		clear(dst[copy(dst, src):])
		kernel.FFT(dst, inverse)
	})
}

// resize cuts or extends dimension d.
func (a array) resize(d, n int) array {
	if a.shape[d] == n {
		return a
	}
	return a.along(d, n, func(dst, src []complex128) { clear(dst[copy(dst, src):]) })
}

// hermitian completes a half spectrum of n points along d.
func (a array) hermitian(d, n int) array {
	return a.along(d, n, func(dst, src []complex128) {
		clear(dst[copy(dst, src[:min(len(src), n/2+1)]):])
		for k := 1; k < (n+1)/2; k++ {
			dst[n-k] = complex(real(dst[k]), -imag(dst[k]))
		}
		dst[0] = complex(real(dst[0]), 0)
		if n%2 == 0 {
			dst[n/2] = complex(real(dst[n/2]), 0)
		}
	})
}

func (c *fftCall) forward() *tensor.Tensor {
	a := array{c.self.Shape, tensor.Data[complex128](c.self)}
	last := len(c.dims) - 1
	if c.kind == fromReal {
		a = a.transform(c.dims[last], c.size[last], c.inverse).resize(c.dims[last], c.size[last]/2+1)
	}
	for i, d := range c.dims {
		if i < last || c.kind == fullSpectrum {
			a = a.transform(d, c.size[i], c.inverse)
		}
	}
	if c.kind == toReal {
		a = a.hermitian(c.dims[last], c.size[last]).transform(c.dims[last], c.size[last], c.inverse)
	}
	return c.result(c.dtype(), a)
}

// backward is the adjoint of forward.
func (c *fftCall) backward(g *tensor.Tensor) *tensor.Tensor {
	a := array{g.Shape, tensor.Data[complex128](g)}
	last := len(c.dims) - 1
	if c.kind == toReal {
		n := c.size[last]
		a = a.transform(c.dims[last], n, !c.inverse).along(c.dims[last], n/2+1, func(dst, src []complex128) {
			for k := range dst {
				dst[k] = src[k]
				if k > 0 && 2*k != n {
					dst[k] *= 2
				}
			}
		}).resize(c.dims[last], c.self.Shape[c.dims[last]])
	}
	for i, d := range slices.Backward(c.dims) {
		if i < last || c.kind == fullSpectrum {
			a = a.transform(d, c.size[i], !c.inverse).resize(d, c.self.Shape[d])
		}
	}
	if c.kind == fromReal {
		d := c.dims[last]
		a = a.transform(d, c.size[last], !c.inverse).resize(d, c.self.Shape[d])
	}
	return c.result(c.self.DType, a)
}

// result scales a and gives it dtype dt, dropping imaginary parts if real.
func (c *fftCall) result(dt tensor.DType, a array) *tensor.Tensor {
	if dt.IsComplex() {
		for i := range a.data {
			a.data[i] *= complex(c.scale, 0)
		}
		return tensor.New(dt, a.shape, a.data)
	}
	v := make([]float64, len(a.data))
	for i, x := range a.data {
		v[i] = c.scale * real(x)
	}
	return tensor.New(dt, a.shape, v)
}

// magnitude is the sum of the magnitudes of the terms of every element: of all
// elements of x over the transformed dimensions.
func (c *fftCall) magnitude(x *tensor.Tensor, shape []int) *tensor.Tensor {
	s := opdef.Sum(tensor.Float64, opdef.Abs(x), c.dims, true)
	k := c.scale
	if c.kind != fullSpectrum {
		k *= 2
	}
	// dims have size 1 in s
	return opdef.Must(opdef.Map(tensor.Float64, s, func(x float64) float64 { return k * x }).Expand(shape...))
}

func (c *fftCall) terms() int {
	n := 1
	for _, k := range c.size {
		n += int(math.Log2(float64(k))) + 1
	}
	return n
}

var spectrumNotes = map[spectrum]string{
	fullSpectrum: "Sizes given cut the input or extend it with zeros.",
	fromReal:     "Of the last dimension the first n/2+1 elements are returned.",
	toReal:       "Of the last dimension the first n/2+1 elements are read; n is 2*(size-1) by default.",
}

// node is what torch's last node received: the gradient of the input as the last step of the transform takes it. The
// input is cut or extended before, and where torch makes a real one complex (widens), it is complex. A conjugation is a
// step of its own. Hermitian transforms of several dimensions take more steps.
func (c *fftCall) node(name string, g *tensor.Tensor, widens bool) opdef.Node {
	dt := c.self.DType
	switch {
	case name == "ihfft" || name == "ifft" && !dt.IsComplex():
		return opdef.Node{Grads: elements.Single(elements.Conj(g)), Weak: "the incoming gradient conjugated"}
	case name != "hfft" && strings.Contains(name, "hfft"):
		return opdef.Node{Skip: elements.GradOfOtherOp}
	case widens:
		dt = dt.Complex()
	}
	read := slices.Clone(c.self.Shape)
	for i, d := range c.dims {
		read[d] = c.size[i]
		if c.kind == toReal && i == len(c.dims)-1 {
			read[d] = c.size[i]/2 + 1
		}
	}
	if name != "hfft" && dt == c.self.DType && slices.Equal(read, c.self.Shape) {
		return opdef.Node{}
	}
	d := *c
	d.self = &tensor.Tensor{DType: dt, Shape: read}
	grad := d.backward(g)
	if name == "hfft" {
		grad = elements.Conj(grad)
	}
	return opdef.Node{Grads: elements.Single(grad),
		Scale: func() []*tensor.Tensor { return elements.Single(d.magnitude(g, read)) }}
}

// fftOp completes the declaration of a transform; widens says that torch makes
// a real input complex first.
func fftOp[A any](
	op opdef.Planned[*A, *fftCall], name string, kind spectrum, inverse, widens bool,
) *opdef.Entry {
	sign := "-"
	if inverse {
		sign = "+"
	}
	op.Names = "fft." + name
	op.Doc = opdef.Doc{
		Summary: "Discrete Fourier transform (" + name + ")", Formula: "scale * sum_j input[j] * exp(" + sign +
			"2*pi*i*j*k/n)", Notes: spectrumNotes[kind],
	}
	op.Error = opdef.Error{Class: opdef.Normwise}
	op.Kernel = func(c *fftCall) ([]*tensor.Tensor, error) { return []*tensor.Tensor{c.forward()}, nil }
	op.Grad = func(c *fftCall, g *opdef.Grad) (opdef.Grads, error) {
		return opdef.Grads{"self": {c.backward(g.Out[0])}}, nil
	}
	op.Node = func(c *fftCall, g *opdef.Grad) (opdef.Node, error) { return c.node(name, g.Out[0], widens), nil }
	op.Scale = func(c *fftCall, outs []*tensor.Tensor) []*tensor.Tensor {
		return []*tensor.Tensor{c.magnitude(c.self, outs[0].Shape)}
	}
	op.GradScale = func(c *fftCall, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		return opdef.Grads{"self": {c.magnitude(g.Out[0], c.self.Shape)}}, nil
	}
	op.Terms = (*fftCall).terms
	return op.Entry()
}

type (
	fft1Args struct {
		Self *tensor.Tensor
		N    *int
		Dim  int
		Norm *string
	}
	fftNArgs struct {
		Self   *tensor.Tensor
		S, Dim []int
		Norm   *string
	}
)

// fftInputs are tensors a transform of the kind accepts.
func fftInputs(g opdef.Gen, kind spectrum, shape ...int) []*tensor.Tensor {
	ts := []*tensor.Tensor{g.Normal(tensor.Float64, shape...), g.Normal(tensor.Float32, shape...),
		opdef.NonContiguous(g.Normal(tensor.Float64, shape...))}
	if kind != fromReal {
		ts = append(ts, g.Normal(tensor.Complex128, shape...), g.Normal(tensor.Complex64, shape...))
	}
	return append(ts, g.Int(tensor.Int64, -4, 4, shape...))
}

func fft1(name string, kind spectrum, inverse bool) *opdef.Entry {
	return fftOp(opdef.Planned[*fft1Args, *fftCall]{
		Schema: name + "(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
		Cases: func(g opdef.Gen) (cs []*fft1Args) {
			ortho, forward, n := "ortho", "forward", 3
			for _, t := range fftInputs(g, kind, 2, 5) {
				cs = append(cs, &fft1Args{t, nil, -1, nil}, &fft1Args{t, &n, 0, &ortho}, &fft1Args{t, nil, 1, &forward})
			}
			return cs
		},
		Plan: func(a *fft1Args) (*fftCall, error) {
			var s []int
			if a.N != nil {
				if *a.N < 1 {
					return nil, opdef.Refuse("n", "invalid number of data points %d", *a.N)
				}
				s = []int{*a.N}
			}
			return newFFT(a.Self, kind, inverse, s, []int{a.Dim}, a.Norm)
		},
	}, name, kind, inverse, kind == toReal)
}

func fft2(name string, kind spectrum, inverse bool) *opdef.Entry {
	return fftOp(opdef.Planned[*fftNArgs, *fftCall]{
		Schema: name + "(Tensor self, int[]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
		Cases: func(g opdef.Gen) (cs []*fftNArgs) {
			ortho := "ortho"
			for _, t := range fftInputs(g, kind, 2, 3, 4) {
				cs = append(cs, &fftNArgs{t, nil, []int{-2, -1}, nil}, &fftNArgs{t, []int{4, 5}, []int{0, 1}, &ortho})
			}
			return cs
		},
		Plan: func(a *fftNArgs) (*fftCall, error) {
			return newFFT(a.Self, kind, inverse, a.S, a.Dim, a.Norm)
		},
	}, name, kind, inverse, kind != fromReal)
}

func fftn(name string, kind spectrum, inverse bool) *opdef.Entry {
	return fftOp(opdef.Planned[*fftNArgs, *fftCall]{
		Schema: name + "(Tensor self, int[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
		Cases: func(g opdef.Gen) (cs []*fftNArgs) {
			forward := "forward"
			for _, t := range fftInputs(g, kind, 2, 3, 4) {
				cs = append(cs, &fftNArgs{t, nil, nil, nil}, &fftNArgs{t, []int{3}, nil, nil},
					&fftNArgs{t, []int{-1, 2}, []int{2, 0}, &forward})
			}
			return cs
		},
		Plan: func(a *fftNArgs) (*fftCall, error) {
			return newFFT(a.Self, kind, inverse, a.S, a.Dim, a.Norm)
		},
	}, name, kind, inverse, kind != fromReal)
}

type shiftArgs struct {
	Self *tensor.Tensor
	Dim  []int
}

// fftShift declares a rotation of dimensions by half their size, rounded down,
// or up with more 1.
func fftShift(name string, more int) *opdef.Entry {
	rotate := func(t *tensor.Tensor, dim []int, more int) (*tensor.Tensor, error) {
		if t.Dim() == 0 && len(dim) > 0 {
			return nil, opdef.Refuse("dim", "a 0-d tensor has no dimension %d", dim[0])
		}
		dims, err := opdef.Dims("dim", dim, t.Dim())
		if err != nil {
			return nil, err
		}
		p := &shape.Padding{T: t, Shape: t.Shape, From: make([][]int, t.Dim())}
		for d, n := range t.Shape {
			by := 0
			if slices.Contains(dims, d) {
				by = (n + more) / 2
			}
			p.From[d] = tensor.Make[int](n)
			for o := range p.From[d] {
				p.From[d][o] = (o - by + n) % n
			}
		}
		return p.Padded(), nil
	}
	return opdef.Op[shiftArgs]{
		Schema: name + "(Tensor self, int[1]? dim=None) -> Tensor",
		Names:  "fft." + name,
		Doc: opdef.Doc{Summary: "Rotation that moves frequency zero to the centre, or back (" + name + ")",
			Formula: "roll by half the size"},
		Error: elements.ExactError,
		Kernel: func(a *shiftArgs) ([]*tensor.Tensor, error) {
			return elements.ResultOrError(rotate(a.Self, a.Dim, more))
		},
		Grad: func(a *shiftArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := rotate(g.Out[0], a.Dim, 1-more)
			return opdef.Grads{"self": {t}}, err
		},
		Cases: opdef.Calls[shiftArgs](`f64[3, 4]; f32[5], dim=[0]; c128[2, 3], dim=[-1]; i64[3]{0..9}`),
	}.Entry()
}
