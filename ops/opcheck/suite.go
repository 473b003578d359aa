package opcheck

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Runner executes bound calls.
type Runner interface {
	// Forward runs the call. Calls that torch refuses too give a
	// *opdef.RefusedError.
	Forward(c *opdef.Call) (*opdef.Forward, error)
	// Backward returns the gradients of the arguments in need (nil: all) for
	// the gradients out of the results of f, nil where none flowed.
	Backward(c *opdef.Call, f *opdef.Forward, out []*tensor.Tensor, need map[string]bool) (opdef.Grads, error)
}

// Reference runs calls on the CPU reference, unrounded.
type Reference struct{}

// Forward runs the kernel of the op.
func (Reference) Forward(c *opdef.Call) (*opdef.Forward, error) { return c.Forward() }

// Backward runs the gradient of the op.
func (Reference) Backward(c *opdef.Call, f *opdef.Forward, out []*tensor.Tensor, need map[string]bool) (opdef.Grads,
	error) {
	return c.Backward(f, out, need)
}

// A Finding is one way in which an op breaks a check.
type Finding struct {
	Op     string // schema name
	Check  string // name in Checks
	Case   string // the generated call: "3: add(float32[2, 3], 1.5, alpha=1)"
	Detail string // one sentence
	// Functions are those of the Runner that gave the values, as far as it names them: see Namer.
	Functions string
	// Call is the call that the reference judges otherwise; nil for findings of other checks.
	Call *Made
}

// A Made is a call that a check made of a case, and the incoming gradients of its results; none where there are no
// gradients to judge.
type Made struct {
	Call *opdef.Call
	Out  []*tensor.Tensor
}

func (f Finding) String() string {
	s := "op " + f.Op + ": " + f.Check + ": "
	if f.Case != "" {
		s += "case " + f.Case + ": "
	}
	return s + f.Detail
}

// A Check is one property of ops.
type Check struct {
	Name string
	Doc  string // what must hold, one sentence without a full stop
	run  func(x *subject)
	// Unrounded marks checks that make sense of unrounded results only, Rounded those
	// of rounded results only.
	Unrounded, Rounded bool
}

var checks = []Check{
	{"cases", "every generated case runs, and some case of a differentiable op asks for gradients", checkCase,
		false, false},
	{"reference", "results and gradients of a device are those of the reference up to the error model, whatever " +
		"the layout of the arguments in memory", checkReference, false, true},
	{"gradients", "gradients agree with difference quotients, in float64 and complex128, for every argument, result " +
		"and selection of wanted gradients", checkGradients, true, false},
	{"strides", "the layout of arguments and incoming gradients in memory does not change results",
		checkStrides, false, false},
	{"inputs", "arguments and incoming gradients keep their elements", checkInputs, false, false},
	{"blocks", "any range of a result loaded alone equals that range of the whole, and rounding is idempotent",
		checkBlocks, true, false},
	{"dtypes", "narrower floating dtypes give the same values and dtypes of their own width", checkDTypes, true, false},
	{"binding", "the Python form of a call, positional, by keyword and through every name, gives the same results",
		checkBinding, false, false},
	{"inplace", "in-place forms and out= give the functional results in the dtype of the tensor written, or refuse",
		checkWritten, false, false},
	{"special", "NaN, infinities, negative zero and the largest numbers do not panic", checkSpecial, false, false},
	{"empty", "tensors without elements or without dimensions do not panic", checkEmpty, false, false},
	{"refusals", "wrong shapes, dtypes, numbers and names are computed or refused, never a panic",
		checkRefusals, false, false},
	{"sizes", "giant numbers, giant elements and giant tensors of few bytes are refused or computed at once, within " +
		"little memory", checkSizes, true, false},
	{"bounds", "the error model has the shape of the result, is finite and covers rounded arguments",
		checkBounds, true, false},
}

// Checks lists the checks in the order they run.
func Checks() []Check { return slices.Clone(checks) }

