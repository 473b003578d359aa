package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/timing"
	"github.com/optool/optool/verdict"
)

// A task is a call to measure, and what was measured of it.
type task struct {
	entry  *capture.Entry
	op     string
	dtype  string
	shapes string
	calls  int     // recorded calls that do the same work
	bytes  float64 // of their inputs, all together
	series []*reports.Timing
	peak   reports.Peak

	verdict verdict.Verdict // on its results; "" if they were not looked at
	spent   time.Duration
	failed  bool // it could not be measured: later rounds leave it out
}

// A timer measures tasks and reports them.
type timer struct {
	*app
	o       *timeOptions
	opt     replay.Options
	evict   *timing.Evictor
	on      *ondevice.Device // nil: the reference
	library *devicebridge.Device
	check   *accuracy // nil: results are not looked at
	budget  *budget   // nil: none
	peaks   peaks
	json    *jsonOutput
	csv     *timeCSV
	exports []exportFile
	table   *timeTable
	tally   tally
	left    leftOut
	done    []*reports.Timing
}

// collect finds the calls to measure, each kind of work once, without reading
// payloads.
func (t *timer) collect(ctx context.Context, paths []string) ([]*task, error) {
	var tasks []*task
	byKey := map[string]*task{}
	for f := range scan(ctx, paths, capture.Options{}) {
		t.tally.walked++
		if f.err != nil {
			t.refuse(f.err)
			continue
		}
		ok, err := t.o.filter.Match(f.entry, t.o.read)
		if err != nil {
			t.refuse(err)
		}
		if err != nil || !ok {
			continue
		}
		t.tally.captures++
		p := replay.Open(f.entry, t.opt)
		if err := p.Err(); err != nil {
			p.Close()
			if err := t.leave(f.entry, f.entry.Op, err); err != nil {
				return nil, failed(err)
			}
			continue
		}
		key, bytes := p.Key(), p.InputBytes()
		if k := byKey[key]; k != nil && !t.o.each {
			k.calls++
			k.bytes += bytes
		} else {
			k = &task{entry: f.entry, op: p.Op, dtype: p.DType(), shapes: p.Shapes(), calls: 1, bytes: bytes}
			byKey[key] = k
			tasks = append(tasks, k)
		}
		p.Close()
	}
	if ctx.Err() != nil {
		return nil, failed(ctx.Err())
	}
	return tasks, t.o.found(ctx, t.tally, paths)
}

func (t *timer) refuse(err error) {
	t.tally.refused++
	t.warn("%v", err)
}

