package parallel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A part is the ranks that run the same program on the same parameters, or parts of them: all ranks of a
// program, or those of one pipeline stage.
type part struct {
	*mesh
	checker    *checker
	sites      []*site // of the forward pass, in order
	tail       []*site // behind the backward pass
	env        map[key]*info
	sent       []sent
	shards     map[string][]place   // of the parameters, by name
	names      []string             // of the parameters, in order of their first use
	options    map[string][][]place // other places where a parameter can lie
	grads      map[string]*gradient
	order      []string        // of the parameters with gradients, in order of the backward pass
	kept       map[string]bool // parameters that were compared with the plan
	broken     []*violation
	tails      map[int]*tail     // what the ranks do behind the backward pass
	off        float64           // the number of times that gradients are the right ones, of the last finding about it
	by         *multiple         // of the gradients of the loss, that the program means; nil if it is 1
	clip       *clipping         // of the first rank; nil if it is not known
	norm       *step.Call        // the last of the first rank that can give a norm; nil if there is none
	step       *step.Call        // one that updates a parameter; nil if there is none
	data       int               // how data that differ between ranks are taken to be sharded: one of cuts
	doubled    *doubling         // nil if no exchange doubles gradients
	meets      *bool             // whether parameters are averaged after updates; nil if that was not looked up
	partial    bool              // other stages hold the rest of the parameters
	incomplete bool              // ranks of its groups were not recorded: gradients are not checked
	own        []*site           // calls that give each replica something of its own data
	apartFrom  bool              // parameters began with different values, and the cause is looked for
	sizes      []*site           // those of them of which the whole arguments do not fit each other
	totals     []float64         // whole numbers that the ranks added up, such as counts of labels
	factors    []float64         // those of the loss; nil if they are not known
	ungathered []ungathered      // parameters of which ranks update parts, and no call gives others the result
	means      *step.Call        // one that divides by the number of terms of one rank; nil if none does
	alias      map[string]string // of a parameter that lies where another does: the name of that
	frozen     map[string]bool   // parameters without a gradient, by name
	compared   map[string]bool   // parameters of which the gradient was compared with what all ranks computed

	// left are exchanges of gradients that hold more on some ranks than their calls made, by parameter.
	left map[string]*step.Call
}

// A site is one call of the program: the same call of each rank of the part.
type site struct {
	op    string
	calls map[int]*step.Call // by rank
	in    []*info            // of the tensor arguments, as far as they are known
	out   []*info
	dealt [][]place // where its result can lie, too
	turns []turn    // where the value of which it is a view can lie, too, and it then
	seam  bool
	inner []*site // the calls inside of a function that were lifted in its place
}

func (s *site) first(ranks []int) *step.Call {
	for _, r := range ranks {
		if c := s.calls[r]; c != nil {
			return c
		}
	}
	return nil
}

// A key identifies a value of a rank.
type key struct {
	rank     int
	address  uint64
	shape    string
	elements uint64
}

// An info is what is known of a value of the part.
type info struct {
	places []place // by dimension of the mesh; nil if it is not known
	// also is where it lies if a number that it was multiplied by was a weight and no average; nil if that is clear.
	also []place
	// pending is the whole value that the ranks' values, added up after a mask, must become.
	pending *array
	// source is the replicated whole numbers that local indices were made from.
	source *array
	rows   *rows // of a value without places, where they are known
	lost   bool  // it follows from something that is wrong already
	made   *site
	uses   []use
	orphan bool // no recorded call made it
	pieces bool // each rank has another part of a partial sum
	ragged bool // it was made of parts of other lengths
	guess  bool // it was made of a value of unknown places: its own are only ones that fit
	// own is whether each rank has it for its own: the ranks' values make no whole, and need not.
	own bool
	// ofOwn is whether it was made of a value that each rank has for its own: its places are only ones that fit.
	ofOwn bool
	// firm are the dimensions of the mesh, as bits, along which parameters or exchanges say how it lies; data is what
	// it was made of of which only the elements say so.
	firm uint
	data []*source
	// drawn is whether it was made of random numbers only: how it lies shows where it meets another value.
	drawn bool
	// view is the parameter that it has the elements of, in another shape; "" if it is none.
	view string
	// reduced is the number of ranks over which the call that made it added up partial sums, else 0.
	reduced int
}

// unplaced reports whether something is known of a value, but no places.
func (n *info) unplaced() bool { return n != nil && n.places == nil && !n.drawn }

// astray reports whether a value follows from something that is wrong already.
func (n *info) astray() bool { return n != nil && n.lost }

