package cli

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/run/budget"
	"github.com/optool/optool/internal/run/shard"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
)

// A timeBudget is the flag --budget; 0 if it was not given.
type timeBudget time.Duration

func (b *timeBudget) addFlag(cmd *cobra.Command) {
	cmd.Flags().Var(b, "budget",
		"start no call after this `TIME` (10m). The most informative calls come first: the first of each op, "+
			"dtype and shape. Calls that were not reached are counted")
}

func (b *timeBudget) String() string {
	if *b == 0 {
		return ""
	}
	return time.Duration(*b).String()
}

// Type names the flag's values in the help.
func (b *timeBudget) Type() string { return "TIME" }

func (b *timeBudget) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return fmt.Errorf("want a time above 0 such as 90s, 10m or 1h30m")
	}
	*b = timeBudget(d)
	return nil
}

const budgetSetting = "--budget"

// setting is the budget as a setting of the run.
func (b *timeBudget) setting() *reports.Setting {
	return &reports.Setting{Kind: byFlag, Name: budgetSetting, Value: b.String(), Effect: reports.Limits}
}

// grace is how long calls that began in time may take to end.
func (b timeBudget) grace() time.Duration {
	return min(max(time.Duration(b)/10, time.Second), 30*time.Second)
}

// A sampling is the flag --sample: calls of at least so many operations are checked in parts. It is 0 if it was
// not given.
type sampling float64

// sampledByDefault is the value of --sample without a number. Such calls take some tenths of a second.
const sampledByDefault = 5

func (s *sampling) addFlag(cmd *cobra.Command) {
	flag := cmd.Flags().VarPF(s, "sample", "", "check matrix products, convolutions and attention above this "+
		"many `GFLOP` in part: some elements exactly, the rest by random projections (--budget does so, too)")
	flag.NoOptDefVal = strconv.Itoa(sampledByDefault)
}

func (s *sampling) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*s), 'g', -1, 64)
}

// Type names the flag's values in the help.
func (s *sampling) Type() string { return "GFLOP" }

func (s *sampling) Set(text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x > 0) {
		return fmt.Errorf("want a number above 0, in thousand millions of operations")
	}
	*s = sampling(x)
	return nil
}

// sampling says how large calls are checked; nil if they are checked in whole.
func (o *replayOptions) sampling() *replay.Sampling {
	over := o.sample
	if over == 0 && o.budget > 0 && !o.full && o.none() {
		over = sampledByDefault
	}
	if over == 0 {
		return nil
	}
	return &replay.Sampling{Over: float64(over) * 1e9}
}

// hurried is how large calls are checked if the budget is probably too short for all calls. A product then takes
// little more time than reading its files.
var hurried = replay.Sampling{Over: 0.2e9, Elements: 1 << 14}

// hurry estimates the time of the remaining calls. If it exceeds the budget, large calls are checked in smaller
// parts, unless a flag says how to check them.
func (o *replayOptions) hurry(now *replay.Sampling, left shard.Cost) *replay.Sampling {
	takes := left.Duration() / time.Duration(runtime.GOMAXPROCS(0))
	if now == nil || o.sample > 0 || takes <= time.Duration(o.budget) {
		return now
	}
	return &hurried
}

// A spending is a running run with a budget. Only one goroutine may call its methods.
type spending struct {
	given  time.Duration
	end    time.Time       // when no call is begun any more
	calls  iter.Seq[found] // until the time is over
	over   chan struct{}   // closed when calls that were begun are to end
	timer  *time.Timer     // which closes it
	agenda *budget.Agenda
	spent  map[string]*reports.Spent // by op, of the calls that are selected
}

