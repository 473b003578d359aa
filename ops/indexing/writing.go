package indexing

import (
	"fmt"
	"slices"
	"sync"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/shape"
	"github.com/optool/optool/tensor"
)

// rowsApart is an index of shape whose entries along the first dimension
// differ: 1, 2, ...
func rowsApart(shape ...int) *tensor.Tensor {
	v := tensor.Make[int64](tensor.Numel(shape))
	for i := range v {
		v[i] = int64(1 + i/tensor.Numel(shape[1:]))
	}
	return tensor.New(tensor.Int64, shape, v)
}

// between are distinct values that differ from those of Gen.Distinct too.
func between(g opdef.Gen, shape ...int) *tensor.Tensor {
	t := opdef.Map(tensor.Float64, g.Distinct(tensor.Float64, shape...),
		func(x float64) float64 { return x + 0.05 }).Rounded()
	t.RequiresGrad = true
	return t
}

// A writing is what a scatter does: src, of shape, goes to the runs of self.
type writing struct {
	self, src *tensor.Tensor
	shape     []int // of what is written, in the order of the runs
	runs      runs.Runs
	how       runs.Combine
	keep      bool
	alpha     opdef.Scalar   // scales src; unused unless added
	given     *tensor.Tensor // the argument src is part of, nil if a number
	flat      bool           // src are the first elements of given
	narrow    *tensor.Tensor // the argument that self is the broadcast of, nil if self itself
	lost      bool           // a mistake: of several additions to one place the last alone counts
	// lacks, if not nil, is a mistake: additions of these turns at one place are lost.
	lacks func(turn int) bool

	// times, if not nil, is a mistake: means of n values and self are multiplied by that of n, which is not 0.
	times func(n float64) float64

	// sum is self with src, scaled, added to it: what the call makes unless it combines otherwise or is a mistake.
	sum func() *runs.Sum
}

// adds reports whether what is written is added to what is there.
func (w *writing) adds() bool { return w.how == runs.Add && w.keep }

// multipleOf is k*t.
func multipleOf(t *tensor.Tensor, k opdef.Scalar) *tensor.Tensor {
	switch {
	case k == opdef.Int(1):
		return t
	case t.DType.IsComplex():
		c := k.Complex128()
		return opdef.Map(t.DType, t, func(x complex128) complex128 { return c * x })
	case t.DType.IsFloat():
		f := k.Float64()
		return opdef.Map(t.DType, t, func(x float64) float64 { return f * x })
	}
	i := k.Int64()
	return opdef.Map(t.DType, t, func(x int64) int64 { return i * x })
}

// Mistakes are what kernels that add get wrong where values go to one place.
func (w *writing) Mistakes() []opdef.Mistake[any] {
	means := w.how == runs.Mean && w.keep
	if !w.adds() && !means || !w.self.DType.IsFloat() || w.runs.Count == 0 {
		return nil
	}
	add := func(text string, with func(m *writing)) opdef.Mistake[any] {
		return opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *w
			with(&m)
			return &m, nil
		}}
	}
	if means {
		return []opdef.Mistake[any]{
			add("self is added, but does not count among the terms of the mean", func(m *writing) {
				m.times = func(n float64) float64 { return (n + 1) / n }
			}),
			add("the sum is not divided by the number of its terms", func(m *writing) {
				m.times = func(n float64) float64 { return n + 1 }
			}),
			add("self is not added, but counts among the terms of the mean", func(m *writing) {
				m.keep, m.times = false, func(n float64) float64 { return n / (n + 1) }
			}),
		}
	}
	all := []opdef.Mistake[any]{
		add("of several additions to one place the last alone counts", func(m *writing) { m.lost = true }),
		add("values are written, not added", func(m *writing) {
			m.src, m.how = multipleOf(w.src, w.alpha), runs.Assign
		}),
	}
	for _, l := range lostTurns(w.runs, "additions to one place") {
		all = append(all, add(l.text, func(m *writing) { m.lacks = l.lost }))
	}
	return all
}

// A lostTurn is a mistake of kernels that add several values to one place.
type lostTurn struct {
	text string
	lost func(turn int) bool
}

// mostTurns is how many of the additions to one place are looked at one by one.
const mostTurns = 8

