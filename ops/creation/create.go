package creation

import (
	"math"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// OptionParams are the keyword arguments of every op that makes a tensor and
// that do not change its values.
const OptionParams = ", Layout? layout=None, Device? device=None, ignored pin_memory=False, ignored " +
	"requires_grad=False, " +
	"ignored names=None, MemoryFormat? memory_format=None) -> Tensor"

// createOps make tensors from sizes and numbers.
var createOps = []*opdef.Entry{
	filled("zeros", "Zeros", 0), filled("ones", "Ones", 1),
	filledLike("zeros_like", "Zeros of the shape of another tensor", 0),
	filledLike("ones_like", "Ones of the shape of another tensor", 1),
	filledNew("new_zeros", "Zeros of the dtype of another tensor", 0),
	filledNew("new_ones", "Ones of the dtype of another tensor", 1),
	opdef.Op[fullArgs]{
		Schema: "full(int[] size, Scalar fill_value, *, dtype? dtype=None" + OptionParams, Names: "full",
		Doc: opdef.Doc{Summary: "A tensor of one value", Formula: "fill_value",
			Notes: "Without dtype: bool, int64, float32 or complex64 by the kind of fill_value."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *fullArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Size, a.FillValue, elements.OrElse(a.Dtype, dtypeOfNumber(a.FillValue)))
		},
		Cases: opdef.Calls[fullArgs](`[2, 3], 1.5; [], 7; [0, 2], True; [3], 0.1, dtype=bf16; [2], 1+2j`),
	}.Entry(),
	opdef.Op[fullLikeArgs]{
		Schema: "full_like(Tensor self, Scalar fill_value, *, dtype? dtype=None" + OptionParams, Names: "full_like",
		Doc:    opdef.Doc{Summary: "A tensor of one value, of the shape of another", Formula: "fill_value"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *fullLikeArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Self.Shape, a.FillValue, elements.OrElse(a.Dtype, a.Self.DType))
		},
		Cases: opdef.Calls[fullLikeArgs](`
			f64[3, 4], 1; f32[5], 1; bf16[2, 3], 1; f32[], 1; f32[0, 3], 1; f64[3, 4]{gaps}, 1; i32[6]{-4..4}, 1
			bool[4]{0..1}, 1`),
	}.Entry(),
	opdef.Op[newFullArgs]{
		Schema: "new_full(Tensor self, int[] size, Scalar fill_value, *, dtype? dtype=None" + OptionParams,
		Names:  "Tensor.new_full",
		Doc:    opdef.Doc{Summary: "A tensor of one value, of the dtype of another", Formula: "fill_value"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *newFullArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Size, a.FillValue, elements.OrElse(a.Dtype, a.Self.DType))
		},
		Cases: opdef.Calls[newFullArgs](`
			f64[3, 4], [2, 3], 1; f32[5], [2, 3], 1; bf16[2, 3], [2, 3], 1; f32[], [2, 3], 1; f32[0, 3], [2, 3], 1
			f64[3, 4]{gaps}, [2, 3], 1; i32[6]{-4..4}, [2, 3], 1; bool[4]{0..1}, [2, 3], 1`),
	}.Entry(),
	opdef.Op[fillArgs]{
		Schema: "fill(Tensor self, Tensor|Scalar value) -> Tensor", Names: "fill",
		Traits: opdef.Traits{InPlace: true, Trivial: true},
		Doc:    opdef.Doc{Summary: "The tensor filled with one value", Formula: "value", Source: "torch.Tensor.fill_"},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: fill, Grad: fillGrad,
		Bounds: opdef.Bounds[*fillArgs]{GradTerms: func(a *fillArgs) int { return a.Self.Numel() }},
		Cases:  fillCases,
	}.Entry(),
	opdef.Op[fillArgs]{
		Schema: "fill_(Tensor self, Tensor|Scalar value) -> Tensor", Names: "Tensor.fill_",
		Traits: opdef.Traits{InPlace: true, Trivial: true},
		Doc:    opdef.Doc{Summary: "Fills the tensor with one value", Formula: "value"},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Kernel: fill, Grad: fillGrad,
		Bounds: opdef.Bounds[*fillArgs]{GradTerms: func(a *fillArgs) int { return a.Self.Numel() }},
		Cases:  fillCases,
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "zero_(Tensor self) -> Tensor", Names: "Tensor.zero_ zero_ nn.init.zeros_",
		Traits: opdef.Traits{InPlace: true, Trivial: true},
		Doc:    opdef.Doc{Summary: "Fills the tensor with zeros", Formula: "0"},
		Error:  elements.ExactError,
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Self.Shape, opdef.Int(0), a.Self.DType)
		},
		Grad: func(a *opdef.UnaryArgs, _ *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"self": {elements.ZeroGrad(a.Self)}}, nil
		},
		Cases: sameCases,
	}.Entry(),
	opdef.Op[arangeArgs]{
		Schema: "arange.start(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None" + OptionParams,
		Names:  "arange",
		Doc: opdef.Doc{Summary: "Evenly spaced numbers",
			Formula: "start + i*step, i = 0 .. ceil((end - start)/step) - 1",
			Notes:   "Without dtype: int64 if all numbers are integers, else float32."},
		Traits: opdef.Traits{Trivial: true, NoGrad: elements.NoDifferentiableArgument},
		Error:  elements.RoundedError, Kernel: arange,
		Bounds: opdef.Bounds[*arangeArgs]{Scale: arangeScale},
		Cases: opdef.Calls[arangeArgs](`
			1, 7, step=2; 0.0, 1.0, step=0.1; 5, -5, step=-3; -1.0, 1.0, step=0.3, dtype=f64; 3, 3`),
	}.Entry(),
	opdef.Op[arangeEndArgs]{
		Schema: "arange(Scalar end, *, dtype? dtype=None" + OptionParams, Names: "arange",
		Doc:    opdef.Doc{Summary: "Numbers from 0", Formula: "i, i = 0 .. ceil(end) - 1"},
		Traits: opdef.Traits{Trivial: true, NoGrad: elements.NoDifferentiableArgument},
		Error:  elements.RoundedError,
		Kernel: func(a *arangeEndArgs) ([]*tensor.Tensor, error) {
			return arange(&arangeArgs{opdef.Int(0), a.End, opdef.Int(1), arangeDType(a.Dtype, a.End)})
		},
		Cases: opdef.Calls[arangeEndArgs](`5; 3.5; 0; 4, dtype=f16`),
	}.Entry(),
	opdef.Op[linspaceArgs]{
		Schema: "linspace(Scalar start, Scalar end, int steps, *, dtype? dtype=None" + OptionParams, Names: "linspace",
		Doc: opdef.Doc{Summary: "Evenly spaced numbers with both ends", Formula: "start + i*(end - start)/(steps - 1)",
			Notes: "The second half counts back from end. Integers are computed in float32 and truncated."},
		Error:  elements.RoundedError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument},
		Kernel: linspace,
		Bounds: opdef.Bounds[*linspaceArgs]{
			Scale: func(a *linspaceArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				s := math.Max(magnitudeOfNumber(a.Start), magnitudeOfNumber(a.End))
				return []*tensor.Tensor{tensor.Full(tensor.Float64, outs[0].Shape, s)}
			},
		},
		Cases: opdef.Calls[linspaceArgs](`
			0, 1, 5; -2.5, 3.0, 4; 1, 9, 4, dtype=i64; 1, 2, 1; 1, 2, 0; 1, 0+2j, 3, dtype=c64`),
	}.Entry(),
	opdef.Op[logspaceArgs]{
		Schema: "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, dtype? dtype=None" + OptionParams,
		Names:  "logspace",
		Doc: opdef.Doc{Summary: "Powers of a base with evenly spaced exponents",
			Formula: "base ** (start + i*(end - start)/(steps - 1))"},
		Error:  elements.ElementwiseError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument},
		Kernel: logspace,
		Bounds: opdef.Bounds[*logspaceArgs]{
			Scale: func(a *logspaceArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				// The exponent is rounded before the power is taken.
				k := math.Abs(math.Log(math.Abs(a.Base))) *
					math.Max(magnitudeOfNumber(a.Start), magnitudeOfNumber(a.End))
				if !elements.IsFinite(k) {
					k = 1
				}
				return []*tensor.Tensor{opdef.Map(tensor.Float64, opdef.Abs(outs[0]),
					func(y float64) float64 { return y * (1 + k) })}
			},
		},
		Cases: opdef.Calls[logspaceArgs](`0, 2, 5; -2.5, 3.0, 4, base=2.0; 0, 3, 4, base=2.0, dtype=i64`),
	}.Entry(),
	opdef.Op[eyeArgs]{
		Schema: "eye(int n, int? m=None, *, dtype? dtype=None" + OptionParams, Names: "eye",
		Doc:    opdef.Doc{Summary: "Identity matrix", Formula: "1 where row = column, else 0"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *eyeArgs) ([]*tensor.Tensor, error) {
			n, m := a.N, elements.OrElse(a.M, a.N)
			if n < 0 || m < 0 {
				return nil, opdef.Refuse("n", "want sizes of 0 or more, got %d and %d", n, m)
			}
			v := tensor.Make[int64](tensor.Numel([]int{n, m}))
			for i := range min(n, m) {
				v[i*m+i] = 1
			}
			return elements.Result(opdef.Cast(tensor.New(tensor.Int64, []int{n, m}, v),
				elements.OrElse(a.Dtype, tensor.DefaultDType)))
		},
		Cases: opdef.Calls[eyeArgs](`3; 2, m=4; 0; 2, dtype=c64`),
	}.Entry(),
	triangle("tril_indices", "Indices of the lower triangle",
		func(r, cols, offset int) (lo, hi int) { return 0, min(cols, diagonal(r, offset, cols)+1) }),
	triangle("triu_indices", "Indices of the upper triangle",
		func(r, cols, offset int) (lo, hi int) { return max(0, diagonal(r, offset, cols)), cols }),
	opdef.Op[dataArgs]{
		Schema: "tensor(any data, *, dtype? dtype=None" + OptionParams, Names: "tensor",
		Doc:    opdef.Doc{Summary: "A tensor of Python numbers in nested sequences", Formula: "data"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "the result is a leaf", Trivial: true},

		Kernel: func(a *dataArgs) ([]*tensor.Tensor, error) { return fromData(a.Data, a.Dtype) },
		Cases:  dataCases,
	}.Entry(),
	opdef.Op[dataArgs]{
		Schema: "as_tensor(any data, dtype? dtype=None, Device? device=None) -> Tensor",
		Names:  "as_tensor asarray from_numpy",
		Doc: opdef.Doc{Summary: "A tensor of Python numbers in nested sequences, or a tensor converted",
			Formula: "data"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "gradients belong to the argument", Trivial: true},

		Kernel: func(a *dataArgs) ([]*tensor.Tensor, error) { return fromData(a.Data, a.Dtype) },
		Cases:  dataCases,
	}.Entry(),
	opdef.Op[newTensorArgs]{
		Schema: "new_tensor(Tensor self, any data, *, dtype? dtype=None" + OptionParams, Names: "Tensor.new_tensor",
		Doc:    opdef.Doc{Summary: "A tensor of Python numbers, of the dtype of another tensor", Formula: "data"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "the result is a leaf", Trivial: true},

		Kernel: func(a *newTensorArgs) ([]*tensor.Tensor, error) {
			dt := elements.OrElse(a.Dtype, a.Self.DType)
			return fromData(a.Data, &dt)
		},
		Cases: opdef.Calls[newTensorArgs](`
			f32[2], [1, 2, 3]; f32[2], [(1.5, 2), (0.0, -1.0)]; f32[2], 0.1; f32[2], True; f32[2], []`),
	}.Entry(),
	opdef.Op[newArgs]{
		Schema: "new(Tensor self, any data=None, any size1=None, any size2=None, any size3=None, any size4=None, any " +
			"size5=None, *, any size=None, Device? device=None) -> Tensor",
		Names: "Tensor.new",
		Doc: opdef.Doc{Summary: "A tensor of the dtype of another one, of data or of a size",
			Formula: "data", Notes: "Of a size, given as numbers or a torch.Size, the values are those that " +
				"memory had."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "the result is a leaf", Trivial: true},

		Kernel: func(a *newArgs) ([]*tensor.Tensor, error) {
			if shape, ok := a.shape(); ok {
				return Constant(shape, opdef.Int(0), a.Self.DType)
			}
			return fromData(a.Data, &a.Self.DType)
		},
		Cases: opdef.Calls[newArgs](`
			f32[2]; f32[2], data=2, size1=3; f32[2], data=[2, 3.5]; f32[2], data=f32[2]; f32[2], size=(2)`),
	}.Entry(),
	opdef.Op[scalarTensorArgs]{
		Schema: "scalar_tensor(Scalar s, *, dtype? dtype=None" + OptionParams, Names: "scalar_tensor",
		Doc:    opdef.Doc{Summary: "A 0-d tensor", Formula: "s"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *scalarTensorArgs) ([]*tensor.Tensor, error) {
			return Constant(nil, a.S, elements.OrElse(a.Dtype, tensor.DefaultDType))
		},
		Cases: opdef.Calls[scalarTensorArgs](`2.5; 3`),
	}.Entry(),
	constantInit("constant_", "(Tensor tensor, Scalar val) -> Tensor",
		func(a *constantArgs) opdef.Scalar { return a.Val }),
	opdef.Op[onesInitArgs]{
		Schema: "ones_(Tensor tensor) -> Tensor", Names: "nn.init.ones_",
		Traits: opdef.Traits{InPlace: true, NoGrad: "run without gradients", Trivial: true},
		Doc:    opdef.Doc{Summary: "Fills the tensor with ones", Formula: "1"},
		Error:  elements.ExactError,
		Kernel: func(a *onesInitArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Tensor.Shape, opdef.Int(1), a.Tensor.DType)
		},
		Cases: opdef.Calls[onesInitArgs](`f32[2, 3]`),
	}.Entry(),
}

