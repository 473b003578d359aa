package parallel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor/value"
)

type checker struct {
	ctx   context.Context
	opt   step.Options
	trace *step.Trace
	plan  *Plan
	named map[*step.Call]string
	// inside are the calls that a recorded call makes itself.
	inside map[*step.Call][]*step.Call
	// summed are the calls that read a gradient that was found to be the sum that it should be.
	summed map[*step.Call]bool
	// behind are the calls behind the backward pass: what the ranks do together explains the gradients that they read.
	behind map[*step.Call]bool
	// missing are ranks of groups that were not recorded.
	missing map[int]bool
	// trained are the parameters that calls of the backward pass read, by rank, with the first such call of each.
	trained map[int][]trained
	// factors are those of the loss, of the stage of a pipeline that computes it; nil if they are not known.
	factors []float64
	// numbers are the steps of the program that calls belong to.
	numbers map[*step.Call]int
	// exchanges are those of all calls; nil before they are looked for.
	exchanges map[*capture.Entry]collective.Match
	// apart is whether replicas moved apart on purpose in an earlier step.
	apart bool
	// unnamed are the parameters without a name of their own in the recording, by where they lie, with the one that
	// they have here.
	unnamed map[*step.Process]map[uint64]string
}

// A trained is a parameter and the first call of the backward pass that reads it.
type trained struct {
	name string
	call *step.Call
}

// Check takes the ranks of a trace as one program, and adds what is wrong with it to the findings of the trace. A plan
// can be nil. A mistake of this package is a *replay.InternalError: the trace says then that its ranks were not judged,
// and keeps what was found in each.
func Check(ctx context.Context, t *step.Trace, opt step.Options, plan *Plan) error {
	err := replay.Guard(func() error { return check(ctx, t, opt, plan) })
	if errors.As(err, new(*replay.InternalError)) {
		t.Unjoined = []step.Gap{{N: len(t.Processes), What: reports.Count(len(t.Processes), "rank") +
			" not judged as one program: " + err.Error(), First: fmt.Sprintf("rank %d", t.Processes[0].Rank)}}
	}
	return err
}

func check(ctx context.Context, t *step.Trace, opt step.Options, plan *Plan) error {
	byRank := map[int]*step.Process{}
	for _, p := range t.Processes {
		if p.Rank < 0 || byRank[p.Rank] != nil {
			return nil // of several runs
		}
		byRank[p.Rank] = p
	}
	if len(byRank) < 2 {
		return nil
	}
	c := &checker{ctx: ctx, opt: opt, trace: t, plan: plan, named: map[*step.Call]string{},
		inside: map[*step.Call][]*step.Call{}, summed: map[*step.Call]bool{}, behind: map[*step.Call]bool{},
		missing: map[int]bool{}, trained: map[int][]trained{}, numbers: map[*step.Call]int{}}
	for _, p := range t.Processes {
		for _, call := range p.Calls {
			for _, r := range call.Entry.Group {
				if byRank[r] == nil {
					c.missing[r] = true
				}
			}
		}
	}
	c.nameParameters()
	entries, _ := c.entries()
	stepOf := collective.Steps(entries, opt.Read)
	for _, p := range t.Processes {
		numberSteps(p, stepOf, c.numbers)
	}
	c.splitRounds()
	found := append(c.departed(), c.messages()...)
	stages := c.recorded(c.stages())
	if err := plan.fits(stages); err != nil {
		return err
	}
	parts, wrong := make([]*part, len(stages)), make([][]*violation, len(stages))
	for _, i := range lossFirst(stages) {
		parts[i], wrong[i] = c.checkStage(stages[i], len(stages) > 1)
	}
	for i, stage := range stages {
		found = append(append(found, scales(stage)...), wrong[i]...)
		t.Layouts = append(t.Layouts, parts[i].layout(stage))
		t.Unjoined = append(t.Unjoined, parts[i].gaps()...)
	}
	for _, across := range []func([]*part) []*violation{c.staleLabels, unlike, untied, tied, ownNorms, unstepped,
		undivided} {
		if len(found) == 0 {
			found = across(parts)
		}
	}
	c.conclude(found)
	return nil
}