// sound reports whether the places of a value are known, and nothing before it is wrong.
func (n *info) sound() bool { return n != nil && n.places != nil && !n.lost }

// isPartial reports whether the ranks' values are known to be parts of a sum.
func (n *info) isPartial() bool {
	return n != nil && slices.ContainsFunc(n.places, func(q place) bool { return q.kind == partial })
}

// A use is the reading of a value whose gradient was recorded.
type use struct {
	site   *site
	number int // of the tensor among the arguments
	kinds  []kind
	origin []*site // by dimension: the call that made a partial sum of the gradient
}

// A violation is a finding about a call of the part.
type violation struct {
	kind     string
	site     *site
	ranks    []int
	target   string
	reason   string
	backward bool
	call     *step.Call // to be named; the site's first if nil
	// begun is whether parameters differ that a call reads for the first time: what made them differ lies before it.
	begun bool
	cause bool // it can be what made parameters differ in an earlier step
}

// A side is what one rank recorded of a call.
type side struct {
	call              *step.Call
	rec               *capture.Call
	ins               []argument
	outs              []*array
	after             []*array   // of ins; nil where the call left it as it was
	gradIns, gradOuts []*array   // by the number of the tensor; nil where none was recorded
	recorded          []argument // ins as they were recorded, where these were aligned; else nil
	// terms are the ranks whose parts add up to the gradient of an argument that is a DTensor, by the number of the
	// argument: none if it is no partial sum, nil if it is no DTensor.
	terms [][]int
}

// An argument is a tensor among the arguments of a call.
type argument struct {
	tensor  *tensor.Tensor
	array   *array
	name    string
	address uint64
	terms   []int // the ranks whose parts add up to it, of a DTensor that is a partial sum
	mean    bool  // it is their mean
	copies  int   // the dimensions of its mesh along which a DTensor is said to be replicated
}

// wholeNumbers are the results of a call that hold whole numbers.
func wholeNumbers(rec *capture.Call) (out []*array) {
	for _, t := range tensorsIn(value.NewTuple(rec.Output...)) {
		if a := newArray(t); a != nil && !a.dtype.IsFloat() && a.dtype != tensor.Bool {
			out = append(out, a)
		}
	}
	return out
}

func tensorsIn(v value.Value) []*tensor.Tensor {
	var out []*tensor.Tensor
	leaves, _ := value.Leaves([]value.Value{v})
	for _, l := range leaves {
		if t, ok := l.(*tensor.Tensor); ok {
			out = append(out, t)
		}
	}
	return out
}

// load reads what a rank recorded of a call; the error says why it cannot be used.
func (c *checker) load(call *step.Call) (*side, error) {
	rec, err := call.Entry.Load(capture.LoadOptions{Read: c.opt.Read})
	if err = cmp.Or(err, rec.Err(capture.Input), rec.Err(capture.Output)); err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	defer rec.Close()
	s := &side{call: call, rec: rec}
	opaque := false
	value.Walk(value.NewTuple(value.NewTuple(rec.Args...), rec.Kwargs, value.NewTuple(rec.Output...)),
		func(v value.Value) {
			if o, ok := v.(*value.Opaque); ok && strings.HasSuffix(o.Global, "Tensor") {
				opaque = true
			}
		})
	if opaque {
		return nil, fmt.Errorf("elements were not recorded")
	}
	ts := value.Tensors(value.NewTuple(value.NewTuple(rec.Args...), rec.Kwargs))
	now := ts
	if rec.HasAfter {
		now = value.Tensors(value.NewTuple(value.NewTuple(rec.After...), rec.AfterKwargs))
	}
	for i, t := range ts {
		a := argument{tensor: t, array: newArray(t), name: c.nameOf(call, rec, t, i, len(ts)), terms: rec.Terms[t],
			mean: rec.Means[t], copies: rec.Copies[t]}
		if a.array == nil {
			return nil, fmt.Errorf("a tensor of %s", t.DType)
		}
		if len(call.Inputs) == len(ts) {
			a.address = call.Inputs[i].Address
		}
		s.ins, s.after = append(s.ins, a), append(s.after, nil)
		if i < len(now) && now[i] != t && !rec.Unseen[now[i]] {
			if b := newArray(now[i]); b != nil && b.sum() != a.array.sum() {
				s.after[i] = b
			}
		}
	}
	if s.outs = arraysOf(tensorsIn(value.NewTuple(rec.Output...))); s.outs == nil {
		return nil, fmt.Errorf("a result has no numbers")
	}
	if isFunctional(call.Op) { // it was recorded before it was there
		for j, t := range call.Settled(c.opt) {
			if t != nil && j < len(s.outs) {
				if a := newArray(t); a != nil {
					s.outs[j] = a
				}
			}
		}
	}
	gradients := func(vs []value.Value, n int) []*array {
		out := make([]*array, n)
		for i, v := range vs {
			if t, ok := v.(*tensor.Tensor); ok && i < n {
				if out[i] = newArray(t); out[i] != nil && rec.Means[t] {
					out[i] = out[i].times(1 / float64(len(rec.Terms[t])))
				}
			}
		}
		return out
	}
	for _, v := range rec.GradInputs {
		t, ok := v.(*tensor.Tensor)
		var terms []int
		if of, placed := rec.Terms[t]; ok && placed {
			terms = append([]int{}, of...)
		}
		s.terms = append(s.terms, terms)
	}
	s.gradIns, s.gradOuts = gradients(rec.GradInputs, len(s.ins)), gradients(rec.GradOutputs, max(1, len(s.outs)))
	return s, nil
}

