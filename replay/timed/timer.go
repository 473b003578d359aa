package timed

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// A Device runs calls and measures them: the forward pass, or the backward pass of a call
// with gradients of its results. Cold runs write flush bytes before. The error for a call
// that it does not carry out is a *replay.CallError.
type Device interface {
	replay.Device
	NewTimer(c *replay.DeviceCall, flush int64) (timing.Runner, error)
}

// A Timer measures tasks.
type Timer struct {
	Replay replay.Options
	Device Device // nil: the reference
	// Against is measured in turn with Device, by timing.MeasurePair; nil: none is. What only
	// one of them carries out is not measured.
	Against Device
	Renew   func() // called before each round of a task, unless nil
	Evict   *timing.Evictor

	Caches  []timing.Cache
	Runs    int           // of each series; 0: until the numbers hold
	MaxTime time.Duration // most to spend on the runs of a series
	Budget  *Budget       // nil: none
	Order   *rand.Rand    // goes over all tasks in each round, in random order; nil: one task after the other
	// Resolution, if Runs is 0, is the share of the time that timing.Compare shall tell: there are
	// rounds until the quickest agree, at most timing.MaxRounds; with Against until
	// timing.ComparePair tells, at most the last of timing.PairRounds.
	Resolution float64

	// Before, unless nil, is called before a task is measured; an error ends everything.
	Before func(ctx context.Context, k *Task) error
}

// longest is how often MaxTime the rounds of a series may take, with warming up and
// what is done between runs: what is that slow gets fewer rounds.
const longest = 2

// warmup and pairWarmup are how long a round's runs are tried before they count, at least
// once. Of pairs there are more rounds, and both sides are equally warm.
const (
	warmup     = 4 * time.Millisecond
	pairWarmup = time.Millisecond
)

// mostRuns are the most samples of a series, each of which is a line of a JSON file:
// more of what takes microseconds would tell nothing new. Pairs have at most pairRuns in
// a round, since rounds differ by more than runs.
const (
	mostRuns = 2000
	pairRuns = 20
)

// Run measures tasks, nothing else meanwhile, and yields each that has all its rounds,
// or as many as the budget allows. The error, which is the last, is that of Before or
// of ctx; the task beside it may be nil.
func (t *Timer) Run(ctx context.Context, tasks []*Task) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		if t.Order != nil {
			err := t.interleave(ctx, tasks)
			for _, k := range tasks {
				if !yield(k, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
			return
		}
		for i, k := range tasks {
			allowed, ok := t.Budget.allow(i)
			if !ok {
				return
			}
			err := t.measure(ctx, k, 0, t.Rounds(), allowed)
			if !yield(k, err) || err != nil {
				return
			}
		}
	}
}

