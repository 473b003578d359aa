package parallel

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor/value"
)

// rates finds an update of parameters to which the ranks give different numbers by one line: another learning rate.
func (p *part) rates() {
	for _, s := range p.tail {
		call := s.first(p.ranks)
		if len(p.broken) > 0 || collective.Name(s.op) != "" || len(p.owners(s)) < len(p.ranks) ||
			!strings.HasPrefix(s.op, "torch.optim.") && !strings.HasSuffix(s.op, "_") || p.checker.parameters(call) == "" {
			continue
		}
		sides := p.read(s)
		if sides == nil {
			continue
		}
		numbers := map[int][]float64{}
		for _, r := range p.ranks {
			numbers[r] = numbersOf(sides[r])
		}
		odd := p.odd(func(q, r int) bool { return alike(numbers[q], numbers[r]) })
		if odd == nil {
			continue
		}
		usual := p.others(odd)[0]
		x, y := differing(numbers[usual], numbers[odd[0]])
		p.found(true, &violation{kind: "replica", call: s.calls[odd[0]], site: s, ranks: odd, target: "input[0]",
			reason: fmt.Sprintf("%s updates parameters by one line with other numbers than %s (%.6g and %.6g): another "+
				"learning rate, weight decay or beta", ranksText(odd), ranksText(p.others(odd)), y, x)})
	}
}

// odd are the ranks that are not like most others; of two halves, those that are not like the first rank. It is nil if
// all are alike.
func (p *part) odd(like func(q, r int) bool) []int {
	var usual []int
	for _, r := range p.ranks {
		var same []int
		for _, q := range p.ranks {
			if like(q, r) {
				same = append(same, q)
			}
		}
		if len(same) > len(usual) {
			usual = same
		}
	}
	if len(usual) == len(p.ranks) || len(usual) == 0 {
		return nil
	}
	return p.others(usual)
}

// numbersOf are the numbers that a call is given besides tensors.
func numbersOf(d *side) (out []float64) {
	value.Walk(value.NewTuple(value.NewTuple(d.rec.Args...), d.rec.Kwargs), func(v value.Value) {
		if k, ok := numberOf(v); ok {
			out = append(out, k)
		}
	})
	return out
}

// alike reports whether numbers are the same, but for rounding.
func alike(x, y []float64) bool {
	return len(x) != len(y) || !slices.ContainsFunc(zip(x, y), apartNumbers)
}

func apartNumbers(v [2]float64) bool {
	return math.Abs(v[0]-v[1]) > 1e-4*math.Max(math.Abs(v[0]), math.Abs(v[1]))
}

func zip(x, y []float64) (out [][2]float64) {
	for i := range x {
		out = append(out, [2]float64{x[i], y[i]})
	}
	return out
}

// differing are the first two numbers that are not the same.
func differing(x, y []float64) (float64, float64) {
	all := zip(x, y)
	v := all[slices.IndexFunc(all, apartNumbers)]
	return v[0], v[1]
}

// What a rank can give of a parameter to an exchange behind its update.
const (
	updatedValue = "what its update made of"
	oldValue     = "what it had before its update in"
	ownGradient  = "the gradient of"
)

// A gift is what a rank gives of a parameter.
type gift struct{ kind, name string }

// givenApart finds an exchange behind the updates to which a rank gives something else of a parameter than others, such
// as its gradient where they give what their updates made of it.
func (p *part) givenApart(tails map[int]*tail) {
	for _, s := range p.tail {
		name := collective.Name(s.op)
		if len(p.broken) > 0 || !strings.HasPrefix(name, "all_") && !strings.HasPrefix(name, "reduce") ||
			len(p.owners(s)) < len(p.ranks) {
			continue
		}
		sides := p.read(s)
		if sides == nil || len(sides[p.ranks[0]].ins) == 0 {
			continue
		}
		gifts := map[int]gift{}
		for _, r := range p.ranks {
			if g := p.gift(s.calls[r], sides[r].ins[s.sends(sides[r])].array, tails[r], r); g.kind != "" {
				gifts[r] = g
			}
		}
		if len(gifts) < len(p.ranks) {
			continue
		}
		gathers := strings.HasPrefix(name, "all_gather") // each its own parameter
		odd := p.odd(func(q, r int) bool {
			return gifts[q].kind == gifts[r].kind && (gathers || gifts[q].name == gifts[r].name)
		})
		if odd == nil {
			continue
		}
		if usual := p.others(odd); len(usual) == len(odd) && gifts[odd[0]].kind == updatedValue {
			odd = usual
		}
		usual := gifts[p.others(odd)[0]]
		p.found(true, &violation{kind: "collective", call: s.calls[odd[0]], site: s, ranks: odd,
			target: fmt.Sprintf("input[%d]", s.sends(sides[odd[0]])),
			reason: fmt.Sprintf("%s gives it %s %s, and %s %s %s", ranksText(odd), gifts[odd[0]].kind,
				gifts[odd[0]].name, ranksText(p.others(odd)),
				strings.Replace(usual.kind, "its update", "their updates", 1), usual.name)})
	}
}

// gift is what a value is that a rank gives to a call; empty if it is none of the values of a parameter, or if its
// update left it as it was.
func (p *part) gift(call *step.Call, a *array, t *tail, rank int) gift {
	if a.constant() {
		return gift{}
	}
	is := func(b *array) bool { return b != nil && len(b.x) == len(a.x) && a.near(b.reshaped(a.shape), 0) }
	for _, n := range p.order {
		g := p.grads[n]
		var last *array
		for _, u := range t.updates[g.names[rank]] {
			if u.call.Order < call.Order && u.result != nil && !isExchange(u.call.Op) {
				last = u.result
			}
		}
		switch {
		case last == nil:
		case is(last):
			return gift{updatedValue, n}
		case is(g.value[rank]):
			return gift{oldValue, n}
		case is(g.sum[rank]):
			return gift{ownGradient, n}
		}
	}
	return gift{}
}
