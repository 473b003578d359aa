package causes

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Plausible are the mistakes that a value may have whose errors a lower precision would explain, too. The first of them
// show where intermediate results are rounded besides.
func (c *Search) Plausible(loose []Wrong) (first, rest []iter.Seq[Mistake]) {
	eps := 0.0
	for _, w := range loose {
		if w.Got != nil && w.Got.DType.IsFloat() {
			eps = max(eps, w.Got.DType.Eps())
		}
	}
	first = []iter.Seq[Mistake]{c.wrongArguments(), exact(c.declared()), c.takenFor()}
	return first, []iter.Seq[Mistake]{c.missingParts(), c.fittedNumbers(loose, eps),
		c.constants(loose, plainNamed), c.misread(inFewBits)}
}

// PlausibleGradients are the mistakes that gradients may have likewise, where the results are right. Formulas are tried
// of up to so many elements.
func (c *Search) PlausibleGradients(loose []Wrong, most int) []iter.Seq[Mistake] {
	c.InFormula = most
	ofIncoming := func(yield func(Mistake) bool) {
		for m := range c.missingRows() {
			m.Gradients = true
			if !yield(m) {
				return
			}
		}
	}
	return []iter.Seq[Mistake]{exact(c.declared()), wide(c.formulas(loose)), ofIncoming, c.wrongArguments(),
		c.takenFor(), exact(ofGradients(c.varied(loose)))}
}

// exact are the mistakes that are no roundings to the dtype of the result, which a warning is about.
func exact(ms iter.Seq[Mistake]) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for m := range ms {
			if !m.Precision && !yield(m) {
				return
			}
		}
	}
}

// wide are the mistakes that say nothing of few bits, which a warning is about.
func wide(ms iter.Seq[Mistake]) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for m := range exact(ms) {
			if !ofPrecision(m.Text) && !strings.Contains(m.Text, tensor.Float16.String()) && !yield(m) {
				return
			}
		}
	}
}

// ofGradients are the mistakes that show only in gradients.
func ofGradients(ms iter.Seq[Mistake]) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for m := range ms {
			if m.Gradients && !yield(m) {
				return
			}
		}
	}
}

// declared are the mistakes that the operator declares.
func (c *Search) declared() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Bound.Plan() != nil {
			return
		}
		for _, m := range c.Bound.Mistakes() {
			if !yield(Mistake{Text: m.Said(), Rounds: m.Rounds, Gradients: m.Gradients, Precision: m.Precision,
				OnlyHere: true, Known: true,
				Make: func() (Way, error) {
					call, err := m.Plan()
					return Way{Call: call, Mistaken: func(part *opdef.Call) (*opdef.Call, error) {
						for _, n := range part.Mistakes() {
							if n.Text == m.Text {
								return n.Plan()
							}
						}
						return nil, nil
					}}, err
				}}) {
				return
			}
		}
	}
}

// takenFor are the operators that kernels are known to compute instead.
func (c *Search) takenFor() iter.Seq[Mistake] { return c.otherOperators(c.Bound.Entry.TakenFor) }

// takenForOtherwise are the operators that kernels are known to compute instead, with another value of an argument.
func (c *Search) takenForOtherwise() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for m := range c.takenFor() {
			way, err := m.Make()
			if err != nil || way.Call == nil {
				continue
			}
			for _, a := range way.Call.Arguments() {
				if isTensor(a.Python()) {
					continue
				}
				for _, v := range a.Mistaken() {
					if !yield(Mistake{Text: fmt.Sprintf("%s, and %s is %s", m.Text, a.Name, shown(v)),
						Make: func() (Way, error) {
							call, err := c.with(way.Call, way.Call.Entry.Names[0], map[string]value.Value{a.Name: v})
							return Way{Call: call}, err
						}}) {
						return
					}
				}
			}
		}
	}
}

// relatives are the operators that take the same required arguments. One of them has to make the part of the result of
// a part of the operands. Where no part can be told, only small calls are tried: a singular value decomposition, or a
// Kronecker product, takes longer than all else.
func (c *Search) relatives(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		var names []string
		of := c.Bound.Entry
		for _, e := range c.Registry.Entries() {
			name := e.Names[0]
			known := slices.Contains(slices.Concat(of.Names, of.TakenFor, names), name)
			if !known && slices.Equal(requiredTypes(e), requiredTypes(of)) && len(requiredTypes(of)) > 0 {
				names = append(names, name)
			}
		}
		most := 0
		for _, a := range c.Bound.Tensors() {
			most = max(most, a.Tensor.Numel())
		}
		var p *probe
		nearly := 0.0
		if most > fewForRelatives {
			got, want := c.wrongResult(fails)
			if got == nil || got.Dim() == 0 {
				return
			}
			if p = c.probing(got, want); p == nil {
				return
			}
			if c.Guard(func() error {
				for _, x := range Pieces(got) {
					nearly = max(nearly, math.Abs(x))
				}
				return nil
			}) != nil {
				return
			}
			nearly *= 4 * got.DType.Eps()
		}
		for m := range c.otherOperators(names) {
			inner := m.Make
			m.Numbers = true
			m.Make = func() (Way, error) {
				way, err := inner()
				if p != nil {
					c.Work.Glance()
				}
				if err == nil && p != nil && p.refutes(way.Call, nearly) {
					err = errNoValue
				}
				return way, err
			}
			if !yield(m) {
				return
			}
		}
	}
}