// read loads a call of all ranks; nil if one cannot be used.
func (p *part) read(s *site) map[int]*side {
	out := map[int]*side{}
	for _, r := range p.ranks {
		c := s.calls[r]
		if c == nil {
			return nil
		}
		d, err := p.checker.load(c)
		if err != nil {
			return nil
		}
		out[r] = d
		if first := out[p.ranks[0]]; len(d.ins) != len(first.ins) || len(d.outs) != len(first.outs) {
			return nil
		}
	}
	return out
}

// column takes one array of each rank; nil if one has none.
func (p *part) column(sides map[int]*side, f func(*side) *array) map[int]*array {
	out := map[int]*array{}
	for _, r := range p.ranks {
		if out[r] = f(sides[r]); out[r] == nil {
			return nil
		}
	}
	return out
}

// run computes a call in float64 on other tensors than the recorded ones.
func (c *checker) run(d *side, now map[*tensor.Tensor]*tensor.Tensor,
	change func(value.Value) value.Value) (outs []*array,
	err error) {
	if outs, err = c.runAs(d, now, change); err != nil && len(d.call.Entry.Autocast) > 0 {
		if cast := d.cast(now); cast != nil {
			return c.runAs(d, cast, change)
		}
	}
	return outs, err
}

// cast are the tensors that a call is computed on, in one dtype as autocast makes them; nil if they have one.
func (d *side) cast(now map[*tensor.Tensor]*tensor.Tensor) map[*tensor.Tensor]*tensor.Tensor {
	out, dtypes := map[*tensor.Tensor]*tensor.Tensor{}, map[tensor.DType]bool{}
	for _, a := range d.ins {
		t := cmp.Or(now[a.tensor], a.tensor)
		if out[a.tensor] = t; t.DType.IsFloat() && !t.Wrapped {
			dtypes[t.DType] = true
			out[a.tensor] = tensor.New(tensor.Float32, t.Shape, tensor.Data[float64](t))
		}
	}
	if len(dtypes) < 2 {
		return nil
	}
	return out
}

func (c *checker) runAs(d *side, now map[*tensor.Tensor]*tensor.Tensor,
	change func(value.Value) value.Value) (outs []*array,
	err error) {
	err = replay.Guard(func() error {
		args := make([]value.Value, len(d.rec.Args))
		for i, v := range d.rec.Args {
			args[i] = substitute(v, now, change)
		}
		bound, err := c.opt.Registry.Bind(d.rec.Op, args, substitute(d.rec.Kwargs, now, change).(*value.Dict))
		if err != nil {
			return err
		}
		if err := bound.Plan(); err != nil {
			return err
		}
		if why := bound.Random(); why != "" {
			return errRandom
		}
		f, err := bound.Forward()
		if err != nil {
			return err
		}
		if outs = results(f, len(d.outs)); outs == nil {
			return fmt.Errorf("other results")
		}
		return nil
	})
	return outs, err
}

// runOn computes a call in float64 on other values of its tensors.
func (c *checker) runOn(d *side, ins []*array) ([]*array, error) {
	now := map[*tensor.Tensor]*tensor.Tensor{}
	for i, a := range d.ins {
		now[a.tensor] = ins[i].tensor()
	}
	return c.run(d, now, nil)
}

var errRandom = fmt.Errorf("random numbers")

