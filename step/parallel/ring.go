package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// In a ring, blocks of keys pass all ranks, and each rank compares their positions with those of its own queries. The
// positions say whose block it is, and so do its elements: a block is that of the rank that made it itself.

// A block is what a rank masks the scores of: a block of keys, by positions of a rank.
type block struct {
	site *site // of the comparison of positions
	call *step.Call
	keys uint64
	own  bool // the rank made it itself
	verb string
	of   int // the rank of which the positions are; -1 if it is not known
}

// ringMasks finds blocks of keys that a rank masks by the positions of another rank than the one that made them.
func (p *part) ringMasks() {
	if len(p.broken) > 0 || len(p.dims) == 0 {
		return
	}
	var masked []map[int]*block
	owner := map[uint64]int{}
	for _, s := range p.flat() {
		if m := method(s.op); m != "masked_fill" && m != "where" && m != "add" && m != "sub" {
			continue
		}
		blocks := p.blocks(s)
		masked = append(masked, blocks)
		for r, b := range blocks {
			if b.own {
				owner[b.keys] = r
			}
		}
	}
	foreign := slices.ContainsFunc(masked, func(blocks map[int]*block) bool {
		for r, b := range blocks {
			if q, ok := owner[b.keys]; ok && q != r {
				return true
			}
		}
		return false
	})
	for _, blocks := range masked {
		for _, r := range p.ranks {
			b := blocks[r]
			if b == nil || b.of < 0 || !foreign {
				continue
			}
			if q, ok := owner[b.keys]; ok && q != b.of {
				p.found(true, &violation{kind: "shard", call: b.call, site: b.site, ranks: []int{r, q}, target: "output[0]",
					reason: fmt.Sprintf("rank %d %s the keys of rank %d by the positions of rank %d: blocks pass the ranks "+
						"in another order than their positions", r, b.verb, q, b.of)})
				return
			}
		}
	}
}

// ringValues finds values of another rank than the keys whose scores they are weighed by: only one of both went on.
func (p *part) ringValues() {
	if len(p.broken) > 0 || len(p.dims) == 0 {
		return
	}
	type pair struct {
		rank         int
		call         *step.Call
		site         *site
		keys, values uint64
	}
	var pairs []pair
	keys, values := map[uint64]int{}, map[uint64]int{} // the ranks that made blocks; -1 where several did
	note := func(owner map[uint64]int, sum uint64, rank int, own bool) {
		if q, ok := owner[sum]; ok && own && q != rank {
			owner[sum] = -1
		} else if own {
			owner[sum] = rank
		}
	}
	for _, s := range p.flat() {
		for _, r := range p.ranks {
			call := s.calls[r]
			if call == nil {
				break
			}
			k, v := attends(call)
			if k == nil {
				break
			}
			one := pair{r, call, s, p.checker.content(k), p.checker.content(v)}
			if one.keys == 0 || one.values == 0 {
				break
			}
			note(keys, one.keys, r, p.checker.makes(k))
			note(values, one.values, r, p.checker.makes(v))
			pairs = append(pairs, one)
		}
	}
	for _, o := range pairs {
		a, known := keys[o.keys]
		b, there := values[o.values]
		if !known || !there || a < 0 || b < 0 || a == b {
			continue
		}
		p.found(true, &violation{kind: "shard", call: o.call, site: o.site, ranks: []int{o.rank, a, b}, target: "output[0]",
			reason: fmt.Sprintf("rank %d weighs the values of rank %d by the scores of the keys of rank %d: keys and values "+
				"pass the ranks in another order", o.rank, b, a)})
		return
	}
}