// lossFirst are the numbers of stages, of those that compute losses before the others.
func lossFirst(stages [][]*step.Process) (order []int) {
	for _, with := range []bool{true, false} {
		for i, stage := range stages {
			if with == slices.ContainsFunc(stage, func(p *step.Process) bool { return len(p.Steps) > 0 }) {
				order = append(order, i)
			}
		}
	}
	return order
}

// checkStage checks the recorded steps of processes that run the same program: first is the part of the first step.
func (c *checker) checkStage(stage []*step.Process, partial bool) (first *part, found []*violation) {
	var before []stored
	var parts []ungathered
	steps := bySteps(stage, c.numbers)
	for i, ps := range steps {
		p := c.checkStep(ps, groupsOf(stage), partial)
		if p.storedApart(before); i+1 < len(steps) {
			before = p.storeds(true)
		}
		p.neverGathered(parts)
		parts = p.ungathered
		found = append(found, p.broken...)
		if first == nil {
			first = p
		}
		if len(p.broken) > 0 {
			break // what follows begins with what this step left
		}
	}
	return first, found
}

// cuts are the ways to cut data that are tried, as bits by dimension of the mesh: along the first dimension that fits
// where the bit is not set, else along the second. All alike come first.
func cuts(dims int) []int {
	all := 1<<dims - 1
	out := []int{0, all}
	for data := 1; data < all && dims < 4; data++ {
		out = append(out, data)
	}
	return out
}

// checkStep checks one step with the data cut along one dimension, and along others if this finds something: the one
// with which most of the program fits counts.
func (c *checker) checkStep(ps []*step.Process, groups [][]int, partial bool) (best *part) {
	tries := []int{0}
	for k := 0; k < len(tries); k++ {
		p := c.newPart(ps, groups)
		tries = cuts(len(p.dims))
		p.data, p.partial = tries[k], partial
		p.check()
		if best == nil || p.fitsBetter(best) {
			best = p
		}
		if best.forward() == 0 {
			break
		}
	}
	return best
}

// conclude adds what was found to the findings of the trace, and takes out those that it explains.
func (c *checker) conclude(found []*violation) {
	t := c.trace
	t.Findings = slices.DeleteFunc(t.Findings, func(f *step.Finding) bool {
		return f.Rule == verdict.Changed && (c.summed[f.Call] || len(found) > 0 && c.behind[f.Call])
	})
	for i, v := range found {
		call := v.call
		if call == nil {
			call = v.site.first(v.ranks)
		}
		f := &step.Finding{Rule: verdict.Parallel, Call: call, Target: v.target, Reason: v.reason, Parallel: v.kind,
			Ranks: v.ranks, Backward: v.backward}
		switch {
		case i > 0: // what is behind the first follows from it, or shows once that is mended
		case t.First() != nil && !(t.First().Rule == verdict.Changed && v.before(t.First().Call)):
			t.Findings = append(t.Findings, f)
		default:
			t.Findings = append([]*step.Finding{f}, t.Findings...)
		}
	}
}

// before reports whether a violation of the forward pass comes before a call, on the rank of that.
func (v *violation) before(c *step.Call) bool {
	if v.backward || v.site == nil {
		return false
	}
	here := v.site.calls[c.Process.Rank]
	return here != nil && here.Order < c.Order
}

// bySteps are processes with the calls of one recorded step each, of the steps that all of them recorded: the sums of
// gradients are those of a step. The last step of a recording without an end is left out. Without a step in common the
// processes stay whole.
func bySteps(ps []*step.Process, number map[*step.Call]int) [][]*step.Process {
	common := map[int]int{} // how many processes have recorded a step
	for _, p := range ps {
		own := map[int]bool{}
		for _, c := range p.Calls {
			own[number[c]] = true
		}
		if n := len(p.Calls); n > 0 && p.Calls[n-1].Entry.Unended != "" {
			delete(own, number[p.Calls[n-1]])
		}
		for n := range own {
			common[n]++
		}
	}
	var out [][]*step.Process
	for _, n := range slices.Sorted(maps.Keys(common)) {
		if common[n] < len(ps) {
			continue
		}
		var of []*step.Process
		for _, p := range ps {
			one := *p
			one.Calls = nil
			for _, c := range p.Calls {
				if number[c] == n {
					one.Calls = append(one.Calls, c)
				}
			}
			of = append(of, &one)
		}
		out = append(out, of)
	}
	if len(out) == 0 {
		return [][]*step.Process{ps}
	}
	return out
}