// A Suite runs checks. The zero Runner is Reference; without a Registry the
// binding check looks at each op alone.
type Suite struct {
	Runner   Runner
	Rounds   bool // the Runner's results are rounded to their dtypes: leaves out the checks marked Unrounded
	Forms    bool // a Runner's function that does not take the arguments of a case is a finding
	Registry *opdef.Registry
	Seed     uint64
	Only     []string         // names of checks to run; nil: all
	Case     func(i int) bool // whether the case of that number is run; nil: all are
	Limit    time.Duration    // of one check of one case; 0: a minute
}

// A subject is one case under check.
type subject struct {
	suite *Suite
	entry *opdef.Entry
	call  *opdef.Call
	name  string // of the case
	index int
	check string
	rand  *rand.Rand
	doing atomic.Value // string: the variant being run
	found []Finding
	// absent is what the Runner said of calls of the check that it cannot run.
	absent []string
	// unsupported: the Runner cannot run a call that the rest of the check needs.
	unsupported bool
	refused     bool  // the Runner has the function, and it refused a call of the check: see UnsupportedError
	made        *Made // of the call that is compared with the reference
	wrong       bool  // the check "reference" found the results of this case wrong
	ran         bool  // some call gave results, or failed to
	hung        bool  // a call did not return in time; no other is made
}

// report adds a finding, unless it is an error of a call that the Runner cannot run, or of a form that it does not
// have.
func (x *subject) report(format string, args ...any) {
	for _, a := range args {
		err, ok := a.(error)
		if ok && x.lacks(err) {
			x.unsupported = true
			return
		}
		if ok && errors.Is(err, errNotCalled) {
			return
		}
	}
	x.found = append(x.found, x.finding(format, args...))
}

// errNotCalled is the error of calls after one that did not return.
var errNotCalled = errors.New("not called")

// note keeps what an error of the Runner says of the case, and returns it.
func (x *subject) note(err error) error {
	x.hung = x.hung || errors.Is(err, ErrHung)
	x.ran = x.ran || !refused(err) && !x.lacks(err)
	return err
}

// lacks reports whether an error says that the Runner cannot run a call, and keeps why.
func (x *subject) lacks(err error) bool {
	u := new(UnsupportedError)
	if !errors.As(err, &u) || u.Form && x.suite.Forms && x.check == "cases" {
		return false
	}
	reason := u.Reason
	x.refused = x.refused || u.Refused && x.check != "inplace"
	if x.check == "inplace" { // of which nothing else depends
		reason = formReason + reason
	}
	if !slices.Contains(x.absent, reason) {
		x.absent = append(x.absent, reason)
	}
	return true
}

func (x *subject) finding(format string, args ...any) Finding {
	f := Finding{Op: x.entry.Op(), Check: x.check, Case: x.name, Detail: fmt.Sprintf(format, args...), Call: x.made}
	if x.suite == nil {
		return f
	}
	if n, ok := x.suite.runner().(Namer); ok {
		forward, backward := n.Last()
		if len(backward) > 0 && strings.Contains(f.Detail, "gradient of ") {
			forward = backward
		}
		f.Functions = strings.Join(forward, ", ")
	}
	return f
}

// runLimit is how long one check of one case may take unless the Suite says it; cases are small, so a
// check takes milliseconds unless a kernel never ends.
const runLimit = time.Minute

// runCheck runs a check and returns its findings; ended is false if the limit
// was reached and the check abandoned.
func (x *subject) runCheck(run func(*subject), limit time.Duration) (found []Finding, ended bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := guard(func() error { run(x); return nil }); err != nil {
			x.report("%v", err)
		}
	}()
	select {
	case <-done:
		return x.found, true
	case <-time.After(limit):
		what, _ := x.doing.Load().(string)
		return []Finding{x.finding("%s: not done after %v", what, limit)}, false
	}
}

// mostHung is how many cases of an op may wait for a call that does not return; those after it are not run.
const mostHung = 2

// An Outcome is what the checks of an op gave. Cases that are neither judged nor unrun are absent.
type Outcome struct {
	Findings []Finding
	Tries    []*Try
	Cases    int // that the op has
	Judged   int // of which the Runner ran the forward pass, in any form, or failed in it
	Unrun    int // left out because a call of an earlier one did not return
	Absent   []*Absence
}

