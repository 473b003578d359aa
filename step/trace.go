package step

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// A Value is a tensor of a recorded call: what is known of it without its
// elements.
type Value struct {
	Call   *Call
	Kind   capture.Kind // the file that holds it
	Target string       // "input[1]", "input.weight", "output[0]", "grad[0]", "grad_output[0]"

	DType        tensor.DType
	Shape        []int
	Stride       []int  // in elements
	Address      uint64 // where it lay in memory while the program ran, 0 if that was not recorded
	RequiresGrad bool
	Parameter    bool
	// lacks, of a gradient that an update reads, says that it lacks those of a loss, which the program may have set to
	// zero.
	lacks bool
	// uncompared: it is a gradient that an update reads, and not shown to be what the backward pass gave.
	uncompared bool
	// asGradient: the call that is given it takes it as a gradient, whatever is in it.
	asGradient bool
	// handedTo are the results of unknown functions that made the call, which this result is.
	handedTo []*Value
	// told, of a changed value, says that the reason names what the program did or left out.
	told bool
	// leftover: it is a changed gradient that may hold what was there before the first step that was recorded.
	leftover bool
	// kept: it is a gradient that may hold what earlier backward passes left: no recorded call updates its parameter.
	kept bool
	// unwritten: its memory was made by empty or its like, and no recorded call wrote there.
	unwritten bool

	lies    []int  // strides in the program's memory, nil if they are Stride: the file of a tensor with gaps has none
	version int    // how many calls had written the tensor, as torch counts them; -1 if that was not recorded
	named   string // in the model, "" if it has no name there

	summary *tensor.Summary // what is known of the elements where they were not recorded; else nil
	leaf    int             // number among the leaves of the file's args and kwargs
	pass    int             // of the gradient of an argument: 0 in the first backward pass through the call
	item    int             // number in the list that it is given in, -1 if it is given by itself
	content fingerprint
	// From is what an input or the gradient of an output came from.
	From Link
	// readers are the inputs linked to this value, in order of execution.
	readers []*Value
	// reason, of a changed value, says how that is known; "" if by its producer.
	reason string
	// right, of a changed value, computes what it should be; nil if it is what its producer left.
	right func(opt Options) (*tensor.Tensor, error)
	// alike, of a changed value, are others that changed in the same way, which are no findings of their own.
	alike []*Value
	// spoils, of a changed value that a checkpoint ran calls again with, are the calls of the forward pass whose
	// gradients follow from that.
	spoils []*Call
	// latest, of an input, is the value that lay last at its address and has other elements; nil if there is none.
	latest *Value
	// old, of an input with a latest value, is what it equals among the values that lay at its address before; nil if
	// there is none.
	old *Value
	// given, of a kept gradient that is not what the calls give after several losses, is what they give, by loss;
	// nil if that was not computed.
	given [][]*Value
	// wants, of such a gradient, is what they give, by its samples; nil if that was not computed.
	wants *Value
	// after, of an argument that the call changes, is its content after the call.
	after *fingerprint
}

// Draws reports whether the call draws random numbers.
func (c *Call) Draws() bool { return c.random != "" }

// Vacant reports whether the call makes uninitialised memory or computes with it, as a program does that asks for the
// shapes of results: its values mean nothing.
func (c *Call) Vacant() bool { return c.vacant }

// Numel is the number of elements.
func (v *Value) Numel() int { return tensor.Numel(v.Shape) }

// strides are those in the program's memory.
func (v *Value) strides() []int {
	if len(v.lies) == len(v.Shape) {
		return v.lies
	}
	return v.Stride
}

// end is the address behind the last element, 0 if the address is not known.
func (v *Value) end() uint64 {
	if v.Address == 0 || v.Numel() == 0 {
		return v.Address
	}
	last := 0
	for i, n := range v.Shape {
		last += (n - 1) * v.strides()[i]
	}
	return v.Address + uint64((last+1)*v.DType.Size())
}

// A Source says how a value is linked to its producer.
type Source string

