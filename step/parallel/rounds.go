package parallel

import (
	"strings"

	"github.com/optool/optool/step"
)

// A program can update the same parameters several times in what it counts as one step: each epoch of a policy's batch,
// say. The gradients that an update reads are those of its own round, which begins with the first call that reads a
// parameter behind the update before.

// splitRounds numbers the rounds of all processes as steps, if they make as many in each step.
func (c *checker) splitRounds() {
	rounds := make([]map[*step.Call]int, len(c.trace.Processes))
	var most map[int]int
	for i, p := range c.trace.Processes {
		of, last, several := c.rounds(p)
		if i > 0 && !sameCounts(last, most) || !several {
			return
		}
		rounds[i], most = of, last
	}
	size := 1
	for _, n := range most {
		size = max(size, n+1)
	}
	for _, of := range rounds {
		for call, k := range of {
			c.numbers[call] = c.numbers[call]*size + k
		}
	}
}

func sameCounts(a, b map[int]int) bool {
	if len(a) != len(b) {
		return false
	}
	for k, n := range a {
		if m, ok := b[k]; !ok || n != m {
			return false
		}
	}
	return true
}

// rounds are the round of each call of a process within its step, and the last one of each step. several is whether
// some parameter is updated in more than one round of a step.
func (c *checker) rounds(p *step.Process) (of map[*step.Call]int, last map[int]int, several bool) {
	of, last = map[*step.Call]int{}, map[int]int{}
	parameters := parametersOf(p)
	type written struct {
		step    int
		address uint64
	}
	in := map[written]int{}
	updated, forward := false, false // what was seen in the round
	for i, call := range p.Calls {
		n := c.numbers[call]
		if i > 0 && n != c.numbers[p.Calls[i-1]] {
			updated, forward = false, false
		}
		k := last[n]
		for _, v := range call.Inputs {
			switch {
			case !parameters[v.Address]:
			case updates(call) && forward:
				updated = true
				if first, ok := in[written{n, v.Address}]; ok && first != k {
					several = true
				} else {
					in[written{n, v.Address}] = k
				}
			case updated && call.HasBackward():
				k, updated = k+1, false
			}
		}
		forward = forward || call.HasBackward()
		of[call], last[n] = k, k
	}
	return of, last, several
}

// parametersOf are the addresses of the parameters that a process reads.
func parametersOf(p *step.Process) map[uint64]bool {
	out := map[uint64]bool{}
	for _, c := range p.Calls {
		for _, v := range c.Inputs {
			if v.Parameter && v.Address != 0 {
				out[v.Address] = true
			}
		}
	}
	return out
}

// updates reports whether a call writes parameters in place, as optimizers do. What FSDP gathers is copied.
func updates(c *step.Call) bool {
	return c.Entry.BackwardOrder < 0 && !isExchange(c.Op) && (strings.HasPrefix(c.Op, "torch.optim.") ||
		strings.HasSuffix(c.Op, "_") && !strings.Contains(method(c.Op), "copy"))
}