// A Try is a case in some dtypes, and what the checks gave. A case that a Runner refuses is tried in other dtypes.
type Try struct {
	Case      int
	Call      *opdef.Call
	Judged    bool // see Outcome.Judged
	Refused   bool // the Runner has a function for a pass, and it refused the arguments
	Findings  []Finding
	Forward   []string // functions of the Runner that were called
	Backward  []string
	absent    []string
	hung, cut bool // a call did not return, a check was abandoned
}

// LongestRow is the largest last dimension of the arguments of the cases that were judged, 0 of none.
func (o *Outcome) LongestRow() (longest int) {
	for _, t := range o.Tries {
		if !t.Judged {
			continue
		}
		for _, a := range t.Call.Tensors() {
			if n := a.Tensor.Dim(); n > 0 {
				longest = max(longest, a.Tensor.Shape[n-1])
			}
		}
	}
	return longest
}

// DType names the dtype of the first tensor of the call; "" without tensors.
func (t *Try) DType() string {
	if first := firstTensor(t.Call); first != nil {
		return first.DType.String()
	}
	return ""
}

// A Namer is a Runner that says which functions it called: since it was asked before, and for the last call.
type Namer interface {
	Called() (forward, backward []string)
	Last() (forward, backward []string)
}

// formReason begins the reason why a form of a call was not judged. It says nothing of the dtypes of the cases.
const formReason = "in place or with out= only, the rest was judged: "

// An Absence is a reason why a Runner could not run a part of some cases: all of it, its gradient, or a form.
type Absence struct {
	Reason string
	Cases  int
	DTypes []string // of the first tensors of these cases, each once
}

// absent counts what a case lacks.
func (o *Outcome) absent(reasons []string, c *opdef.Call) {
	for _, r := range reasons {
		i := slices.IndexFunc(o.Absent, func(a *Absence) bool { return a.Reason == r })
		if i < 0 {
			i = len(o.Absent)
			o.Absent = append(o.Absent, &Absence{Reason: r})
		}
		a := o.Absent[i]
		a.Cases++
		if strings.HasPrefix(r, formReason) {
			continue
		}
		if t := firstTensor(c); t != nil && !slices.Contains(a.DTypes, t.DType.String()) {
			a.DTypes = append(a.DTypes, t.DType.String())
		}
	}
}

// Entry is the findings of Judge.
func (s *Suite) Entry(e *opdef.Entry) []Finding { return s.Judge(e).Findings }

// Judge runs the checks on every case of one op. A check that fails on a case
// reports once or a few times; the other checks and cases still run, unless a
// kernel does not end. Where the Runner lacks a part of a case, the others are judged.
func (s *Suite) Judge(e *opdef.Entry) *Outcome {
	o := &Outcome{}
	entryLevel := func(format string, args ...any) {
		o.Findings = append(o.Findings, Finding{Op: e.Op(), Check: "cases", Detail: fmt.Sprintf(format, args...)})
	}
	if err := e.Ready(); err != nil {
		entryLevel("%v", err)
		return o
	}
	h := fnv.New64a()
	h.Write([]byte(e.Schema.String()))
	id := h.Sum64()
	for name, reason := range e.Exempt {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) || reason == "" {
			entryLevel("exempt from %q for the reason %q: want the name of a check and a reason", name, reason)
		}
	}
	var cases []*opdef.Call
	if err := guard(func() error {
		cases = e.Cases(rand.New(rand.NewPCG(s.Seed, id)))
		return nil
	}); err != nil {
		entryLevel("no cases: %v", sentence(err))
		return o
	}
	o.Cases = len(cases)
	asked, hung := false, 0
	for i, c := range cases {
		asked = asked || slices.ContainsFunc(c.Tensors(), func(a opdef.Arg) bool { return a.Tensor.RequiresGrad })
		if s.Case != nil && !s.Case(i) {
			continue
		}
		t := s.try(e, c, i, id, false)
		tries := []*Try{t}
		if t.Refused && s.Rounds {
			tries = append(tries, s.others(e, c, i, id)...)
		}
		last := tries[len(tries)-1]
		o.add(tries)
		if last.hung {
			hung++
		}
		if last.cut || hung == mostHung { // what runs on must not pile up
			o.Unrun = len(cases) - i - 1
			return o
		}
	}
	if e.HasGrad && !asked && len(cases) > 0 && s.Case == nil {
		entryLevel("no case asks for a gradient")
	}
	return o
}