// ringLacks finds blocks of keys that never reach a rank, though blocks of others do, and no mask hides any.
func (p *part) ringLacks() {
	if len(p.broken) > 0 {
		return
	}
	owner := map[uint64]int{} // of a block of keys; -1 where several ranks made it
	sees := map[string]map[int]map[uint64]*step.Call{}
	var sites []*site
	for _, s := range p.flat() {
		switch m := method(s.op); m {
		case "masked_fill", "where", "tril", "triu", "scaled_dot_product_attention":
			return
		}
		for _, r := range p.owners(s) {
			k, v := attends(s.calls[r])
			if k == nil {
				break
			}
			sum, line := p.checker.content(k), s.calls[r].Entry.Location
			if p.checker.content(v) == 0 || sum == 0 || line == "" {
				return
			}
			if q, has := owner[sum]; p.checker.makes(k) {
				if owner[sum] = r; has && q != r {
					owner[sum] = -1
				}
			}
			if sees[line] == nil {
				sees[line] = map[int]map[uint64]*step.Call{}
				sites = append(sites, s)
			}
			if sees[line][r] == nil {
				sees[line][r] = map[uint64]*step.Call{}
			}
			sees[line][r][sum] = s.calls[r]
		}
	}
	for _, s := range sites {
		for _, d := range p.dims {
			for _, g := range d.groups {
				p.lackedBy(s, g, owner, sees[s.first(p.ranks).Entry.Location])
			}
		}
	}
}

// lackedBy checks of which ranks of a group each has had blocks of keys.
func (p *part) lackedBy(s *site, group []int, owner map[uint64]int, sees map[int]map[uint64]*step.Call) {
	if len(group) < 3 {
		return
	}
	var had, lacks []int // of the first rank
	for _, r := range group {
		of := map[int]bool{}
		for sum := range sees[r] {
			q, known := owner[sum]
			if !known || q < 0 || of[q] || !slices.Contains(group, q) {
				return
			}
			of[q] = true
		}
		if len(of) < 2 || len(of) == len(group) || !of[r] {
			return
		}
		if had != nil {
			continue
		}
		for _, q := range group {
			if of[q] {
				had = append(had, q)
			} else {
				lacks = append(lacks, q)
			}
		}
	}
	p.found(true, &violation{kind: "shard", site: s, ranks: group, target: "output[0]",
		reason: fmt.Sprintf("rank %d multiplies its queries by the keys of %s, and never by those of %s: no mask hides "+
			"them, and every rank of %s lacks some in this way", group[0], ranksText(had), ranksText(lacks),
			ranksText(group))})
}

// attends are the keys and values of a call that weighs values by scores of keys; nil if it is none.
func attends(call *step.Call) (keys, values *step.Value) {
	switch m := method(call.Op); {
	case m == "scaled_dot_product_attention" && len(call.Inputs) >= 3:
		return call.Inputs[1], call.Inputs[2]
	case !products[m] || len(call.Inputs) != 2:
		return nil, nil
	}
	if c := scores(call.Inputs[0], products, 24); c != nil && len(c.Inputs) == 2 {
		return c.Inputs[1], call.Inputs[1]
	}
	return nil, nil
}

// scores is the product, by one of some operators, that a value was made of within some calls that keep its shape; nil
// if there is none.
func scores(v *step.Value, by map[string]bool, within int) *step.Call {
	from := v.From.Value
	if from == nil || within == 0 {
		return nil
	}
	if by[method(from.Call.Op)] {
		return from.Call
	}
	for _, in := range from.Call.Inputs {
		if in.DType.IsFloat() && slices.Equal(in.Shape, v.Shape) {
			return scores(in, by, within-1)
		}
	}
	return nil
}

// content is the sum of the elements of an argument; 0 if it was not recorded or says nothing.
func (c *checker) content(v *step.Value) uint64 {
	a := c.argument(v)
	if a == nil || a.constant() {
		return 0
	}
	return a.sum()
}

// flat are the calls of the forward pass with those inside of functions.
func (p *part) flat() (out []*site) {
	for _, s := range p.sites {
		out = append(append(out, s), s.inner...)
	}
	return out
}