// substitute is v with tensors replaced, and other values changed.
func substitute(v value.Value, now map[*tensor.Tensor]*tensor.Tensor,
	change func(value.Value) value.Value) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		if t := now[v]; t != nil {
			return t
		}
		return v
	case *value.Sequence:
		s := *v
		s.Items = slices.Clone(v.Items)
		for i, it := range s.Items {
			s.Items[i] = substitute(it, now, change)
		}
		return &s
	case *value.Dict:
		d := *v
		d.Items = slices.Clone(v.Items)
		for i, it := range d.Items {
			d.Items[i].Value = substitute(it.Value, now, change)
		}
		return &d
	}
	if change != nil {
		return change(v)
	}
	return v
}

// arguments is the text of what a call was given besides tensors and objects: ranks of one program may differ in it.
func (d *side) arguments() string {
	var b strings.Builder
	blank := func(v value.Value) value.Value {
		if _, ok := v.(*value.Opaque); ok {
			return nil
		}
		return v
	}
	mark := map[*tensor.Tensor]*tensor.Tensor{}
	for _, a := range d.ins {
		mark[a.tensor] = tensor.Scalar(tensor.Int64, int64(0))
	}
	for _, v := range d.rec.Args {
		b.WriteString(value.Repr(substitute(v, mark, blank)) + ",")
	}
	b.WriteString(value.Repr(substitute(d.rec.Kwargs, mark, blank)))
	return b.String()
}

func keyOf(rank int, a *array, address uint64) key {
	return key{rank, address, fmt.Sprint(a.shape), a.sum()}
}

// know notes what is known of a value of all ranks; nil that nothing is.
func (p *part) know(sides map[int]*side, of func(*side) argument, n *info) {
	for _, r := range p.ranks {
		a := of(sides[r])
		k := keyOf(r, a.array, a.address)
		p.env[k] = n
		k.address = 0
		p.env[k] = n
	}
}

// lookup finds what is known of an argument; nil if nothing is. The ranks can read different values that were made
// before: each its own of the parts that a call of all ranks cut.
func (p *part) lookup(sides map[int]*side, of func(*side) argument) *info {
	n := p.known(p.ranks[0], of(sides[p.ranks[0]]))
	lost, pieces := n.astray(), n.isPartial()
	first, differ := n, false
	for _, r := range p.ranks[1:] {
		switch m := p.known(r, of(sides[r])); {
		case m != n:
			lost = lost || m != nil && m.lost
			pieces = pieces && m != nil && slices.Equal(m.places, first.places) && m.origin() == first.origin()
			n, differ = nil, true
		}
	}
	if differ && pieces && !lost {
		return &info{pieces: true, made: first.origin()}
	}
	if differ && !lost {
		if n = p.cutOf(sides, of, first); n != nil {
			p.know(sides, of, n)
			return n
		}
	}
	if n == nil && lost {
		return &info{lost: true}
	}
	return n
}

// origin is the call that made a value, before calls that leave its elements and its shape.
func (n *info) origin() *site {
	if n == nil {
		return nil
	}
	for range 8 {
		if n.made == nil || !silent[method(n.made.op)] || len(n.made.in) == 0 || n.made.in[0] == nil {
			break
		}
		n = n.made.in[0]
	}
	return n.made
}

// cutOf is what is known of an argument of which each rank has another result of a call that cut a value which all
// have: parts of that value; nil if it is something else.
func (p *part) cutOf(sides map[int]*side, of func(*side) argument, first *info) *info {
	if !first.sound() || first.made == nil || len(first.made.in) != 1 || !first.made.in[0].sound() {
		return nil
	}
	for _, r := range p.ranks {
		if n := p.known(r, of(sides[r])); n == nil || n.made != first.made || !slices.Equal(n.places, first.places) {
			return nil
		}
	}
	cut := p.read(first.made)
	if cut == nil {
		return nil
	}
	all := p.join(p.column(cut, func(d *side) *array { return d.ins[0].array }), first.made.in[0].places)
	values := p.column(sides, func(d *side) *array { return of(d).array })
	if all == nil || values == nil {
		return nil
	}
	cands := make([][]place, len(p.dims))
	for m, q := range first.places {
		cands[m] = []place{q}
		for k := range values[p.ranks[0]].shape {
			if q.kind == replicated {
				cands[m] = append(cands[m], place{sharded, k, 0, q.factor})
			}
		}
	}
	ps, ok := p.match(values, all, cands, false, 0)
	if !ok {
		return nil
	}
	return &info{places: ps, made: first.made, firm: first.firm, data: append(slices.Clone(first.data), &source{})}
}