// lostTurns are the mistakes of adding at runs, of which some are added to one place: one of them is lost, or all
// behind the first ones are.
func lostTurns(r runs.Runs, what string) (all []lostTurn) {
	most := 0
	if turns := r.Turns(); len(turns) > 0 {
		most = slices.Max(turns)
	}
	if most < 2 {
		return nil
	}
	for k := 1; k <= min(most, mostTurns); k++ {
		all = append(all, lostTurn{fmt.Sprintf("of several %s the %s is lost", what, ordinal(k)),
			func(turn int) bool { return turn == k }})
	}
	for k := 1; k < min(most, mostTurns); k++ {
		text := fmt.Sprintf("of several %s only the first %d count", what, k)
		if k == 1 {
			text = fmt.Sprintf("of several %s only the first counts", what)
		}
		all = append(all, lostTurn{text, func(turn int) bool { return turn > k }})
	}
	return all
}

// ordinal is 1st, 2nd, 3rd, 4th, ... of at most mostTurns.
func ordinal(k int) string {
	switch k {
	case 1:
		return "1st"
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return fmt.Sprintf("%dth", k)
}

func (w *writing) result() *tensor.Tensor {
	switch {
	case w.lost:
		sum := opdef.Zip(w.self.DType, runs.Pick(w.self, w.shape, w.runs), multipleOf(w.src, w.alpha),
			func(x, y float64) float64 { return x + y })
		return runs.Put(w.self, sum, w.runs, runs.Assign, true)
	case w.lacks != nil:
		src := runs.Without(multipleOf(w.src, w.alpha), w.runs, w.runs.Turns(), w.lacks)
		return runs.Put(w.self, src, w.runs, runs.Add, true)
	case w.adds():
		return w.sum().Total
	case w.times != nil:
		none := tensor.Full(w.self.DType, w.self.Shape, 0.0)
		counts := runs.Put(none, tensor.Full(w.self.DType, w.src.Shape, 1.0), w.runs, runs.Add, true)
		return opdef.Zip(w.self.DType, runs.Put(w.self, w.src, w.runs, w.how, w.keep), counts,
			func(x, n float64) float64 {
				if n == 0 {
					return x
				}
				return x * w.times(n)
			})
	}
	return runs.Put(w.self, w.src, w.runs, w.how, w.keep)
}

// magnitudes is the sum of the magnitudes of the terms of each element.
func (w *writing) magnitudes() *tensor.Tensor {
	if w.adds() {
		return w.sum().Magnitudes
	}
	return runs.Put(opdef.Abs(w.self), opdef.Abs(w.src), w.runs, w.how, w.keep)
}

// grad gives the gradients of self and of the given source.
// Source: torch/csrc/autograd/FunctionsManual.cpp, scatter_reduce_backward
func (w *writing) grad(g, out *tensor.Tensor) (self, src *tensor.Tensor, err error) {
	at := func(t *tensor.Tensor) *tensor.Tensor { return runs.Pick(t, w.shape, w.runs) }
	add := func(base, t *tensor.Tensor) *tensor.Tensor { return runs.Put(base, t, w.runs, runs.Add, true) }
	if g.DType.IsComplex() && w.how > runs.Add {
		return nil, nil, opdef.Refuse("self", "no gradient for complex numbers")
	}
	self, src = g, at(g)
	switch w.how {
	case runs.Add:
		src = elements.ScaledByConj(src, 1, w.alpha)
	case runs.Mean:
		base := 0.0
		if w.keep {
			base = 1
		}
		n := add(tensor.Full(tensor.Float64, g.Shape, base), tensor.Full(tensor.Float64, w.shape, 1.0))
		share := func(x, n float64) float64 { return x / max(n, 1) }
		self, src = opdef.Zip(g.DType, g, n, share), opdef.Zip(g.DType, src, at(n), share)
	case runs.Minimum, runs.Maximum:
		same := func(x, y float64) float64 {
			if x == y {
				return 1
			}
			return 0
		}
		own, theirs := opdef.Zip(tensor.Float64, w.self, out, same), opdef.Zip(tensor.Float64, w.src, at(out), same)
		each := opdef.Zip(g.DType, g, add(own, theirs), func(x, n float64) float64 { return x / n })
		times := func(x, y float64) float64 { return x * y }
		self, src = opdef.Zip(g.DType, own, each, times), opdef.Zip(g.DType, theirs, at(each), times)
	case runs.Multiply:
		self, src = w.gradProduct(g, at, add)
	}
	if w.how == runs.Assign || !w.keep {
		self = runs.Put(self, elements.Zeros(g.DType, w.shape), w.runs, runs.Assign, true)
	}
	return self, src, nil
}

// gradProduct is grad of products: the product of all other factors, taken
// from the product of those that are not zero and the number of zeros.
func (w *writing) gradProduct(g *tensor.Tensor, at func(*tensor.Tensor) *tensor.Tensor,
	add func(base, t *tensor.Tensor) *tensor.Tensor) (self, src *tensor.Tensor) {
	isZero := func(x float64) float64 {
		if x == 0 {
			return 1
		}
		return 0
	}
	orOne := func(x float64) float64 {
		if x == 0 {
			return 1
		}
		return x
	}
	f64 := tensor.Float64
	product := runs.Put(opdef.Map(f64, w.self, orOne), opdef.Map(f64, w.src, orOne), w.runs, runs.Multiply, w.keep)
	base := opdef.Map(f64, w.self, isZero)
	if !w.keep {
		base = elements.Zeros(f64, w.self.Shape)
	}
	nulls := add(base, opdef.Map(f64, w.src, isZero))
	others := func(x, g, product, nulls *tensor.Tensor) *tensor.Tensor {
		return opdef.ZipN(g.DType, g.Shape, func(dst []float64, s [][]float64) {
			for i, x := range s[0] {
				switch zeros := s[3][i]; {
				case zeros == 0 && x == 0: // not written to
					dst[i] = s[1][i]
				case zeros == 0:
					dst[i] = s[1][i] * s[2][i] / x
				case zeros == 1 && x == 0:
					dst[i] = s[1][i] * s[2][i]
				default:
					dst[i] = 0
				}
			}
		}, x, g, product, nulls)
	}
	return others(w.self, g, product, nulls), others(w.src, at(g), at(product), at(nulls))
}

// A writingOp declares an op that writes into its argument self.
type writingOp[A any] struct {
	Schema   string
	Names    string
	Src      string // name of the argument that is written; "" for a number
	Doc      opdef.Doc
	Plan     func(a *A) (*writing, error)
	Only     bool // no in-place form
	Autocast opdef.Autocast
	Cases    func(g opdef.Gen) []*A
}

func (o writingOp[A]) Entry() *opdef.Entry {
	grads := func(w *writing, g, out *tensor.Tensor) (opdef.Grads, error) {
		self, src, err := w.grad(g, out)
		if err != nil {
			return nil, err
		}
		gr := opdef.Grads{"self": {opdef.SumTo(self, w.argument().Shape)}}
		if o.Src != "" && (w.given == nil || w.given.Wrapped) {
			gr[o.Src] = []*tensor.Tensor{nil}
		} else if o.Src != "" {
			if src, err = w.gradOfGiven(src); err != nil {
				return nil, err
			}
			gr.Set(o.Src, src)
		}
		return gr, nil
	}
	return opdef.Planned[*A, *writing]{
		Schema: o.Schema, Names: o.Names,
		Traits: opdef.Traits{InPlace: !o.Only, Autocast: o.Autocast},
		Doc:    o.Doc,
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1},
		Plan: func(a *A) (*writing, error) {
			w, err := o.Plan(a)
			if err == nil {
				w.sum = sync.OnceValue(func() *runs.Sum {
					return runs.Summed(w.self, multipleOf(w.src, w.alpha), w.runs)
				})
			}
			return w, err
		},
		Kernel: func(w *writing) ([]*tensor.Tensor, error) { return []*tensor.Tensor{w.result()}, nil },
		Bounds: opdef.Bounds[*writing]{
			Scale: func(w *writing, _ []*tensor.Tensor) []*tensor.Tensor {
				return []*tensor.Tensor{w.magnitudes()}
			},
			Terms:     (*writing).terms,
			GradTerms: (*writing).gradTerms,
			GradScale: func(w *writing, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				s, err := grads(w, opdef.Abs(g.Out[0]), g.Outs[0])
				for _, ts := range s {
					if ts[0] != nil {
						ts[0] = opdef.Abs(ts[0])
					}
				}
				return s, err
			},
		},

		Grad:  func(w *writing, g *opdef.Grad) (opdef.Grads, error) { return grads(w, g.Out[0], g.Outs[0]) },
		Cases: o.Cases,
	}.Entry()
}