// numberSteps notes the step of each call of a process. What it does behind an update, up to the last call that writes
// parameters before anything has a gradient again, belongs to the step of the update: it gathers what ranks updated.
func numberSteps(p *step.Process, stepOf func(*capture.Entry) int, number map[*step.Call]int) {
	parameters := parametersOf(p)
	writes := func(c *step.Call) bool {
		return (isExchange(c.Op) || strings.HasSuffix(c.Op, "_")) && slices.ContainsFunc(c.Inputs,
			func(v *step.Value) bool { return parameters[v.Address] })
	}
	for i, c := range p.Calls {
		if _, known := number[c]; known {
			continue
		}
		number[c] = stepOf(c.Entry)
		if i == 0 || stepOf(p.Calls[i-1].Entry) >= number[c] {
			continue
		}
		end := i
		for j := i; j < len(p.Calls) && stepOf(p.Calls[j].Entry) == number[c] &&
			p.Calls[j].Entry.BackwardOrder < 0; j++ {
			if writes(p.Calls[j]) {
				end = j + 1
			}
		}
		for _, behind := range p.Calls[i:end] {
			number[behind] = stepOf(p.Calls[i-1].Entry)
		}
	}
}

// stages are the processes that run the same program: those whose parameters have mostly the same names, at one depth
// of a pipeline.
func (c *checker) stages() [][]*step.Process {
	names := map[*step.Process]map[string]uint64{} // the sum of the elements of each parameter
	reads := map[*step.Process]map[string]bool{}   // the operators and lines that read them
	next := map[int][]int{}
	for _, p := range c.trace.Processes {
		next[p.Rank] = c.receivers(p)
	}
	for _, p := range c.trace.Processes {
		names[p], reads[p] = map[string]uint64{}, map[string]bool{}
		for _, call := range p.Calls {
			if call.Entry.BackwardOrder < 0 || !slices.ContainsFunc(call.Inputs,
				func(v *step.Value) bool { return v.Parameter }) {
				continue
			}
			rec, _ := call.Entry.Load(capture.LoadOptions{Read: c.opt.Read, Only: capture.Of(capture.Input)})
			ts := value.Tensors(value.NewTuple(value.NewTuple(rec.Args...), rec.Kwargs))
			for i, t := range ts {
				n := c.nameOf(call, rec, t, i, len(ts))
				if n == "" || !t.RequiresGrad {
					continue
				}
				reads[p][call.Op+"|"+call.Entry.Location] = true
				if _, ok := names[p][n]; ok {
					continue
				}
				c.trained[p.Rank] = append(c.trained[p.Rank], trained{n, call})
				names[p][n] = 0
				if a := newArray(t); len(next[p.Rank]) > 0 && a != nil && !a.constant() {
					names[p][n] = a.sum()
				}
			}
			rec.Close()
		}
	}
	depth := c.depths(next, names)
	var out [][]*step.Process
next:
	for _, p := range c.trace.Processes {
		for i, ps := range out {
			both, all := 0, len(names[ps[0]])
			for n := range names[p] {
				if _, ok := names[ps[0]][n]; ok {
					both++
				} else {
					all++
				}
			}
			if depth[p.Rank] == depth[ps[0].Rank] && (all == 0 || 3*both > all ||
				both > 0 && (maps.Equal(reads[p], reads[ps[0]]) || // experts have numbers of their own
					len(next[p.Rank])+len(next[ps[0].Rank]) == 0 && sharesBatch(p, ps[0]))) {
				out[i] = append(out[i], p)
				continue next
			}
		}
		out = append(out, []*step.Process{p})
	}
	return out
}

