// Package grouped has products of matrices in groups and in low precision, which
// torch runs as one operator: the layers of experts and those of float8.
package grouped

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return []*opdef.Entry{groupedMM, groupedFunction, scaledMM, scaledGroupedMM}
}

type groupedArgs struct {
	Self, Mat2, Offs, Bias *tensor.Tensor
	OutDtype               *tensor.DType
}

type groupedFunctionArgs struct {
	MatA, MatB, Offs, Bias *tensor.Tensor
	OutDtype               *tensor.DType
}

type scaledArgs struct {
	Self, Mat2, ScaleA, ScaleB, Bias, ScaleResult *tensor.Tensor
	OutDtype                                      *tensor.DType
	UseFastAccum                                  bool
}

type scaledGroupedArgs struct {
	Self, Mat2, ScaleA, ScaleB, Offs, Bias, ScaleResult *tensor.Tensor
	OutDtype                                            *tensor.DType
	UseFastAccum                                        bool
}

const groupForms = "self is (M, K) or (G, M, K), mat2 (K, N) or (G, K, N). offs are the ends of G groups: of rows of " +
	"self, if mat2 alone has groups; of columns of mat2, if self alone has; of K, if neither has, for a result " +
	"(G, M, N); none, if both have. What lies behind the last end torch leaves undefined: it is 0 here."

var groupedMM = compose.Declare(compose.Op[groupedArgs]{
	Schema: "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, dtype? " +
		"out_dtype=None) -> Tensor",
	Names: "_grouped_mm torch.ops.aten._grouped_mm",
	Doc: opdef.Doc{Summary: "Products of matrices, group by group",
		Formula: "result of group g = self of group g @ mat2 of group g", Notes: groupForms,
		Source: "torch.nn.functional.grouped_mm"},
	Cases: groupedCases,
}, compose.Fused, composeGrouped)