// plan lists the calls and orders them. Calls that take no time come first: those that are finished or not
// selected. The agenda orders the others.
func (r *replayRun) plan(ctx context.Context, list iter.Seq[found]) (*spending, error) {
	s := &spending{given: time.Duration(r.budget), over: make(chan struct{}), spent: map[string]*reports.Spent{}}
	s.end = r.start.Add(s.given)
	s.timer = time.AfterFunc(time.Until(s.end)+r.budget.grace(), func() { close(s.over) })
	var all []found
	for f := range list {
		all = append(all, f)
	}
	r.bar.expect(len(all), 0)
	sizes, costs := costs(all)
	kinds := r.kinds(ctx, all, sizes, time.Now().Add(s.given/planShare))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var first, rest []found
	var calls []budget.Call
	var left shard.Cost
	for i, f := range all {
		region := false
		if f.entry != nil {
			of, _ := r.fuse.of(f.entry)
			region = of != nil
		}
		if f.entry == nil || f.hidden != "" || region {
			first = append(first, f)
			continue
		}
		if f.finished {
			first = append(first, f)
		}
		f.bytes = sizes[i]
		of := s.of(f.entry.Op)
		of.Calls++
		of.Bytes += f.bytes
		if f.finished {
			of.CheckedCalls++
			of.CheckedBytes += f.bytes
		} else {
			left += costs[i].Cost
		}
		calls = append(calls, budget.Call{Name: f.entry.Rel, Op: f.entry.Op, Kind: kinds[i], Cost: costs[i].Cost,
			Done: f.finished})
		rest = append(rest, f)
	}
	r.opt.Sample = r.hurry(r.opt.Sample, left)
	s.agenda = budget.New(calls)
	for _, o := range r.Ops() { // of what was finished before
		if o.Worst.Finding() {
			s.agenda.Failed(o.Op)
		}
	}
	s.calls = func(yield func(found) bool) {
		for _, f := range first {
			if !yield(f) {
				return
			}
		}
		for !s.past() {
			if i, ok := s.agenda.Next(); !ok || !yield(rest[i]) {
				return
			}
		}
	}
	return s, nil
}

// past reports whether the time is over; never without a budget.
func (s *spending) past() bool { return s != nil && !time.Now().Before(s.end) }

// planShare is the part of the budget that finding the kinds of the calls may take.
const planShare = 10

// kinds asks the filter about all calls and groups those that do the same work. It compares the arguments in their
// files. Calls for which the time does not suffice are compared by their number of bytes.
func (r *replayRun) kinds(ctx context.Context, all []found, sizes []int64, until time.Time) []string {
	kinds := make([]string, len(all))
	var g errgroup.Group
	workers := 4 * runtime.GOMAXPROCS(0) // they wait for the file system
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(all) && ctx.Err() == nil; i += workers {
				f := &all[i]
				if f.entry == nil {
					continue
				}
				if !f.finished {
					var err error
					if f.hidden, err = r.hides(f.entry); err != nil {
						f.err = err
					}
					f.planned = true
				}
				kinds[i] = fmt.Sprintf("%s of %d bytes", f.entry.Op, sizes[i])
				if f.hidden == "" && time.Now().Before(until) {
					if kind := kindOf(f.entry, r.opt.Read); kind != "" {
						kinds[i] = kind
					}
				}
			}
			return nil
		})
	}
	_ = g.Wait() // none fails
	return kinds
}

// kindOf is the operator, the dtypes and the shapes of a call; "" if they cannot be read.
func kindOf(e *capture.Entry, read pthformat.ReadMode) string {
	c, err := e.Load(capture.LoadOptions{Read: read, Only: capture.Of(capture.Input)})
	if err != nil {
		c.Close()
		return ""
	}
	defer c.Close()
	var b strings.Builder
	b.WriteString(c.Op)
	for _, t := range c.Inputs() {
		b.WriteString(" " + t.Meta())
	}
	return b.String()
}

func (s *spending) of(op string) *reports.Spent {
	if s.spent[op] == nil {
		s.spent[op] = &reports.Spent{}
	}
	return s.spent[op]
}

// took counts the result of a call. Without a budget it does nothing, like told.
func (s *spending) took(x replayed) {
	if s == nil || x.of.entry == nil || x.found == nil {
		return
	}
	of := s.of(x.of.entry.Op)
	of.CheckedCalls++
	of.CheckedBytes += x.of.bytes
	if x.found.Bad() {
		s.agenda.Failed(x.of.entry.Op)
	}
}

// told adds the calls that were not checked to the summary.
func (s *spending) told(sum *reports.Summary) {
	if s != nil {
		sum.Spend(s.given, s.spent)
		sum.Settings.Find(budgetSetting).Hidden = sum.Left()
	}
}
