package recurrent

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// sequenceOps bring sequences of different lengths together: padded, a rectangle with one sequence in each row or
// column, or packed, all first steps before all second ones.
var sequenceOps = []*opdef.Entry{
	compose.Declare(compose.Op[packArgs]{
		Schema: "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
		Names:  "_pack_padded_sequence",
		Doc: opdef.Doc{Summary: "Padded sequences, packed", Formula: "step t of the sequences that are longer " +
			"than t, for " +
			"t from 0; how many these are", Notes: "The longest sequence comes first."},
		Error: elements.ExactError,
		Cases: opdef.Calls[packArgs](`
			f64[4, 3, 2], i64[3]{= 4 2 1}, False; f32[2, 5], i64[2]{= 3 3}, True; bf16[1, 3, 2], i64[1]{= 2}, True`),
	}, compose.Fused, func(g *compose.Graph, a *packArgs) compose.Values {
		sizes := stepSizes(g, a.Lengths)
		_, n := layout(g, "input", a.Input.Shape, a.BatchFirst, sizes)
		shape := append([]int{len(n)}, a.Input.Shape[2:]...)
		x := g.Reshape(g.Arg("input", a.Input), append([]int{-1}, a.Input.Shape[2:]...)...)
		return compose.Values{g.Reshape(g.IndexSelect(x, 0, n), shape...), g.Const(numbers(sizes))}
	}),
	compose.Declare(compose.Op[packBackArgs]{
		Schema: "_pack_padded_sequence_backward(Tensor grad, int[] input_size, Tensor batch_sizes, bool " +
			"batch_first) -> " +
			"Tensor",
		Names: "_pack_padded_sequence_backward torch.ops.aten._pack_padded_sequence_backward",
		Doc: opdef.Doc{Summary: "Gradient of packed sequences", Formula: "grad where sequences are, 0 where " +
			"padding is"},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "a gradient itself", Trivial: true},

		Cases: opdef.Calls[packBackArgs](`f32[5, 2]{fixed}, [3, 2, 2], i64[3]{= 2 2 1}, False`),
	}, compose.Fused, func(g *compose.Graph, a *packBackArgs) compose.Values {
		_, n := layout(g, "input_size", a.InputSize, a.BatchFirst, tensor.Data[int64](a.BatchSizes))
		if a.Grad.Dim() == 0 || a.Grad.Shape[0] != len(n) || !slices.Equal(a.Grad.Shape[1:], a.InputSize[2:]) {
			g.Refuse("grad", "shape %s is not of %d steps of %s", tensor.ShapeString(a.Grad.Shape), len(n),
				tensor.ShapeString(a.InputSize))
		}
		return compose.Values{place(g, g.Arg("grad", a.Grad), a.InputSize, n, 0)}
	}),
	compose.Declare(compose.Op[padPackedArgs]{
		Schema: "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int " +
			"total_length) -> (Tensor, Tensor)",
		Names: "_pad_packed_sequence",
		Doc: opdef.Doc{Summary: "Packed sequences, padded", Formula: "the inverse of _pack_padded_sequence, " +
			"padding_value elsewhere; the lengths", Notes: "total_length is a number of steps, or -1 for the longest."},
		Error: elements.ExactError,
		Cases: opdef.Calls[padPackedArgs](`
			f64[6, 2], i64[3]{= 3 2 1}, False, 0.5, -1; f32[5], i64[2]{= 3 2}, True, 0, 4`),
	}, compose.Fused, func(g *compose.Graph, a *padPackedArgs) compose.Values {
		sizes := batchSizes(g, a.BatchSizes)
		if a.Data.Dim() == 0 {
			g.Refuse("data", "want at least one dimension")
		}
		steps := len(sizes)
		if a.TotalLength > 0 {
			if steps = a.TotalLength; steps < len(sizes) {
				g.Refuse("total_length", "want at least %d steps, got %d", len(sizes), steps)
			}
		}
		shape := append([]int{steps, int(sizes[0])}, a.Data.Shape[1:]...)
		if a.BatchFirst {
			shape[0], shape[1] = shape[1], shape[0]
		}
		g.Check(tensor.CheckSize(shape))
		lens, n := layout(g, "batch_sizes", shape, a.BatchFirst, sizes)
		if len(n) != a.Data.Shape[0] {
			g.Refuse("batch_sizes", "sizes add up to %d, data has %d steps", len(n), a.Data.Shape[0])
		}
		return compose.Values{place(g, g.Arg("data", a.Data), shape, n, a.PaddingValue.Float64()),
			g.Const(numbers(lens))}
	}),
	compose.Declare(compose.Op[padSequenceArgs]{
		Schema: `pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str ` +
			`padding_side="right") -> Tensor`,
		Names: "_C._nn.pad_sequence nn.utils.rnn.pad_sequence",
		Doc: opdef.Doc{Summary: "Sequences of different lengths as one tensor", Formula: "sequence b in column b, " +
			"or in row " +
			"b if batch_first, padding_value behind or before it",
			Source: "https://pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html"},
		Error: elements.ExactError,
		Cases: opdef.Calls[padSequenceArgs](`
			[f64[2, 2], f64[4, 2], f64[1, 2]], padding_value=0.5
			[f32[2], f32[4], f32[1]], batch_first=True, padding_side='left'
			[bf16[2, 2, 2], bf16[4, 2, 2], bf16[1, 2, 2]], batch_first=True, padding_value=-1.0
			[i64[3]{0..9}, i64[1]{0..9}], batch_first=True, padding_value=-100.0`),
	}, compose.Fused, padSequence),
}