// A probe is a part of a call on which another operator is tried cheaply. It takes some indices of each dimension, or
// of the first one, from the operands that have as many as the result.
type probe struct {
	of  func(shape []int) []int // of an operand, how many indices of each dimension
	got *tensor.Tensor          // the part of what was recorded
}

// part is the call on the part of its operands.
func (p *probe) part(call *opdef.Call) *opdef.Call {
	return call.Map(func(a opdef.Arg) *tensor.Tensor { return firstOf(a.Tensor, p.of(a.Tensor.Shape)) })
}

// least is the call on a few indices of each dimension of its operands.
func (p *probe) least(call *opdef.Call) *opdef.Call {
	return call.Map(func(a opdef.Arg) *tensor.Tensor { return firstOf(a.Tensor, leastOf(a.Tensor.Shape)) })
}

// leastOf is a shape that is cut to a few indices of each dimension.
func leastOf(shape []int) []int {
	sizes := slices.Clone(shape)
	for d := range sizes {
		sizes[d] = min(sizes[d], probed)
	}
	return sizes
}

// firstOf has so many indices of each dimension of a tensor.
func firstOf(t *tensor.Tensor, sizes []int) *tensor.Tensor {
	for d, n := range sizes {
		t = t.Slice(d, 0, n, 1)
	}
	return t
}

// probing is a probe of the first result, nil if the part of that is not the result of any part of the operands.
func (c *Search) probing(got, want *tensor.Tensor) *probe {
	for _, of := range []func(shape []int) []int{
		leastOf,
		func(shape []int) []int {
			sizes := slices.Clone(shape)
			if len(sizes) > 0 && len(got.Shape) > 0 && sizes[0] == got.Shape[0] {
				sizes[0] = min(sizes[0], probed)
			}
			return sizes
		},
	} {
		p := &probe{of: of, got: firstOf(got, of(got.Shape))}
		ok := false
		_ = c.Guard(func() error { // a call that cannot be cut
			due := firstOf(want, of(got.Shape))
			f, err := p.part(c.Bound).Forward()
			if err != nil || len(f.Outs) == 0 || !slices.Equal(f.Outs[0].Shape, due.Shape) {
				return err
			}
			x, y, top := elements(f.Outs[0]), elements(due), 0.0
			for i := range x {
				top = max(top, math.Abs(y[i]))
			}
			ok = !slices.ContainsFunc(upTo(0, len(x)), func(i int) bool {
				return !alike(x[i], y[i]) && !(math.Abs(x[i]-y[i]) <= 1e-9*top)
			})
			return nil
		})
		if ok && p.got.Numel() <= got.Numel()/2 {
			return p
		}
	}
	return nil
}

// refutes reports whether a call of another operator gives something else than was recorded.
func (p *probe) refutes(call *opdef.Call, nearly float64) bool {
	f, err := p.least(call).Forward()
	if err == nil && (len(f.Outs) == 0 || f.Outs[0].Dim() != p.got.Dim()) {
		return true // before a decomposition of long rows is computed
	}
	if f, err = p.part(call).Forward(); err != nil {
		return true
	}
	if len(f.Outs) == 0 || !slices.Equal(f.Outs[0].Shape, p.got.Shape) || !f.Outs[0].DType.IsFloat() {
		return true
	}
	x, z, far := elements(p.got), elements(f.Outs[0]), 0
	for i := range x {
		if !alike(x[i], z[i]) && !(math.Abs(x[i]-z[i]) <= nearly) {
			far++
		}
	}
	return 4*far > len(x)
}

const (
	probed = 8 // indices of a dimension
	// fewForRelatives is the largest number of elements of operands that other operators are tried on as a whole.
	fewForRelatives = 1 << 12
)

// requiredTypes are the types of the arguments that a call of an operator has to have.
func requiredTypes(e *opdef.Entry) []string {
	var types []string
	for _, p := range e.Schema.Params {
		if p.Required {
			types = append(types, p.Type.Base)
		}
	}
	return types
}

// computedAs begins the text about another operator.
const computedAs = "it is computed as "

// otherOperators are calls of operators of these names. Those whose booleans are whole numbers here, or the other way
// round, come last.
func (c *Search) otherOperators(names []string) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		try := func(name string, alter Alteration) bool {
			return yield(Mistake{Text: computedAs + name[strings.LastIndexByte(name, '.')+1:], Rounds: true,
				Rival: true, Make: func() (Way, error) {
					call, err := c.callOf(name)
					if err == nil && call.Random() != "" {
						err = errNoValue
					}
					return Way{Call: call, Alter: alter}, err
				}})
		}
		alters := []Alteration{nil}
		if counts := c.counting(); counts != nil {
			alters = append(alters, counts)
		}
		for _, alter := range alters {
			for _, name := range names {
				if !try(name, alter) {
					return
				}
			}
		}
	}
}

