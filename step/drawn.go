package step

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/tensor"
)

// numbers are what the result of a call shows of the random numbers that it drew: the mask of a dropout, or the numbers
// themselves where nothing but the size of an argument matters.
type numbers struct {
	// known are places where the mask shows, and kept those of them that dropout kept: bits, the same places in each
	// call of a shape. Both are nil for the numbers themselves, whose hash sum is.
	known, kept []uint64
	sum         uint64
	// chance is the natural logarithm of the chance that other random numbers look like these.
	chance float64
}

// fillsFreely are the operators whose result depends on no element of an argument.
var fillsFreely = lazyregexp.New(`(^|\.)((rand|randn|randint)(_like)?|randperm|` +
	`(uniform|normal|random|exponential|log_normal|cauchy|geometric|bernoulli)_)$`)

// masked is how many places of a mask are compared.
const masked = 8192

// drew notes what the first result shows of the numbers that the call drew.
func (c *Call) drew(rec *capture.Call) {
	outs := rec.Outputs()
	if c.generator == 0 || len(outs) == 0 || len(c.Outputs) == 0 || outs[0].Numel() <= few {
		return
	}
	switch name := strings.TrimSuffix(c.Op, ".default"); {
	case strings.Contains(name, "dropout"):
		ins, err := rec.Leaves(capture.Input)
		if err != nil || len(ins) == 0 || strings.Contains(name, "alpha") {
			return
		}
		x, from := ins[0].Tensor, 0
		if wholeChannels().MatchString(name) {
			if from = 2; strings.Contains(name, "dropout1d") && x.Dim() == 2 || strings.Contains(name, "dropout3d") &&
				x.Dim() == 4 {
				from = 1 // there are no samples
			}
		}
		c.drawn = maskOf(x, outs[0], from)
	case fillsFreely().MatchString(name) && len(c.Inputs) <= 1:
		if same := c.Outputs[0].content.repeats(outs[0].DType); same < 1 {
			c.drawn = &numbers{sum: c.Outputs[0].content.sum, chance: float64(outs[0].Numel()) * math.Log(same)}
		}
	}
}

// wholeChannels are the dropouts that keep or drop all elements of a channel.
var wholeChannels = lazyregexp.New(`dropout[123]d|feature_dropout`)

// repeats is the chance that two of the numbers are equal, or an upper bound of it where the samples have no equal
// ones.
func (f *fingerprint) repeats(dt tensor.DType) float64 {
	n := map[uint64]int{}
	for _, x := range f.samples {
		n[x]++
	}
	k, pairs := len(f.samples), 0
	for _, m := range n {
		pairs += m * (m - 1)
	}
	if k < 2 {
		return 1
	}
	atLeast := 1 / float64(k) // of whole numbers, a permutation of k has no equal ones
	if dt.IsFloat() {
		atLeast /= float64(k) // those that are bits have equal ones
	}
	return max(float64(pairs)/float64(k*(k-1)), atLeast)
}

// maskOf is what a dropout shows of its mask; nil if it shows none. Elements share a draw along the dimensions from the
// given one on, unless that is 0.
func maskOf(in, out *tensor.Tensor, from int) *numbers {
	if !in.DType.IsFloat() || !out.DType.IsFloat() || !sameShape(in.Shape, out.Shape) {
		return nil
	}
	for d := in.Dim() - 1; from > 0 && d >= from; d-- {
		if in.Shape[d] == 0 {
			return nil
		}
		in, out = in.Select(d, 0), out.Select(d, 0)
	}
	for in.Numel() > masked { // the first rows, if there are several
		if in.Shape[0] == 1 {
			in, out = in.Select(0, 0), out.Select(0, 0)
			continue
		}
		rows := max(1, min(in.Shape[0]-1, masked/(in.Numel()/in.Shape[0])))
		in, out = firstRows(in, rows), firstRows(out, rows)
	}
	x, y := tensor.Data[float64](in), tensor.Data[float64](out)
	d := &numbers{known: make([]uint64, (len(x)+63)/64), kept: make([]uint64, (len(x)+63)/64)}
	kept, dropped := 0, 0
	for i := range x {
		switch {
		case x[i] == 0:
			continue
		case y[i] == 0:
			dropped++
		default:
			kept++
			d.kept[i/64] |= 1 << (i % 64)
		}
		d.known[i/64] |= 1 << (i % 64)
	}
	const some = 4
	if kept < some || dropped < some {
		return nil
	}
	p := float64(kept) / float64(kept+dropped)
	d.chance = math.Log(p*p + (1-p)*(1-p)) // of one element
	return d
}

func firstRows(t *tensor.Tensor, n int) *tensor.Tensor {
	u := *t
	u.Shape = slices.Clone(t.Shape)
	u.Shape[0] = n
	return &u
}

// same reports whether two calls of one operator drew the same numbers, so many that chance does not explain it.
func (d *numbers) same(e *numbers) bool {
	const unlikely = -27.6 // 1 in 10^12
	if d == nil || e == nil || len(d.known) != len(e.known) {
		return false
	}
	if d.known == nil {
		return d.sum == e.sum && d.chance < unlikely
	}
	n := 0
	for i, known := range d.known {
		both := known & e.known[i]
		if (d.kept[i]^e.kept[i])&both != 0 {
			return false
		}
		n += bits.OnesCount64(both)
	}
	return float64(n)*max(d.chance, e.chance) < unlikely
}