func (a *newArgs) Random() string {
	if _, ok := a.shape(); ok {
		return opdef.Uninitialised
	}
	return ""
}

// NewSizeArgs are the arguments of operators that make a tensor of a size.
type NewSizeArgs struct {
	Size  []int
	Dtype *tensor.DType
}

// NewLikeArgs are the arguments of operators that make a tensor of another's
// size.
type NewLikeArgs struct {
	Self  *tensor.Tensor
	Dtype *tensor.DType
}

// NewArgs are the arguments of methods that make a tensor of a size and of the
// dtype of self.
type NewArgs struct {
	Self  *tensor.Tensor
	Size  []int
	Dtype *tensor.DType
}

type fullArgs struct {
	Size      []int
	FillValue opdef.Scalar
	Dtype     *tensor.DType
}

type fullLikeArgs struct {
	Self      *tensor.Tensor
	FillValue opdef.Scalar
	Dtype     *tensor.DType
}

type newFullArgs struct {
	Self      *tensor.Tensor
	Size      []int
	FillValue opdef.Scalar
	Dtype     *tensor.DType
}

type fillArgs struct{ Self, Value *tensor.Tensor }

type arangeArgs struct {
	Start, End, Step opdef.Scalar
	Dtype            *tensor.DType
}

type arangeEndArgs struct {
	End   opdef.Scalar
	Dtype *tensor.DType
}

