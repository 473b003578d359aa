package parallel

import (
	"fmt"

	"github.com/optool/optool/step"
)

// addedMeans are losses of one line that are means, and whose gradients add up: that the program does not divide them
// by their number can be meant, or forgotten.
func (p *part) addedMeans() []step.Gap {
	if p.by != nil {
		return nil
	}
	byLine := map[string]int{}
	for _, s := range p.losses() {
		call := s.first(p.ranks).Step.Root()
		if d := p.checker.reducing(call); d == nil || d.sums() ||
			!near1(p.checker.divisor(call)/p.checker.divisor(d.call)) {
			return nil
		}
		byLine[call.Op+"|"+call.Entry.Location]++
	}
	for _, s := range p.losses() {
		call := s.first(p.ranks).Step.Root()
		if n := byLine[call.Op+"|"+call.Entry.Location]; n > 1 {
			return []step.Gap{{N: n, What: fmt.Sprintf("%d losses of one line that are means, and whose gradients %s add up: "+
				"nothing says whether they should be divided by %d", n, ranksText(p.ranks), n), First: call.String()}}
		}
	}
	return nil
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