// sharesBatch reports whether two processes exchange parts of what they have by one line, as those do that hold the
// experts of each other's tokens. Stages of a pipeline pass values on.
func sharesBatch(p, q *step.Process) bool {
	lines := func(p *step.Process) map[string]bool {
		out := map[string]bool{}
		for _, c := range p.Calls {
			if strings.HasPrefix(collective.Name(c.Op), "all_to_all") && slices.Contains(c.Entry.Group, q.Rank) {
				out[c.Entry.Location] = true
			}
		}
		return out
	}
	there := lines(q)
	for l := range lines(p) {
		if there[l] {
			return true
		}
	}
	return false
}

// receivers are the ranks with which a process first exchanged a message by sending one, and, as -1-rank, those from
// which it first received one.
func (c *checker) receivers(p *step.Process) (out []int) {
	for _, call := range p.Calls {
		if !messaging(call) {
			continue
		}
		_, peer := c.message(call)
		if peer < 0 || slices.Contains(out, peer) || slices.Contains(out, -1-peer) {
			continue
		}
		if receives(call) {
			peer = -1 - peer
		}
		out = append(out, peer)
	}
	return out
}

// byRank are the processes by their ranks.
func (c *checker) byRank() map[int]*step.Process {
	out := map[int]*step.Process{}
	for _, p := range c.trace.Processes {
		out[p.Rank] = p
	}
	return out
}

// depths says how many stages of a pipeline lie before each rank: ranks that pass values on and compute no loss, though
// others do, or mostly have other elements in their parameters of one name. In a ring of replicas neither would be so.
// Stages can begin with copies of one layer.
func (c *checker) depths(next map[int][]int, names map[*step.Process]map[string]uint64) map[int]int {
	byRank := c.byRank()
	before := map[int][]int{}
	losses := slices.ContainsFunc(c.trace.Processes, func(p *step.Process) bool { return len(p.Steps) > 0 })
	for _, r := range slices.Sorted(maps.Keys(next)) {
		lacks := losses && len(byRank[r].Steps) == 0
		for _, to := range next[r] {
			if to < 0 || byRank[to] == nil || !slices.Contains(next[to], -1-r) {
				continue
			}
			other, both := 0, 0
			for n, sum := range names[byRank[r]] {
				if o := names[byRank[to]][n]; sum != 0 && o != 0 {
					both++
					if o != sum {
						other++
					}
				}
			}
			if lacks || 2*other > both {
				before[to] = append(before[to], r)
			}
		}
	}
	depth := map[int]int{}
	for range byRank { // as many stages there can be
		for to, from := range before {
			for _, r := range from {
				depth[to] = min(max(depth[to], depth[r]+1), len(byRank))
			}
		}
	}
	return depth
}

// check finds the places of all values, in order of execution.
func (p *part) check() {
	within := map[*step.Call]bool{}
	clear(p.checker.inside)
	for _, q := range p.checker.trace.Processes {
		for _, call := range q.Calls {
			if outer := call.Outer(); outer != nil {
				p.checker.inside[outer] = append(p.checker.inside[outer], call)
			}
			for o := call.Outer(); o != nil && isExchange(call.Op); o = o.Outer() {
				within[o] = true
			}
		}
	}
	for _, s := range p.sites {
		call := s.first(p.ranks)
		s.seam = isExchange(call.Op) || within[call] || p.checker.takesGroup(call)
		switch {
		case p.unknown(call):
		case p.reachesOut(call):
			p.forget(s)
		default:
			p.lift(s)
		}
	}
	p.messaged()
	p.misfits()
	p.offsets()
	p.strangers()
	p.cutApart()
	p.otherTargets()
	p.maskedOrder()
	p.rotated()
	p.givenBack()
	p.valuesOrder()
	p.ringMasks()
	p.ringValues()
	p.ringLacks()
	p.unscaled()
	p.misrouted()
	p.padding()
	p.sampled()
	p.readTwice()
	p.ownPieces()
	p.statistics()
	p.twoStatistics()
	p.unevenParts()
	if p.incomplete = p.cut(); p.incomplete {
		return
	}
	p.backward()
	p.doublings()
	p.parameters()
	p.readAlike()
	p.causes()
}

