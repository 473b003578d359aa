package step

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	found "github.com/optool/optool/reports/results"
)

// A Node is the record of one pass of a call.
type Node struct {
	Kind      string          `json:"kind"` // "node"
	Capture   string          `json:"capture"`
	Op        string          `json:"op"`
	ForwardID *int            `json:"forward_id"`
	PID       *int            `json:"pid"`
	Rank      *int            `json:"rank"`
	Order     int             `json:"order"`
	Step      *int            `json:"step"`
	Phase     string          `json:"phase"`
	Verdict   string          `json:"verdict"`
	DType     string          `json:"dtype,omitempty"`
	Peer      string          `json:"peer,omitempty"` // the other run's call; this and the next after Against
	PeerDType string          `json:"peer_dtype,omitempty"`
	Module    string          `json:"module,omitempty"`
	Location  string          `json:"location,omitempty"`
	Inputs    []Input         `json:"inputs"`
	Impact    *reports.Number `json:"impact"`
	// ImpactUnreliable says that the error is large, and Impact may have another size and another sign.
	ImpactUnreliable bool            `json:"impact_unreliable,omitempty"`
	Effect           any             `json:"effect,omitempty"` // on the result that --of names
	LocalError       *reports.Number `json:"local_error"`
	TotalError       *reports.Number `json:"total_error"`
	Device           *Rerun          `json:"device,omitempty"` // with Options.Rerun: what became of the pass there
}

// An Input is the record of what a pass of a call read.
type Input struct {
	Target string          `json:"target"`
	From   *reports.Place  `json:"from"`
	How    Source          `json:"how"`
	Role   string          `json:"role,omitempty"`
	Parts  []reports.Place `json:"parts,omitempty"`
	ViewOf *reports.Place  `json:"view_of,omitempty"`
}

// A LossRecord is what became of a loss.
type LossRecord struct {
	Capture   string          `json:"capture"`
	Captured  *reports.Number `json:"captured"`
	Exact     *reports.Number `json:"exact"`
	Predicted *reports.Number `json:"predicted"`
}

// A SummaryRecord is the last record of a step.
type SummaryRecord struct {
	Kind   string         `json:"kind"` // "summary"
	Loss   *LossRecord    `json:"loss"`
	Losses []LossRecord   `json:"losses"`
	First  *reports.Place `json:"first"`
	Calls  int            `json:"calls"`
	Device *Reruns        `json:"device,omitempty"`
	Seen   *Seen          `json:"seen"`             // how much of the trace was looked at
	Layout []*Layout      `json:"layout,omitempty"` // of the ranks of one program
	Metric any            `json:"metric,omitempty"` // with --of: a record of package metric
	Tokens any            `json:"tokens,omitempty"` // of two runs of the same tokens: a record of package metric
	// Judged counts the values that were judged, Unjudged those that were not.
	Judged int `json:"judged"`
	reports.Unjudged
	// Settings are what the run was told about what to check.
	Settings reports.Settings `json:"settings,omitempty"`
}

func (v *Value) place() *reports.Place {
	if v == nil {
		return nil
	}
	return &reports.Place{Capture: v.Call.Entry.Rel, Target: v.Target}
}

func number(x float64) *reports.Number {
	if math.IsNaN(x) {
		return nil
	}
	return reports.Num(x)
}