var groupedFunction = compose.Declare(compose.Op[groupedFunctionArgs]{
	Schema: "grouped_mm(Tensor mat_a, Tensor mat_b, *, Tensor? offs=None, Tensor? bias=None, dtype? " +
		"out_dtype=None) -> Tensor",
	Names: "F.grouped_mm",
	Doc: opdef.Doc{Summary: "Products of matrices, group by group",
		Formula: "result of group g = mat_a of group g @ mat_b of group g",
		Notes:   "As torch._grouped_mm, whose self and mat2 are mat_a and mat_b."},
	Cases: func(g opdef.Gen) (cs []*groupedFunctionArgs) {
		for _, c := range groupedCases(g) {
			cs = append(cs, &groupedFunctionArgs{c.Self, c.Mat2, c.Offs, c.Bias, c.OutDtype})
		}
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *groupedFunctionArgs) compose.Values {
	return groupedProduct(g, g.Arg("mat_a", a.MatA), g.Arg("mat_b", a.MatB), g.Arg("bias", a.Bias), a.Offs, a.OutDtype)
})

func composeGrouped(g *compose.Graph, a *groupedArgs) compose.Values {
	x, y := g.Arg("self", a.Self), g.Arg("mat2", a.Mat2)
	return groupedProduct(g, x, y, g.Arg("bias", a.Bias), a.Offs, a.OutDtype)
}

// groupedProduct is the product of groups plus bias (nil: none), in dtype out, or else in x's.
func groupedProduct(g *compose.Graph, x, y, bias *compose.Value, offs *tensor.Tensor,
	out *tensor.DType) compose.Values {
	if !x.DType().IsFloat() || x.DType() != y.DType() {
		g.Refuse("mat2", "want matrices of one floating dtype, got %s and %s", x.T.Meta(), y.T.Meta())
	}
	z := multiply(g, x, y, offs)
	if bias != nil {
		z = g.Add(z, bias)
	}
	return compose.Values{narrowed(g, z, nil, out, x.DType())}
}

// multiply is the product of groups, in at least float32. Empty groups give zeros.
func multiply(g *compose.Graph, x, y *compose.Value, offs *tensor.Tensor) *compose.Value {
	m, n := x.Dim(), y.Dim()
	if m < 2 || m > 3 || n < 2 || n > 3 || x.Shape()[m-1] != y.Shape()[n-2] {
		g.Refuse("mat2", "want matrices or batches of them that fit, got %s and %s", x.T.Meta(), y.T.Meta())
	}
	x, y = g.AtLeast(x, tensor.Float32), g.AtLeast(y, tensor.Float32)
	if m == 3 && n == 3 {
		if offs != nil || x.Shape()[0] != y.Shape()[0] {
			g.Refuse("offs", "want as many groups of mat2 as of self, and no ends of groups")
		}
		return g.Matmul(x, y)
	}
	if offs == nil {
		g.Refuse("offs", "want the ends of groups")
	}
	return inGroups(g, x, y, fused.Ints(g, "offs", offs))
}

// inGroups is the product of groups that end at ends.
func inGroups(g *compose.Graph, x, y *compose.Value, ends []int) *compose.Value {
	var form struct {
		whole, groups int // what the groups are parts of, how many there are
		part          func(i, start, size int) *compose.Value
		join          func(parts []*compose.Value, rest int) *compose.Value // rest lies behind the last end
	}
	switch {
	case x.Dim() == 3:
		form.whole, form.groups = y.Shape()[1], x.Shape()[0]
		form.part = func(i, start, size int) *compose.Value {
			return g.Matmul(g.Select(x, 0, i), g.Narrow(y, 1, start, size))
		}
		form.join = func(parts []*compose.Value, rest int) *compose.Value {
			return g.Cat(1, append(parts, g.Full(x.DType(), []int{x.Shape()[1], rest}, 0))...)
		}
	case y.Dim() == 3:
		form.whole, form.groups = x.Shape()[0], y.Shape()[0]
		form.part = func(i, start, size int) *compose.Value {
			return g.Matmul(g.Narrow(x, 0, start, size), g.Select(y, 0, i))
		}
		form.join = func(parts []*compose.Value, rest int) *compose.Value {
			return g.Cat(0, append(parts, g.Full(x.DType(), []int{rest, y.Shape()[2]}, 0))...)
		}
	default:
		form.whole, form.groups = x.Shape()[1], len(ends)
		form.part = func(_, start, size int) *compose.Value {
			return g.Matmul(g.Narrow(x, 1, start, size), g.Narrow(y, 0, start, size))
		}
		form.join = func(parts []*compose.Value, _ int) *compose.Value {
			if parts == nil {
				return g.Full(x.DType(), []int{0, x.Shape()[0], y.Shape()[1]}, 0)
			}
			return g.Stack(0, parts...)
		}
	}
	if len(ends) != form.groups {
		g.Refuse("offs", "want the ends of %d groups, got %d", form.groups, len(ends))
	}
	start := 0
	var parts []*compose.Value
	for i, end := range ends {
		if end < start || end > form.whole {
			g.Refuse("offs", "group %d is from %d to %d of %d", i, start, end, form.whole)
		}
		parts = append(parts, form.part(i, start, end-start))
		start = end
	}
	return form.join(parts, form.whole-start)
}

var groupedCases = opdef.Calls[groupedArgs](`
	f32[3, 4], f32[2, 4, 4], offs=i32[2]{= 1 3}; f32[5, 4], f32[3, 4, 4], offs=i32[3]{= 2 2 5}
	f32[2, 3, 4], f32[4, 4], offs=i32[2]{= 3 4}; f32[3, 4], f32[4, 4], offs=i32[2]{= 1 4}
	f32[2, 3, 4], f32[2, 4, 4]; bf16[3, 8], bf16[2, 8, 8], offs=i32[2]{= 1 3}
	bf16[5, 8], bf16[3, 8, 8], offs=i32[3]{= 2 2 5}; bf16[2, 3, 8], bf16[8, 8], offs=i32[2]{= 3 8}
	bf16[3, 8], bf16[8, 8], offs=i32[2]{= 5 8}; bf16[2, 3, 8], bf16[2, 8, 8]
	f64[3, 4], f64[2, 4, 4], offs=i32[2]{= 1 3}; f64[5, 4], f64[3, 4, 4], offs=i32[3]{= 2 2 5}
	f64[2, 3, 4], f64[4, 4], offs=i32[2]{= 3 4}; f64[3, 4], f64[4, 4], offs=i32[2]{= 1 4}
	f64[2, 3, 4], f64[2, 4, 4]`)

const scaleForms = "self (M, K) and mat2 (K, N) are float8. A scale is one float32 number, one for each row of self " +
	"and each column of mat2, or one for each block; block sizes follow from the shapes, by rounding up. Bias is " +
	"added before the result is rounded; out_dtype is that of self, else. Results in float8 are multiplied by " +
	"scale_result, as on CUDA, or divided by it, as torch 2.15 does on the CPU."

var scaledMM = compose.Declare(compose.Op[scaledArgs]{
	Schema: "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? " +
		"scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
	Names: "_scaled_mm torch.ops.aten._scaled_mm",
	Doc: opdef.Doc{Summary: "Product of two matrices of float8 with scales",
		Formula: "(self*scale_a) @ (mat2*scale_b) + bias", Notes: scaleForms, Source: "aten::_scaled_mm"},
	Traits: opdef.Traits{NoGrad: "torch has no gradient of it"},
	Cases: func(g opdef.Gen) (cs []*scaledArgs) {
		f8 := func(shape ...int) *tensor.Tensor {
			return elements.Detached(opdef.Cast(g.Normal(tensor.Float32, shape...), tensor.Float8E4M3FN).Rounded())
		}
		scale := func(shape ...int) *tensor.Tensor {
			return elements.Detached(g.Uniform(tensor.Float32, 0.5, 2, shape...))
		}
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			bias := elements.Detached(g.Normal(tensor.BFloat16, 16))
			cs = append(cs, &scaledArgs{f8(3, 16), f8(16, 16).Transpose(0, 1), scale(), scale(), nil, nil, &dt, false},
				&scaledArgs{f8(3, 16), f8(16, 16).Transpose(0, 1), scale(3, 1), scale(1, 16), nil, nil, &dt, true})
			if dt == tensor.BFloat16 {
				cs = append(cs, &scaledArgs{f8(3, 16), f8(16, 16).Transpose(0, 1), scale(), scale(), bias, nil, &dt,
					false})
			}
		}
		return append(cs, &scaledArgs{f8(2, 16), f8(16, 16).Transpose(0, 1), scale(), scale(), nil, nil,
			nil, false})
	},
}, compose.Fused, func(g *compose.Graph, a *scaledArgs) compose.Values {
	x, y := g.Arg("self", a.Self), g.Arg("mat2", a.Mat2)
	if x.Dim() != 2 || y.Dim() != 2 || x.Shape()[1] != y.Shape()[0] {
		g.Refuse("mat2", "want matrices that fit, got %s and %s", x.T.Meta(), y.T.Meta())
	}
	wantFloat(g, x, y)
	x = scaled(g, x, "scale_a", a.ScaleA)
	y = scaled(g, y, "scale_b", a.ScaleB)
	z := g.Matmul(x, y)
	if a.Bias != nil {
		z = g.Add(z, g.To(g.Arg("bias", a.Bias), tensor.Float32))
	}
	return compose.Values{narrowed(g, z, a.ScaleResult, a.OutDtype, a.Self.DType)}
})

