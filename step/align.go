package step

import (
	"slices"

	"github.com/optool/optool/compare/alignment"
	"github.com/optool/optool/step/pairs"
)

// align pairs the calls of two runs by sequence. Numbers of calls say nothing: one
// more call shifts them all.
//
// A call that another one of its operator made, such as torch's own function inside one that took its place, is paired
// only where those that made them are: its result may be the same in both runs, but is not what the program got.
func align(a, b []*Call) alignment.Alignment {
	inA, inB := levels(a), levels(b)
	partner := map[*Call]*Call{}
	paired := map[[2]*Call]bool{}
	for l := range min(len(inA), len(inB)) {
		x, y := inA[l], inB[l]
		opX, opY := operators(x), operators(y)
		likely := func(i, j int) int {
			if opX[i] != opY[j] || l > 0 && !paired[[2]*Call{x[i].around(), y[j].around()}] {
				return 0
			}
			return likeness(x[i], y[j])
		}
		known := slices.DeleteFunc(anchors(x, y), func(at [2]int) bool { return likely(at[0], at[1]) == 0 })
		for _, at := range alignment.Sequences(len(x), len(y), likely, sure, known).Pairs {
			partner[y[at[1]]], paired[[2]*Call{x[at[0]], y[at[1]]}] = x[at[0]], true
		}
	}
	at, had := map[*Call]int{}, map[*Call]bool{}
	for i, c := range a {
		at[c] = i
	}
	var out alignment.Alignment
	for j, c := range b {
		if p := partner[c]; p != nil {
			out.Pairs, had[p] = append(out.Pairs, [2]int{at[p], j}), true
		} else {
			out.Inserted = append(out.Inserted, j)
		}
	}
	for i, c := range a {
		if !had[c] {
			out.Missing = append(out.Missing, i)
		}
	}
	return out
}

// around is the nearest call that made a call and has its operator, nil if there is none.
func (c *Call) around() *Call {
	for o := c.outer; o != nil; o = o.outer {
		if pairs.Operator(o.Op) == pairs.Operator(c.Op) {
			return o
		}
	}
	return nil
}

// levels are calls by how many others of their operator made them.
func levels(calls []*Call) (out [][]*Call) {
	for _, c := range calls {
		l := 0
		for o := c.around(); o != nil; o = o.around() {
			l++
		}
		for len(out) <= l {
			out = append(out, nil)
		}
		out[l] = append(out[l], c)
	}
	return out
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
