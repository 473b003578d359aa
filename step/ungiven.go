package step

import (
	"fmt"
	"path"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// ungiven are parameters that a call read and gave no gradient, though it gave those of other arguments: a function in
// the place of torch's may have detached one. That may be meant, so these are gaps, one for each function and argument.
func (t *Trace) ungiven() (all []Gap) {
	type key struct{ op, target string }
	at := map[key]int{}
	for _, c := range t.Calls() {
		for _, v := range c.lackingGradient() {
			k := key{c.Op, v.Target}
			i, seen := at[k]
			if !seen {
				i, at[k] = len(all), len(all)
				line := ""
				if c.Entry.Location != "" {
					line = " at " + path.Base(c.Entry.Location)
				}
				all = append(all, Gap{First: c.String(), What: fmt.Sprintf("%s (%s) of %s%s got no gradient, though "+
					"other arguments of the call did", v.Target, v.named, c.Op, line)})
			}
			all[i].N++
		}
	}
	for i := range all {
		if n := all[i].N - 1; n > 0 {
			all[i].What += fmt.Sprintf(", and so in %s more", reports.Count(n, "call"))
		}
		all[i].What += ": that is right only if it is meant"
	}
	return all
}

// lackingGradient are the parameters that a call gave no gradient, where the recording tells: gradients of others were
// recorded, each with the number of its argument.
func (c *Call) lackingGradient() (lack []*Value) {
	back := c.BackwardVerdict()
	if c.Entry.BackwardOrder < 0 || len(c.Grads) == 0 || c.inJudged() || back != verdict.Pass && back != verdict.Warn {
		return nil
	}
	if slices.ContainsFunc(c.Grads, func(g *Value) bool {
		return g.leaf >= len(c.Inputs) || !sameShape(c.Inputs[g.leaf].Shape, g.Shape)
	}) {
		return nil
	}
	for i, v := range c.Inputs {
		given := slices.ContainsFunc(slices.Concat(c.Grads, c.later), func(g *Value) bool { return g.leaf == i })
		if v.RequiresGrad && v.named != "" && !given {
			lack = append(lack, v)
		}
	}
	return lack
}
