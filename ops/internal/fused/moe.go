package fused

import (
	"math"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// Gated is act of the first half of x along dim, times the second.
func Gated(g *compose.Graph, x *compose.Value, dim int,
	act func(x *compose.Value) *compose.Value) *compose.Value {
	halves := g.Chunk(x, 2, dim)
	return g.Mul(act(halves[0]), halves[1])
}

// Experts is the mixture of experts of rows x [n, d]: the sum over the experts ids [n, k]
// of a row of weights [n, k] times down*swiglu(up*x), with up [experts, 2*m, d] and down
// [experts, d, m]. Steps are rounded to the dtype, as kernels that
// hand them on do.
func Experts(g *compose.Graph, x, up, down, weights *compose.Value, ids *tensor.Tensor) *compose.Value {
	if x.Dim() != 2 || up.Dim() != 3 || down.Dim() != 3 || weights.Dim() != 2 ||
		up.Shape()[2] != x.Shape()[1] || down.Shape()[1] != x.Shape()[1] || up.Shape()[0] != down.Shape()[0] ||
		up.Shape()[1] != 2*down.Shape()[2] || weights.Shape()[0] != x.Shape()[0] {
		g.Refuse("hidden_states", "rows %s do not fit experts of %s and %s and weights %s", x.T.Meta(), up.T.Meta(),
			down.T.Meta(), weights.T.Meta())
	}
	if ids.DType.Kind() != tensor.KindInt || !slices.Equal(ids.Shape, weights.Shape()) {
		g.Refuse("topk_ids", "want integers of shape %s, got %s", tensor.ShapeString(weights.Shape()), ids.Meta())
	}
	experts, k, d := up.Shape()[0], weights.Shape()[1], x.Shape()[1]
	rows := make([][]int, experts) // places in ids by expert
	for i, e := range tensor.Data[int64](ids) {
		if e < 0 || e >= int64(experts) {
			g.Refuse("topk_ids", "expert %d is not among %d", e, experts)
		}
		rows[e] = append(rows[e], i)
	}
	weights = g.Reshape(weights, -1, 1)
	var parts []*compose.Value
	from, at := tensor.Make[int](ids.Numel()), 0 // where the part of each place is
	for e, places := range rows {
		if len(places) == 0 {
			continue
		}
		of := make([]int, len(places))
		for i, p := range places {
			of[i], from[p] = p/k, at+i
		}
		at += len(places)
		h := g.Matmul(g.IndexSelect(x, 0, of), g.Transpose(g.Select(up, 0, e), 0, 1))
		y := g.Matmul(Gated(g, h, -1, g.SiLU), g.Transpose(g.Select(down, 0, e), 0, 1))
		parts = append(parts, g.Mul(y, g.IndexSelect(weights, 0, places)))
	}
	if parts == nil {
		return g.Full(x.DType(), x.Shape(), 0)
	}
	all := g.Reshape(g.IndexSelect(g.Cat(0, parts...), 0, from), x.Shape()[0], k, d)
	return g.To(g.Sum(all, false, 1), x.DType())
}

// Gating is the k largest of softmax(x, -1), times factor, and their places as int32.
// Other places of elements that are equal within rounding are accepted.
func Gating(g *compose.Graph, x *compose.Value, k int, factor float64) (weights, places *compose.Value) {
	if x.Dim() == 0 || !x.DType().IsFloat() {
		g.Refuse("", "want floating rows, got %s", x.T.Meta())
	}
	weights, places = Router{K: k, Factor: factor}.Route(g, g.Softmax(g.AtLeast(x, tensor.Float32), -1), nil)
	return g.To(weights, x.DType()), places
}

// A Router chooses K experts of each row and weighs them.
type Router struct {
	K int
	// Groups is into how many groups the experts are divided, all in one where it is 0; only those
	// of TopGroups groups are chosen, the groups whose two best experts have the largest sums.
	Groups, TopGroups int
	Renormalize       bool    // the weights of a row are divided by their sum
	Factor            float64 // of all weights
}

// Route gives the weights of the chosen experts and their places as int32: scores [rows, experts] plus
// bias [experts], which is nil where there is none, choose the experts, and the scores are their
// weights. Other places of elements that are equal within rounding are accepted.
func (r Router) Route(g *compose.Graph, scores, bias *compose.Value) (weights, places *compose.Value) {
	chosen := scores
	if bias != nil {
		if bias.Dim() != 1 || scores.Dim() == 0 || bias.Shape()[0] != scores.Shape()[scores.Dim()-1] {
			g.Refuse("bias", "want a number for each expert of %s, got %s", scores.T.Meta(), bias.T.Meta())
		}
		chosen = g.Add(scores, bias)
	}
	return r.RouteBy(g, scores, chosen)
}

// RouteBy is Route where chosen, of the shape of scores, chooses the experts.
func (r Router) RouteBy(g *compose.Graph, scores, chosen *compose.Value) (weights, places *compose.Value) {
	if r.Groups > 1 {
		chosen = r.inGroups(g, chosen)
	}
	_, at := g.TopK(chosen, r.K)
	return r.Weights(g, scores, at), g.Places(chosen, opdef.Cast(at, tensor.Int32))
}

// Weights are the scores of the experts at places, as r weighs them.
func (r Router) Weights(g *compose.Graph, scores *compose.Value, at *tensor.Tensor) *compose.Value {
	weights := g.Gather(scores, -1, at)
	if r.Renormalize {
		weights = g.Div(weights, g.Sum(weights, true, -1))
	}
	if r.Factor != 1 {
		weights = g.Scale(weights, r.Factor)
	}
	return weights
}

// inGroups is x, minus infinity outside of the groups that are chosen.
func (r Router) inGroups(g *compose.Graph, x *compose.Value) *compose.Value {
	CheckRank(g, "scores", x, 2)
	rows, experts := x.Shape()[0], x.Shape()[1]
	each := experts / r.Groups
	if each < 2 || experts%r.Groups != 0 || r.TopGroups < 1 || r.TopGroups > r.Groups {
		g.Refuse("n_group", "%d experts are not in %d groups, of which %d are chosen", experts, r.Groups, r.TopGroups)
	}
	best, _ := g.TopK(g.Reshape(x, rows, r.Groups, each), 2)
	_, groups := g.TopK(g.Sum(best, false, -1), r.TopGroups)
	left := tensor.Make[int64](rows * experts)
	for i := range left {
		left[i] = 1
	}
	for i, group := range tensor.Data[int64](groups) {
		from := i/r.TopGroups*experts + int(group)*each
		clear(left[from : from+each])
	}
	return g.MaskedFill(x, tensor.New(tensor.Bool, x.Shape(), left), math.Inf(-1))
}
