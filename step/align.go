package step

import (
	"slices"

	"github.com/optool/optool/compare/alignment"
	"github.com/optool/optool/step/pairs"
)

// align pairs the calls of two runs by sequence. Numbers of calls say nothing: one
// more call shifts them all.
func align(a, b []*Call) alignment.Alignment {
	inA, inB := operators(a), operators(b)
	return alignment.Sequences(len(a), len(b), func(i, j int) int {
		if inA[i] != inB[j] {
			return 0
		}
		return likeness(a[i], b[j])
	}, sure, anchors(a, b))
}

func operators(calls []*Call) []string {
	out := make([]string, len(calls))
	for i, c := range calls {
		out[i] = pairs.Operator(c.Op)
	}
	return out
}

// sure is the likeness from which two calls at the same end of both runs are a pair.
const sure = 5

// likeness is how much speaks for two calls of one operator being the same one in two
// runs: shapes and elements.
func likeness(a, b *Call) int {
	n := 1
	if slices.EqualFunc(a.Outputs, b.Outputs, func(x, y *Value) bool { return sameShape(x.Shape, y.Shape) }) {
		n++
		if slices.EqualFunc(a.Inputs, b.Inputs, func(x, y *Value) bool { return sameShape(x.Shape, y.Shape) }) {
			n++
		}
		if len(a.Outputs) > 0 && slices.EqualFunc(a.Outputs, b.Outputs, (*Value).equals) {
			n += 3
		}
	}
	return n
}

// anchors are the pairs of calls whose result only one call has in each run.
func anchors(a, b []*Call) [][2]int {
	index := func(calls []*Call) map[contentKey]int {
		at := map[contentKey]int{}
		for i, c := range calls {
			if len(c.Outputs) == 0 || c.Outputs[0].content.plain {
				continue
			}
			k := c.Outputs[0].key()
			if _, twice := at[k]; twice {
				at[k] = -1
				continue
			}
			at[k] = i
		}
		return at
	}
	inB := index(b)
	var all [][2]int
	for k, i := range index(a) {
		if j, ok := inB[k]; ok && i >= 0 && j >= 0 && pairs.Operator(a[i].Op) == pairs.Operator(b[j].Op) &&
			likeness(a[i], b[j]) >= sure {
			all = append(all, [2]int{i, j})
		}
	}
	return all
}