// known is what is known of an argument of one rank.
func (p *part) known(rank int, a argument) *info {
	k := keyOf(rank, a.array, a.address)
	if n := p.env[k]; n != nil {
		return n
	}
	if a.array.constant() || !a.array.dtype.IsFloat() {
		return nil
	}
	k.address = 0
	return p.env[k]
}

// input and output are an argument and a result of a call.
func input(i int) func(*side) argument { return func(d *side) argument { return d.ins[i] } }

func output(j int) func(*side) argument {
	return func(d *side) argument { return argument{array: d.outs[j], address: d.outAddress(j)} }
}

// changed is an argument as a call left it.
func changed(i int, after map[int]*array) func(*side) argument {
	return func(d *side) argument {
		return argument{array: after[d.call.Process.Rank], address: d.ins[i].address}
	}
}

// isExchange reports whether an operator passes values from rank to rank.
func isExchange(op string) bool {
	name := collective.Name(op)
	return name != "" && !slices.Contains([]string{"barrier", "get_rank", "get_world_size", "is_initialized",
		"send", "recv",
		"isend", "irecv", "batch_isend_irecv"}, name)
}

// takesGroup reports whether a call is given a group of processes: what it does in the backward pass is not known.
func (c *checker) takesGroup(call *step.Call) bool {
	if !strings.HasSuffix(call.Op, ".apply") {
		return false
	}
	rec, _ := call.Entry.Load(capture.LoadOptions{Read: c.opt.Read, Only: capture.Of(capture.Input)})
	defer rec.Close()
	takes := false
	value.Walk(value.NewTuple(value.NewTuple(rec.Args...), rec.Kwargs), func(v value.Value) {
		if o, ok := v.(*value.Opaque); ok && strings.HasSuffix(o.Global, "ProcessGroup") {
			takes = true
		}
	})
	return takes
}

// Where the calls of a process lie: up to the last backward pass, in it, behind it.
func phases(p *step.Process) (begin, end int) {
	begin, end = 1<<62, -1
	for _, c := range p.Calls {
		if b := c.Entry.BackwardOrder; b >= 0 {
			begin, end = min(begin, b), max(end, b)
		}
	}
	return begin, end
}

// newPart aligns the calls of ranks: those of one operator and line, in order.
func (c *checker) newPart(ps []*step.Process, groups [][]int) *part {
	p := &part{checker: c, env: map[key]*info{}, shards: map[string][]place{},
		options: map[string][][]place{}, grads: map[string]*gradient{},
		left: map[string]*step.Call{}, kept: map[string]bool{}, frozen: map[string]bool{}, compared: map[string]bool{},
		alias: map[string]string{}}

	var ranks []int
	for _, q := range ps {
		ranks = append(ranks, q.Rank)
	}
	slices.Sort(ranks)
	p.mesh = newMesh(ranks, groups)
	if dims := c.plan.grid(ranks); dims != nil {
		p.dims = dims
	}
	byKey := map[string]*site{}
	for _, q := range ps {
		begin, end := phases(q)
		seen := map[string]int{}
		for _, call := range q.Calls {
			if call.Entry.Within >= 0 || call.Vacant() {
				continue
			}
			behind := end >= 0 && call.Entry.Order > end
			if call.Entry.BackwardOrder < 0 && !behind && call.Entry.Order > begin {
				continue // in the backward pass
			}
			k := call.Op + "|" + call.Entry.Location
			if behind {
				k += "|" + c.parameters(call)
				c.behind[call] = true
			}
			k = fmt.Sprint(k, "|", seen[k], behind, func() int { seen[k]++; return c.numbers[call] }())
			s := byKey[k]
			if s == nil {
				s = &site{op: call.Op, calls: map[int]*step.Call{}}
				byKey[k] = s
				if behind {
					p.tail = append(p.tail, s)
				} else {
					p.sites = append(p.sites, s)
				}
			}
			s.calls[q.Rank] = call
		}
	}
	return p
}

// parameters are the names of the parameters that a call reads.
func (c *checker) parameters(call *step.Call) string {
	if names, ok := c.named[call]; ok {
		return names
	}
	var names []string
	rec, _ := call.Entry.Load(capture.LoadOptions{Read: c.opt.Read, Only: capture.Of(capture.Input)})
	ts := value.Tensors(value.NewTuple(value.NewTuple(rec.Args...), rec.Kwargs))
	for i, t := range ts {
		if n := c.nameOf(call, rec, t, i, len(ts)); n != "" {
			names = append(names, n)
		}
	}
	rec.Close()
	c.named[call] = strings.Join(names, ",")
	return c.named[call]
}
