package fused

import (
	"strings"

	"github.com/optool/optool/ops/compose"
)

// A Layout is an order of the dimensions of queries, keys and values: S positions, B
// sequences, N heads, D sizes, H heads times sizes.
type Layout struct {
	name   string
	packed bool   // heads and sizes are one dimension
	order  [4]int // to [batch, length, heads, size], which is its own inverse
}

var layouts = map[string]Layout{
	"SBH": {"SBH", true, [4]int{1, 0, 2, 3}}, "BSH": {"BSH", true, [4]int{0, 1, 2, 3}},
	"BNSD": {"BNSD", false, [4]int{0, 2, 1, 3}}, "BSND": {"BSND", false, [4]int{0, 1, 2, 3}},
	"SBND": {"SBND", false, [4]int{1, 0, 2, 3}},
}

// LayoutOf is the layout of that name.
func LayoutOf(g *compose.Graph, arg, name string) Layout {
	l, ok := layouts[strings.ToUpper(name)]
	if !ok {
		g.Refuse(arg, "want SBH, BSH, BSND, SBND or BNSD, got %s", name)
	}
	return l
}

// Open is x as [batch, length, heads, size].
func (l Layout) Open(g *compose.Graph, name string, x *compose.Value, heads int) *compose.Value {
	rank := 4
	if l.packed {
		rank = 3
	}
	if x.Dim() != rank {
		g.Refuse(name, "want rank %d in layout %s, got %s", rank, l.name, x.T.Meta())
	}
	if s := x.Shape(); l.packed {
		if heads < 1 || s[2]%heads != 0 {
			g.Refuse(name, "%d heads do not divide %d", heads, s[2])
		}
		x = g.Reshape(x, s[0], s[1], heads, s[2]/heads)
	}
	return g.Permute(x, l.order[:]...)
}

// Close is x [batch, length, heads, size] in the layout.
func (l Layout) Close(g *compose.Graph, x *compose.Value) *compose.Value {
	x = g.Permute(x, l.order[:]...)
	if s := x.Shape(); l.packed {
		x = g.Reshape(x, s[0], s[1], s[2]*s[3])
	}
	return x
}