func (w *writing) ErrorOf() opdef.Error {
	if w.how == runs.Assign || w.how == runs.Minimum || w.how == runs.Maximum {
		return opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 2}}
	}
	return opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}}
}

// terms is how many numbers at most are written to one element, with what is there.
func (w *writing) terms() int {
	switch {
	case w.how == runs.Assign:
		return 1
	case w.adds():
		return 1 + w.sum().Most()
	}
	return 1 + w.runs.Most(w.self.Numel())
}

// gradTerms: the gradients of sums are copies, where what is written is not an expanded tensor.
func (w *writing) gradTerms() int {
	n := 1
	if w.how != runs.Add {
		n = w.terms()
	}
	if w.given != nil && w.given.Numel() < tensor.Numel(w.shape) {
		n = max(n, tensor.Numel(w.shape)/max(w.given.Numel(), 1))
	}
	return n
}

// argument is the tensor self is the broadcast of.
func (w *writing) argument() *tensor.Tensor {
	if w.narrow != nil {
		return w.narrow
	}
	return w.self
}

// gradOfGiven is the gradient of the argument that the written elements are
// part of.
func (w *writing) gradOfGiven(src *tensor.Tensor) (*tensor.Tensor, error) {
	switch {
	case slices.Equal(w.given.Shape, w.shape):
		return src, nil
	case w.given.Dim() == 0:
		return opdef.SumTo(src, nil), nil
	case w.flat:
		n := w.given.Numel()
		return runs.ScatterAdd([]int{n}, src, runs.Runs{Len: 1, Count: src.Numel(), Starts: func(lo int, dst []int64) {
			for i := range dst {
				dst[i] = int64(lo + i)
			}
		}}).Reshape(w.given.Shape...), nil
	}
	return shape.ViewBack(w.given.Shape, src, func(t *tensor.Tensor) (*tensor.Tensor, error) {
		return corner(t, w.shape), nil
	})
}