// counting makes whole numbers of the booleans of another operator, and booleans of whole numbers, where those are due;
// nil if it gives neither.
func (c *Search) counting() Alteration {
	if c.Ran == nil || len(c.Ran.Outs) != 1 || !counted(c.Ran.Outs[0]) {
		return nil
	}
	due := c.Ran.Outs[0].DType
	return func(target string, t *tensor.Tensor) *tensor.Tensor {
		if target != "output[0]" || t.DType == due || !counted(t) || due != tensor.Bool && t.DType != tensor.Bool {
			return t
		}
		v := tensor.Make[int64](t.Numel())
		tensor.Load(t, 0, v)
		for i, x := range v {
			v[i] = int64(btoi(x != 0))
		}
		return tensor.New(due, t.Shape, v)
	}
}

// callOf is a call of another operator with the same arguments, else with those whose names it has, too, else with the
// required ones.
func (c *Search) callOf(name string) (*opdef.Call, error) {
	args, kwargs := c.Bound.Python()
	if call, err := c.Registry.Bind(name, args, kwargs); err == nil && !c.flagForNumber(call) {
		return call, nil
	}
	if call := c.byName(name); call != nil {
		return call, nil
	}
	args = nil
	for _, a := range c.Bound.Arguments() {
		if a.Required {
			args = append(args, a.Python())
		}
	}
	return c.Registry.Bind(name, args, &value.Dict{})
}

// flagForNumber reports whether a call of another operator takes a flag of this one for a number, or a number for a
// flag. Both may be at one place: inplace of relu is no slope of leaky_relu.
func (c *Search) flagForNumber(call *opdef.Call) bool {
	other := call.Entry.Schema.Params
	for i, p := range c.Bound.Entry.Schema.Params {
		if p.Keyword || i >= len(other) || other[i].Keyword {
			break
		}
		if (p.Type.Base == "bool") != (other[i].Type.Base == "bool") {
			return true
		}
	}
	return false
}

// byName is a call of another operator with the arguments that have names there too, nil if it lacks one.
func (c *Search) byName(op string) *opdef.Call {
	for _, e := range c.Registry.Lookup(op) {
		kwargs := &value.Dict{}
		for _, a := range c.Bound.Arguments() {
			if slices.ContainsFunc(e.Schema.Params, func(p opdef.Param) bool { return p.Name == a.Name }) {
				kwargs.Items = append(kwargs.Items, value.Item{Key: a.Name, Value: a.Python()})
			}
		}
		if call, err := c.Registry.Bind(op, nil, kwargs); err == nil {
			return call
		}
	}
	return nil
}

// wrongArguments gives each argument other values: the default, what else such an
// argument often is, none.
func (c *Search) wrongArguments() iter.Seq[Mistake] {
	return c.mistakenArguments(func(a opdef.Argument, v value.Value) bool {
		return a.Python() != nil && !isOdd(a, v)
	}, nil)
}

// absentArguments gives arguments values that are None.
func (c *Search) absentArguments() iter.Seq[Mistake] {
	return c.mistakenArguments(func(a opdef.Argument, v value.Value) bool {
		return a.Python() == nil && !isOdd(a, v)
	}, nil)
}

// wrongSizes are arguments of the same kind that make more than is due, which is not written.
func (c *Search) wrongSizes() iter.Seq[Mistake] {
	return c.mistakenArguments(func(a opdef.Argument, v value.Value) bool {
		_, is := v.(float64)
		return a.Python() != nil && !is && isNumbers(v)
	}, c.cropped)
}

// oddArguments are values that nobody writes: the root of another, its square, its negative.
func (c *Search) oddArguments() iter.Seq[Mistake] {
	return c.mistakenArguments(func(a opdef.Argument, v value.Value) bool {
		return a.Python() != nil && isOdd(a, v)
	}, nil)
}

func isOdd(a opdef.Argument, v value.Value) bool {
	x, is := v.(float64)
	y, _ := a.Python().(float64)
	return is && !math.IsInf(x, 0) && x != 0 && !plainNumber(x) || negative(a, v) ||
		is && chosen(a, v) && (x == 1-y || x == 1/y)
}

// mistakenArguments gives arguments those of their mistaken values that are asked for, and alters the results.
func (c *Search) mistakenArguments(asked func(a opdef.Argument, v value.Value) bool,
	alter Alteration) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.Bound.Arguments() {
			was := a.Python()
			for _, v := range a.Mistaken() {
				if c.ofAnother(a, v) {
					continue // exchangedArguments say so
				}
				number := c.numberIn(a.Name, v, was)
				if asked(a, v) && !yield(Mistake{Text: c.mistakenText(a.Name, was, v), Number: number, Of: a.Name,
					Argument: chosen(a, v), Expected: true, Make: func() (Way, error) {
						way, err := c.withArgument(a.Name, v)
						way.Alter = alter
						return way, err
					}}) {
					return
				}
			}
		}
	}
}