func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// Nodes passes the records of all calls to f in order of execution: the calls up
// to a loss, their backward passes, last call first, and what follows.
func (t *Trace) Nodes(f func(*Node) error) error {
	for _, p := range t.Processes {
		for _, c := range p.Calls {
			if err := f(c.node()); err != nil {
				return err
			}
			if s := c.Step; s == nil || c != s.Calls[len(s.Calls)-1] {
				continue
			}
			for i := len(c.Step.Calls) - 1; i >= 0; i-- {
				if b := c.Step.Calls[i]; b.HasBackward() {
					if err := f(b.backwardNode()); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (c *Call) node() *Node {
	n := &Node{Kind: "node", Capture: c.Entry.Rel, Op: c.Op, ForwardID: known(c.Entry.ID), PID: known(c.Entry.PID),
		Rank: known(c.Process.Rank), Order: c.Order, Phase: "forward", Verdict: string(c.Verdict),
		Module: c.Entry.Module, Location: c.Entry.Location,
		Inputs: inputs(c.Inputs), Impact: number(c.Effect), Effect: c.OnResult, LocalError: number(c.LocalError),
		TotalError: number(c.TotalError), ImpactUnreliable: c.EffectUnreliable()}
	if c.Step != nil {
		n.Step = &c.Step.Number
	}
	if dt := c.DType(); dt.Computable() {
		n.DType = dt.String()
	}
	n.Device = c.rerunOf(replay.Forward)
	if p := c.Peer; p != nil {
		n.Peer = p.Entry.Rel
		if dt := p.DType(); dt.Computable() {
			n.PeerDType = dt.String()
		}
	}
	return n
}

func (c *Call) backwardNode() *Node {
	n := c.node()
	n.Phase, n.Inputs, n.Impact, n.LocalError, n.TotalError = "backward", inputs(c.GradOutputs), nil, nil, nil
	n.Effect, n.ImpactUnreliable = nil, false
	n.Device = c.rerunOf(replay.Backward)
	return n
}

func inputs(vs []*Value) []Input {
	out := make([]Input, 0, len(vs))
	for _, v := range vs {
		in := Input{Target: v.Target, From: v.From.Value.place(), How: v.From.How, Role: v.From.Role,
			ViewOf: v.From.view.place()}
		for _, p := range v.From.Parts {
			in.Parts = append(in.Parts, *p.place())
		}
		out = append(out, in)
	}
	return out
}

// Record is the record of a finding.
func (f *Finding) Record() *reports.FindingRecord {
	r := &reports.FindingRecord{Kind: "finding", Rule: f.Rule, Capture: f.Call.Entry.Rel, Target: f.Target,
		From: f.From.place(), Op: f.Call.Op, Module: f.Call.Entry.Module, Location: f.Call.Entry.Location,
		Reason: f.Reason, Side: string(f.Side), WrongIn: f.WrongIn,
		Parallel: f.Parallel, Ranks: f.Ranks, Parameter: f.Parameter()}
	if f.Peer != nil {
		r.Peer = f.Peer.Entry.Rel
	}
	r.Phase = "forward"
	if f.backward || f.Backward {
		r.Phase = "backward"
	}
	if len(f.Causes) > 0 && !f.Causes[0].Pattern {
		r.Cause = f.Causes[0].Text
	}
	r.Unfinished = slices.ContainsFunc(f.Causes, func(c reports.Cause) bool { return c.Unfinished })
	return r
}

// First is the first finding that is a fault, nil if there is none. A fault of the other run that this one has no more
// is first only if there is no other: it is repaired.
func (t *Trace) First() *Finding {
	var repaired *Finding
	for _, f := range t.Findings {
		switch {
		case !f.fault():
		case f.WrongIn != reports.WrongInSecond:
			return f
		case repaired == nil:
			repaired = f
		}
	}
	return repaired
}

// FirstFault is the first finding that is a mistake of this run, whose effect on a loss can be told; nil if there is
// none. Of two runs, First may be a difference before it, such as other parameters.
func (t *Trace) FirstFault() *Finding {
	for _, f := range t.Findings {
		if f.IsFault() && f.WrongIn != reports.WrongInSecond {
			return f
		}
	}
	return nil
}

// Recorded is the number that the recorder gave the step; its position in the recording where it gave none.
func (s *Step) Recorded() int {
	n, _, _ := s.place()
	return n
}

// Name is the step for people: "step 3", or "loss 1 of 2 of step 3" where several losses were recorded before
// recording.step(), as of gradients that are added up.
func (s *Step) Name() string {
	n, nth, of := s.place()
	if of < 2 {
		return fmt.Sprintf("step %d", n)
	}
	return fmt.Sprintf("loss %d of %d of step %d", nth, of, n)
}

// LossName is the loss of the step for people: "the loss of step 3", "loss 1 of 2 of step 3".
func (s *Step) LossName() string {
	if _, _, of := s.place(); of > 1 {
		return s.Name()
	}
	return "the loss of " + s.Name()
}

// place is the number of the step, and which of its losses this is, from 1 on, of how many.
func (s *Step) place() (number, nth, of int) {
	if s.Loss == nil || s.Loss.Entry.Step < 0 {
		return s.Number, 1, 1
	}
	number = s.Loss.Entry.Step
	for _, o := range s.Loss.Process.Steps {
		switch {
		case o.Loss.Entry.Step < 0:
			return s.Number, 1, 1
		case o.Loss.Entry.Step != number:
			continue
		}
		if of++; o == s {
			nth = of
		}
	}
	return number, nth, of
}

// CountSteps counts the steps of a process as the recorder numbered them, and its losses.
func (p *Process) CountSteps() (steps, losses int) {
	for _, s := range p.Steps {
		if _, nth, _ := s.place(); nth == 1 {
			steps++
		}
	}
	return steps, len(p.Steps)
}

// Alone reports whether the finding is no more than that one of two runs makes the call and the other does not.
func (f *Finding) Alone() bool { return f.Rule == verdict.Missing || f.Rule == verdict.Inserted }

// fault reports whether something is wrong, not only further off than one would like, or
// in one run alone.
func (f *Finding) fault() bool {
	return f.Rule == verdict.Wrong || f.Rule == verdict.Changed || f.Rule == verdict.Diverged ||
		f.Rule == verdict.Parallel
}

// IsWrong reports whether a finding is a mistake of the operator of its call.
func (f *Finding) IsWrong() bool { return f.Rule == verdict.Wrong }

// Between names what a finding is about that is no mistake of the operator of its call: the calls between which a value
// changed, or what the ranks do together. It is "" for others.
func (f *Finding) Between() string {
	switch {
	case f.Rule == verdict.Parallel && f.Call.Verdict != verdict.Fail:
		return "the ranks, at " + f.Call.String()
	case f.Rule != verdict.Changed:
		return ""
	case f.later != nil:
		return f.Call.String() + " and " + f.later.Call.String()
	case f.betweenPasses:
		return "the forward and the backward pass of " + f.Call.String()
	case f.From == nil || f.From.Call == f.Call:
		return "the calls before " + f.Call.String()
	}
	return f.From.Call.String() + " and " + f.Call.String()
}

// Results are the findings, and what replay had to say of each call, as records of a
// comparison, which reports are made of: a fault is a failure, another finding a warning. That only one of two runs
// makes a call is none: the call has the verdict that it has by itself.
// A fault between calls is a record of its own, which leaves the verdict of the call as it is.
// There is a record for each value that was judged. The verdict of the call stands with no target where no value has
// it. What is no plain pass on a device comes behind, as of that source. repro is the command that runs a call again,
// on the device or not; see is the one that shows what is between calls.
func (t *Trace) Results(repro func(c *Call, onDevice bool) string, see string) []*reports.Result {
	var out []*reports.Result
	found := map[*Call][]*Finding{}
	for _, f := range t.Findings {
		if !f.Alone() { // says nothing of the values of the call
			found[f.Call] = append(found[f.Call], f)
		}
	}
	for _, c := range slices.Concat(t.Calls(), t.saved) {
		again := repro(c, false)
		add := func(phase, target string, v verdict.Verdict, reason string) {
			out = append(out, c.record(phase, target, v, reason, again))
		}
		said := map[string]bool{}
		for _, f := range found[c] {
			v, phase := verdict.Warn, replay.Forward
			if f.fault() {
				v = verdict.Fail
			}
			if f.backward {
				phase = replay.Backward
			}
			between := f.Between()
			if between == "" {
				said[f.Target] = true
			}
			add(string(phase), f.Target, v, string(f.Rule)+": "+f.Reason)
			if last := out[len(out)-1]; between != "" {
				last.Op, last.Between, last.Repro = reports.OpBetween, between, &see
			}
		}
		for _, r := range c.Results {
			if !said[r.Target] {
				add(string(r.Phase), r.Target, r.Verdict, r.Reason)
			}
		}
		v := cmp.Or(c.Verdict, verdict.Skipped)
		has := slices.ContainsFunc(c.Results, func(r Result) bool { return r.Verdict == v })
		for _, r := range c.valuesPassed() {
			if has = has || v == verdict.Pass; !said[r.Target] {
				add(string(r.Phase), r.Target, r.Verdict, r.Reason)
			}
		}
		if !has {
			add(string(replay.Forward), "", v, c.Failed)
		}
		for _, g := range c.givenUp {
			add(string(replay.Forward), "", verdict.Error, g.String())
		}
		if c.Rerun == nil {
			continue
		}
		source := "device"
		for _, r := range onDevice(c.Rerun) {
			if r.Verdict != verdict.Pass {
				x := c.record(string(r.Phase), r.Target, r.Verdict, r.Reason, repro(c, true))
				x.Source = &source
				out = append(out, x)
			}
		}
	}
	return out
}

// gradientNamed names the argument whose gradient a value is that did not pass, and its parameter; "" for other values.
func (c *Call) gradientNamed(target string) (argument, parameter string) {
	for _, r := range c.Results {
		if r.Target == target && r.Argument != "" {
			return r.Argument, r.Parameter
		}
	}
	return "", ""
}

// GradientOf says whose gradient the value of a finding is: "gradient of weight (head.weight)". It is "" for others.
func (f *Finding) GradientOf() string { return reports.GradientOf(f.Call.gradientNamed(f.Target)) }

// valuesPassed are the values of the call that passed, one for each.
func (c *Call) valuesPassed() []Result {
	out := slices.Clone(c.passed)
	for _, k := range c.Checks {
		if k.Verdict == verdict.Pass {
			out = append(out, Result{Phase: k.Phase, Target: k.Target, Verdict: k.Verdict})
		}
	}
	return out
}

// record is about a value of the call.
func (c *Call) record(phase, target string, v verdict.Verdict, reason, repro string) *reports.Result {
	r := &reports.Result{Phase: phase, Target: target, Verdict: v, Reason: reason, Repro: &repro}
	found.Locate(r, c.Entry, c.Op)
	r.Order, r.Rank = cmp.Or(r.Order, &c.Order), known(c.Process.Rank)
	r.RecordedOn = found.RecordedOn(c.Entry, c.device)
	r.Argument, r.Parameter = c.gradientNamed(target)
	dt := c.DType()
	if w := c.Value(target); w != nil {
		dt, r.Shape = w.DType, append([]int{}, w.Shape...)
	}
	if dt.Computable() {
		name := dt.String()
		r.DType = &name
	}
	return r
}

// Judged counts the calls that replay decided about.
func (t *Trace) Judged() int {
	n := 0
	for _, c := range t.Calls() {
		if c.judged() {
			n++
		}
	}
	return n
}

// Unrecorded counts the parameters of which no gradient was recorded, though the backward passes of
// calls that read them were.
func (t *Trace) Unrecorded() int {
	n := 0
	for _, p := range t.Processes {
		recorded := map[*Value]bool{} // by the first reading of a parameter
		for _, c := range p.Calls {
			for _, v := range c.Inputs {
				if v.RequiresGrad && v.From.How == IsLeaf && c.HasBackward() {
					first := cmp.Or(v.From.first, v)
					recorded[first] = recorded[first] || c.hasGradient(v)
				}
			}
		}
		for _, is := range recorded {
			if !is {
				n++
			}
		}
	}
	return n
}

// hasGradient reports whether a value of the shape of v, or of that turned round, was recorded that can
// be its gradient: beside the call, or by an optimizer.
func (c *Call) hasGradient(v *Value) bool {
	turned := slices.Clone(v.Shape)
	slices.Reverse(turned)
	like := func(w *Value) bool {
		return (slices.Equal(w.Shape, v.Shape) || slices.Equal(w.Shape, turned)) &&
			(w.Address == 0 || w.Address != v.Address)
	}
	if slices.ContainsFunc(c.Grads, like) || slices.ContainsFunc(c.later, like) {
		return true
	}
	return c.Step != nil && (slices.ContainsFunc(c.Step.tailLike[shapeSum(v.Shape)], like) ||
		slices.ContainsFunc(c.Step.tailLike[shapeSum(turned)], like))
}

// NotRun counts the calls that could not be run again. Those inside of a call that was judged as a whole do not count,
// nor do functions whose results the calls give that they made.
func (t *Trace) NotRun() int {
	n := 0
	for _, c := range t.Calls() {
		if c.Failed != "" && !c.inJudged() && !c.handed {
			n++
		}
	}
	return n
}

// Damaged lists the calls of which a file cannot be read.
func (t *Trace) Damaged() []*Call {
	return slices.DeleteFunc(t.Calls(), func(c *Call) bool { return c.Damaged == "" })
}

// MainStep is the step to speak of first: that of the first finding, else the
// first one; nil if no loss was found.
func (t *Trace) MainStep() *Step {
	if len(t.Findings) > 0 && t.Findings[0].Rule != verdict.Missing {
		if s := t.Findings[0].Call.Step; s != nil {
			return s
		}
	}
	for _, p := range t.Processes {
		if len(p.Steps) > 0 {
			return p.Steps[0]
		}
	}
	return nil
}

func (s *Step) record() LossRecord {
	return LossRecord{s.Loss.Entry.Rel, number(s.Captured), number(s.Exact), number(s.Predicted)}
}

// Summary is the last record.
func (t *Trace) Summary() *SummaryRecord {
	r := &SummaryRecord{Kind: "summary", Losses: []LossRecord{}, Seen: t.Seen(), Layout: t.Layouts}
	for _, p := range t.Processes {
		r.Calls += len(p.Calls)
		for _, s := range p.Steps {
			r.Losses = append(r.Losses, s.record())
		}
	}
	if s := t.MainStep(); s != nil {
		l := s.record()
		r.Loss = &l
	}
	_, r.Device = t.Reruns()
	if f := t.First(); f != nil {
		r.First = &reports.Place{Capture: f.Call.Entry.Rel, Target: f.Target}
	}
	return r
}
