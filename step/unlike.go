package step

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// unlike are the gradients of an update that the calls do not give, though they give those of most other parameters.
type unlike struct {
	by   map[argument][]other // those that were not explained, by where they are read
	like map[argument]int     // how many were
	has  map[uint64][]uint64  // where gradients lie that were explained, by parameter
	gaps map[*Step]bool       // the steps that were asked whether they have a gap
	all  map[argument]*count  // of all steps
}

// A count is how many gradients are what the calls give, and how many are not.
type count struct{ like, unlike int }

func newUnlike(all map[argument]*count) unlike {
	return unlike{by: map[argument][]other{}, like: map[argument]int{}, has: map[uint64][]uint64{},
		gaps: map[*Step]bool{}, all: all}
}

// An argument is a place among the arguments of a line of the program: one argument, or a list of them.
type argument struct {
	op, target string
	list       int // where the list begins, -1 of a single argument
	site       site
}

// position is the argument that an input is, or that the list is in which it is given.
func (v *Value) position() argument {
	a := argument{op: v.Call.Op, target: v.Target, list: -1, site: v.Call.place()}
	if v.item >= 0 {
		a.target, a.list = "", v.leaf-v.item
	}
	return a
}

type other struct {
	v        *Value
	readings []*Value
	off      string
	want     *Value // what the calls give, by its samples; nil if that was not computed
}

func (u unlike) add(v *Value, readings []*Value, off string, want *Value) {
	at := v.position()
	switch {
	case off == "" && (v.isGradient() || v.From.How == IsChanged):
		u.like[at]++
		if of := readings[0].Address; v.From.first == nil {
			u.has[of] = append(u.has[of], v.Address)
		}
	case off != "" && v.isGradient() || !v.hasSource() && !v.copiedBefore():
		u.by[at] = append(u.by[at], other{v, readings, off, want})
	}
}

// sort settles what another gradient of the parameter, or one of another parameter, explains, and counts the others.
func (u unlike) sort() {
	u.settleExchanged()
	for at, vs := range u.by {
		u.by[at] = slices.DeleteFunc(vs, func(o other) bool {
			has := u.has[o.readings[0].Address]
			if has == nil || o.v.isCopied() {
				return false
			}
			if o.off != "" && !slices.Contains(has, o.v.Address) {
				o.v.leaveGradient()
			}
			return true
		})
		u.counted(at).unlike += len(u.by[at])
	}
	for at, n := range u.like {
		u.counted(at).like += n
	}
}

func (u unlike) counted(at argument) *count {
	if u.all[at] == nil {
		u.all[at] = &count{}
	}
	return u.all[at]
}

// mostAre reports whether most gradients that are read at a place are what the calls give: of this step, or of all if
// it has few.
func (u unlike) mostAre(at argument) bool {
	n, all := len(u.by[at]), u.counted(at)
	return u.like[at] > few && u.like[at] >= 4*n ||
		u.like[at] >= few && u.like[at] >= 3*n && all.like > few && all.like >= 4*all.unlike
}

// settle makes those gradients changed that are read where most others are what the calls give. If most are not, calls
// that were not recorded averaged or scaled them: where any is, they are not explained.
func (u unlike) settle() {
	for at, vs := range u.by {
		for _, o := range vs {
			most := u.mostAre(at)
			isPart := strings.HasPrefix(o.off, lacks)
			if isPart { // that alone says much
				most = u.like[at] >= few && u.like[at] >= 2*len(vs)
			}
			r := o.readings[0]
			if u.like[at] == 0 && o.off != otherOrder && o.v.Call.leavesState(o.v) {
				o.v.leaveGradient()
				continue // state of the optimizer
			}
			// What the calls give is judged by itself.
			if !isPart && !severalPasses(o.readings, o.v.Call) && explained(o.v, o.readings) {
				o.v.unlink()
				o.v.From = Link{How: ByContent, Role: "gradient"}
				continue
			}
			doubtful := o.isNoise() || slices.ContainsFunc(o.readings, func(r *Value) bool {
				return !r.like(o.v) || r.mistrusted()
			})
			if o.v.isCopied() && !o.passedBy() || !most && o.off != otherOrder || o.off == "" || doubtful ||
				strings.HasPrefix(o.off, differs) && u.isPartial(o) {
				if o.v.isCopied() {
					o.v.unlink()
					o.v.From = Link{How: IsOutside, Role: o.v.role()}
					o.v.spread()
				} else if o.v.From.How == IsLeaf && len(o.v.From.Parts) == 0 {
					o.v.From.How = IsOutside
				}
				continue
			}
			o.v.unlink()
			o.v.From = Link{How: IsChanged, Value: r}
			o.v.right = o.right()
			o.v.reason = fmt.Sprintf("it is not the gradient that the calls give which read the parameter, first %s: %s",
				r.Call, o.off)
			if n := u.like[at]; n > 0 {
				o.v.reason += ". " + reports.Plural(n, "That of 1 other parameter is", "Those of %d other parameters are")
			}
			o.v.leftover = o.mayBeLeft()
			r.readers = append(r.readers, o.v)
			o.v.spread()
		}
	}
}

