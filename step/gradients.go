package step

import "slices"

// gradients are recorded gradients that have something in common, in order of the calls.
type gradients struct {
	all  []*Value
	last int // the latest place among what was recorded where one of them was there
	// newest and before list the gradients with a sample, from the last one back: by their number, from 1. They have
	// the first of all that sharing was asked about.
	newest map[sampleAt]int32
	before []int32 // by number and place; 0: none
}

// A sampleAt is a sample and its place among those of a value.
type sampleAt struct {
	place int
	word  uint64
}

// group adds a gradient to those of a map that have a key.
func group[K contentKey | form](all map[K]*gradients, key K, g *Value) {
	of := all[key]
	if of == nil {
		of = &gradients{}
		all[key] = of
	}
	of.all = append(of.all, g)
	of.last = max(of.last, g.Call.Entry.GradientOrder)
}

// there are those that backward passes had made when a call was made: the backward pass of a function of the program's
// own makes calls before it has any. There are none where g is nil.
func (g *gradients) there(c *Call) []*Value {
	if g == nil {
		return nil
	}
	return g.madeBefore(c, g.all)
}

func (g *gradients) madeBefore(c *Call, some []*Value) []*Value {
	if c.Entry.Order < 0 || g.last <= c.Entry.Order { // 0 and -1: not known
		return some
	}
	return slices.DeleteFunc(slices.Clone(some), func(v *Value) bool {
		return v.Call.Entry.GradientOrder > c.Entry.Order
	})
}

// sharing are those that were there at the call of v and have a sample other than zero where v has it, and maybe
// others. An update reads many gradients, and comparing each with all of its shape would take time that grows with the
// square of their number.
func (g *gradients) sharing(v *Value) []*Value {
	if g == nil {
		return nil
	}
	g.index()
	var numbers []int32
	for place, word := range v.content.samples {
		for n := g.newest[sampleAt{place, word}]; n > 0 && word != 0; n = g.before[int(n-1)*sampled+place] {
			if numbers = append(numbers, n); len(numbers) > len(g.all) {
				return g.there(v.Call)
			}
		}
	}
	slices.Sort(numbers)
	var some []*Value
	for _, n := range slices.Compact(numbers) {
		some = append(some, g.all[n-1])
	}
	return g.madeBefore(v.Call, some)
}

// index lists the samples of those that are new.
func (g *gradients) index() {
	if g.newest == nil {
		g.newest = map[sampleAt]int32{}
	}
	for n := len(g.before)/sampled + 1; n <= len(g.all); n++ {
		g.before = append(g.before, make([]int32, sampled)...)
		for place, word := range g.all[n-1].content.samples {
			if at := (sampleAt{place, word}); word != 0 {
				g.before[(n-1)*sampled+place], g.newest[at] = g.newest[at], int32(n)
			}
		}
	}
}
