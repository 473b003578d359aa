package custom

import (
	"slices"

	"go.starlark.net/starlark"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// integers are functions of tensors of integers, which say where elements are.
func integers() library {
	return library{
		"floordiv": whole2("x // y of integers", func(x, y int64) int64 {
			q := x / y
			if x%y != 0 && (x < 0) != (y < 0) {
				q--
			}
			return q
		}),
		"mod": whole2("x % y of integers, with the sign of y", func(x, y int64) int64 {
			r := x % y
			if r != 0 && (r < 0) != (y < 0) {
				r += y
			}
			return r
		}),
		"argsort": define("x", "the places of the integers of x in rising order, equal ones as they stand; x is taken as one row",
			true, func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				in.unpack("x", &x)
				ids := tensor.Data[int64](integral(g, "x", x.v))
				order := tensor.Make[int64](len(ids))
				for i := range order {
					order[i] = int64(i)
				}
				slices.SortStableFunc(order, func(a, b int64) int {
					switch {
					case ids[a] < ids[b]:
						return -1
					case ids[a] > ids[b]:
						return 1
					}
					return 0
				})
				return g.Derived(tensor.New(tensor.Int64, []int{len(order)}, order), x.v)
			}),
		"nonzero": define("x", "the places of the elements of x, of integers or bool and taken as one row, that are not 0",
			true, func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				in.unpack("x", &x)
				if x.v.DType().Kind() >= tensor.KindFloat {
					g.Refuse(in.nameOf(x.v), "want integers or bool, got %s", x.v.T.Meta())
				}
				var at []int64
				for i, n := range tensor.Data[int64](x.v.T) {
					if n != 0 {
						at = append(at, int64(i))
					}
				}
				return g.Derived(tensor.New(tensor.Int64, []int{len(at)}, at), x.v)
			}),
		"bincount": define("x, n", "how often each of 0 to n-1 occurs in x, a list; x has no other integers", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var n int
				in.unpack("x", &x, "n", &n)
				if n > maxInts {
					g.Refuse("n", "want at most %d, got %d", maxInts, n)
				}
				within(g, in, x.v, 0, n, "")
				counts := tensor.Make[int](n)
				for _, i := range tensor.Data[int64](x.v.T) {
					counts[i]++
				}
				return starlark.NewList(intTuple(counts))
			}),
		"within": define("x, n, what=\"\", least=0", "x, whose integers are from least to n-1, or the call is refused: "+
			"\"what 7 is not among n\"", true, func(g *compose.Graph, in *arguments) any {
			var x tensorArg
			var n int
			what, least := "", 0
			in.unpack("x", &x, "n", &n, "what?", &what, "least?", &least)
			within(g, in, x.v, least, n, what)
			return x.v
		}),
		"take": define("x, places", "the elements of x, laid out in a row, at the places of a Tensor, in its shape",
			true, func(g *compose.Graph, in *arguments) any {
				var x, places tensorArg
				in.unpack("x", &x, "places", &places)
				at := integral(g, "places", places.v)
				return g.Take(x.v, at.Shape, tensor.Data[int64](at))
			}),
		"put": define("x, places, y", "x with the elements of y at the places, which differ, of its elements in a row",
			true, func(g *compose.Graph, in *arguments) any {
				var x, places, y tensorArg
				in.unpack("x", &x, "places", &places, "y", &y)
				return g.Put(x.v, tensor.Data[int64](integral(g, "places", places.v)), y.v)
			}),
		"store": define("cache, x, slots", "the cache [..., heads, size], whose first dimensions are rows, with row "+
			"slots[i] replaced by x[i]; -1 leaves a row out, the last of equal slots counts. Pages may have heads before rows",
			true, func(g *compose.Graph, in *arguments) any {
				var cache, x tensorArg
				var slots starlark.Value
				in.unpack("cache", &cache, "x", &x, "slots", &slots)
				return fused.Store(g, in.nameOf(cache.v), cache.v, x.v, indices(g, slots))
			}),
	}
}

// whole2 is a function of two operands of integers.
func whole2(doc string, f func(x, y int64) int64) *function {
	return binary(doc, func(g *compose.Graph, x, y *compose.Value) *compose.Value {
		dt, cast, err := opdef.Common(x.T, y.T)
		g.Check(err)
		ts, shape, err := opdef.BroadcastAll(cast...)
		g.Check(err)
		if dt.Kind() != tensor.KindInt {
			g.Refuse("", "want integers, got %s and %s", x.T.Meta(), y.T.Meta())
		}
		if y.T.Numel() == 1 && tensor.Data[int64](y.T)[0] == 0 {
			g.Refuse("", "integers are divided by 0")
		}
		return g.Derived(opdef.ZipN(dt, shape, func(dst []int64, src [][]int64) {
			for i, x := range src[0] {
				if y := src[1][i]; y != 0 {
					dst[i] = f(x, y)
				}
			}
		}, ts...), x, y)
	})
}

// within refuses integers that are not from least to n-1.
func within(g *compose.Graph, in *arguments, x *compose.Value, least, n int, what string) {
	if what != "" {
		what += " "
	}
	for _, i := range tensor.Data[int64](integral(g, in.nameOf(x), x)) {
		if i < int64(least) || i >= int64(n) {
			g.Refuse(in.nameOf(x), "%s%d is not among %d", what, i, n)
		}
	}
}

// nameOf is the name of the argument that x is, "" if it is none.
func (a *arguments) nameOf(x *compose.Value) string { return a.of.names[x] }