type linspaceArgs struct {
	Start, End opdef.Scalar
	Steps      int
	Dtype      *tensor.DType
}

type logspaceArgs struct {
	Start, End opdef.Scalar
	Steps      int
	Base       float64
	Dtype      *tensor.DType
}

type eyeArgs struct {
	N     int
	M     *int
	Dtype *tensor.DType
}

type triangleArgs struct {
	Row, Col, Offset int
	Dtype            tensor.DType
}

type dataArgs struct {
	Data  value.Value
	Dtype *tensor.DType
}

type newArgs struct {
	Self                                          *tensor.Tensor
	Data, Size1, Size2, Size3, Size4, Size5, Size value.Value
}

// shape is the size that is asked for, if one is.
func (a *newArgs) shape() (shape []int, ok bool) {
	size := a.Size
	if s, _ := a.Data.(*value.Sequence); s != nil && s.Class == "torch.Size" {
		size = s
	}
	if s, _ := size.(*value.Sequence); s != nil {
		for _, v := range s.Items {
			n, _ := v.(int64)
			shape = append(shape, int(n))
		}
		return shape, true
	}
	if a.Data == nil {
		return []int{0}, true
	}
	for _, v := range []value.Value{a.Data, a.Size1, a.Size2, a.Size3, a.Size4, a.Size5} {
		if n, is := v.(int64); is {
			shape = append(shape, int(n))
		}
	}
	return shape, len(shape) > 0
}