// The ways.
const (
	ByContent Source = "content" // the only, or the latest, recorded value that equals it
	ByStorage Source = "storage" // the address decided, or the memory was written by a recorded call
	IsLeaf    Source = "leaf"    // no recorded call made it
	IsChanged Source = "changed" // its producer is known, but its elements are others
	IsOutside Source = "outside" // the program made or changed it without a recorded call
)

// A Link is where a value came from.
type Link struct {
	How Source
	// Value is the producer's result; nil for leaves and what was made outside.
	Value *Value
	// Parts are the gradients that were added up, where there are several.
	Parts []*Value
	// Role of a leaf: "parameter", "buffer", "data" or "optimizer state"; of a value that a collective
	// changed, "collective".
	Role string
	// view, of a value from outside, is the recorded one that lies where it does:
	// that it is a part of, or that had been there.
	view *Value
	// rows, where the value was picked from view, are the numbers of its rows there.
	rows []int
	// first, of a leaf that was read before, is its first reading.
	first *Value
	// under, of a link that is written, is what lay in all of the value's memory before recorded calls wrote patches to
	// parts of it, in this order; nil if the call wrote all of it.
	under   *Value
	patches []*Value

	// Truth values stand together, so that a link is small.

	// held reports that the memory of view still had the elements of the value; rewritten that
	// a recorded call has written there since.
	held, rewritten bool
	// part reports that samples show a changed value to be the producer's, with a part overwritten.
	part bool
	// written, of a link by storage, reports that a call changed the memory without
	// returning it: the producer's file does not hold the value.
	written bool
	// unsure, of a link that has patches, reports that what the value should be is not known.
	unsure bool
}

// unknown reports that no recorded call made the elements of a value, though it is no leaf.
func (l Link) unknown() bool {
	return l.How == IsOutside && (l.view == nil || !l.held && l.rows == nil)
}

// A Call is a recorded call as part of a step.
type Call struct {
	Entry   *capture.Entry
	Op      string
	Order   int // position in its process
	Process *Process
	Step    *Step // nil for calls that belong to none
	outer   *Call // the call that made this one, nil if the program did
	inside  *Call // the call in whose backward pass this one was made, nil if it was in none

	Inputs, Outputs, Grads, GradOutputs []*Value
	later                               []*Value // gradients of inputs in later backward passes

	Verdict verdict.Verdict
	device  string // device of its recorded tensors, see replay.Result
	// Damaged says which of its files cannot be read, "" for none; files into which torch
	// saved nothing are not damaged.
	Damaged string
	Results []Result // of values that are not a plain pass
	Checks  []Check  // of all values that were compared
	byPass  byPass   // the worst of each
	// ownRight reports, of a function of the program that the reference does not know, that its gradients are the
	// derivative of the calls that it made, and ownWrong that one is wrong since it is not; doubted are those that are
	// not, perhaps on purpose.
	ownRight, ownWrong bool
	doubted            []doubt
	// spoilt are gradients that follow from memory that was overwritten before the backward pass; gradientsTold says
	// that wrong ones follow from a changed value.
	spoilt        []string
	gradientsTold bool
	passed        []Result // of values that passed and were not compared with a reference, such as random numbers
	// Rerun is what Options.Rerun made of the call; nil if it was not run there.
	Rerun *replay.Outcome
	// Changed are the settings that gave a value of the call another verdict than it has
	// without them, and whether it fails without them.
	Changed    map[string]bool
	searchWork float64           // of comparing it: see causes.Budget
	notFinite  *replay.NotFinite // the first of its values that is infinite or NaN, nil if there is none
	// Failed says why the call was not replayed, "" if it was.
	Failed string

	// TooLarge is why some result was not judged that more memory would have given, nil if
	// there is none.
	TooLarge error
	notRun   error // why the call is not to be run, nil if it is
	bytes    int64 // of its values on disk

	mu      sync.Mutex
	givenUp []GivenUp // what the analysis gave up

	// LocalError is the relative error (root mean square) of the results against the
	// reference on the recorded arguments; NaN where nothing was compared.
	LocalError float64
	// TotalError is that against the exact step; NaN where that has no such value.
	TotalError float64
	// effect is the sum of gradient times error over the elements of the results, in
	// units of the gradient's loss; measured says that there was a gradient.
	effect   float64
	handed   bool    // the operator is not known, and the calls that it made give its results
	misled   bool    // effect follows from a wrong gradient, and the right one is not known
	spread   float64 // the sum of the squares of gradient times error, as large as rounding makes these
	measured bool
	// Effect is the first-order effect of the call's error on the loss; NaN where no
	// gradient tells. rounds is how large it would be if its elements were rounded anew: a standard deviation.
	Effect, rounds float64
	// OnResult is the record of what the error does to a result that is no loss; nil if that was not measured.
	OnResult   any
	attributes []attribute
	Peer       *Call // the same call of another run, after Against
	// random is why the reference cannot say what the results are, "" if it can.
	random string
	// moves reports that the results are elements of the arguments as they are.
	moves bool
	// generator is the hash of the state of the generator that the call drew from, before it did; 0: not known.
	generator uint64
	drawn     *numbers // nil if the result does not show the numbers
	// writes reports that the call has no gradients and changes an argument.
	writes bool
	vacant bool
}