// mistakenText says that an argument is v.
func (c *Search) mistakenText(name string, was, v value.Value) string {
	if _, isTensor := was.(*tensor.Tensor); isTensor && v == nil {
		return name + " is left out"
	}
	if v == nil {
		return fmt.Sprintf("%s is ignored: it is None, not %s", name, shown(was))
	}
	text := fmt.Sprintf("%s is %s, not %s", name, shown(v), shown(was))
	if x, y, ok := floats(v, was); ok {
		by := c.relatedToNumber(x/y, 1e-12, name)
		switch {
		case x == 1-y && x != y:
			text += ", that is 1 - " + name
		case x == 2*y && x != 0:
			text += ", that is twice it"
		case x == 1/y && x != y && digits(x) > 2*math.Log2(10)+4:
			text += ", that is 1/" + name
		case x == y*y && x != y && digits(y) > 4:
			text += ", that is the square of it"
		case by != "":
			text += fmt.Sprintf(", that is %s * %s", shown(was), by)
		}
	}
	return text
}

// withArgument is the call with another value of one argument. Flags that went with the old value may not go with the
// new one: those that may be None are None if the call cannot be made otherwise.
func (c *Search) withArgument(name string, v value.Value) (Way, error) {
	other := map[string]value.Value{name: v}
	way, err := c.withArguments(other)
	if err == nil && way.Call.Plan() == nil {
		return way, nil
	}
	for _, b := range c.Bound.Arguments() {
		if _, is := b.Python().(bool); is && b.MayBeNone() {
			other[b.Name] = nil
		}
	}
	return c.withArguments(other)
}

// ofAnother reports whether a floating number is no default of an argument, but what another argument is.
func (c *Search) ofAnother(a opdef.Argument, v value.Value) bool {
	x, is := v.(float64)
	if !is || !chosen(a, v) {
		return false
	}
	return slices.ContainsFunc(c.Bound.Arguments(), func(b opdef.Argument) bool {
		y, ok := b.Python().(float64)
		return ok && b.Name != a.Name && x == y && x != 1
	})
}

// chosen reports whether v is a floating number that an argument is not where a kernel ignores it: neither its default
// nor 0.
func chosen(a opdef.Argument, v value.Value) bool {
	x, is := v.(float64)
	due := a.Default
	if s, scalar := due.(opdef.Scalar); scalar && s.Kind() != tensor.KindComplex {
		due = s.Float64()
	}
	return is && x != 0 && (a.Required || due != v)
}

// negative reports whether v is the number that an argument is with the other sign, which is not written by mistake as
// that of a dimension is.
func negative(a opdef.Argument, v value.Value) bool {
	x, is := numberOf(v)
	y, ok := numberOf(a.Python())
	_, scalar := a.Value.(opdef.Scalar)
	_, float := v.(float64)
	absent, known := numberOf(a.Default)
	if s, is := a.Default.(opdef.Scalar); is && s.Kind() != tensor.KindComplex {
		absent, known = s.Float64(), true
	}
	ignored := known && !a.Required && x == absent // whose sign is none to look for
	return is && ok && (scalar || float) && x == -y && x != 0 && !ignored
}

// roundedNumbers are floating arguments that a kernel keeps in a dtype of fewer bits: all of them, or one.
func (c *Search) roundedNumbers(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		of := slices.IndexFunc(fails, func(w Wrong) bool { return w.Got != nil && w.Got.DType.IsFloat() })
		if of < 0 || c.Bound.Plan() != nil {
			return
		}
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			if dt == tensor.Float32 && fails[of].Got.DType != tensor.Float64 {
				continue // in which others compute, too
			}
			all, names := map[string]value.Value{}, []string(nil)
			for _, a := range c.Bound.Arguments() {
				if x, is := a.Python().(float64); is && finite(x) && dt.Round(x) != x {
					all[a.Name], names = dt.Round(x), append(names, a.Name)
				}
			}
			try := func(text string, other map[string]value.Value) bool {
				return yield(Mistake{Text: text + " rounded to " + dt.String(), Rounds: true, Expected: true,
					Make: func() (Way, error) { return c.withArguments(other) }})
			}
			if len(names) > 1 && !try(listed(names)+" are", all) {
				return
			}
			for i := range names {
				rest := slices.Delete(slices.Clone(names), i, i+1)
				some := maps.Clone(all)
				delete(some, names[i])
				if len(rest) > 1 && !try(listed(rest)+" are", some) {
					return
				}
			}
			for _, name := range names {
				if !try(name+" is", map[string]value.Value{name: all[name]}) {
					return
				}
			}
		}
	}
}