// interleave measures all tasks in each round, in random order.
func (t *Timer) interleave(ctx context.Context, tasks []*Task) error {
	order := slices.Clone(tasks)
	for round := range t.Rounds() {
		t.Order.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, k := range order {
			if t.finished(k) {
				continue
			}
			allowed, ok := t.Budget.allow(round*len(order) + i)
			if !ok {
				return nil
			}
			if err := t.measure(ctx, k, round, round+1, allowed); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rounds is how many rounds the runs are spread over at most.
func (t *Timer) Rounds() int {
	least, most := timing.MinRounds, timing.MaxRounds
	if t.Against != nil {
		least, most = timing.PairRounds[0], timing.PairRounds[len(timing.PairRounds)-1]
	}
	if t.Runs > 0 {
		return min(t.Runs, least)
	}
	return most
}

// sides is how many devices are measured.
func (t *Timer) sides() int {
	if t.Against != nil {
		return 2
	}
	return 1
}

// finished reports whether a task needs no more rounds, or has had its time.
func (t *Timer) finished(k *Task) bool {
	if t.Runs > 0 || len(k.Series) == 0 {
		return false
	}
	slow := k.spent > longest*t.MaxTime*time.Duration(len(k.Series)*t.sides())
	return slow || !slices.Contains(k.enough, false)
}

// enough reports whether series i of a task needs no more rounds.
func (t *Timer) enough(k *Task, i int) bool {
	samples := k.Series[i].Series.Samples
	rounds := samples[len(samples)-1].Round + 1
	switch {
	case t.Runs > 0:
		return false
	case t.Against != nil:
		return slices.Contains(timing.PairRounds, rounds) &&
			timing.ComparePair(k.Against[i].Samples, samples, t.Resolution).Verdict != timing.Ambiguous
	}
	return rounds >= timing.MinRounds && timing.FloorOf(samples).Decisive(t.Resolution)
}

// share is the part of n that falls to a round, so that the parts sum up to n.
func share(n, round, rounds int) int { return n*(round+1)/rounds - n*round/rounds }

// measure takes the samples of some rounds of a task, for about the allowed time
// (0: no limit). The error is that of Before or ctx.
func (t *Timer) measure(ctx context.Context, k *Task, from, to int, allowed time.Duration) error {
	began := time.Now()
	if k.Err != nil {
		return nil
	}
	if from == 0 && t.Before != nil {
		if err := t.Before(ctx, k); err != nil {
			return err
		}
	}
	p := replay.Open(k.Entry, t.Replay)
	defer p.Close()
	err := p.Start()
	var phases []phase
	if err == nil {
		phases, err = t.phases(k, p)
	}
	for round := from; err == nil && round < to; round++ {
		late := allowed > 0 && round > from && time.Since(began) > allowed
		if t.finished(k) || late && t.Runs == 0 {
			break
		}
		err = t.round(ctx, k, phases, round, allowed/time.Duration(to-from))
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	k.Err = err
	return nil
}

// round takes the samples of one round of a task, for about the allowed time (0:
// no limit).
func (t *Timer) round(ctx context.Context, k *Task, phases []phase, round int, allowed time.Duration) error {
	began := time.Now()
	defer func() { k.spent += time.Since(began) }()
	if t.Renew != nil {
		t.Renew()
	}
	rounds := t.Rounds()
	opt := timing.Options{
		Runs: share(t.Runs, round, rounds), MaxTime: t.MaxTime / time.Duration(rounds),
		Warmup:  warmup,
		MaxRuns: mostRuns / rounds, Round: round,
	}
	if t.Against != nil {
		opt.Warmup, opt.MaxRuns = pairWarmup, pairRuns
	}
	if allowed > 0 {
		each := allowed / time.Duration(len(phases)*len(t.Caches)*t.sides())
		opt.Warmup = max(time.Microsecond, min(opt.Warmup, each/4))
		opt.MaxTime = max(time.Microsecond, min(opt.MaxTime, each-opt.Warmup))
	}
	at := 0
	for _, ph := range phases {
		for _, c := range t.Caches {
			if at < len(k.enough) && k.enough[at] {
				at++
				continue
			}
			if err := k.sample(ctx, ph, c, opt, at); err != nil {
				return fmt.Errorf("%s: %w", ph.name, err)
			}
			k.enough[at] = t.enough(k, at)
			at++
		}
		if round > 0 {
			continue
		}
		if err := k.remember(ctx, ph, at-len(t.Caches)); err != nil {
			return fmt.Errorf("%s: %w", ph.name, err)
		}
	}
	return nil
}

// sample takes samples of a pass and adds them to series i.
func (k *Task) sample(ctx context.Context, ph phase, c timing.Cache, opt timing.Options, i int) error {
	var s, against *timing.Series
	var err error
	if ph.against == nil {
		s, err = timing.Measure(ctx, ph.runner, c, opt)
	} else {
		var pair [2]*timing.Series
		pair, err = timing.MeasurePair(ctx, [2]timing.Runner{ph.against, ph.runner}, c, opt)
		against, s = pair[0], pair[1]
	}
	if s == nil {
		return err
	}
	if i < len(k.Series) {
		k.Series[i].Series.Add(s)
	} else {
		k.Series, k.enough = append(k.Series, k.series(ph, s)), append(k.enough, false)
	}
	switch {
	case against == nil:
	case i < len(k.Against):
		k.Against[i].Add(against)
	default:
		k.Against = append(k.Against, against)
	}
	return err
}

// remember notes what memory a pass needs in its series, those from the given one on.
func (k *Task) remember(ctx context.Context, ph phase, from int) error {
	r, ok := ph.runner.(timing.MemoryRunner)
	if !ok {
		return nil
	}
	m, err := r.Memory(ctx)
	for _, s := range k.Series[from:] {
		s.Memory = m
	}
	return err
}

// series is what is known of the samples s.
func (k *Task) series(ph phase, s *timing.Series) *reports.Timing {
	x := &reports.Timing{Capture: k.Entry.Rel, Op: k.Op, Phase: ph.name, Shapes: k.Shapes, Calls: k.Calls, Series: s,
		Bytes: ph.work.Bytes, Flops: ph.work.Flops, Peak: k.Peak}
	if id := k.Entry.ID; id >= 0 {
		x.ForwardID = &id
	}
	return x
}

// A phase is a pass of a call to measure.
type phase struct {
	name            string
	runner, against timing.Runner // against is nil unless it is measured in turn
	work            replay.Work
}

// phases are the passes of a started call. A backward pass that a device does
// not have is left out.
func (t *Timer) phases(k *Task, p *replay.Call) ([]phase, error) {
	backward := p.NoBackward() == ""
	if t.Device == nil {
		onHost := func(name string, f func() error, w replay.Work) phase {
			return phase{name: name, runner: &timing.HostFunc{Run: f, Caches: t.Evict}, work: w}
		}
		ps := []phase{onHost("forward", p.Forward, p.ForwardWork())}
		if backward {
			ps = append(ps, onHost("backward", p.Backward, p.BackwardWork()))
		}
		return ps, nil
	}
	forward, err := t.phase("forward", p.DeviceCall(false), p.ForwardWork())
	if err != nil || !backward {
		return []phase{forward}, err
	}
	back, err := t.phase("backward", p.DeviceCall(true), p.BackwardWork())
	if err != nil {
		k.NoBackward = err
		return []phase{forward}, nil
	}
	return []phase{forward, back}, nil
}

// phase is a pass on the device, and on the other.
func (t *Timer) phase(name string, c *replay.DeviceCall, w replay.Work) (ph phase, err error) {
	flush := int64(t.Evict.Size())
	ph = phase{name: name, work: w}
	if ph.runner, err = t.Device.NewTimer(c, flush); err == nil && t.Against != nil {
		if ph.against, err = t.Against.NewTimer(c, flush); err != nil {
			err = fmt.Errorf("the device that it is measured against: %w", err)
		}
	}
	return ph, err
}
