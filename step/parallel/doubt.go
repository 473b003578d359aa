package parallel

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/tensor/value"
)

// doubtful notes what makes places of results doubtful that were made of arguments.
func (n *info) doubtful(in []*info) {
	for _, a := range in {
		n.ragged, n.guess = n.ragged || a != nil && a.ragged, n.guess || a != nil && a.guess
	}
}

// counted are the sides of a call with one whole number that it is given as many times as large as a dimension of the
// mesh: each rank counts its own groups or heads.
func (p *part) counted(sides map[int]*side) (out []map[int]*side) {
	lead := sides[p.ranks[0]]
	args := value.NewTuple(value.NewTuple(lead.rec.Args...), lead.rec.Kwargs)
	numbers := 0
	value.Walk(args, func(v value.Value) {
		if _, ok := v.(int64); ok {
			numbers++
		}
	})
	for at := range numbers {
		for _, d := range p.dims {
			k := 0
			of := substitute(args, nil, func(v value.Value) value.Value {
				n, ok := v.(int64)
				if !ok {
					return v
				}
				if k++; k == at+1 {
					return n * int64(d.size)
				}
				return v
			}).(*value.Sequence)
			side, rec := *lead, *lead.rec
			rec.Args, rec.Kwargs = of.Items[0].(*value.Sequence).Items, of.Items[1].(*value.Dict)
			side.rec = &rec
			next := maps.Clone(sides)
			next[p.ranks[0]] = &side
			out = append(out, next)
		}
	}
	return out
}

// dealt are the places of the result of a call that divides a whole value by the number of the ranks along a
// dimension of the mesh: there it is a partial sum of that value, too.
func (p *part) dealt(s *site, lead *side, places []place) (out [][]place) {
	if len(lead.ins) != 1 || len(lead.outs) != 1 || len(lead.rec.Args) != 2 || !multiplies(s.op) {
		return nil
	}
	k, _ := numberOf(lead.rec.Args[1])
	if strings.HasSuffix(method(s.op), "mul") || method(s.op) == "multiply" {
		k = 1 / k
	}
	for m, q := range places {
		if q == whole && k == float64(p.dims[m].size) {
			ps := slices.Clone(places)
			ps[m] = sum(1)
			out = append(out, ps)
		}
	}
	return out
}

// repetitions are the places of a replicated value that is the same all along a dimension, such as positions that each
// rank repeats for its own rows: it can be a part of a longer one, too. So can labels that are the same by chance.
func repetitions(places []place, a *array, label bool) (out [][]place) {
	for m, q := range places {
		for k := range a.shape {
			if q == whole && (label || a.repeats(k)) {
				ps := slices.Clone(places)
				ps[m] = place{sharded, k, 0, 1}
				out = append(out, ps)
			}
		}
	}
	return out
}

// fits reports whether the values of each group along dimension m of the mesh can be joined along one of theirs.
func (p *part) fits(m int, values map[int]*array, along int) bool {
	for _, g := range p.dims[m].groups {
		first := values[g[0]].shape
		for _, r := range g[1:] {
			if s := values[r].shape; len(s) != len(first) || !slices.Equal(s[:along], first[:along]) ||
				!slices.Equal(s[along+1:], first[along+1:]) {
				return false
			}
		}
	}
	return true
}

// ragged reports whether the ranks have other lengths of a dimension that they share out: then these can be sequences
// of their own, and no parts of one.
func (p *part) ragged(places []place, values map[int]*array) bool {
	for m, q := range places {
		if q.kind != sharded {
			continue
		}
		for _, g := range p.dims[m].groups {
			for _, r := range g[1:] {
				if values[r].shape[q.dim] != values[g[0]].shape[q.dim] {
					return true
				}
			}
		}
	}
	return false
}

// unequal are the numbers of elements that the ranks have of a sharded argument of a call; nil if these are the same.
func (p *part) unequal(s *site, sides map[int]*side) (sizes []int) {
	for i, n := range s.in {
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		if !n.sound() || !p.ragged(n.places, values) {
			continue
		}
		for _, r := range p.ranks {
			sizes = append(sizes, len(values[r].x))
		}
		return sizes
	}
	return nil
}

// unfit reports whether an argument of a call of which nothing is known has parts that fit along no dimension: each
// rank has its own.
func (p *part) unfit(s *site, sides map[int]*side) bool {
	for i, a := range sides[p.ranks[0]].ins {
		if s.in[i] != nil || a.name != "" || len(a.array.shape) == 0 {
			continue
		}
		values := p.column(sides, func(d *side) *array { return d.ins[i].array })
		for m := range p.dims {
			along := 0
			for k := range a.array.shape {
				if p.fits(m, values, k) {
					along++
				}
			}
			if along == 0 && !p.equal(m, values, 0) {
				return true
			}
		}
	}
	return false
}

// counts is where the sum of a number that all ranks have lies if it is a count of each rank's own, and these are only
// equal; nil if it is none.
func (n *info) counts(sum []place) []place {
	if !n.orphan || !slices.ContainsFunc(sum, func(q place) bool { return q.kind == replicated && q.factor > 1 }) {
		return nil
	}
	out := slices.Clone(sum)
	for m := range out {
		if out[m].kind == replicated {
			out[m].factor = 1
		}
	}
	return out
}