// A Result is one value of a call that replay had something to say about.
type Result struct {
	Phase   replay.Phase
	Target  string
	Verdict verdict.Verdict
	Reason  string
	// Argument and Parameter say whose gradient it is, see replay.Result.
	Argument, Parameter string
}

// A Check is the comparison of one value of a call with the reference.
type Check struct {
	Phase   replay.Phase
	Target  string
	Verdict verdict.Verdict
	// MaxULP, WorstULP, BoundRatio, Actual and Expected are those of the compare.Result.
	MaxULP, WorstULP, BoundRatio float64
	Actual, Expected             any // nil where the verdict is Pass
}

// Outer is the call that made this one, nil if the program did.
func (c *Call) Outer() *Call { return c.outer }

// DType is the dtype of the call's first floating result, else of its first result.
func (c *Call) DType() tensor.DType {
	for _, v := range c.Outputs {
		if v.DType.IsFloat() {
			return v.DType
		}
	}
	if len(c.Outputs) > 0 {
		return c.Outputs[0].DType
	}
	return tensor.Invalid
}

// HasBackward reports whether gradients of the results were recorded.
func (c *Call) HasBackward() bool { return len(c.GradOutputs) > 0 }

// ForwardVerdict is the worst verdict of the results of the call; Skipped where none was looked at.
func (c *Call) ForwardVerdict() verdict.Verdict {
	return cmp.Or(c.byPass.forward, verdict.Skipped)
}

// BackwardVerdict is the worst verdict of its gradients; Skipped where none was looked at.
func (c *Call) BackwardVerdict() verdict.Verdict {
	return cmp.Or(c.byPass.backward, verdict.Skipped)
}

// Value is the input, result or gradient with a target, nil if there is none.
func (c *Call) Value(target string) *Value {
	for _, vs := range [][]*Value{c.Inputs, c.Outputs, c.Grads, c.GradOutputs} {
		for _, v := range vs {
			if v.Target == target {
				return v
			}
		}
	}
	return nil
}

// A Process is the calls of one process, in order.
type Process struct {
	PID, Rank int
	Calls     []*Call
	Steps     []*Step
	coarse    []float64 // by order of the calls: the coarsest eps so far
	exchanges bool      // with other ranks
	// allocated are results that nothing has written, by address, in order.
	allocated map[uint64][]*Value
	// multiplied are changed values of updates that are so many times what lay there, until they are joined.
	multiplied []multiple
	// refilled are the findings about memory that was overwritten between the forward and the backward pass of a call.
	refilled []*Finding
}