// listed are names with commas and "and".
func listed(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// numberIn is a floating value of an argument in place of another, nil of other values.
func (c *Search) numberIn(name string, v, was value.Value) *otherNumber {
	x, y, ok := floats(v, was)
	if !ok || math.IsInf(x-y, 0) || x == y {
		return nil
	}
	return &otherNumber{x, y, func(x float64) (Way, error) { return c.withArguments(map[string]value.Value{name: x}) }}
}

// floats are two values that are floating numbers.
func floats(v, w value.Value) (x, y float64, ok bool) {
	x, is := v.(float64)
	y, ok = w.(float64)
	return x, y, ok && is
}

// resultOf is the result of that target, nil if it is none: "output[1]".
func resultOf(f *opdef.Forward, target string) *tensor.Tensor {
	i := 0
	if _, err := fmt.Sscanf(target, "output[%d]", &i); err != nil || i >= len(f.Outs) {
		return nil
	}
	return f.Outs[i]
}

// cropped is the beginning of a result that is larger than the one that is due: a kernel
// writes no more than that.
func (c *Search) cropped(target string, t *tensor.Tensor) *tensor.Tensor {
	if c.Ran == nil {
		return t
	}
	whole := resultOf(c.Ran, target)
	if whole == nil {
		return t
	}
	due := whole.Shape
	if slices.Equal(due, t.Shape) || len(due) != t.Dim() {
		return t
	}
	for d, n := range due {
		if n > t.Shape[d] {
			return t
		}
	}
	for d, n := range due {
		t = t.Slice(d, 0, n, 1)
	}
	return t
}

func shown(v value.Value) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%g", f)
	}
	return value.Repr(v)
}

// withArguments is the call with other values of arguments.
func (c *Search) withArguments(other map[string]value.Value) (Way, error) {
	call, err := c.with(c.Bound, c.Op, other)
	return Way{Call: call}, err
}

// with is a call of an operator, of that name, with other values of arguments.
func (c *Search) with(call *opdef.Call, op string, other map[string]value.Value) (*opdef.Call, error) {
	args, kwargs := call.Python()
	i := 0
	for _, p := range call.Entry.Schema.Params {
		if p.Keyword {
			continue
		}
		if v, ok := other[p.Name]; ok {
			args[i] = v
		}
		i++
	}
	for k := range kwargs.Items {
		if name, _ := kwargs.Items[k].Key.(string); name != "" {
			if v, ok := other[name]; ok {
				kwargs.Items[k].Value = v
			}
		}
	}
	return c.Registry.Bind(op, args, kwargs)
}

// replaced is the call with other tensors than its own. f returns nil for one that stays. There is no way if all stay.
func (c *Search) replaced(f func(opdef.Arg) *tensor.Tensor) (Way, error) {
	way := Way{Original: map[*tensor.Tensor]*tensor.Tensor{}}
	call := c.Bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if t.Wrapped || t.Numel() == 0 || t.Numel() > largestOperand {
			return t
		}
		n := f(a)
		if n == nil {
			return t
		}
		n.RequiresGrad, n.Parameter = t.RequiresGrad, t.Parameter
		way.Original[n] = c.recorded(t)
		return n
	})
	if len(way.Original) > 0 {
		way.Call = call
	}
	return way, nil
}

// largestOperand is the most elements that an operand may have to be copied.
const largestOperand = 1 << 24

// largestKernel is the most elements that a convolution's kernel may have.
const largestKernel = 1 << 10

// elements are those of t, in row-major order.
func elements(t *tensor.Tensor) []float64 {
	v := tensor.Make[float64](t.Numel())
	tensor.Load(t, 0, v)
	return v
}

// ending is the call whose results have another end.
func (c *Search) ending(end ending) Mistake {
	return Mistake{Text: end.text, Rounds: true, Limits: true,
		Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
			if !t.DType.IsFloat() || !strings.HasPrefix(target, "output[") {
				return t
			}
			return opdef.Map(t.DType, t, end.f)
		})}
}

// endingWithGradient is the call whose results are limited, so that no gradient flows back where they are; none if
// that is not of one result, or no gradient fails.
func (c *Search) endingWithGradient(end ending, fails []Wrong) Mistake {
	var due *tensor.Tensor
	n := 0
	for _, t := range c.Due("output") {
		due, n = t, n+1
	}
	if n != 1 || !due.DType.IsFloat() || !slices.ContainsFunc(fails, func(w Wrong) bool { return w.Backward() }) {
		return Mistake{}
	}
	m := c.ending(end)
	m.OnlyHere = true
	m.Make = c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
		switch {
		case target == Incoming && slices.Equal(t.Shape, due.Shape):
			return opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
				for i := range dst {
					if dst[i] = src[0][i]; end.f(src[1][i]) != src[1][i] {
						dst[i] = 0
					}
				}
			}, t, due)
		case strings.HasPrefix(target, "output[") && t.DType.IsFloat():
			return opdef.Map(t.DType, t, end.f)
		}
		return t
	})
	return m
}

// An ending is a last step that is missing, or one too many.
type ending struct {
	text string
	f    func(x float64) float64
}