// mayBeLeft reports whether a gradient may hold what was there before the recording, to which the backward pass added:
// no update of its parameter was recorded before, and nothing that was recorded up to the loss lay in its memory. What
// sets gradients to zero writes there, and what sets them to None leaves the memory to others.
func (o other) mayBeLeft() bool {
	s, at := o.v.Call.Step, o.readings[0].Address
	if s == nil || o.v.Address == 0 || !strings.HasPrefix(o.off, differs) || s.Recorded() == 0 {
		return false
	}
	forward := o.readings[0].Call.Step.Loss.Order
	for _, c := range s.Loss.Process.Calls {
		if c.Order >= o.v.Call.Order {
			break
		}
		for _, vs := range [...][]*Value{c.Inputs, c.Outputs} {
			for _, v := range vs {
				if v.Address == o.v.Address && c.Order <= forward ||
					v.Address == at && c.Step != s && c.phase()%2 == 1 && c.returns(v) {
					return false
				}
			}
		}
	}
	return true
}

// leaveGradient takes back that a value is a gradient with a part overwritten: it is state, near the gradient as what a
// step on the same data left is in 16 bits.
func (v *Value) leaveGradient() {
	if v.isPartOfGradient() && v.reason == "" {
		v.unlink()
		v.From = Link{How: IsLeaf, Role: v.role()}
	}
}

const (
	lacks   = "it lacks " // begins a sentence on a gradient that is a part of a sum
	differs = "at "       // begins one on a gradient that is no multiple of what it should be
	allZero = "all elements are 0"
)

// lacking says which of the gradients of a parameter that one backward pass gave are not in a gradient that an update
// reads, which is the sum of the others; "" if it is no such sum, or if not all of them are known.
func (v *Value) lacking(readings []*Value) string {
	const many = 8
	if !v.telling() || v.From.first != nil || hooked(readings) || severalPasses(readings, v.Call) {
		return ""
	}
	var parts []*Value
	for _, r := range readings {
		g := r.Call.gradientOf(r)
		if g == nil || r.Call.outer != nil || r.Call.Step != v.Call.Step || !sameShape(g.Shape, v.Shape) ||
			r.Call.failsAt(g.Target) {
			return ""
		}
		if !g.content.plain { // zeros
			parts = append(parts, g)
		}
	}
	if all, ok := sumOf(parts); len(parts) < 2 || len(parts) > many || !ok || all.is(v) {
		return ""
	}
	for set := 1; set < 1<<len(parts)-1; set++ {
		var sum addition
		var missing []string
		for i, g := range parts {
			if set&(1<<i) == 0 {
				missing = append(missing, fmt.Sprintf("%s of %s", g.Target, g.Call))
			} else {
				sum.add(g)
			}
		}
		if sum.is(v) {
			return lacks + strings.Join(missing, ", ") + ", which the same backward pass gave"
		}
	}
	return ""
}