// A Step is the calls that lead to one loss, and those up to the next step.
type Step struct {
	Number int // from 0 in its process
	Loss   *Call
	root   *Call // where the backward pass began: the loss, or what scaled it
	// changed are the readings between both that found another number than was made, the last first.
	changed []*Value
	// Calls are those up to the loss; Tail are those behind it, such as the optimizer's.
	Calls, Tail []*Call
	// tailAt and tailLike are the inputs of Tail by address, and by shapeSum: of these no more than two addresses.
	tailAt, tailLike map[uint64][]*Value
	// behind are the results of Tail that no call wrote in place, the first of each content; nil if nobody asked.
	behind map[contentKey]*Value
	// hooks are what hooks of parameters made of their gradients in the backward pass, by the parameter's address.
	hooks map[uint64]*Value
	// Scale is the gradient of the loss: that with which the backward pass began, times the loss scale.
	Scale float64
	gave  int // where in the order of the recording the backward pass had given all gradients, -1 if it is not known
	// batches is the number of batches that the loss was divided by, 1 if it was not.
	batches int

	Captured float64 // the recorded loss
	Exact    float64 // the loss of the exact step; NaN if it is not known
	// Untold is a wrong call up to the loss whose recorded results the exact step took, so that Exact is not known; nil
	// if there is none.
	Untold    *Break
	Predicted float64 // the sum of the effects
	Misled    Misled  // what wrong gradients did to the effects
	// Unlinked are inputs with a gradient whose producer was not recorded: the exact
	// step goes on from what they hold.
	Unlinked []*Value
	// Breaks are the calls up to the loss whose results, read by others, the exact step
	// took as they were recorded.
	Breaks []Break
	// Kept is the first call where the exact run would leave the recorded way of the program, so that it keeps the
	// recorded decisions; nil if there is none.
	Kept *Break
	// Averaged are calls that drew random numbers which are not known (attention with
	// dropout): the exact step passes through them as without these, on average.
	Averaged []*Call
	// Bridged are calls whose operator is not known: the exact step passes through them by their recorded gradients, to
	// first order.
	Bridged []*Call
}

// Root is the call with which the backward pass began: the loss, or what scaled it.
func (s *Step) Root() *Call { return s.root }

// A Break is where the exact step had to go on from a recorded value.
type Break struct {
	Call   *Call
	Reason string
}

// A Trace is all recorded calls of a tree.
type Trace struct {
	Processes []*Process
	Findings  []*Finding
	Runs      *Runs     // of a comparison with another run, after Against; else nil
	Layouts   []*Layout // of the ranks of one program, one for each pipeline stage
	Unjoined  []Gap     // what of the ranks was not judged as one program

	exchanges map[*capture.Entry]collective.Match
	leftOut   []*capture.Entry
	saved     []*Call // of those, failures saved with both sides
}

// LeaveOut remembers a capture that is no part of the step, so that Seen counts it. Those of modules do not count: the
// step has the calls of their operators. saved is the judged call of a failure saved with both sides, else nil.
func (t *Trace) LeaveOut(e *capture.Entry, saved *Call) {
	if e.NotRun() != verdict.ModuleCall {
		t.leftOut = append(t.leftOut, e)
	}
	if saved != nil {
		saved.Process = &Process{PID: e.PID, Rank: e.Rank}
		t.saved = append(t.saved, saved)
	}
}

// SavedWrong are the failures saved with both sides that are wrong by themselves. They are no part of the step.
func (t *Trace) SavedWrong() (wrong []*Call) {
	for _, c := range t.saved {
		if c.Verdict.Differs() {
			wrong = append(wrong, c)
		}
	}
	return wrong
}

// LeftOut calls each for the captures that are no part of the step, with the reason.
func (t *Trace) LeftOut(each func(why string, e *capture.Entry)) {
	for _, e := range t.leftOut {
		each(cmp.Or(e.NotRun(), pairLeftOut), e)
	}
}

// pairLeftOut is why a capture with both sides is no part of a step.
const pairLeftOut = "a failure saved with both sides, judged by itself"