func padSequence(g *compose.Graph, a *padSequenceArgs) compose.Values {
	if len(a.Sequences) == 0 {
		g.Refuse("sequences", "want at least one sequence")
	}
	if a.PaddingSide != "left" && a.PaddingSide != "right" {
		g.Refuse("padding_side", `want "left" or "right", got %q`, a.PaddingSide)
	}
	first, longest := a.Sequences[0], 0
	for _, s := range a.Sequences {
		if s.Dim() == 0 || !slices.Equal(s.Shape[1:], first.Shape[1:]) {
			g.Refuse("sequences", "shapes %s and %s differ behind the first dimension", tensor.ShapeString(first.Shape),
				tensor.ShapeString(s.Shape))
		}
		longest = max(longest, s.Shape[0])
	}
	dt := first.DType
	shape := append([]int{longest, len(a.Sequences)}, first.Shape[1:]...)
	if a.BatchFirst {
		shape[0], shape[1] = shape[1], shape[0]
	}
	g.Check(tensor.CheckSize(shape))
	var rows []int
	for b, s := range a.Sequences {
		before := 0
		if a.PaddingSide == "left" {
			before = longest - s.Shape[0]
		}
		for t := range s.Shape[0] {
			rows = append(rows, rowOf(shape, a.BatchFirst, before+t, b))
		}
	}
	all := g.Args("sequences", a.Sequences)
	for i, x := range all {
		all[i] = g.To(x, dt)
	}
	return compose.Values{place(g, g.Cat(0, all...), shape, rows, a.PaddingValue)}
}

type packArgs struct {
	Input, Lengths *tensor.Tensor
	BatchFirst     bool
}

type packBackArgs struct {
	Grad       *tensor.Tensor
	InputSize  []int
	BatchSizes *tensor.Tensor
	BatchFirst bool
}

type padPackedArgs struct {
	Data, BatchSizes *tensor.Tensor
	BatchFirst       bool
	PaddingValue     opdef.Scalar
	TotalLength      int
}

type padSequenceArgs struct {
	Sequences    []*tensor.Tensor
	BatchFirst   bool
	PaddingValue float64
	PaddingSide  string
}

// numbers is a vector of int64.
func numbers(ns []int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{len(ns)}, ns) }

// stepSizes are the numbers of sequences that are longer than 0, 1, ... steps.
func stepSizes(g *compose.Graph, lengths *tensor.Tensor) []int64 {
	if lengths.DType != tensor.Int64 || lengths.Dim() != 1 || lengths.Numel() == 0 {
		g.Refuse("lengths", "want a vector of int64, got %s", lengths.Meta())
	}
	ns := tensor.Data[int64](lengths)
	for i, n := range ns {
		if n <= 0 || i > 0 && n > ns[i-1] {
			g.Refuse("lengths", "want positive numbers in descending order, got %d at position %d", n, i)
		}
	}
	sizes := tensor.Make[int64](int(min(ns[0], math.MaxInt32)))
	for _, n := range ns {
		for t := range int(min(n, int64(len(sizes)))) {
			sizes[t]++
		}
	}
	return sizes
}

// batchSizes are the numbers of sequences at each step.
func batchSizes(g *compose.Graph, sizes *tensor.Tensor) []int64 {
	if sizes.DType != tensor.Int64 || sizes.Dim() != 1 || sizes.Numel() == 0 {
		g.Refuse("batch_sizes", "want a vector of int64, got %s", sizes.Meta())
	}
	return tensor.Data[int64](sizes)
}

// layout says where packed steps are among the rows of padded sequences of this shape, and how long the sequences are.
func layout(g *compose.Graph, name string, shape []int, batchFirst bool, sizes []int64) (lens []int64, rows []int) {
	if len(shape) < 2 {
		g.Refuse(name, "want at least 2 dimensions, got %s", tensor.ShapeString(shape))
	}
	steps, batch := shape[0], shape[1]
	if batchFirst {
		steps, batch = batch, steps
	}
	if len(sizes) > steps {
		g.Refuse(name, "shape %s has no room for %d steps", tensor.ShapeString(shape), len(sizes))
	}
	for t, n := range sizes {
		if n <= 0 || int(n) > batch || t > 0 && n > sizes[t-1] {
			g.Refuse(name, "%d of %d sequences at step %d", n, batch, t)
		}
		for b := range int(n) {
			rows = append(rows, rowOf(shape, batchFirst, t, b))
			if t == 0 {
				lens = append(lens, 0)
			}
			lens[b]++
		}
	}
	return lens, rows
}

// rowOf is the place of a step among all steps of padded sequences.
func rowOf(shape []int, batchFirst bool, step, sequence int) int {
	if batchFirst {
		return sequence*shape[1] + step
	}
	return step*shape[1] + sequence
}

// place is a tensor of this shape with the rows of x in these places of its first two dimensions, fill elsewhere.
func place(g *compose.Graph, x *compose.Value, shape, rows []int, fill float64) *compose.Value {
	each := tensor.Numel(shape[2:])
	places := tensor.Make[int64](len(rows) * each)
	for i, r := range rows {
		for k := range each {
			places[i*each+k] = int64(r*each + k)
		}
	}
	return g.Put(g.Full(x.DType(), shape, fill), places, x)
}
