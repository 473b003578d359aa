package view

import (
	"fmt"
	"strings"

	"github.com/optool/optool/step"
)

// A Box is consecutive calls that are shown as one until it is opened. It is a process, a step, a module, or a
// repetition in the sequence of operators, such as a layer.
type Box struct {
	Name   string `json:"name"`
	Parent int    `json:"parent"` // the box it is in, -1 for none
	First  int    `json:"first"`  // index of its first node
	Calls  int    `json:"calls"`
}

// A box of more than manyItems calls and boxes gets boxes of foldedItems of them, so that
// what is opened is never too much to look at.
const manyItems, foldedItems = 200, 50

// An item is a call, or a box of consecutive calls.
type item struct {
	name         string
	first, calls int
	items        []*item // none of a call
}

func (it *item) isCall() bool { return len(it.items) == 0 }

// addBoxes divides the calls into boxes.
func (g *Graph) addBoxes(t *step.Trace) {
	var paths [][]string
	for _, p := range t.Processes {
		parts := repeats(p.Calls)
		for i, c := range p.Calls {
			paths = append(paths, boxesOf(t, p, c, parts[i]))
		}
	}
	g.flatten(nested(paths, 0, 0), -1)
}

// boxesOf names the boxes that a call is in, the outermost first; repetition is the part of
// the sequence of operators that it belongs to, "" for none.
func boxesOf(t *step.Trace, p *step.Process, c *step.Call, repetition string) []string {
	var names []string
	switch {
	case len(t.Processes) > 1 && p.Rank >= 0:
		names = append(names, fmt.Sprintf("rank %d", p.Rank))
	case len(t.Processes) > 1:
		names = append(names, fmt.Sprintf("process %d", p.PID))
	}
	if len(p.Steps) > 1 && c.Step != nil {
		names = append(names, c.Step.Name())
	}
	switch {
	case c.Entry.Module != "":
		parts := modules(c.Entry.Module)
		if strings.Trim(parts[0], "0123456789") == "" {
			parts[0] = "module " + parts[0]
		}
		names = append(names, parts...)
	case repetition != "":
		names = append(names, repetition)
	case c.Step != nil && c.Order > c.Step.Loss.Order:
		names = append(names, "after the loss")
	}
	return names
}

// modules are the parts of a module's path; a list and its index are one:
// "model", "layers.12", "mlp" of "model.layers.12.mlp".
func modules(path string) []string {
	var parts []string
	for p := range strings.SplitSeq(path, ".") {
		if n := len(parts); n > 0 && p != "" && strings.Trim(p, "0123456789") == "" {
			parts[n-1] += "." + p
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// nested makes items of calls that are in boxes of these names, from a depth on; first is
// the index of the first call. A box of one item is that item.
func nested(paths [][]string, first, depth int) []*item {
	var items []*item
	for i := 0; i < len(paths); {
		if len(paths[i]) <= depth {
			items = append(items, &item{first: first + i, calls: 1})
			i++
			continue
		}
		end := i + 1
		for end < len(paths) && len(paths[end]) > depth && paths[end][depth] == paths[i][depth] {
			end++
		}
		it := &item{name: paths[i][depth], first: first + i, calls: end - i,
			items: nested(paths[i:end], first+i, depth+1)}
		switch only := it.items[0]; {
		case len(it.items) > 1:
		case only.isCall():
			it = only
		default:
			it = &item{it.name + "." + only.name, it.first, it.calls, only.items}
		}
		items = append(items, it)
		i = end
	}
	return fold(items)
}

// fold puts items into boxes if there are too many.
func fold(items []*item) []*item {
	for len(items) > manyItems {
		var folded []*item
		for i := 0; i < len(items); i += foldedItems {
			part := items[i:min(i+foldedItems, len(items))]
			first, last := part[0], part[len(part)-1]
			name := fmt.Sprintf("calls %d to %d", first.first, last.first+last.calls-1)
			if first.name != "" && last.name != "" {
				name = first.name + " to " + last.name
			}
			folded = append(folded, &item{name, first.first, last.first + last.calls - first.first, part})
		}
		items = folded
	}
	return items
}

// flatten adds the boxes of items that are in a box.
func (g *Graph) flatten(items []*item, parent int) {
	for _, it := range items {
		if it.isCall() {
			g.Nodes[it.first].Box = parent
			continue
		}
		g.Boxes = append(g.Boxes, Box{it.name, parent, it.first, it.calls})
		g.flatten(it.items, len(g.Boxes)-1)
	}
}

// repeats names the calls of each repetition of the period that covers most of the
// sequence of operators; "" for the others.
func repeats(calls []*step.Call) []string {
	names := make([]string, len(calls))
	best, bestAt, period := 0, 0, 0
	for p := 3; p <= len(calls)/2; p++ {
		run := 0
		for i := 0; i+p < len(calls); i++ {
			if calls[i].Op != calls[i+p].Op {
				run = 0
				continue
			}
			// A longer period that covers no more is a multiple of the shorter one.
			if run++; run >= p && run+p > best+best/8 {
				best, bestAt, period = run+p, i-run+1, p
			}
		}
	}
	if period == 0 || best < 2*period || best < len(calls)/4 {
		return names
	}
	for k := range best / period {
		for i := range period {
			names[bestAt+k*period+i] = fmt.Sprintf("repetition %d of %d", k+1, best/period)
		}
	}
	return names
}
