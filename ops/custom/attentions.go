package custom

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// attentions are functions of queries, keys and values [batch, length, heads, size].
func attentions() library {
	return library{
		"attend": define("q, k, v, "+scoreParams+", slopes=None, dropout=0.0", "attention of queries, keys and values "+
			"[batch, length, heads, size], with slopes of each head times the distance taken from the scores; fewer heads "+
			"of k and v serve several of q each", true, func(g *compose.Graph, in *arguments) any {
			var q, k, v tensorArg
			var slopes elementsArg
			dropout := starlark.Float(0)
			s := scores(g, in, 3, []any{"q", &q, "k", &k, "v", &v}, "slopes??", &slopes, "dropout?", asFloat{&dropout})
			s.Dropout = float64(dropout)
			return fused.Attend(g, q.v, k.v, v.v, slopes.t, s)
		}),
		"log_sums": define("q, k, "+scoreParams+", slopes=None", "the logarithms of the sums of the exponentials of the "+
			"scores of attend [batch, heads, length], in float32 and without gradient; inf of a query that sees no key",
			true, func(g *compose.Graph, in *arguments) any {
				var q, k tensorArg
				var slopes elementsArg
				s := scores(g, in, 3, []any{"q", &q, "k", &k}, "slopes??", &slopes)
				return fused.LogSums(g, q.v, k.v, slopes.t, s)
			}),
		"attention_sums": define("q, k, "+scoreParams, "the largest score of each query [..., length, 1], and the sum of "+
			"the exponentials of what the others are below it, of queries and keys [..., length, size]", true,
			func(g *compose.Graph, in *arguments) any {
				var q, k tensorArg
				s := scores(g, in, 2, []any{"q", &q, "k", &k})
				top, sum := g.AttentionSums(q.v, k.v, s, tensor.Float32)
				return []*compose.Value{top, sum}
			}),
		"open_heads": define("x, layout, heads", "x in the layout BSH, SBH, BSND, SBND or BNSD as [batch, length, heads, "+
			"size]: S positions, B sequences, N heads, D sizes, H heads times sizes", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var layout string
				var heads int
				in.unpack("x", &x, "layout", &layout, "heads", &heads)
				return fused.LayoutOf(g, "layout", layout).Open(g, in.nameOf(x.v), x.v, heads)
			}),
		"close_heads": define("x, layout", "x [batch, length, heads, size] in a layout", true,
			func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				var layout string
				in.unpack("x", &x, "layout", &layout)
				return fused.LayoutOf(g, "layout", layout).Close(g, x.v)
			}),
		"keep_mask": define("keep", "the mask of an attention that hides keys where the bool keep does not hold: 0 or -inf",
			true, func(g *compose.Graph, in *arguments) any {
				var keep tensorArg
				in.unpack("keep", &keep)
				return g.BoolMask(boolean(g, "keep", keep.v))
			}),
		"random_numbers": define("", "says that the call draws random numbers: its values are not compared", false,
			func(g *compose.Graph, in *arguments) any {
				in.unpack()
				g.Draws()
				return nil
			}),
	}
}

// An elementsArg is a Tensor of which only the elements count: no error and no gradient.
type elementsArg struct{ t *tensor.Tensor }

func (a *elementsArg) Unpack(v starlark.Value) error {
	t, ok := v.(tensorValue)
	if !ok {
		return fmt.Errorf("want a Tensor, got %s", v.Type())
	}
	a.t = t.t
	return nil
}

// quantizations are conversions to integers, and from them.
func quantizations() library {
	return library{
		"quantize": define("x, dtype, lo, hi", "x rounded to integers from lo to hi, halves to even; the neighbours that "+
			"the error of x reaches are as right", true, func(g *compose.Graph, in *arguments) any {
			var x tensorArg
			var dt dtypeArg
			var lo, hi starlark.Float
			in.unpack("x", &x, "dtype", &dt, "lo", asFloat{&lo}, "hi", asFloat{&hi})
			return g.Quantize(x.v, dt.dt, float64(lo), float64(hi))
		}),
		"unpack_int4": define("x", "the eight int4 that each int32 of x holds, the first in the lowest bits, as int8",
			true, func(g *compose.Graph, in *arguments) any {
				var x tensorArg
				in.unpack("x", &x)
				return g.Derived(fused.Unpacked(integral(g, in.nameOf(x.v), x.v)), x.v)
			}),
		"alias": unary("x itself, as another Tensor", (*compose.Graph).Alias),
		"tensor": define("numbers, dtype=\"float32\"", "a Tensor of one dimension that holds the numbers of a list",
			false, func(g *compose.Graph, in *arguments) any {
				var list starlark.Value
				dt := dtypeArg{dt: tensor.Float32}
				in.unpack("numbers", &list, "dtype?", &dt)
				var out []float64
				if err := each(list, "numbers", func(item starlark.Value) error {
					x, ok := starlark.AsFloat(item)
					if !ok {
						return fmt.Errorf("want a number, got %s", item.Type())
					}
					out = append(out, x)
					return nil
				}); err != nil {
					panic(mistake{fmt.Errorf("%s: %w", in.name, err)})
				}
				return g.Const(opdef.Cast(tensor.New(tensor.Float64, []int{len(out)}, out), dt.dt))
			}),
	}
}

// refusals end a call.
func refusals() library {
	end := func(refuse func(arg, format string, args ...any) error) func(*compose.Graph, *arguments) any {
		return func(_ *compose.Graph, in *arguments) any {
			var name, message string
			in.unpack("name", &name, "message", &message)
			var refused *opdef.RefusedError
			errors.As(refuse(name, "%s", message), &refused)
			panic(refusal{refused})
		}
	}
	return library{
		"refuse": define("name, message", "the call is an error: the argument of that name is one that the operator "+
			"refuses", false, end(opdef.Refuse)),
		"unsupported": define("name, message", "the call is skipped: the operator takes the argument of that name, this "+
			"function does not", false, end(opdef.Unsupported)),
		"shape_text": define("shape", "a shape as messages write it: \"[2 3]\"", false,
			func(_ *compose.Graph, in *arguments) any {
				var shape ints
				in.unpack("shape", &shape)
				return starlark.String(tensor.ShapeString(shape))
			}),
	}
}
