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
	Renew  func() // called before each round of a task, unless nil
	Evict  *timing.Evictor

	Caches  []timing.Cache
	Runs    int           // of each series; 0: until the numbers hold
	MaxTime time.Duration // most to spend on the runs of a series
	Budget  *Budget       // nil: none
	Order   *rand.Rand    // goes over all tasks in each round, in random order; nil: one task after the other
	// Resolution, if Runs is 0, is the share of the time that timing.Compare shall tell: there are
	// rounds until the quickest agree, at most timing.MaxRounds.
	Resolution float64

	// Before, unless nil, is called before a task is measured; an error ends everything.
	Before func(ctx context.Context, k *Task) error
}

// longest is how often MaxTime the rounds of a series may take, with warming up and
// what is done between runs: what is that slow gets fewer rounds.
const longest = 2

// warmup is how long a round's runs are tried before they count, at least once.
const warmup = 4 * time.Millisecond

// mostRuns are the most samples of a series, each of which is a line of a JSON file:
// more of what takes microseconds would tell nothing new.
const mostRuns = 2000

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
	if t.Runs > 0 {
		return min(t.Runs, timing.MinRounds)
	}
	return timing.MaxRounds
}

// finished reports whether a task needs no more rounds, or has had its time.
func (t *Timer) finished(k *Task) bool {
	if t.Runs > 0 || len(k.Series) == 0 {
		return false
	}
	slow := k.spent > longest*t.MaxTime*time.Duration(len(k.Series))
	return slow || !slices.Contains(k.enough, false)
}

// enough reports whether a series needs no more rounds.
func (t *Timer) enough(s *timing.Series) bool {
	last := s.Samples[len(s.Samples)-1].Round
	return t.Runs == 0 && last+1 >= timing.MinRounds && timing.FloorOf(s.Samples).Decisive(t.Resolution)
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
	if allowed > 0 {
		each := allowed / time.Duration(len(phases)*len(t.Caches))
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
			s, err := timing.Measure(ctx, ph.runner, c, opt)
			switch {
			case s == nil:
			case at == len(k.Series):
				k.Series, k.enough = append(k.Series, k.series(ph, s)), append(k.enough, false)
			default:
				k.Series[at].Series.Add(s)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", ph.name, err)
			}
			k.enough[at] = t.enough(k.Series[at].Series)
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
	name   string
	runner timing.Runner
	work   replay.Work
}

// phases are the passes of a started call. A backward pass that a device does
// not have is left out.
func (t *Timer) phases(k *Task, p *replay.Call) ([]phase, error) {
	backward := p.NoBackward() == ""
	if t.Device == nil {
		ps := []phase{{"forward", &timing.HostFunc{Run: p.Forward, Caches: t.Evict}, p.ForwardWork()}}
		if backward {
			ps = append(ps, phase{"backward", &timing.HostFunc{Run: p.Backward, Caches: t.Evict}, p.BackwardWork()})
		}
		return ps, nil
	}
	flush := int64(t.Evict.Size())
	f, err := t.Device.NewTimer(p.DeviceCall(false), flush)
	if err != nil {
		return nil, err
	}
	ps := []phase{{"forward", f, p.ForwardWork()}}
	if !backward {
		return ps, nil
	}
	b, err := t.Device.NewTimer(p.DeviceCall(true), flush)
	if err != nil {
		k.NoBackward = err
		return ps, nil
	}
	return append(ps, phase{"backward", b, p.BackwardWork()}), nil
}