var scaledGroupedMM = compose.Declare(compose.Op[scaledGroupedArgs]{
	Schema: "_scaled_grouped_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? offs=None, " +
		"Tensor? bias=None, Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
	Names: "_scaled_grouped_mm torch.ops.aten._scaled_grouped_mm",
	Doc: opdef.Doc{Summary: "Products of float8 matrices with scales of rows and columns, group by group",
		Formula: "result of group g = (self*scale_a) of group g @ (mat2*scale_b) of group g",
		Notes: groupForms + " scale_a has a number for each row of self, scale_b one for each column of mat2; where " +
			"K is in groups, one for each of each group.",
		Source: "aten::_scaled_grouped_mm"},
	Traits: opdef.Traits{NoGrad: "torch has no gradient of it"},
	Cases: func(g opdef.Gen) (cs []*scaledGroupedArgs) {
		f8 := func(shape ...int) *tensor.Tensor {
			return elements.Detached(opdef.Cast(g.Normal(tensor.Float32, shape...), tensor.Float8E4M3FN).Rounded())
		}
		scale := func(shape ...int) *tensor.Tensor {
			return elements.Detached(g.Uniform(tensor.Float32, 0.5, 2, shape...))
		}
		half := tensor.BFloat16
		return []*scaledGroupedArgs{
			{Self: f8(5, 16), Mat2: f8(2, 16, 16).Transpose(1, 2), ScaleA: scale(5), ScaleB: scale(2, 16),
				Offs: fused.Integers(2, 5), OutDtype: &half},
			{Self: f8(2, 3, 16), Mat2: f8(2, 16, 16).Transpose(1, 2), ScaleA: scale(2, 3), ScaleB: scale(2, 16),
				OutDtype: &half},
			{Self: f8(3, 16), Mat2: f8(16, 16).Transpose(0, 1), ScaleA: scale(6), ScaleB: scale(32),
				Offs: fused.Integers(5, 16), OutDtype: &half},
		}
	},
}, compose.Fused, func(g *compose.Graph, a *scaledGroupedArgs) compose.Values {
	x, y := g.Arg("self", a.Self), g.Arg("mat2", a.Mat2)
	wantFloat(g, x, y)
	z := multiply(g, x, y, a.Offs)
	rows, cols := slices.Clone(x.Shape()[:x.Dim()-1]), slices.Delete(slices.Clone(y.Shape()), y.Dim()-2, y.Dim()-1)
	if x.Dim() == 2 && y.Dim() == 2 {
		rows, cols = []int{z.Shape()[0], rows[0]}, []int{z.Shape()[0], cols[0]}
	}
	each := func(name string, t *tensor.Tensor, shape []int) *compose.Value {
		if !t.DType.IsFloat() || t.Numel() != tensor.Numel(shape) {
			g.Refuse(name, "want floating %s, got %s", tensor.ShapeString(shape), t.Meta())
		}
		return g.Reshape(g.Arg(name, t), shape...)
	}
	z = g.Mul(z, g.Unsqueeze(each("scale_a", a.ScaleA, rows), -1))
	z = g.Mul(z, columns(g, each("scale_b", a.ScaleB, cols), x.Dim(), y.Dim(), a.Offs, z.Shape()))
	if a.Bias != nil {
		z = g.Add(z, g.To(g.Arg("bias", a.Bias), tensor.Float32))
	}
	return compose.Values{narrowed(g, z, a.ScaleResult, a.OutDtype, a.Self.DType)}
})

