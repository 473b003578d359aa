package parallel

import (
	"fmt"

	"github.com/optool/optool/step"
)

// addedMeans finds losses of one line that are means, whose gradients the step adds up as if they were parts of a sum:
// those of a batch are as many times too large.
func (p *part) addedMeans() {
	if p.by != nil || len(p.broken) > 0 {
		return
	}
	byLine := map[string]int{}
	for _, s := range p.losses() {
		call := s.first(p.ranks).Step.Root()
		if d := p.checker.reducing(call); d == nil || d.sums() ||
			!near1(p.checker.divisor(call)/p.checker.divisor(d.call)) {
			return
		}
		byLine[call.Op+"|"+call.Entry.Location]++
	}
	for _, s := range p.losses() {
		call := s.first(p.ranks).Step.Root()
		if n := byLine[call.Op+"|"+call.Entry.Location]; n > 1 {
			p.found(true, &violation{kind: "scale", call: call, site: s, ranks: p.ranks, target: "output[0]",
				reason: fmt.Sprintf("it is one of %d losses of a step by one line, each a mean, and the gradients of all are "+
					"added up: they are not divided by %d, and so %d times those of the mean of the batch", n, n, n)})
			return
		}
	}
}

// undivided finds a loss that is not divided by the number of the step's losses, though others of one line are.
func undivided(parts []*part) []*violation {
	for _, p := range parts {
		byLine := map[string][]*step.Call{}
		var order []string
		for _, s := range p.losses() {
			call := s.first(p.ranks).Step.Root()
			d := p.checker.reducing(call)
			if d == nil {
				continue
			}
			k := d.call.Op + "|" + d.call.Entry.Location
			if byLine[k] == nil {
				order = append(order, k)
			}
			byLine[k] = append(byLine[k], call)
		}
		for _, k := range order {
			losses := byLine[k]
			var odd *step.Call
			divided := 0
			for _, call := range losses {
				switch by := p.checker.divisor(call) / p.checker.divisor(p.checker.reducing(call).call); {
				case near1(by / float64(len(losses))):
					divided++
				case near1(by):
					odd = call
				}
			}
			if odd == nil || divided == 0 || divided+1 < len(losses) {
				continue
			}
			return []*violation{{kind: "scale", call: odd, ranks: p.ranks, target: "output[0]",
				reason: fmt.Sprintf("it is one of %d losses of a step by one line: the others are divided by %d, and this one "+
					"is not, so that its elements count with another weight", len(losses), len(losses))}}
		}
	}
	return nil
}

func near1(x float64) bool { return x > 1-1e-3 && x < 1+1e-3 }
