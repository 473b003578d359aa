package step

import (
	"hash/maphash"

	"github.com/optool/optool/ops/opdef"
)

// drewAgain is the gap of calls that drew the random numbers that an earlier call of the forward pass had drawn.
const drewAgain = "call%s that drew the same random numbers as an earlier call of the forward pass: the program set the " +
	"generator back, or it did not advance"

// readGenerator is the hash of the state of the generator that the call drew from; 0 if it drew nothing, or if the
// state was not recorded. The state of a call that cannot be read is not known.
func (c *Call) readGenerator() uint64 {
	if c.random == "" || c.random == opdef.Uninitialised {
		return 0
	}
	state, err := c.Entry.Generator()
	if err != nil || len(state) == 0 {
		return 0
	}
	return maphash.Bytes(seed, state)
}

// redrawn are the calls of the forward pass that began to draw where an earlier one had begun. Calls that others make
// draw with these. What checkpointing runs again is behind the loss.
func (s *Step) redrawn() (all []*Call) {
	first := map[uint64]*Call{}
	for _, c := range s.Calls {
		if c.generator == 0 || c.drawsWithin() || len(c.Outputs) == 0 || c.Outputs[0].Numel() == 0 {
			continue
		}
		if first[c.generator] != nil {
			all = append(all, c)
		} else {
			first[c.generator] = c
		}
	}
	return all
}

// drawsWithin reports whether a call that made this one began to draw at the same place.
func (c *Call) drawsWithin() bool {
	for o := c.outer; o != nil; o = o.outer {
		if o.generator == c.generator {
			return true
		}
	}
	return false
}