// isPartial reports whether calls that were not recorded may have read the parameter, too: then its gradient may be a
// sum of which the recorded calls give a part.
func (u unlike) isPartial(o other) bool {
	return slices.ContainsFunc(o.readings, func(r *Value) bool {
		s := r.Call.Step
		if _, known := u.gaps[s]; !known {
			u.gaps[s] = s.hasGap()
		}
		return u.gaps[s]
	})
}

// hasGap reports whether some value of the forward pass that needs a gradient comes from calls that were not recorded.
// A gradient that is differentiated again comes from recorded ones.
func (s *Step) hasGap() bool {
	p := s.root.Process
	known, updated := p.namesParameters(), p.updated()
	gradients := map[contentKey]bool{}
	for _, c := range p.Calls[:s.root.Order] {
		for _, g := range c.Grads {
			gradients[g.key()] = true
		}
	}
	return slices.ContainsFunc(s.Calls, func(c *Call) bool {
		return c.HasBackward() && slices.ContainsFunc(c.Inputs, func(v *Value) bool {
			return v.RequiresGrad && v.From.Value == nil && !v.isKnown() && !gradients[v.key()] &&
				(known || len(updated) > 0 && !updated[v.Address])
		})
	})
}

// copiedBefore reports whether an earlier reading of the memory behind the loss found the same copy there.
func (v *Value) copiedBefore() bool {
	return v.isCopied() && slices.ContainsFunc(v.Call.Step.tailAt[v.Address], func(u *Value) bool {
		return u.Call.Order < v.Call.Order && u.equals(v) && u.isCopied()
	})
}

// spread links the further readings of a changed value alike.
func (v *Value) spread() {
	if v.Call.Step == nil {
		return
	}
	for _, u := range v.Call.Step.tailAt[v.Address] {
		if u != v && u.Call.Order >= v.Call.Order && u.equals(v) && u.isCopied() {
			u.unlink()
			u.From = v.From.again(v)
		}
	}
}

// right computes what the gradient should be.
func (o other) right() func(opt Options) (*tensor.Tensor, error) {
	if !severalPasses(o.readings, o.v.Call) {
		return gradientOf(o.readings)
	}
	first, later, _ := passesOf(o.readings, o.v.Call)
	return func(opt Options) (t *tensor.Tensor, err error) {
		err = opt.within(o.v.Call, "", func(opt Options) error {
			if t, err = total(append(first, later...), opt); err == nil {
				t = solid(opdef.Cast(t, o.v.DType))
			}
			return err
		})
		return t, err
	}
}

// passedBy reports whether the backward pass had gone on from the parameter when a call made what its gradient
// equals: a hook of the parameter, whose result autograd may copy, runs before that.
func (o other) passedBy() bool {
	last, of := -1, o.readings[len(o.readings)-1].Call.Step
	for _, r := range o.readings {
		last = max(last, r.Call.Entry.BackwardOrder)
	}
	made := o.v.From.Value.Call.Entry.Order
	return last >= 0 && slices.ContainsFunc(of.Calls, func(c *Call) bool {
		return last < c.Entry.BackwardOrder && c.Entry.BackwardOrder < made
	})
}

// settleExchanged makes those gradients changed that are what the calls give for another parameter of the same shape.
// That many others are what the calls give need not be known.
func (u unlike) settleExchanged() {
	var all []other
	for _, vs := range u.by {
		all = append(all, vs...)
	}
	for at, vs := range u.by {
		u.by[at] = slices.DeleteFunc(vs, func(o other) bool {
			i := slices.IndexFunc(all, func(p other) bool {
				return p.v != o.v && p.want != nil && o.want != nil && p.v.like(o.v) && o.v.telling() &&
					p.readings[0].Address != o.readings[0].Address && o.v.near(p.want)
			})
			if i < 0 {
				return false
			}
			r := o.readings[0]
			o.v.From = Link{How: IsChanged, Value: r}
			o.v.right = o.right()
			o.v.reason = fmt.Sprintf("it is the gradient of another parameter than the one that is updated with it: what "+
				"%s gives for the one that it reads, not what %s gives", all[i].readings[0].Call, r.Call)
			r.readers = append(r.readers, o.v)
			return true
		})
	}
}