// limitedTo are the endings of values that stop at the largest or the smallest of them, where more than one is due
// beyond it.
func (c *Search) limitedTo(what string, got, want *tensor.Tensor) []ending {
	lo, hi := math.Inf(1), math.Inf(-1)
	beyond := map[bool]int{}
	if c.Guard(func() error {
		x, y := elements(got), elements(want)
		for _, v := range x {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
		for i := range x {
			if x[i] == hi && y[i] > hi+4*got.DType.ULP(hi) {
				beyond[true]++
			}
			if x[i] == lo && y[i] < lo-4*got.DType.ULP(lo) {
				beyond[false]++
			}
		}
		return nil
	}) != nil || lo == hi || math.IsNaN(lo) {
		return nil
	}
	from := func(side string, limit float64) string {
		if limit == 0 {
			return fmt.Sprintf("%s %s zero are zero", what, side)
		}
		return fmt.Sprintf("%s are limited to %.7g from %s", what, limit, side)
	}
	switch {
	case beyond[true] > 1 && beyond[false] > 1:
		return []ending{{fmt.Sprintf("%s are limited to %.7g to %.7g", what, lo, hi),
			func(x float64) float64 { return min(max(x, lo), hi) }}}
	case beyond[true] > 1:
		return []ending{{from("above", hi), func(x float64) float64 { return min(x, hi) }}}
	case beyond[false] > 1:
		return []ending{{from("below", lo), func(x float64) float64 { return max(x, lo) }}}
	}
	return nil
}

// operands are the floating tensors whose reading may be wrong.
func (c *Search) operands() []opdef.Arg {
	return slices.DeleteFunc(c.readable(), func(a opdef.Arg) bool { return !a.Tensor.DType.IsFloat() })
}

// readable are the tensors of any dtype whose reading may be wrong.
func (c *Search) readable() []opdef.Arg {
	return slices.DeleteFunc(c.Bound.Tensors(), func(a opdef.Arg) bool {
		t := a.Tensor
		return t.Wrapped || t.Dim() == 0 || t.Numel() == 0 || t.Numel() > largestOperand
	})
}

func argName(a opdef.Arg) string {
	if a.Index >= 0 {
		return fmt.Sprintf("%s[%d]", a.Name, a.Index)
	}
	return a.Name
}

// one replaces a single operand.
func (c *Search) one(a opdef.Arg, f func() *tensor.Tensor) func() (Way, error) {
	return func() (Way, error) {
		return c.replaced(func(b opdef.Arg) *tensor.Tensor {
			if b.Name != a.Name || b.Index != a.Index {
				return nil
			}
			return f()
		})
	}
}

// instead reads an operand in place of another.
func (c *Search) instead(a, b opdef.Arg) Mistake {
	text := argName(b) + " is read in place of " + argName(a)
	return Mistake{Text: text, Everywhere: true, Make: c.one(a, func() *tensor.Tensor {
		n := *b.Tensor
		return &n
	})}
}

// swappedOperands exchanges two operands, of one shape or not.
func (c *Search) swappedOperands() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.operands()
		for i, a := range all {
			for _, b := range all[i+1:] {
				if a.Tensor.DType != b.Tensor.DType {
					continue
				}
				if slices.Equal(a.Tensor.Shape, b.Tensor.Shape) && !(yield(c.instead(a, b)) && yield(c.instead(b, a))) {
					return
				}
				text := argName(a) + " and " + argName(b) + " are swapped"
				// A gradient is that of the tensor, or that of its place.
				if a.Tensor.RequiresGrad == b.Tensor.RequiresGrad &&
					!yield(Mistake{Text: text, Make: func() (Way, error) { return c.swapped(a, b, true) }}) ||
					!yield(Mistake{Text: text, Make: func() (Way, error) { return c.swapped(a, b, false) }}) {
					return
				}
			}
		}
	}
}

// swapped is the call with two operands exchanged; with their gradients, if so.
func (c *Search) swapped(a, b opdef.Arg, gradients bool) (Way, error) {
	of := map[*tensor.Tensor]*tensor.Tensor{}
	way, err := c.replaced(func(x opdef.Arg) *tensor.Tensor {
		var n tensor.Tensor
		switch {
		case x.Name == a.Name && x.Index == a.Index:
			n, of[&n] = *b.Tensor, b.Tensor
		case x.Name == b.Name && x.Index == b.Index:
			n, of[&n] = *a.Tensor, a.Tensor
		default:
			return nil
		}
		return &n
	})
	if gradients {
		for n, t := range of {
			way.Original[n] = c.recorded(t)
		}
	}
	return way, err
}