type newTensorArgs struct {
	Self  *tensor.Tensor
	Data  value.Value
	Dtype *tensor.DType
}

type scalarTensorArgs struct {
	S     opdef.Scalar
	Dtype *tensor.DType
}

type constantArgs struct {
	Tensor *tensor.Tensor
	Val    opdef.Scalar
}

type onesInitArgs struct{ Tensor *tensor.Tensor }

// Constant is a tensor of one value, which takes the memory of one element.
func Constant(size []int, v opdef.Scalar, dt tensor.DType) ([]*tensor.Tensor, error) {
	if err := elements.CheckSize(size); err != nil {
		return nil, err
	}
	t, err := elements.FillValue("fill_value", v, dt)
	if err != nil {
		return nil, err
	}
	switch dt.Kind() {
	case tensor.KindComplex:
		return elements.Result(tensor.Full(dt, size, tensor.At[complex128](t, 0)))
	case tensor.KindFloat:
		return elements.Result(tensor.Full(dt, size, tensor.At[float64](t, 0)))
	}
	return elements.Result(tensor.Full(dt, size, tensor.At[int64](t, 0)))
}

func dtypeOfNumber(s opdef.Scalar) tensor.DType {
	switch s.Kind() {
	case tensor.KindBool:
		return tensor.Bool
	case tensor.KindInt:
		return tensor.Int64
	case tensor.KindComplex:
		return tensor.DefaultDType.Complex()
	}
	return tensor.DefaultDType
}