// mistrusted reports whether the gradient of a reading agrees with the reference by chance alone: it is within rounding
// of zero, as that of the bias of keys in an attention, and so is what is made of it.
func (v *Value) mistrusted() bool {
	g := v.Call.gradientOf(v)
	return g != nil && slices.ContainsFunc(v.Call.Results, func(r Result) bool {
		return r.Phase == replay.Backward && r.Target == g.Target && r.Verdict == verdict.Mistrusted
	})
}

// isNoise reports whether a gradient is as small as the rounding of the sums that it is made of, and so is what the
// calls give. Where the recorder has the gradient of another node, replay has not judged that.
func (o other) isNoise() bool {
	if o.want == nil {
		return false
	}
	may := 0.0
	for _, r := range o.readings {
		for _, g := range r.Call.GradOutputs {
			rows := g.Numel()
			if d := len(g.Shape); d > 0 {
				rows /= max(1, g.Shape[d-1])
			}
			may += 8 * g.DType.Eps() * float64(rows) * meanSize(g)
		}
	}
	return meanSize(o.v) <= may && meanSize(o.want) <= may
}

// meanSize is the mean of the magnitudes of the samples of a value.
func meanSize(v *Value) (mean float64) {
	all := v.content.numbers(v.DType)
	for _, x := range all {
		mean += math.Abs(x) / float64(len(all))
	}
	return mean
}

// departs says how x differs from y: by a factor, or where first.
func departs(x, y []float64, shape []int) string {
	xy, yy := 0.0, 0.0
	most := 0
	for i := range y {
		xy += x[i] * y[i]
		yy += y[i] * y[i]
		if math.Abs(x[i]-y[i]) > math.Abs(x[most]-y[most]) {
			most = i
		}
	}
	if len(x) == 0 || yy == 0 || xy-xy != 0 {
		return ""
	}
	if !slices.ContainsFunc(x, func(x float64) bool { return x != 0 }) {
		return allZero
	}
	k, rest := xy/yy, 0.0
	for i := range y {
		rest += (x[i] - k*y[i]) * (x[i] - k*y[i])
	}
	if times := fmt.Sprintf("%.4g", k); rest < 1e-4*k*k*yy && times != "1" {
		return fmt.Sprintf("all elements are %s times as large", times)
	}
	return fmt.Sprintf(differs+"%s %.6g instead of %.6g", index(most, shape), x[most], y[most])
}

// otherOrder says that a gradient has the elements that the calls give, at other places: no calls that average or scale
// gradients do that.
const otherOrder = "it has the elements in another order"

// reordered reports whether x has the elements of y in another order. In 16 bits, tensors of the same distribution
// have.
func reordered(x, y []float64, dt tensor.DType) bool {
	if dt.Eps() > 1e-4 || len(x) <= few {
		return false
	}
	x, y = slices.Clone(x), slices.Clone(y)
	slices.Sort(x)
	slices.Sort(y)
	return x[0] < x[len(x)-1] && allNear(x, y, dt)
}

// near reports whether a gradient is one that was computed, as far as the samples tell.
func (v *Value) near(computed *Value) bool {
	if len(v.content.samples) != len(computed.content.samples) {
		return false
	}
	var x, y []float64
	for i, s := range v.content.samples {
		x = append(x, v.DType.Number(s))
		y = append(y, computed.DType.Number(computed.content.samples[i]))
	}
	return allNear(x, y, v.DType)
}

// allNear reports whether each element of x is that of y, up to the rounding of a sum in a dtype, and several are
// further than that from zero.
func allNear(x, y []float64, dt tensor.DType) bool {
	square := 0.0
	for _, v := range y {
		square += v * v
	}
	rms := math.Sqrt(square / float64(max(1, len(y))))
	telling, nonzero := 0, 0
	for i := range x {
		may := min(512*dt.Eps(), 0.0625)*(math.Abs(y[i])+rms) + 2*dt.ULP(0)
		if !(math.Abs(x[i]-y[i]) <= may) {
			return false
		}
		if y[i] != 0 {
			nonzero++
		}
		if math.Abs(y[i]) > may {
			telling++
		}
	}
	return telling > 0 && telling >= min(few+1, nonzero)
}