// missingParts leaves out the end of a dimension of an operand, an incomplete tile or
// the last elements, or the first.
func (c *Search) missingParts() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.operands() {
			t, name := a.Tensor, argName(a)
			for d := t.Dim() - 1; d >= 0; d-- {
				n := t.Shape[d]
				for _, tail := range opdef.Tails(n) {
					text := fmt.Sprintf("the last %d of dimension %d of %s are left out", tail, d, name)
					if tail == 1 {
						text = fmt.Sprintf("the last of dimension %d of %s is left out", d, name)
					}
					zeros := c.one(a, func() *tensor.Tensor { return without(t, d, n-tail, n) })
					truly := func() string {
						if c.alikeForward(zeros, c.looksAt(a, d, n-tail)) {
							return text
						}
						return strings.NewReplacer(" are left out", " are taken for 0",
							" is left out", " is taken for 0").Replace(text)
					}
					if !yield(Mistake{Text: text, Truly: truly, Make: zeros}) {
						return
					}
				}
				for _, tail := range opdef.Tails(n) {
					text := fmt.Sprintf("only the first %d of dimension %d of %s are looked at", n-tail, d, name)
					if !yield(Mistake{Text: text, Make: c.looksAt(a, d, n-tail)}) {
						return
					}
				}
				for _, r := range ends(n) {
					text := fmt.Sprintf("indices %d to %d of dimension %d of %s count twice", r[0], r[1]-1, d, name)
					if r[1]-r[0] == 1 {
						text = fmt.Sprintf("index %d of dimension %d of %s counts twice", r[0], d, name)
					}
					if !yield(Mistake{Text: text,
						Make: c.one(a, func() *tensor.Tensor {
							return altered(t, d, r[0], r[1], func(x float64) float64 { return 2 * x })
						})}) {
						return
					}
				}
				first := fmt.Sprintf("index 0 of dimension %d of %s is ", d, name)
				if n > 1 && !(yield(Mistake{Text: first + "taken for 0", Make: c.one(a, func() *tensor.Tensor {
					return without(t, d, 0, 1)
				})}) && yield(Mistake{Text: first + "multiplied by 0", Make: c.one(a, func() *tensor.Tensor {
					return altered(t, d, 0, 1, func(x float64) float64 { return 0 * x }) // keeps the sign
				})})) {
					return
				}
			}
		}
	}
}

// alikeForward reports whether two ways give the same first result, or whether that cannot be told: one cannot be run.
// Elements that are left out count as 0 then, as in a sum.
func (c *Search) alikeForward(first, second func() (Way, error)) bool {
	outs, err := c.bothForward(first, second)
	return err != nil || !apartAnywhere(outs[0], outs[1])
}

// sameForward reports whether two ways are known to give the same first result.
func (c *Search) sameForward(first, second func() (Way, error)) bool {
	outs, err := c.bothForward(first, second)
	return err == nil && len(outs[0]) == len(outs[1]) && !apartAnywhere(outs[0], outs[1])
}

// bothForward are some elements of the first results of two ways.
func (c *Search) bothForward(first, second func() (Way, error)) (outs [][]float64, err error) {
	err = c.Guard(func() error {
		for _, of := range []func() (Way, error){first, second} {
			way, err := of()
			if err != nil || way.Call == nil {
				return errNoValue
			}
			f, err := way.Call.Forward()
			if err != nil || len(f.Outs) == 0 || !f.Outs[0].DType.IsFloat() {
				return errNoValue
			}
			outs = append(outs, sample(f.Outs[0]))
		}
		return nil
	})
	return outs, err
}

// singled are operands that count with one index of each dimension from some dimension on: one element of a kernel.
func (c *Search) singled() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.operands() {
			t := a.Tensor
			for d := 1; d < t.Dim()-1; d++ {
				for _, which := range []struct {
					text string
					of   func(n int) int
				}{{"first", func(int) int { return 0 }}, {"last", func(n int) int { return n - 1 }},
					{"middle", func(n int) int { return n / 2 }}} {
					text := fmt.Sprintf("of the dimensions from %d on of %s, only the %s of each counts", d, argName(a),
						which.text)
					if !yield(Mistake{Text: text, Make: c.one(a, func() *tensor.Tensor {
						at := 0
						for _, n := range t.Shape[d:] {
							at = at*n + which.of(n)
						}
						inner := tensor.Numel(t.Shape[d:])
						return gathered(t, func(i int) int {
							if i%inner != at {
								return -1
							}
							return i
						})
					})}) {
						return
					}
				}
			}
		}
	}
}

// missingIndices leaves out the last of whole numbers in a row, or those in an incomplete tile: indices of a table
// that are added up, numbers that are counted.
func (c *Search) missingIndices() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.readable() {
			t := a.Tensor
			if !t.DType.IsIntegral() || t.Dim() != 1 || t.Numel() < 2 {
				continue
			}
			for _, tail := range opdef.Tails(t.Numel()) {
				text := fmt.Sprintf("the last %d of the %d elements of %s are left out", tail, t.Numel(), argName(a))
				if tail == 1 {
					text = "the last of " + argName(a) + " is left out"
				}
				if !yield(Mistake{Text: text, Make: c.one(a, func() *tensor.Tensor {
					return t.Slice(0, 0, t.Numel()-tail, 1)
				})}) {
					return
				}
			}
		}
	}
}

// looksAt is the call on the first n indices of a dimension of an operand. Its gradient is 0 at the others.
func (c *Search) looksAt(a opdef.Arg, d, n int) func() (Way, error) {
	return func() (Way, error) {
		way, err := c.one(a, func() *tensor.Tensor { return a.Tensor.Slice(d, 0, n, 1) })()
		way.Alter = func(target string, t *tensor.Tensor) *tensor.Tensor {
			shape := slices.Clone(a.Tensor.Shape)
			if shape[d] = n; !strings.HasPrefix(target, "grad[") || !slices.Equal(shape, t.Shape) {
				return t
			}
			return joinedAlong([]*tensor.Tensor{t, tensor.Full(t.DType, func() []int {
				shape[d] = a.Tensor.Shape[d] - n
				return shape
			}(), 0.0)}, d)
		}
		return way, err
	}
}

