package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
)

var reductions = []*Recipe{
	{Function: "sum", sig: "input dim=None keepdim=False dtype=None", fwd: "Sum", bind: bindings{"dim": sortedDims},
		outs: []out{result(orDType(promoted("input", tensor.Int64)), reduced("input"))}},
	{Function: "mean", sig: "input dim=None keepdim=False dtype=None", fwd: "Mean", bind: bindings{"dim": sortedDims},
		outs: []out{result(orDType(asInput), reduced("input"))}},
	{Function: "std", sig: "input correction=1 dim=None keepdim=False", fwd: "Std", bind: bindings{"dim": sortedDims},
		outs: []out{result(asInput, reduced("input"))}},
	{Function: "amax", sig: "input dim=None keepdim=False", fwd: "Amax", bind: bindings{"self": "input",
		"dim": sortedDims},
		outs: []out{result(asInput, reduced("input"))}},
	{Function: "prod", sig: "input dim=None keepdim=False dtype=None", fwd: "Prod",
		outs: []out{result(orDType(promoted("input", tensor.Int64)), reduced("input"))}},
	{Function: "any", sig: "input dim=None keepdim=False", fwd: "Any",
		outs: []out{result(constant(tensor.Bool), reduced("input"))}},
	{Function: "all", sig: "input dim=None keepdim=False", fwd: "All",
		outs: []out{result(constant(tensor.Bool), reduced("input"))}},
	{Function: "min", sig: "input dim=None keepdim=False", fwd: "Min MinAll",
		outs: []out{result(asInput, reduced("input")), result(index, reduced("input"))}},
	{Function: "max", sig: "input dim=None keepdim=False", fwd: "Max MaxAll",
		outs: []out{result(asInput, reduced("input")), result(index, reduced("input"))}},
	{Function: "argmax", sig: "input dim=None keepdim=False", fwd: "Argmax", outs: []out{result(index, argReduced)}},
	{Function: "argmin", sig: "input dim=None keepdim=False", fwd: "Argmin", outs: []out{result(index, argReduced)}},
	{Function: "norm", sig: "input p dim=None keepdim=False dtype=None", fwd: "Norm", bwd: "NormBackward",
		bind:    bindings{"dim": sortedDims},
		prepare: frobenius,
		gbind:   bindings{"self": "input", "norm": "out", "dim": sortedDims},
		outs:    []out{result(orDType(asInput), reduced("input"))}, backward: normBackward},
	{Function: "vector_norm", sig: "input ord=2 dim=None keepdim=False dtype=None", fwd: "LinalgVecNorm",
		bind: bindings{"dim": sortedDims},
		outs: []out{result(asInput, reduced("input"))}},
	{Function: "cumsum", sig: "input dim dtype=None", fwd: "Cumsum", bwd: "CumsumBackward",
		outs: []out{result(orDType(promoted("input", tensor.Int64)), shapeOf("input"))}},
	{Function: "sort", sig: "input dim=-1 descending=False stable=None", fwd: "Sort", bwd: "SortBackward",
		bind:  bindings{"pStable": "stable"},
		gbind: bindings{"indices": sortIndices, "sizes": inputShape, "keepdim": true},
		outs:  []out{like("input"), result(index, shapeOf("input"))}, forward: sortForward},
	{Function: "argsort", sig: "input dim=-1 descending=False stable=False", fwd: "Argsort",
		outs: []out{result(index, shapeOf("input"))}},
	{Function: "topk", sig: "input k dim=-1 largest=True sorted=True", fwd: "Topk",
		outs: []out{result(asInput, topShape), result(index, topShape)}},
	{Function: "unique", sig: "input sorted=True return_inverse=False return_counts=False dim=None", fwd: "Unique",
		forward: unique},
	{Function: "clip_grad_norm_", sig: "tensors max_norm norm_type=2.0 error_if_nonfinite=False", fwd: "ClipGradNorm",
		bind: bindings{"grads": "tensors"}},
}

func sortedDims(b *build) any { return b.dims(len(b.tensor("input").Shape)) }

func inputShape(b *build) any { return mustSizes(b.tensor("input").Shape) }

func mustSizes(shape []int) Size {
	s, _ := sizes(shape)
	return s
}

// argReduced is the shape of an argmax, which without a dimension is [1] for the kit.
func argReduced(b *build) []int {
	shape := b.tensor("input").Shape
	if len(shape) == 0 || b.args["dim"] == nil {
		return []int{1}
	}
	d := b.dim("dim", len(shape))
	if b.bool("keepdim") {
		return replaced(shape, d, 1)
	}
	return slices.Delete(slices.Clone(shape), d, d+1)
}

func topShape(b *build) []int {
	shape := b.tensor("input").Shape
	if len(shape) == 0 {
		return shape
	}
	return replaced(shape, b.dim("dim", len(shape)), b.int("k"))
}

// frobenius is the norm of the flattened tensor with p = 2.
func frobenius(b *build) {
	if b.args["p"] == "fro" {
		b.args["p"] = 2.0
	}
}

// normBackward has no call for p = 0, whose gradient is None.
func normBackward(b *build) {
	if b.float("p") == 0 {
		b.plan.Grads = append(b.plan.Grads, Grad{Name: "input"})
		return
	}
	b.callBackward()
}

// sortForward: the indices of an unstable sort are no result unless expected.
func sortForward(b *build) {
	b.callForward(b.r.fwd)
	if !b.bool("stable") && len(b.c.Outputs) != 2 && len(b.tensor("input").Shape) > 0 {
		b.plan.Outputs = b.plan.Outputs[:1]
	}
}

// sortIndices are the saved indices, under the kit's name for them.
func sortIndices(b *build) any {
	if _, saved := b.c.SavedArgs["indice"]; saved {
		v, _ := b.lookup("indice", nil)
		return v
	}
	return b.written["indices"]
}

// unique has as many results as are asked for.
func unique(b *build) {
	values, counts := &Alloc{Role: "out0"}, &Alloc{Role: "counts"}
	b.plan.Outputs = []Arg{values}
	set := map[string]Arg{"out": values, "indices": nil, "counts": counts}
	if b.bool("return_inverse") {
		shape := b.tensor("input").Shape
		if b.args["dim"] != nil {
			shape = []int{shape[b.dim("dim", len(shape))]}
		}
		inverse := newTensor(index(b), shape)
		set["indices"] = inverse
		b.result(inverse)
	}
	if b.bool("return_counts") {
		b.plan.Outputs = append(b.plan.Outputs, counts)
	}
	b.call("Unique", nil, set)
}