func magnitudeOfNumber(s opdef.Scalar) float64 { return s.Abs().Float64() }

func filled(name, summary string, v int64) *opdef.Entry {
	return opdef.Op[NewSizeArgs]{
		Schema: name + "(int[]... size, *, dtype? dtype=None" + OptionParams, Names: name,
		Doc:    opdef.Doc{Summary: summary},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *NewSizeArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Size, opdef.Int(v), elements.OrElse(a.Dtype, tensor.DefaultDType))
		},
		Cases: SizeCases,
	}.Entry()
}

// SizeCases are cases of operators that make a tensor of a size.
var SizeCases = opdef.Calls[NewSizeArgs](`[2, 3]; []; [0, 2]; [4], dtype=i32; [2], dtype=c64`)

func filledLike(name, summary string, v int64) *opdef.Entry {
	return opdef.Op[NewLikeArgs]{
		Schema: name + "(Tensor self, *, dtype? dtype=None" + OptionParams, Names: name,
		Doc:    opdef.Doc{Summary: summary},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *NewLikeArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Self.Shape, opdef.Int(v), elements.OrElse(a.Dtype, a.Self.DType))
		},
		Cases: LikeCases,
	}.Entry()
}

// LikeCases are cases of operators that make a tensor of another's size.
var LikeCases = opdef.Calls[NewLikeArgs](`
	f64[3, 4]; f32[5]; bf16[2, 3]; f32[]; f32[0, 3]; f64[3, 4]{gaps}; i32[6]{-4..4}; bool[4]{0..1}
	f64[3, 4], dtype=i32`)

func filledNew(name, summary string, v int64) *opdef.Entry {
	return opdef.Op[NewArgs]{
		Schema: name + "(Tensor self, int[]... size, *, dtype? dtype=None" + OptionParams, Names: "Tensor." + name,
		Doc:    opdef.Doc{Summary: summary},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *NewArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Size, opdef.Int(v), elements.OrElse(a.Dtype, a.Self.DType))
		},
		Cases: NewCases,
	}.Entry()
}