// columns are scales of the columns of mat2 where they stand in a product of this
// shape. Of rows in groups, those of the group; behind the last, any.
func columns(g *compose.Graph, s *compose.Value, m, n int, offs *tensor.Tensor, shape []int) *compose.Value {
	if m != 2 || n != 3 {
		return g.Unsqueeze(s, -2)
	}
	of, group := make([]int, shape[0]), 0
	ends := fused.Ints(g, "offs", offs)
	for i := range of {
		for group < len(ends)-1 && i >= ends[group] {
			group++
		}
		of[i] = group
	}
	return g.IndexSelect(s, 0, of)
}

func wantFloat(g *compose.Graph, x, y *compose.Value) {
	for _, v := range []*compose.Value{x, y} {
		if !v.DType().IsFloat() {
			g.Refuse("self", "want floating matrices, got %s and %s", x.T.Meta(), y.T.Meta())
		}
	}
}

// scaled is a matrix in float32 times a scale, one for all, or one for each block of
// equal size, the last of which may be cut off.
func scaled(g *compose.Graph, x *compose.Value, name string, scale *tensor.Tensor) *compose.Value {
	if !scale.DType.IsFloat() || scale.Numel() != 1 && scale.Dim() != 2 {
		g.Refuse(name, "want one floating number, or a matrix of them, got %s", scale.Meta())
	}
	x = g.AtLeast(x, tensor.Float32)
	s := g.Arg(name, scale)
	if scale.Numel() == 1 {
		return g.Mul(x, g.Reshape(s))
	}
	for d, n := range x.Shape() {
		blocks := scale.Shape[d]
		if blocks == 1 || blocks == n {
			continue
		}
		size := 0
		if blocks > 0 {
			size = (n + blocks - 1) / blocks
		}
		if size < 1 || (n+size-1)/size != blocks {
			g.Refuse(name, "%s is no number for each block of %s", scale.Meta(), x.T.Meta())
		}
		of := tensor.Make[int](n)
		for i := range of {
			of[i] = i / size
		}
		s = g.IndexSelect(s, d, of)
	}
	return g.Mul(x, s)
}

// narrowed is a product times the scale of the result (nil: 1), in dtype as, or else in own.
func narrowed(g *compose.Graph, z *compose.Value, scale *tensor.Tensor, as *tensor.DType,
	own tensor.DType) *compose.Value {
	dt := own
	if as != nil {
		dt = *as
	}
	if !dt.IsFloat() {
		g.Refuse("out_dtype", "want a floating dtype, got %s", dt)
	}
	if scale != nil && dt.IsFloat8() {
		if scale.Numel() != 1 || !scale.DType.IsFloat() {
			g.Refuse("scale_result", "want one floating number, got %s", scale.Meta())
		}
		s := g.Reshape(g.Arg("scale_result", scale))
		if g.OtherVersion("results are multiplied by scale_result (CUDA)",
			"results are divided by scale_result (torch 2.15 on the CPU)") {
			z = g.Div(z, s)
		} else {
			z = g.Mul(z, s)
		}
	}
	return g.To(z, dt)
}