// measureAll measures the tasks, in rounds: nothing else runs meanwhile, since it
// would be measured too.
func (t *timer) measureAll(ctx context.Context, tasks []*task) error {
	bar := t.newProgress("time")
	defer bar.end()
	if t.o.interleave {
		err := t.interleave(ctx, tasks)
		bar.pause()
		for _, k := range tasks {
			if err := t.report(k); err != nil {
				return err
			}
		}
		return err
	}
	for i, k := range tasks {
		allowed, ok := t.budget.allow(i)
		if !ok {
			return nil
		}
		err := t.measure(ctx, k, 0, t.rounds(), allowed)
		bar.add(false)
		bar.pause()
		if err := t.report(k); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// interleave measures all tasks in each round, in random order.
func (t *timer) interleave(ctx context.Context, tasks []*task) error {
	r := rand.New(rand.NewPCG(t.o.seed, 0))
	order := slices.Clone(tasks)
	for round := range t.rounds() {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for i, k := range order {
			allowed, ok := t.budget.allow(round*len(order) + i)
			if !ok {
				return nil
			}
			if err := t.measure(ctx, k, round, round+1, allowed); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// rounds is how many rounds the runs are spread over: as many as compare --time
// needs to tell what is slower.
func (t *timer) rounds() int {
	if t.o.runTimes > 0 {
		return min(t.o.runTimes, timing.Rounds)
	}
	return timing.Rounds
}

// share is the part of n that falls to a round, so that the parts sum up to n.
func share(n, round, rounds int) int { return n*(round+1)/rounds - n*round/rounds }

// measure takes the samples of some rounds of a task, for about the allowed time
// (0: no limit). What cannot be run is a warning; the error is that of ctx.
func (t *timer) measure(ctx context.Context, k *task, from, to int, allowed time.Duration) error {
	began := time.Now()
	if k.failed {
		return nil
	}
	if from == 0 && t.check != nil {
		if err := t.check.look(ctx, t, k); err != nil {
			return err
		}
	}
	p := replay.Open(k.entry, t.opt)
	defer p.Close()
	err := p.Start()
	var phases []phase
	if err == nil {
		phases, err = t.phases(k, p)
	}
	for round := from; err == nil && round < to; round++ {
		slow := k.spent > longest*t.o.maxTime*time.Duration(len(k.series))
		late := allowed > 0 && round > from && time.Since(began) > allowed
		if round > 0 && t.o.runTimes == 0 && (slow || late) {
			break
		}
		err = t.round(ctx, k, phases, round, allowed/time.Duration(to-from))
	}
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	k.failed = true
	return t.leave(k.entry, k.op, err)
}

// longest is how often --max-time the rounds of a series may take, with warming
// up and what is done between runs: what is that slow gets fewer rounds.
const longest = 2

// mostRuns are the most samples of a series, each of which is a line of the JSON
// file: more of what takes microseconds would tell nothing new.
const mostRuns = 2000

// round takes the samples of one round of a task, for about the allowed time (0:
// no limit).
func (t *timer) round(ctx context.Context, k *task, phases []phase, round int, allowed time.Duration) error {
	began := time.Now()
	defer func() { k.spent += time.Since(began) }()
	if t.library != nil {
		t.library.Renew()
	}
	rounds := t.rounds()
	opt := timing.Options{
		Runs: share(t.o.runTimes, round, rounds), MaxTime: t.o.maxTime / time.Duration(rounds),
		Warmup:  10 * time.Millisecond,
		MaxRuns: mostRuns / rounds, Round: round,
	}
	if allowed > 0 {
		each := allowed / time.Duration(len(phases)*len(t.o.caches))
		opt.Warmup = max(time.Microsecond, min(opt.Warmup, each/4))
		opt.MaxTime = max(time.Microsecond, min(opt.MaxTime, each-opt.Warmup))
	}
	at := 0
	for _, ph := range phases {
		for _, c := range t.o.caches {
			s, err := timing.Measure(ctx, ph.runner, c, opt)
			switch {
			case s == nil:
			case at == len(k.series):
				k.series = append(k.series, t.newTiming(k, ph.name, ph.work, s))
			default:
				k.series[at].Series.Add(s)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", ph.name, err)
			}
			at++
		}
	}
	return nil
}

// A phase is a pass of a call to measure.
type phase struct {
	name   string
	runner timing.Runner
	work   replay.Work
}

// phases are the passes of a started call. A backward pass that a device does
// not have is left out.
func (t *timer) phases(k *task, p *replay.Call) ([]phase, error) {
	why := p.NoBackward()
	if t.on == nil {
		ps := []phase{{"forward", &timing.HostFunc{Run: p.Forward, Caches: t.evict}, p.ForwardWork()}}
		if why == "" {
			ps = append(ps, phase{"backward", &timing.HostFunc{Run: p.Backward, Caches: t.evict}, p.BackwardWork()})
		}
		return ps, nil
	}
	flush := int64(t.evict.Size())
	f, err := t.on.NewTimer(p.DeviceCall(false), flush)
	if err != nil {
		return nil, err
	}
	ps := []phase{{"forward", f, p.ForwardWork()}}
	if why == "" {
		b, err := t.on.NewTimer(p.DeviceCall(true), flush)
		switch {
		case err == nil:
			ps = append(ps, phase{"backward", b, p.BackwardWork()})
		case len(k.series) == 0: // not told yet
			return ps, t.forwardOnly(k, err)
		}
	}
	return ps, nil
}

func (t *timer) newTiming(k *task, phase string, w replay.Work, s *timing.Series) *reports.Timing {
	return &reports.Timing{
		Capture: k.entry.Rel, Op: k.op, ForwardID: results.Known(k.entry.ID), Phase: phase, Shapes: k.shapes,
		Calls: k.calls, Series: s,
		Bytes: w.Bytes, Flops: w.Flops, Peak: k.peak,
	}
}

// An accuracy compares the results of what is measured with the reference.
type accuracy struct {
	o       replayOptions
	opt     replay.Options
	saver   *failureSaver
	csv     *lazyCSV
	summary *reports.Summary
}

func (t *timer) newAccuracy(start time.Time) (*accuracy, error) {
	tol, err := loadTolerances(t.o.tolerances)
	if err != nil {
		return nil, err
	}
	c := &accuracy{
		o: replayOptions{selection: t.o.selection, deviceFlags: t.o.deviceFlags, forwardOnly: t.o.forwardOnly,
			tolerances: t.o.tolerances},
		opt: t.opt, saver: &failureSaver{dir: t.o.out, now: start}, csv: &lazyCSV{dir: t.o.out, block: t.o.csvBlock},
		summary: reports.NewSummary(),
	}
	c.opt.Tolerances = tol
	if t.on != nil {
		c.opt.Device = t.on
	}
	return c, nil
}

// look replays a task, and prints and writes what is found.
func (c *accuracy) look(ctx context.Context, t *timer, k *task) error {
	r := c.o.replay(found{entry: k.entry}, c.opt, c.saver)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case r.err != nil || r.unsaved != nil:
		t.refuse(errors.Join(r.err, r.unsaved))
	}
	if r.found == nil {
		return nil
	}
	k.verdict = r.found.Worst()
	for _, res := range r.found.Results {
		c.summary.Add(res)
		if err := t.json.result(res); err != nil {
			return err
		}
	}
	if err := c.csv.rows(r.found.Rows); err != nil || !r.found.Bad() {
		return err
	}
	return r.found.Write(t.json.text(), t.tableWidth())
}