// corner is the part of t at the start of every dimension.
func corner(t *tensor.Tensor, shape []int) *tensor.Tensor {
	for d, n := range shape {
		if n != t.Shape[d] {
			t = t.Slice(d, 0, n, 1)
		}
	}
	return t
}

func scatterHow(reduce *string) (runs.Combine, error) {
	switch {
	case reduce == nil:
		return runs.Assign, nil
	case *reduce == "add":
		return runs.Add, nil
	case *reduce == "multiply":
		return runs.Multiply, nil
	}
	return 0, opdef.Refuse("reduce", "want \"add\" or \"multiply\", got %q", *reduce)
}

func reduceHow(reduce string, allowed ...string) (runs.Combine, error) {
	if slices.Contains(allowed, reduce) {
		switch reduce {
		case "sum":
			return runs.Add, nil
		case "prod":
			return runs.Multiply, nil
		case "mean":
			return runs.Mean, nil
		case "amax":
			return runs.Maximum, nil
		case "amin":
			return runs.Minimum, nil
		}
	}
	return 0, opdef.Refuse("reduce", "%q is none of %v", reduce, allowed)
}

// scattering plans a write at indices along a dimension, as gather reads.
func scattering(self *tensor.Tensor, dim int, index, src *tensor.Tensor, how runs.Combine, keep bool) (*writing,
	error) {
	r, err := Along(self.Shape, dim, index)
	if err != nil {
		return nil, err
	}
	if src.DType != self.DType {
		return nil, opdef.Refuse("src", "want dtype %s, got %s", self.DType, src.DType)
	}
	if self.DType.IsComplex() && how >= runs.Minimum {
		return nil, opdef.Refuse("self", "complex numbers have no order")
	}
	w := &writing{self: self, src: src, shape: index.Shape, runs: r, how: how, keep: keep, alpha: opdef.Int(1),
		given: src}
	if index.Numel() == 0 {
		w.src, w.flat = elements.Zeros(src.DType, index.Shape), true
		return w, nil
	}
	if max(src.Dim(), 1) != max(index.Dim(), 1) {
		return nil, opdef.Refuse("src", "%d dimensions for an index of %d", src.Dim(), index.Dim())
	}
	if src.Dim() == 0 || index.Dim() == 0 {
		if src.Numel() < index.Numel() {
			return nil, opdef.Refuse("src", "%d values for %d indices", src.Numel(), index.Numel())
		}
		w.flat = true
		w.src = src.Reshape(src.Numel()).Slice(0, 0, 1, 1).Reshape(index.Shape...)
		return w, nil
	}
	for d, n := range index.Shape {
		if n > src.Shape[d] {
			return nil, opdef.Refuse("src", "size %d in dimension %d, the index has %d", src.Shape[d], d, n)
		}
	}
	w.src = corner(src, index.Shape)
	return w, nil
}

