package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// shapeOps give a tensor another shape: the same elements in the same order.
var shapeOps = []*opdef.Entry{
	viewOp[sizeArgs]{
		Schema: "view(Tensor self, int[]... size) -> Tensor",
		Names:  "Tensor.view Tensor._reshape_alias _unsafe_view view_copy",
		Uncast: "view",
		Doc: opdef.Doc{Summary: "The elements in another shape",
			Notes: "One size may be -1. Refused where the strides do not allow a view."},
		Self: func(a *sizeArgs) *tensor.Tensor { return a.Self },
		View: func(a *sizeArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			if !viewable(a.Self, a.Size) {
				return nil, opdef.Refuse("size", "a view of shape %s with strides %v cannot have shape %s",
					tensor.ShapeString(a.Self.Shape), a.Self.Stride, tensor.ShapeString(a.Size))
			}
			return reshape("size", t, a.Size)
		},
		Back:   func(a *sizeArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases:  func(g opdef.Gen) []*sizeArgs { return reshapeCases(g, false) },
		Exempt: map[string]string{"strides": "not every layout has a view of the shape"},
	}.Entry(),
	viewDTypeOp,
	viewOp[reshapeArgs]{
		Schema: "reshape(Tensor self, int[]... shape) -> Tensor",
		Names:  "reshape Tensor.reshape",
		Uncast: "reshape",
		Doc:    opdef.Doc{Summary: "The elements in another shape", Notes: "One size may be -1."},
		Self:   func(a *reshapeArgs) *tensor.Tensor { return a.Self },
		View:   func(a *reshapeArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return reshape("shape", t, a.Shape) },
		Back:   func(a *reshapeArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases: opdef.Calls[reshapeArgs](`
			f32[2, 6], [3, 4]; f64[2, 6], [-1, 2]; bf16[4], [2, 1, 2]; f32[], [1, 1]; f32[1], []; f32[0, 3], [3, 0]
			c64[2, 2], [4]; i64[6]{-5..5}, [2, -1]; f32[2, 6]{gaps}, [4, 3]`),
	}.Entry(),
	likeShape("view_as", "Tensor.view_as", "torch.Tensor.view_as").WithUncast("view_as"),
	likeShape("reshape_as", "Tensor.reshape_as", "torch.Tensor.reshape_as"),
	viewOp[flattenArgs]{
		Schema: "flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
		Names:  "flatten Tensor.flatten",
		Doc:    opdef.Doc{Summary: "Joins adjacent dimensions"},
		Self:   func(a *flattenArgs) *tensor.Tensor { return a.Self },
		View: func(a *flattenArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			shape, err := a.shape()
			if err != nil {
				return nil, err
			}
			return t.Reshape(shape...), nil
		},
		Back: func(a *flattenArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Node: func(a *flattenArgs, _ *opdef.Grad) (opdef.Node, error) {
			shape, err := a.shape()
			if err == nil && slices.Equal(shape, a.Self.Shape) {
				return elements.ReturnedArgument, nil
			}
			return opdef.Node{}, err
		},
		Cases: opdef.Calls[flattenArgs](`
			f32[2, 3, 4]; f64[2, 3, 4], start_dim=1, end_dim=2; f32[]; bf16[2, 0, 4], start_dim=-2
			c64[3], end_dim=0; i64[2, 2]{0..9}, end_dim=1`),
	}.Entry(),
	viewOp[opdef.UnaryArgs]{
		Schema: "ravel(Tensor self) -> Tensor",
		Names:  "ravel Tensor.ravel",
		Doc:    opdef.Doc{Summary: "The elements in one dimension"},
		Self:   func(a *opdef.UnaryArgs) *tensor.Tensor { return a.Self },
		View:   func(a *opdef.UnaryArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return t.Reshape(t.Numel()), nil },
		Back:   func(a *opdef.UnaryArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases:  elements.SelfCases,
	}.Entry(),
	viewOp[unflattenArgs]{
		Schema: "unflatten(Tensor self, int dim, int[]... sizes) -> Tensor",
		Names:  "unflatten Tensor.unflatten",
		Uncast: "unflatten",
		Doc:    opdef.Doc{Summary: "Splits one dimension into several", Notes: "One size may be -1."},
		Self:   func(a *unflattenArgs) *tensor.Tensor { return a.Self },
		View: func(a *unflattenArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			if t.Dim() == 0 {
				return nil, opdef.Refuse("self", "want at least one dimension")
			}
			dim, err := opdef.Dim("dim", a.Dim, t.Dim())
			if err != nil {
				return nil, err
			}
			if len(a.Sizes) == 0 {
				return nil, opdef.Refuse("sizes", "want at least one size")
			}
			sizes, err := inferSizes("sizes", a.Sizes, t.Shape[dim])
			if err != nil {
				return nil, err
			}
			return t.Reshape(slices.Concat(t.Shape[:dim], sizes, t.Shape[dim+1:])...), nil
		},
		Back: func(a *unflattenArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases: opdef.Calls[unflattenArgs](`
			f32[2, 6], 1, [2, 3]; f64[6], -1, [3, -1]; f32[0, 3], 0, [0, 2]; i64[4, 2]{0..9}, 0, [2, 2]`),
	}.Entry(),
	viewOp[squeezeArgs]{
		Schema: "squeeze(Tensor self) -> Tensor",
		Names:  "squeeze Tensor.squeeze Tensor.squeeze_ squeeze_copy",
		Uncast: "squeeze",
		Doc:    opdef.Doc{Summary: "Removes dimensions of size 1"},
		Self:   func(a *squeezeArgs) *tensor.Tensor { return a.Self },
		View: func(a *squeezeArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			return squeeze(t, func(int) bool { return true }), nil
		},
		Back:  func(a *squeezeArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases: opdef.Calls[squeezeArgs](`f32[1, 3, 1]; f64[2, 3]; f32[]; f32[1, 0, 1]; i32[1, 2]{0..9}`),
	}.Entry(),
	viewOp[viewDimArgs]{
		Schema: "squeeze.dim(Tensor self, int dim) -> Tensor",
		Names:  "squeeze Tensor.squeeze Tensor.squeeze_ squeeze_copy",
		Uncast: "squeeze",
		Doc:    opdef.Doc{Summary: "Removes a dimension if its size is 1"},
		Self:   func(a *viewDimArgs) *tensor.Tensor { return a.Self },
		View: func(a *viewDimArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			dim, err := opdef.Dim("dim", a.Dim, t.Dim())
			if err != nil {
				return nil, err
			}
			return squeeze(t, func(d int) bool { return d == dim }), nil
		},
		Back:  func(a *viewDimArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases: opdef.Calls[viewDimArgs](`f32[1, 3, 1], 0; f64[1, 3, 1], -1; f32[2, 3], 1; f32[], 0`),
	}.Entry(),
	viewOp[viewDimsArgs]{
		Schema: "squeeze.dims(Tensor self, int[] dim) -> Tensor",
		Names:  "squeeze Tensor.squeeze Tensor.squeeze_ squeeze_copy",
		Uncast: "squeeze",
		Doc:    opdef.Doc{Summary: "Removes those of the given dimensions whose size is 1"},
		Self:   func(a *viewDimsArgs) *tensor.Tensor { return a.Self },
		View: func(a *viewDimsArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			dims, err := elements.ResolveDims("dim", a.Dim, t.Dim())
			if err != nil {
				return nil, err
			}
			return squeeze(t, func(d int) bool { return slices.Contains(dims, d) }), nil
		},
		Back:  func(a *viewDimsArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases: opdef.Calls[viewDimsArgs](`f32[1, 3, 1], [0, 1]; f32[1, 3, 1], []; f64[1, 3, 1], [0, -1]`),
	}.Entry(),
	viewOp[viewDimArgs]{
		Schema: "unsqueeze(Tensor self, int dim) -> Tensor",
		Names:  "unsqueeze Tensor.unsqueeze Tensor.unsqueeze_ unsqueeze_copy",
		Uncast: "unsqueeze",
		Doc:    opdef.Doc{Summary: "Inserts a dimension of size 1"},
		Self:   func(a *viewDimArgs) *tensor.Tensor { return a.Self },
		View: func(a *viewDimArgs, t *tensor.Tensor) (*tensor.Tensor, error) {
			dim, err := opdef.Dim("dim", a.Dim, t.Dim()+1)
			if err != nil {
				return nil, err
			}
			return t.Unsqueeze(dim), nil
		},
		Back: func(a *viewDimArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases: opdef.Calls[viewDimArgs](`
			f32[2, 3], 0; f64[2, 3], -1; bf16[2, 3], 1; f32[], 0; f32[0, 2], 2; bool[3]{0..1}, 1`),
	}.Entry(),
	atLeast(1), atLeast(2), atLeast(3),
	complexAsRealOp, realAsComplexOp,
	storageResize("resize_(Tensor self, int[]... size, *, MemoryFormat? memory_format=None) -> Tensor",
		"The storage read in another shape",
		func(a *sizeArgs) (*tensor.Tensor, []int) { return a.Self, a.Size },
		func(t *tensor.Tensor, size []int) *sizeArgs { return &sizeArgs{t, size} }),
	storageResize("resize_as_(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor",
		"The storage read in the shape of another tensor",
		func(a *resizeAsArgs) (*tensor.Tensor, []int) { return a.Self, a.TheTemplate.Shape },
		func(t *tensor.Tensor, size []int) *resizeAsArgs {
			return &resizeAsArgs{t, elements.Zeros(tensor.Bool, size)}
		}),
}

type squeezeArgs = opdef.UnaryArgs

type viewDimArgs struct {
	Self *tensor.Tensor
	Dim  int
}

type viewDimsArgs struct {
	Self *tensor.Tensor
	Dim  []int
}

type sizeArgs struct {
	Self *tensor.Tensor
	Size []int
}

type reshapeArgs struct {
	Self  *tensor.Tensor
	Shape []int
}

type unflattenArgs struct {
	Self  *tensor.Tensor
	Dim   int
	Sizes []int
}

type flattenArgs struct {
	Self             *tensor.Tensor
	StartDim, EndDim int
}

func (a *flattenArgs) shape() ([]int, error) {
	sh := a.Self.Shape
	from, err := opdef.Dim("start_dim", a.StartDim, len(sh))
	if err != nil {
		return nil, err
	}
	to, err := opdef.Dim("end_dim", a.EndDim, len(sh))
	if err != nil {
		return nil, err
	}
	if from > to {
		return nil, opdef.Refuse("start_dim", "comes after end_dim")
	}
	if len(sh) == 0 {
		return []int{1}, nil
	}
	return slices.Concat(sh[:from], []int{tensor.Numel(sh[from : to+1])}, sh[to+1:]), nil
}

// inferSizes replaces a -1 in sizes so that they hold n elements, or refuses.
func inferSizes(arg string, sizes []int, n int) ([]int, error) {
	out, open, known := slices.Clone(sizes), -1, 1
	for i, s := range sizes {
		switch {
		case s == -1 && open >= 0:
			return nil, opdef.Refuse(arg, "only one size can be -1")
		case s == -1:
			open = i
		case s < 0:
			return nil, opdef.Refuse(arg, "negative size %d", s)
		case s > 0 && known > n && known > 1<<62/s:
			return nil, opdef.Refuse(arg, "shape %s does not hold %d elements", tensor.ShapeString(sizes), n)
		default:
			known *= s
		}
	}
	if open >= 0 && known > 0 && n%known == 0 {
		out[open] = n / known
		return out, nil
	}
	if open >= 0 || known != n {
		return nil, opdef.Refuse(arg, "shape %s does not hold %d elements", tensor.ShapeString(sizes), n)
	}
	return out, nil
}

func reshape(arg string, t *tensor.Tensor, sizes []int) (*tensor.Tensor, error) {
	shape, err := inferSizes(arg, sizes, t.Numel())
	if err != nil {
		return nil, err
	}
	return t.Reshape(shape...), nil
}

// viewable reports whether t can be shown in the sizes without a copy; sizes
// that do not fit are reported by inferSizes.
// Source: aten/src/ATen/TensorUtils.cpp, computeStride
func viewable(t *tensor.Tensor, sizes []int) bool {
	shape, err := inferSizes("size", sizes, t.Numel())
	if err != nil || t.Numel() == 0 || t.IsContiguous() {
		return true
	}
	// Groups of dimensions that lie like one are each cut into new dimensions.
	var groups []int
	last := 0
	for i, n := range t.Shape {
		if n == 1 {
			continue
		}
		if k := len(groups) - 1; k >= 0 && last == n*t.Stride[i] {
			groups[k] *= n
		} else {
			groups = append(groups, n)
		}
		last = t.Stride[i]
	}
	d := len(shape) - 1
	for _, want := range slices.Backward(groups) {
		n := 1
		for ; d >= 0 && n < want; d-- {
			n *= shape[d]
		}
		if n != want {
			return false
		}
	}
	return true
}

// squeeze removes the dimensions of size 1 that drop names.
func squeeze(t *tensor.Tensor, drop func(d int) bool) *tensor.Tensor {
	for d := t.Dim() - 1; d >= 0; d-- {
		if t.Shape[d] == 1 && drop(d) {
			t = t.Squeeze(d)
		}
	}
	return t
}

type likeArgs struct{ Self, Other *tensor.Tensor }

// likeShape declares an op that gives self the shape of other.
func likeShape(name, names, source string) *opdef.Entry {
	return viewOp[likeArgs]{
		Schema: name + "(Tensor self, Tensor other) -> Tensor", Names: names,
		Doc:  opdef.Doc{Summary: "The elements in the shape of another tensor", Source: source},
		Self: func(a *likeArgs) *tensor.Tensor { return a.Self },
		View: func(a *likeArgs, t *tensor.Tensor) (*tensor.Tensor, error) { return reshape("other", t, a.Other.Shape) },
		Back: func(a *likeArgs, g *tensor.Tensor) *tensor.Tensor { return g.Reshape(a.Self.Shape...) },
		Cases: opdef.Calls[likeArgs](`
			f32[2, 6], i64[3, 4]{0..1}; f64[4], i64[2, 2]{0..1}; f32[0, 3], i64[0]{0..1}; f32[], i64[1, 1]{0..1}`),
	}.Entry()
}

// reshapeCases are shapes and sizes that hold the same elements; copies adds
// tensors that cannot be viewed so.
func reshapeCases(g opdef.Gen, copies bool) []*sizeArgs {
	cs := []*sizeArgs{
		{g.Normal(tensor.Float32, 2, 6), []int{3, 4}}, {g.Normal(tensor.Float64, 2, 6), []int{-1, 2}},
		{g.Normal(tensor.BFloat16, 4), []int{2, 1, 2}},
		{g.Normal(tensor.Float32), []int{1, 1}}, {g.Normal(tensor.Float32, 1), []int{}},
		{g.Normal(tensor.Float32, 0, 3), []int{3, 0}},
		{g.Normal(tensor.Complex64, 2, 2), []int{4}}, {g.Int(tensor.Int64, -5, 5, 6), []int{2, -1}},
	}
	if copies {
		cs = append(cs, &sizeArgs{opdef.NonContiguous(g.Normal(tensor.Float32, 2, 6)), []int{4, 3}})
	}
	return cs
}

// atLeast declares atleast_1d, atleast_2d and atleast_3d of one tensor.
func atLeast(n int) *opdef.Entry {
	name := [...]string{1: "atleast_1d", 2: "atleast_2d", 3: "atleast_3d"}[n]
	return opdef.Op[tensorsArgs]{
		Schema: name + "(Tensor[]... tensors) -> Tensor|Tensor[tensors]",
		Names:  name + " functional." + name,
		Doc:    opdef.Doc{Summary: "Tensors with dimensions of size 1 added up to a number of dimensions"},
		Error:  elements.ExactError,
		Kernel: func(a *tensorsArgs) ([]*tensor.Tensor, error) {
			out := make([]*tensor.Tensor, len(a.Tensors))
			for i, t := range a.Tensors {
				out[i] = elements.AtLeastDims(t, n)
			}
			return out, nil
		},
		Grad: func(a *tensorsArgs, g *opdef.Grad) (opdef.Grads, error) {
			gr := make([]*tensor.Tensor, len(a.Tensors))
			for i, t := range a.Tensors {
				if g.Out[i] != nil {
					gr[i] = g.Out[i].Reshape(t.Shape...)
				}
			}
			return opdef.Grads{"tensors": gr}, nil
		},
		Traits: opdef.Traits{
			// More than one dimension is added by more than one view.
			Composite: n > 1, LastView: n > 1,
		},
		Node: func(a *tensorsArgs, _ *opdef.Grad) (opdef.Node, error) {
			for _, t := range a.Tensors {
				if len(a.Tensors) > 1 || t.Dim() >= n {
					return elements.ReturnedArgument, nil
				}
			}
			return opdef.Node{}, nil
		},
		Cases: opdef.Calls[tensorsArgs](`[f32[]]; [f64[3]]; [f32[2, 3], f32[]]; [i64[2, 0]{0..9}]`),
	}.Entry()
}

type resizeAsArgs struct{ Self, TheTemplate *tensor.Tensor }

// A resizing is a call of resize_ or resize_as_.
type resizing struct {
	self *tensor.Tensor
	size []int
}

// resized is self with the size, an error where its storage is too small.
func (r *resizing) resized() (*tensor.Tensor, error) {
	if slices.Equal(r.self.Shape, r.size) {
		return r.self, nil
	}
	return r.self.Strided(slices.Clone(r.size), tensor.Contiguous(r.size), r.self.Offset)
}

// Random is what stands in new storage.
func (r *resizing) Random() string {
	if _, err := r.resized(); err != nil {
		return opdef.Uninitialised
	}
	return ""
}

// storageResize declares resize_ and resize_as_, which change nothing but the
// geometry of self as long as its storage is large enough.
func storageResize[A any](schema, summary string, get func(*A) (*tensor.Tensor, []int),
	make func(*tensor.Tensor, []int) *A) *opdef.Entry {
	s, _ := opdef.ParseSchema(schema) // checked again by the registry
	return opdef.Planned[*A, *resizing]{
		Schema: schema, Names: "Tensor." + s.Name,
		Doc:    opdef.Doc{Summary: summary, Notes: "Elements beyond the storage are uninitialised."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "PyTorch refuses tensors that require grad"},
		Exempt: map[string]string{"strides": "addresses memory by its strides"},
		Plan: func(a *A) (*resizing, error) {
			self, size := get(a)
			return &resizing{self, size}, nil
		},
		Kernel: func(r *resizing) ([]*tensor.Tensor, error) {
			for _, n := range r.size {
				if n < 0 {
					return nil, opdef.Refuse("size", "negative size %d", n)
				}
			}
			t, err := r.resized()
			if err != nil {
				t = elements.Zeros(r.self.DType, r.size)
			}
			return []*tensor.Tensor{t}, nil
		},
		Cases: func(g opdef.Gen) []*A {
			return []*A{make(g.Int(tensor.Int64, 0, 9, 2, 3), []int{3, 2}), make(g.Int(tensor.Int32, 0, 9, 6),
				[]int{2, 2}), make(elements.Detached(g.Normal(tensor.Float32, 2, 3)), []int{2, 3}),
				make(elements.Detached(g.Normal(tensor.Float32)), []int{1, 1})}
		},
	}.Entry()
}