// received reports whether an argument is what a message or a collective brought.
func received(d *side, i int) bool {
	return len(d.call.Inputs) == len(d.ins) && d.call.Inputs[i].From.Role == "collective"
}

// alternatives notes where else a parameter can lie that a call reads for the first time, and that holds one number,
// such as a bias of zeros: its gradient tells.
func (p *part) alternatives(s *site, sides map[int]*side, local *localRun, lists [][][]place, chosen [][]place) {
	for i, a := range sides[p.ranks[0]].ins {
		if s.in[i] != nil || a.name == "" || !a.array.constant() || p.options[a.name] != nil {
			continue
		}
		for _, other := range lists[i] {
			in := slices.Clone(chosen)
			in[i] = other
			if outs, _ := p.try(s, sides, local, in); outs == nil || slices.Equal(other, chosen[i]) {
				continue
			}
			if as := p.beside(sides, chosen, i); as != nil && alongside(other, as) && !alongside(chosen[i], as) {
				other, chosen[i] = chosen[i], other
			}
			p.options[a.name] = append(p.options[a.name], other)
		}
	}
}

// A turn is where a value can lie that a call shows in another shape, and where the result then does.
type turn struct{ in, out []place }

// turned notes where else the argument of a view can lie of which nothing is known yet, such as a weight that is
// transposed before the call that tells which of its dimensions the ranks share out.
func (p *part) turned(s *site, sides map[int]*side, local *localRun, lists [][][]place, chosen [][]place) {
	if m := method(s.op); s.in[0] != nil || len(s.in) != 1 || len(s.out) != 1 || !moving[m] && !reshaping[m] {
		return
	}
	for _, in := range lists[0] {
		if outs, _ := p.try(s, sides, local, [][]place{in}); outs != nil && !slices.Equal(in, chosen[0]) {
			s.turns = append(s.turns, turn{in, outs[0]})
		}
	}
}

// turn notes that a view lies as a call needs it, and the value that it shows accordingly.
func (p *part) turn(n *info, places []place) {
	at := slices.IndexFunc(n.made.turns, func(t turn) bool { return slices.Equal(t.out, places) })
	if at < 0 || len(n.made.in) != 1 || n.made.in[0] == nil {
		return
	}
	n.places, n.made.in[0].places = places, n.made.turns[at].in
	if n.view != "" {
		p.shards[n.view] = n.made.turns[at].in
	}
	n.made.turns = nil // it is known now
}

// certain settles where parameters of one number lie that a call reads beside a value of unknown places: they are whole
// if they could not be parts wherever that value lies.
func (p *part) certain(s *site, sides map[int]*side, local *localRun, lists [][][]place) {
	for i, a := range sides[p.ranks[0]].ins {
		if a.name == "" || !a.array.constant() || p.shards[a.name] != nil || !s.in[i].sound() ||
			slices.ContainsFunc(s.in[i].places, func(q place) bool { return q != whole }) {
			continue
		}
		others := slices.Clone(lists)
		others[i] = slices.DeleteFunc(slices.Clone(lists[i]), func(ps []place) bool {
			return slices.Equal(ps, s.in[i].places)
		})
		if !combinations(others, func(in [][]place) bool {
			outs, _ := p.try(s, sides, local, in)
			return outs != nil
		}) {
			p.shards[a.name] = s.in[i].places
			p.names = append(p.names, a.name)
		}
	}
}

// beside is where another parameter of a call lies that tells more than argument i, such as its weight; nil if none
// does.
func (p *part) beside(sides map[int]*side, in [][]place, i int) []place {
	for j, a := range sides[p.ranks[0]].ins {
		if j != i && a.name != "" && !a.array.constant() {
			return in[j]
		}
	}
	return nil
}

// alongside reports whether two values are shared out over the same dimensions of the mesh.
func alongside(a, b []place) bool {
	return slices.EqualFunc(a, b, func(x, y place) bool { return (x.kind == sharded) == (y.kind == sharded) })
}

// viewed is the parameter that a call shows in another shape; "" if it does something else.
func (s *site) viewed(lead *side) string {
	if name := method(s.op); len(lead.ins) != 1 || !moving[name] && !reshaping[name] && !cutting[name] {
		return ""
	}
	if name := lead.ins[0].name; name != "" || s.in[0] == nil {
		return name
	}
	return s.in[0].view
}

// confirm notes that parameters lie as they were taken to where a call needs their views to lie so.
func (p *part) confirm(s *site, in [][]place) {
	for i, n := range s.in {
		if n != nil && n.view != "" && len(s.in) > 1 && slices.Equal(in[i], n.places) {
			delete(p.options, n.view)
		}
	}
}

// judgeAny judges the gradient of a parameter at the first of the places where it can lie that explains it.
func (p *part) judgeAny(name string, tails map[int]*tail, factors []float64) *judged {
	g, was := p.grads[name], p.shards[name]
	first := p.judge(name, g, tails, factors)
	if first == nil || first.scale != nil {
		return first
	}
	for _, places := range p.options[name] {
		p.shards[name] = places
		if v := p.judge(name, g, tails, factors); v != nil && v.scale != nil {
			return v
		}
	}
	p.shards[name] = was
	return first
}

// right reports whether all ranks read the right gradient.
func (v *judged) right() bool {
	for _, k := range v.scale {
		if math.Abs(k-1) > v.slack {
			return false
		}
	}
	return v.scale != nil
}