// blocks are what each rank masks by a call; nil if it masks something else.
func (p *part) blocks(s *site) map[int]*block {
	out, queries := map[int]*block{}, map[int][]float64{}
	positions := map[int][]float64{}
	for _, r := range p.ranks {
		call := s.calls[r]
		if call == nil {
			return nil
		}
		b := &block{of: -1, site: s, verb: "masks"}
		for i, v := range call.Inputs {
			c := back(v, forming)
			if d := distance(v); d != nil && (c == nil || !products[method(c.Op)]) {
				c, b.verb = d, "moves the scores of"
			}
			switch {
			case c == nil:
			case v.DType == tensor.Bool && comparing[method(c.Op)], b.verb != "masks" && method(c.Op) == "sub":
				d, err := p.checker.load(c)
				if err != nil || len(d.ins) != 2 {
					return nil
				}
				b.call = c
				for _, a := range d.ins {
					n := len(a.array.shape)
					if n == 0 || a.array.dtype.IsFloat() || len(a.array.x) < 2 || !rising(a.array.x) {
						return nil
					}
					if a.array.shape[n-1] == 1 {
						queries[r] = a.array.x
					} else {
						positions[r] = a.array.x
					}
				}
			case products[method(c.Op)] && len(c.Inputs) == 2 && i < 2:
				d, err := p.checker.load(c)
				if err != nil || len(d.ins) != 2 {
					return nil
				}
				b.keys, b.own = d.ins[1].array.sum(), p.checker.makes(c.Inputs[1])
			}
		}
		if b.call == nil || b.keys == 0 {
			return nil
		}
		out[r] = b
	}
	for _, r := range p.ranks {
		for _, q := range p.ranks {
			if slices.Equal(positions[r], queries[q]) {
				if out[r].of >= 0 {
					return nil // several ranks have these positions
				}
				out[r].of = q
			}
		}
	}
	return out
}

// distance is the difference of whole numbers, such as positions, that a value was made of: by an index into a table,
// as a relative bias is, or by arithmetic; nil if there is none.
func distance(v *step.Value) *step.Call {
	for range 12 {
		from := v.From.Value
		if from == nil || len(from.Call.Inputs) == 0 {
			return nil
		}
		c := from.Call
		m := method(c.Op)
		if m == "sub" && len(c.Inputs) == 2 && !c.Inputs[0].DType.IsFloat() && !c.Inputs[1].DType.IsFloat() {
			return c
		}
		i := 0
		switch {
		case m == "getitem", m == "embedding", m == "index_select", m == "gather":
			if i = slices.IndexFunc(c.Inputs, func(v *step.Value) bool { return !v.DType.IsFloat() }); i < 0 {
				i = 0 // a view
			}
		case forming[m], turning[m], biasing[m], reshaping[m]:
		default:
			return nil
		}
		v = c.Inputs[i]
	}
	return nil
}

// Operators that compare positions, that change the form of scores or masks, and that make scores.
var (
	comparing = setOf("gt", "lt", "ge", "le")
	forming   = setOf("div", "mul", "truediv", "float", "to", "contiguous", "clone", "type", "unsqueeze", "view",
		"expand", "invert", "logical_not", "bitwise_not", "double", "half", "bfloat16")
	products = setOf("matmul", "bmm")
	biasing  = setOf("add", "neg", "abs", "clamp", "exp", "log", "log1p", "minimum", "maximum", "where")
)

// rising reports whether each number is larger than the one before, as positions of a rank's parts of a sequence are.
func rising(x []float64) bool {
	for i, v := range x[1:] {
		if v <= x[i] {
			return false
		}
	}
	return true
}

// back is the call that made a value, before those that only change its form.
func back(v *step.Value, form map[string]bool) *step.Call {
	for range 8 {
		if v.From.Value == nil {
			return nil
		}
		c := v.From.Value.Call
		if !form[method(c.Op)] || len(c.Inputs) == 0 {
			return c
		}
		v = c.Inputs[0]
	}
	return nil
}

// makes reports whether a rank made a value itself, and no exchange brought it.
func (c *checker) makes(v *step.Value) bool {
	for range 24 {
		if v.From.Value == nil || v.From.Role == "collective" {
			return false
		}
		made := v.From.Value.Call
		m := method(made.Op)
		switch {
		case collective.Name(made.Op) != "" || uninitialized(m):
			return false
		case slices.ContainsFunc(c.inside[made], func(c *step.Call) bool {
			return collective.Name(c.Op) != ""
		}):
			return false
		case !moving[m] && !reshaping[m] && !cutting[m] && !forming[m] && !turning[m] && !picking[m],
			len(made.Inputs) == 0:
			return true
		}
		v = made.Inputs[0]
	}
	return false
}
