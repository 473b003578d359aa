package indexing

import (
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// nonzeroStaticOp is nonzero with a number of rows that is given.
var nonzeroStaticOp = opdef.Op[nonzeroStaticArgs]{
	Schema: "nonzero_static(Tensor self, *, int size, int fill_value=-1) -> Tensor",
	Doc: opdef.Doc{Summary: "The indices of the first elements that are not zero, one a row",
		Notes: "Rows beyond their number hold fill_value."},
	Error:  elements.ExactError,
	Traits: opdef.Traits{NoGrad: "indices have no gradient", Trivial: true},

	Kernel: func(a *nonzeroStaticArgs) ([]*tensor.Tensor, error) {
		if err := elements.CheckSize([]int{a.Size, max(a.Self.Dim(), 1)}); err != nil {
			return nil, err
		}
		found := nonzeroRows(a.Self)[0]
		n := min(a.Size, found.Shape[0])
		fill := elements.Filled(tensor.Int64, []int{a.Size - n, a.Self.Dim()}, opdef.Int(int64(a.FillValue)))
		return elements.Single(runs.Concat(tensor.Int64, 0, found.Slice(0, 0, n, 1), fill)), nil
	},
	Cases: opdef.Calls[nonzeroStaticArgs](`
		bool[3, 4]{0..1}, size=5; i64[5]{1..2}, size=2, fill_value=0; f32[2, 2], size=6, fill_value=9
		f32[0, 2], size=1`),
}.Entry()

type nonzeroStaticArgs struct {
	Self            *tensor.Tensor
	Size, FillValue int
}

// nonzeroAt lists the elements of t that are not zero (NaN is not).
func nonzeroAt(t *tensor.Tensor) []int64 {
	if t.DType.Kind() >= tensor.KindFloat {
		t = opdef.Cast(t, tensor.Bool)
	}
	var at []int64
	_ = EachInt(t, func(i int, v int64) bool {
		if v != 0 {
			if len(at) == cap(at) { // grown within the memory limit, which append does not ask
				at = append(tensor.Make[int64](2*len(at) + 1<<10)[:0], at...)
			}
			at = append(at, int64(i))
		}
		return true
	})
	return at
}

func nonzeroRows(t *tensor.Tensor) []*tensor.Tensor {
	at, k := nonzeroAt(t), t.Dim()
	out := tensor.Make[int64](len(at) * k)
	for i, p := range at {
		for d := k - 1; d >= 0; d-- {
			out[i*k+d] = p % int64(t.Shape[d])
			p /= int64(t.Shape[d])
		}
	}
	return []*tensor.Tensor{tensor.New(tensor.Int64, []int{len(at), k}, out)}
}

// nonzeroColumns are the columns of nonzeroRows.
func nonzeroColumns(t *tensor.Tensor) []*tensor.Tensor {
	rows := nonzeroRows(t)[0]
	out := make([]*tensor.Tensor, t.Dim())
	for d := range out {
		out[d] = rows.Select(1, d)
	}
	return out
}