// slicing plans a write of the slices of src at indices of a dimension.
func slicing(self *tensor.Tensor, dim int, index, src *tensor.Tensor, how runs.Combine, keep bool) (*writing, error) {
	shape, r, err := slicesAt(self.Shape, dim, index)
	if err != nil {
		return nil, err
	}
	if src.DType != self.DType {
		return nil, opdef.Refuse("source", "want dtype %s, got %s", self.DType, src.DType)
	}
	if self.DType.IsComplex() && how >= runs.Minimum {
		return nil, opdef.Refuse("self", "complex numbers have no order")
	}
	if !slices.Equal(src.Shape, shape) && !(src.Numel() == 1 && tensor.Numel(shape) == 1) {
		return nil, opdef.Refuse("source", "want shape %s, got %s", tensor.ShapeString(shape),
			tensor.ShapeString(src.Shape))
	}
	return &writing{self: self, src: src.Reshape(shape...), shape: shape, runs: r, how: how, keep: keep,
		alpha: opdef.Int(1), given: src, flat: !slices.Equal(src.Shape, shape)}, nil
}

func maskedScattering(a *maskedScatterArgs) (*writing, error) {
	m := &maskedArgs{a.Self, a.Mask}
	ts, at, err := m.ones()
	if err != nil {
		return nil, err
	}
	if a.Source.DType != a.Self.DType {
		return nil, opdef.Refuse("source", "want dtype %s, got %s", a.Self.DType, a.Source.DType)
	}
	if a.Source.Numel() < len(at) {
		return nil, opdef.Refuse("source", "%d elements for %d places", a.Source.Numel(), len(at))
	}
	src := a.Source.Reshape(a.Source.Numel()).Slice(0, 0, len(at), 1)
	return &writing{self: ts[0], narrow: a.Self, src: src, shape: src.Shape, runs: runs.AtStarts(1, at),
		how:  runs.Assign,
		keep: true, alpha: opdef.Int(1), given: a.Source, flat: true}, nil
}

// byStrides says of e that it addresses memory by the strides of its argument.
func byStrides(e *opdef.Entry) *opdef.Entry {
	e.Exempt = map[string]string{"strides": "addresses memory by its strides"}
	e.Doc.Notes = "self must be contiguous. torch gives self the gradient of the elements written over in place of " +
		"that of the others."
	return e
}

// viewScatter declares a write of src to a view of self.
func viewScatter[A any](schema, summary string, args func(*A) (self, src *tensor.Tensor),
	view func(*A, *tensor.Tensor) (*tensor.Tensor, error), cases func(opdef.Gen) []*A) *opdef.Entry {
	s, _ := opdef.ParseSchema(schema) // checked again by the registry
	return writingOp[A]{
		Schema: schema, Names: s.Name + " Tensor." + s.Name, Src: "src", Only: true,
		Doc: opdef.Doc{Summary: summary},
		Plan: func(a *A) (*writing, error) {
			self, src := args(a)
			p, err := runs.Probe(self.Shape)
			if err != nil {
				return nil, err
			}
			if p, err = view(a, p); err != nil {
				return nil, err
			}
			if !slices.Equal(p.Shape, src.Shape) {
				return nil, opdef.Refuse("src", "want shape %s, got %s", tensor.ShapeString(p.Shape),
					tensor.ShapeString(src.Shape))
			}
			return &writing{self: self, src: opdef.Cast(src, self.DType), shape: p.Shape, runs: runs.OfView(p),
				how:  runs.Assign,
				keep: true, alpha: opdef.Int(1), given: src}, nil
		},
		Cases: cases,
	}.Entry()
}