// Apart names parameters that processes read at the same place of the same sequence
// of calls, most of them with equal elements in all processes: those that differ. Where the model's names are known,
// parameters without one are an optimizer's own, and those of other names are others, such as experts.
func (t *Trace) Apart() (differ []*Value, shared int) {
	if len(t.Processes) < 2 || slices.ContainsFunc(t.Layouts, (*Layout).sharded) {
		return nil, 0
	}
	first := t.Processes[0]
	names := slices.ContainsFunc(first.Calls, func(c *Call) bool {
		return slices.ContainsFunc(c.Inputs, func(v *Value) bool { return v.named != "" })
	})
	for _, p := range t.Processes[1:] {
		for i, c := range p.Calls {
			if i >= len(first.Calls) || first.Calls[i].Op != c.Op {
				break
			}
			for k, v := range c.Inputs {
				if k >= len(first.Calls[i].Inputs) || v.From.Role != "parameter" || v.From.first != nil {
					continue
				}
				switch w := first.Calls[i].Inputs[k]; {
				case w.From.Role != "parameter" || !w.like(v):
				case names && (v.named == "" || v.named != w.named):
				case w.equals(v):
					shared++
				default:
					differ = append(differ, v)
				}
			}
		}
	}
	if shared < len(differ) {
		return nil, shared // each rank has its part of the model
	}
	return differ, shared
}

// Calls are all calls, process by process.
func (t *Trace) Calls() []*Call {
	var all []*Call
	for _, p := range t.Processes {
		all = append(all, p.Calls...)
	}
	return all
}

// New puts calls in order and links them. Calls of one process must not appear
// twice.
func New(calls []*Call) *Trace {
	t := &Trace{Processes: processes(calls)}
	for _, p := range t.Processes {
		p.nest()
		for _, c := range p.Calls {
			c.findWriting()
		}
		p.findExchanges()
		p.link()
		p.findHanded()
		p.findVacant()
		p.findStale()
		p.split()
		p.settle()
		p.findReturned()
		p.findUncopied()
		p.findScalars()
		p.linkGradients()
		p.nameLeaves()
		p.findUnasked()
		p.coarseness()
	}
	return t
}

// nest finds the call that made each one: the recording numbers it, and it comes before all that it made. So it finds
// the call in whose backward pass each one was made.
func (p *Process) nest() {
	var open []*Call
	numbered := map[int]*Call{}
	for _, c := range p.Calls {
		if c.Entry.WithinBackward >= 0 {
			c.inside = numbered[c.Entry.WithinBackward]
		}
		numbered[c.Entry.ID] = c
		for len(open) > 0 && (c.Entry.Within < 0 || open[len(open)-1].Entry.ID != c.Entry.Within) {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			c.outer = open[len(open)-1]
		}
		open = append(open, c)
	}
}

// processes groups calls by process and orders them by their number.
func processes(calls []*Call) []*Process {
	type key struct {
		rank, pid int
		root      string
	}
	number := func(k key, e *capture.Entry) [3]any { return [3]any{k, e.Step, e.Position()} }
	keyOf := func(c *Call) key { return key{collective.Rank(c.Entry), c.Entry.PID, ""} }
	// Process numbers of different machines can be equal: then the folder tells.
	seen, twice := map[[3]any]bool{}, map[key]bool{}
	for _, c := range calls {
		k := keyOf(c)
		if n := number(k, c.Entry); c.Entry.Position() >= 0 && seen[n] {
			twice[k] = true
		} else {
			seen[n] = true
		}
	}
	byKey := map[key]*Process{}
	var order []key
	for _, c := range calls {
		k := keyOf(c)
		if twice[k] {
			k.root = rootOf(c.Entry)
		}
		p := byKey[k]
		if p == nil {
			p = &Process{PID: k.pid, Rank: k.rank}
			byKey[k] = p
			order = append(order, k)
		}
		p.Calls = append(p.Calls, c)
		c.Process = p
	}
	slices.SortFunc(order, func(a, b key) int {
		return cmp.Or(a.rank-b.rank, a.pid-b.pid, strings.Compare(a.root, b.root))
	})
	var out []*Process
	for _, k := range order {
		p := byKey[k]
		slices.SortStableFunc(p.Calls, func(a, b *Call) int {
			return a.Entry.Compare(b.Entry)
		})
		for i, c := range p.Calls {
			c.Order = i
		}
		out = append(out, p)
	}
	return out
}

// rootOf is the folder above the one that is named after the operator, or that of another recorder's recording.
func rootOf(e *capture.Entry) string {
	if e.ByOther() {
		return path.Dir(e.Rel)
	}
	for dir := e.Rel; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if path.Base(dir) == e.Op {
			return path.Dir(dir)
		}
	}
	return ""
}