// others tries a case that the Runner refused in other dtypes, until it takes one.
func (s *Suite) others(e *opdef.Entry, c *opdef.Call, i int, id uint64) (tries []*Try) {
	for _, d := range recasts(c) {
		t := s.try(e, d, i, id, true)
		tries = append(tries, t)
		if !t.Refused || t.hung || t.cut {
			break
		}
	}
	return tries
}

// add counts a case. What it lacks is what the last try lacks if that was judged, else what the case itself does.
func (o *Outcome) add(tries []*Try) {
	o.Tries = append(o.Tries, tries...)
	counts := tries[0]
	if last := tries[len(tries)-1]; last.Judged && !last.Refused {
		counts = last
	}
	o.absent(counts.absent, counts.Call)
	judged := false
	for _, t := range tries {
		o.Findings = append(o.Findings, t.Findings...)
		judged = judged || t.Judged
	}
	if judged {
		o.Judged++
	}
}

// try runs the checks on a case. If it is an attempt, nothing is run of a case that the Runner refuses but its forward
// pass.
func (s *Suite) try(e *opdef.Entry, c *opdef.Call, i int, id uint64, attempt bool) *Try {
	t := &Try{Case: i, Call: c}
	if why := s.refusedBy(c); why != "" {
		t.absent = []string{why}
		return t
	}
	ran, without, wrong := false, false, false // the forward pass
	named, names := s.runner().(Namer)
	if names {
		named.Called()
	}
	defer func() {
		if names {
			t.Forward, t.Backward = named.Called()
		}
		t.Judged = ran && (!names || len(t.Forward) > 0 || len(t.Findings) > 0)
		t.absent = slices.DeleteFunc(t.absent, func(r string) bool { // a form that the whole call lacks
			plain, form := strings.CutPrefix(r, formReason)
			return form && slices.ContainsFunc(t.absent, func(of string) bool {
				return of == plain || "op "+e.Op()+": "+of == plain
			})
		})
	}()
	for k, ch := range checks {
		if !s.has(ch) || e.Exempt[ch.Name] != "" || without && (attempt || ch.Name != "inplace") {
			continue
		}
		x := &subject{
			suite: s, entry: e, call: c, index: i, name: fmt.Sprintf("%d: %s", i, Text(c)), check: ch.Name,
			rand: rand.New(rand.NewPCG(s.Seed+uint64(i), id+uint64(k))), wrong: wrong,
		}
		fs, ended := x.runCheck(ch.run, cmp.Or(s.Limit, runLimit))
		t.Findings = append(t.Findings, fs...)
		if !ended {
			ran, t.hung, t.cut = true, true, true
			return t
		}
		ran, t.Refused = ran || x.ran, t.Refused || x.refused
		for _, r := range x.absent {
			if !slices.Contains(t.absent, r) {
				t.absent = append(t.absent, r)
			}
		}
		if x.hung || ch.Name == "cases" && len(fs) > 0 {
			t.hung = x.hung
			return t // nothing else can be learnt from a case that does not run
		}
		wrong = wrong || ch.Name == "reference" && len(fs) > 0
		without = without || ch.Name == "cases" && x.unsupported
	}
	return t
}

// ReferenceRefuses begins the reason why a case of a device, or its gradient, was not judged: no device is wrong there.
const ReferenceRefuses = "the reference does not compute"

// refusedBy says why the reference does not compute the case of a device, "" if it does: then no device is wrong in it.
func (s *Suite) refusedBy(c *opdef.Call) string {
	if !s.Rounds {
		return ""
	}
	if err := guard(func() error { _, err := c.Forward(); return err }); err != nil {
		return fmt.Sprintf("%s the case: %v", ReferenceRefuses, sentence(err))
	}
	return ""
}

// has reports whether a check is asked for and applies to results that are rounded, or that are not.
func (s *Suite) has(c Check) bool {
	if len(s.Only) > 0 && !slices.Contains(s.Only, c.Name) {
		return false
	}
	return s.Rounds && !c.Unrounded || !s.Rounds && !c.Rounded
}