// ends are the first and the last of n indices, and the last that are in an incomplete tile, or the last one.
func ends(n int) (out [][2]int) {
	if n < 2 {
		return nil
	}
	out = append(out, [2]int{0, 1}, [2]int{n - 1, n})
	for _, tail := range opdef.Tails(n) {
		if tail > 1 {
			out = append(out, [2]int{n - tail, n})
		}
	}
	return out
}

// constantOperands are operands all of whose elements are taken for 0 or 1.
func (c *Search) constantOperands() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.operands() {
			for _, x := range []float64{0, 1} {
				if !yield(Mistake{Text: fmt.Sprintf("%s is taken for %g", argName(a), x),
					Numbers: true, Degrees: c.degrees(a.Tensor),
					Make: c.one(a, func() *tensor.Tensor {
						return tensor.Full(a.Tensor.DType, a.Tensor.Shape, x)
					})}) {
					return
				}
			}
		}
	}
}

// without is t with zeros from an index of a dimension to below another.
func without(t *tensor.Tensor, d, from, to int) *tensor.Tensor {
	return altered(t, d, from, to, func(float64) float64 { return 0 })
}

// altered is t with other elements from an index of a dimension to below another.
func altered(t *tensor.Tensor, d, from, to int, f func(x float64) float64) *tensor.Tensor {
	n, inner := t.Shape[d], tensor.Numel(t.Shape[d+1:])
	return tensor.LazyOf(t.DType, t.Shape, func(lo int, dst []float64) {
		tensor.Load(t, lo, dst)
		for i := range dst {
			if at := (lo + i) / inner % n; at >= from && at < to {
				dst[i] = f(dst[i])
			}
		}
	}, t)
}

// missingRows leaves out the end or the beginning of the incoming gradient: rows of all, or indices of one dimension. A
// sum for a weight's gradient may end early or after a tile, or count one of a batch.
func (c *Search) missingRows() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) != 1 || c.Ran.Outs[0].Dim() < 2 || c.Ran.Outs[0].Numel() > largestOperand {
			return
		}
		shape := c.Ran.Outs[0].Shape
		last := len(shape) - 1
		rows := tensor.Numel(shape[:last])
		each := rows / max(shape[0], 1) // of a batch
		counting := func(text string, n, inner, from, to int, times float64) bool {
			return yield(Mistake{Text: text,
				Make: c.alteringIncoming(func(t *tensor.Tensor) *tensor.Tensor {
					if t.Numel() != tensor.Numel(shape) {
						return t
					}
					return opdef.ZipAt(t.DType, t.Shape, func(lo int, dst []float64, src [][]float64) {
						for i := range dst {
							dst[i] = src[0][i]
							if at := (lo + i) / inner % n; at >= from && at < to {
								dst[i] = asOften(times, src[0][i])
							}
						}
					}, t)
				})})
		}
		without := func(what string, n, inner, part int) bool {
			text := func(which, how string) string {
				return fmt.Sprintf("the %s %d of %d %s of the incoming gradient %s", which, part, n, what, how)
			}
			return counting(text("last", "are left out"), n, inner, n-part, n, 0) &&
				counting(text("first", "are left out"), n, inner, 0, part, 0) &&
				counting(text("last", "count twice"), n, inner, n-part, n, 2) &&
				counting(text("first", "count twice"), n, inner, 0, part, 2)
		}
		for _, tail := range tails(rows, each, rows-each) {
			if each > 1 && tail%each == 0 && rows%each == 0 {
				if !without("indices of dimension 0", shape[0], tensor.Numel(shape[1:]), tail/each) {
					return
				}
			} else if !without("rows", rows, shape[last], tail) {
				return
			}
		}
		for d := last - 1; d > 0; d-- { // of the first, all rows say it
			for _, tail := range tails(shape[d], shape[d]-1) {
				if !without(fmt.Sprintf("indices of dimension %d", d), shape[d], tensor.Numel(shape[d+1:]), tail) {
					return
				}
			}
		}
	}
}

// asOften is x as often as it counts: 0 if it does not, also where it is not finite.
func asOften(times, x float64) float64 {
	if times == 0 {
		return 0
	}
	return times * x
}

// tails are how many of n kernels leave out at an end: some, an incomplete tile or the last one, all but the first
// tile, half of them.
func tails(n int, some ...int) []int {
	all := some
	for _, tile := range opdef.Tiles {
		all = append(all, cmp.Or(n%tile, tile), n-tile)
	}
	all = append(all, n/2)
	var out []int
	for _, tail := range all {
		if tail > 0 && tail < n && !slices.Contains(out, tail) {
			out = append(out, tail)
		}
	}
	return out
}