// NewCases are cases of methods that make a tensor of a size.
var NewCases = opdef.Calls[NewArgs](`
	f64[3, 4], [2, 3]; f32[5], []; bf16[2, 3], [0, 2]; f32[], [2, 3]; f32[0, 3], []; f64[3, 4]{gaps}, [0, 2]
	i32[6]{-4..4}, [2, 3]; bool[4]{0..1}, []`)

func fill(a *fillArgs) ([]*tensor.Tensor, error) {
	if a.Value.Dim() != 0 {
		return nil, opdef.Refuse("value", "want a number or a 0-d tensor, got %s", a.Value.Meta())
	}
	return Constant(a.Self.Shape, opdef.ScalarAt(a.Value, 0), a.Self.DType)
}

func fillGrad(a *fillArgs, g *opdef.Grad) (opdef.Grads, error) {
	return opdef.Grads{"self": {elements.ZeroGrad(a.Self)}, "value": {elements.SumGradTo(g.Out[0], a.Value)}}, nil
}

var fillCases = opdef.Calls[fillArgs](`
	f64[3, 4], 1; f32[5], 1; bf16[2, 3], 1; f32[], 1; f32[0, 3], 1; f64[3, 4]{gaps}, 1; i32[6]{-4..4}, 1
	bool[4]{0..1}, 1; f64[3, 4], f64[]`)

// diagonal is the column of a diagonal in row r, at most one beyond cols columns on
// either side.
func diagonal(r, offset, cols int) int {
	switch {
	case offset > cols-r:
		return cols
	case offset < -1-r:
		return -1
	}
	return r + offset
}

// triangle declares the indices of a part of a matrix; span is the columns of row r.
func triangle(name, summary string, span func(r, cols, offset int) (lo, hi int)) *opdef.Entry {
	return opdef.Op[triangleArgs]{
		Schema: name + "(int row, int col, int offset=0, *, dtype dtype=int64" + OptionParams, Names: name,
		Doc:    opdef.Doc{Summary: summary, Formula: "rows in the first row of the result, columns in the second"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: elements.NoDifferentiableArgument, Trivial: true},

		Kernel: func(a *triangleArgs) ([]*tensor.Tensor, error) {
			if a.Row < 0 || a.Col < 0 {
				return nil, opdef.Refuse("row", "want sizes of 0 or more, got %d and %d", a.Row, a.Col)
			}
			if !a.Dtype.IsIntegral() {
				return nil, opdef.Refuse("dtype", "want an integer dtype, got %s", a.Dtype)
			}
			n := 0
			for r := range tensor.Steps(a.Row) {
				lo, hi := span(r, a.Col, a.Offset)
				if n += max(hi-lo, 0); n < 0 || n > tensor.MaxElements {
					return nil, opdef.Refuse("", "%v", &tensor.SizeError{Shape: []int{2, a.Row, a.Col}})
				}
			}
			v, i := tensor.Make[int64](2*n), 0
			for r := range a.Row {
				lo, hi := span(r, a.Col, a.Offset)
				for c := lo; c < hi; c++ {
					v[i], v[n+i] = int64(r), int64(c)
					i++
				}
			}
			return elements.Result(tensor.New(a.Dtype, []int{2, n}, v))
		},
		Cases: opdef.Calls[triangleArgs](`3, 3; 3, 4, offset=1; 4, 2, offset=-1, dtype=i32; 0, 3`),
	}.Entry()
}

func constantInit(name, params string, v func(*constantArgs) opdef.Scalar) *opdef.Entry {
	return opdef.Op[constantArgs]{
		Schema: name + params, Names: "nn.init." + name,
		Traits: opdef.Traits{InPlace: true, NoGrad: "run without gradients", Trivial: true},
		Doc:    opdef.Doc{Summary: "Fills the tensor with one value", Formula: "val"},
		Error:  elements.ExactError,
		Kernel: func(a *constantArgs) ([]*tensor.Tensor, error) {
			return Constant(a.Tensor.Shape, v(a), a.Tensor.DType)
		},
		Cases: opdef.Calls[constantArgs](`f32[2, 3], 0.5`),
	}.Entry()
}