// All runs the checks on every op of the registry.
func (s *Suite) All() []Finding {
	var found []Finding
	for _, e := range s.Registry.Entries() {
		found = append(found, s.Entry(e)...)
	}
	return found
}

// Determinism runs every case of every op on one processor and on several and
// reports results that differ in any bit. It sets GOMAXPROCS for the time it
// runs, so nothing else should.
func (s *Suite) Determinism(entries []*opdef.Entry) []Finding {
	pass := func(procs int) map[Finding]string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		sums := map[Finding]string{}
		for _, e := range entries {
			for i, c := range e.Cases(rand.New(rand.NewPCG(s.Seed, 0))) {
				x := &subject{suite: s, entry: e, call: c, rand: rand.New(rand.NewPCG(s.Seed, uint64(i)))}
				f := Finding{Op: e.Op(), Check: "determinism", Case: fmt.Sprintf("%d: %s", i, Text(c)),
					Detail: "one processor and several give different bits"}
				if c.Random() != "" {
					continue
				}
				rs, err := x.run(c, nil)
				if err != nil {
					sums[f] = err.Error()
					continue
				}
				h := fnv.New128a()
				for _, r := range rs {
					fmt.Fprint(h, r.name, r.text)
					if r.t != nil {
						h.Write(r.t.AppendBytes(nil))
					}
				}
				sums[f] = string(h.Sum(nil))
			}
		}
		return sums
	}
	one, several := pass(1), pass(4)
	var found []Finding
	for f, sum := range one {
		if several[f] != sum {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Op+a.Case, b.Op+b.Case) })
	return found
}

// Text shows a call as Python would, tensors as dtype and shape.
func Text(c *opdef.Call) string {
	args, kwargs := c.Python()
	var parts []string
	for _, a := range args {
		parts = append(parts, argText(a))
	}
	for _, it := range kwargs.Items {
		parts = append(parts, fmt.Sprintf("%s=%s", it.Key, argText(it.Value)))
	}
	return c.Entry.Op() + "(" + strings.Join(parts, ", ") + ")"
}

func argText(v value.Value) string {
	if t, ok := v.(*tensor.Tensor); ok {
		return t.Meta()
	}
	return value.Repr(v)
}

// A panicError is a panic of a kernel.
type panicError struct {
	value any
	at    string
}

func (e *panicError) Error() string { return fmt.Sprintf("panic at %s: %v", e.at, e.value) }

// guard turns a panic in f into an error that says where it happened.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = tensor.TooLarge(r); err != nil {
				return
			}
			err = &panicError{r, panicSite()}
		}
	}()
	return f()
}

// sentence is the error that was panicked with, where the case says so itself, else err.
func sentence(err error) error {
	var p *panicError
	if !errors.As(err, &p) {
		return err
	}
	said, ok := p.value.(error)
	if _, bug := p.value.(runtime.Error); !ok || bug {
		return err
	}
	return said
}

// panicSite is the function, file and line that panicked: the first frame
// below the runtime's and sync.OnceValue's, which panics again.
func panicSite() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") && !strings.HasSuffix(f.File, "/sync/oncefunc.go") {
			return fmt.Sprintf("%s (%s:%d)", f.Function[strings.LastIndexByte(f.Function, '/')+1:],
				f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		if !more {
			return "unknown place"
		}
	}
}

func refused(err error) bool {
	var r *opdef.RefusedError
	return errors.As(err, &r) || tensor.TooLarge(err) != nil
}

func (s *Suite) runner() Runner {
	if s.Runner == nil {
		return Reference{}
	}
	return s.Runner
}

func (x *subject) forward(c *opdef.Call) (f *opdef.Forward, err error) {
	if x.hung {
		return nil, errNotCalled
	}
	err = guard(func() (err error) { f, err = x.suite.runner().Forward(c); return err })
	return f, x.note(err)
}

func (x *subject) backward(c *opdef.Call, f *opdef.Forward, out []*tensor.Tensor, need map[string]bool) (g opdef.Grads,
	err error) {
	if x.hung {
		return nil, errNotCalled
	}
	err = guard(func() (err error) { g, err = x.suite.runner().Backward(c, f, out, need); return err })
	return g, x.note(err)
}
