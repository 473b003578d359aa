package step

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// shownOnWay is how many calls of a way are named.
const shownOnWay = 6

// A pass is the forward or the backward pass of a call.
type pass struct {
	call     *Call
	backward bool
}

// toNorm says by which calls the value that a finding is about, which is infinite or NaN, makes the gradient of a
// parameter so, and with it the gradient norm; "" if none is known.
func (f *Finding) toNorm(opt Options) string {
	first := pass{f.Call, f.backward}
	before := map[pass]pass{first: {}}
	for todo := []pass{first}; len(todo) > 0; todo = todo[1:] {
		p := todo[0]
		if p.backward {
			if of := p.call.parameterNotFinite(opt); of != nil {
				return describeWay(p, before, of)
			}
		}
		for _, q := range p.next() {
			if _, seen := before[q]; !seen && q.call.notFinite != nil {
				before[q] = p
				todo = append(todo, q)
			}
		}
	}
	return ""
}

// next are the passes that read what a pass gave, its own backward pass last.
func (p pass) next() (out []pass) {
	if p.backward {
		for _, c := range p.call.sources() {
			out = append(out, pass{c, true})
		}
		return out
	}
	for _, c := range p.call.Readers() {
		if c.Step == p.call.Step && c.notFinite != nil && c.notFinite.Phase == replay.Forward {
			out = append(out, pass{c, false})
		}
	}
	if p.call.HasBackward() {
		out = append(out, pass{p.call, true})
	}
	return out
}

// parameterNotFinite is a parameter that a call read and whose gradient, which it gave, is not finite; nil if there is
// none.
func (c *Call) parameterNotFinite(opt Options) (of *Value) {
	for _, g := range c.Grads {
		arg := g.argument()
		if !arg.Parameter && arg.From.Role != "parameter" {
			continue
		}
		_ = replay.Guard(func() error { // of what cannot be read nothing is said
			t, done, err := g.load(opt)
			if err != nil {
				return err
			}
			defer done()
			if t.DType.IsFloat() && slices.ContainsFunc(tensor.Data[float64](t), notFinite) {
				of = arg
			}
			return nil
		})
		if of != nil {
			return of
		}
	}
	return nil
}

func notFinite(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

// describeWay names the calls behind the first on the way to a pass, which gave a parameter its gradient.
func describeWay(p pass, before map[pass]pass, of *Value) string {
	var names []string
	for ; before[p].call != nil; p = before[p] {
		if name := p.call.String(); before[p].call != p.call { // not again for its own backward pass
			names = append(names, name)
		}
	}
	slices.Reverse(names)
	through := ""
	if n := len(names); n > shownOnWay {
		names = slices.Concat(names[:shownOnWay/2], []string{fmt.Sprintf("%d more calls", n-shownOnWay)},
			names[n-shownOnWay/2:])
	}
	if len(names) > 0 {
		through = "through " + strings.Join(names, ", ") + " "
	}
	return fmt.Sprintf("%sit reaches the gradient of the parameter %s of %s, and the gradient norm", through, of.Target,
		of.Call)
}