// fitsBetter reports whether more of a program fits one way to cut its data than another: more exchanges, which say
// most of where data lie, then more of it until something does not fit, then more calls.
func (p *part) fitsBetter(than *part) bool {
	order := cmp.Or(than.exchanges()-p.exchanges(), cmp.Compare(p.fitsUpTo(), than.fitsUpTo()),
		than.forward()-p.forward())
	return order > 0
}

// exchanges counts the exchanges of the forward pass that do not keep the whole of their argument.
func (p *part) exchanges() (n int) {
	for _, v := range p.broken {
		if !v.backward && v.call == nil && v.site != nil && v.site.seam && v.kind == "collective" {
			n++
		}
	}
	return n
}

// forward counts what does not fit in the forward pass.
func (p *part) forward() (n int) {
	n = len(p.own)
	for _, v := range p.broken {
		if !v.backward && v.call == nil {
			n++
		}
	}
	return n
}

// fitsUpTo is the place in the order of execution of the first call of the forward pass that does not fit.
func (p *part) fitsUpTo() int {
	at := math.MaxInt
	for _, s := range p.own {
		at = min(at, s.first(p.ranks).Order)
	}
	for _, v := range p.broken {
		if !v.backward && v.call == nil && v.site != nil {
			at = min(at, v.site.first(p.ranks).Order)
		}
	}
	return at
}

// recorded splits the ranks of a stage of which some were not recorded: those of a group that was recorded in whole can
// be checked together.
func (c *checker) recorded(stages [][]*step.Process) (out [][]*step.Process) {
	for _, stage := range stages {
		var ranks []int
		for _, p := range stage {
			ranks = append(ranks, p.Rank)
		}
		slices.Sort(ranks)
		groups := groupsOf(stage)
		if len(c.missing) == 0 || product(gridOf(ranks, groups)) == len(ranks) {
			out = append(out, stage)
			continue
		}
		slices.SortStableFunc(groups, func(a, b []int) int { return len(b) - len(a) })
		taken := map[int]bool{}
		take := func(group []int) {
			var some []*step.Process
			for _, p := range stage {
				if slices.Contains(group, p.Rank) && !taken[p.Rank] {
					some = append(some, p)
				}
			}
			if len(some) < len(group) {
				return
			}
			for _, r := range group {
				taken[r] = true
			}
			out = append(out, some)
		}
		for _, g := range groups {
			take(g)
		}
		for _, r := range ranks {
			if !taken[r] {
				take([]int{r})
			}
		}
	}
	return out
}

// unknown reports whether a call of a program of which ranks were not recorded exchanges values with ranks that are not
// of the part: nothing is known of its result.
func (p *part) unknown(call *step.Call) bool {
	if len(p.checker.missing) == 0 {
		return false
	}
	lacks := func(call *step.Call) bool {
		return strings.HasPrefix(call.Op, "torch.ops.fsdp.") || isExchange(call.Op) &&
			slices.ContainsFunc(call.Entry.Group, func(r int) bool { return !slices.Contains(p.ranks, r) })
	}
	return lacks(call) || slices.ContainsFunc(p.checker.inside[call], lacks)
}

// reachesOut reports whether a call exchanges values with ranks that run another program, such as experts that are
// read by lines of their own: what it gives is nothing that the ranks of the part make together.
func (p *part) reachesOut(call *step.Call) bool {
	others := func(call *step.Call) bool {
		return isExchange(call.Op) && slices.ContainsFunc(call.Entry.Group, func(r int) bool {
			return !slices.Contains(p.ranks, r)
		})
	}
	return others(call) || slices.ContainsFunc(p.checker.inside[call], others)
}

// cut reports whether other ranks take part in what the ranks of a part compute, of a program of which ranks were not
// recorded: gradients are then no sum of those that are known.
func (p *part) cut() bool {
	for _, q := range p.checker.trace.Processes {
		if slices.Contains(p.ranks, q.Rank) && slices.ContainsFunc(q.Calls, p.unknown) {
			return true
		}
	}
	return false
}
