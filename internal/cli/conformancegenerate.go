package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/internal/rss"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
)

// generate is the mode gen_data.
func (o *conformanceOptions) generate(cmd *cobra.Command, a *app) error {
	run := &generation{conformanceOptions: o, app: a, summary: reports.NewSummary(), done: map[string]bool{},
		made: map[string]*reports.GeneratedCase{}, start: time.Now()}
	run.summary.Generated = &reports.Generated{}
	all, picked, err := o.expand()
	if err != nil {
		return err
	}
	run.store = conformance.NewStore(o.cacheDir, o.model)
	alone := o.keep.dir == "" && o.keep.resume // --resume that goes by the data
	keep := o.keep
	keep.resume = keep.resume && !alone
	if run.dir, err = a.openRun(cmd, keep, []string{o.cacheDir}, "", run.recall); err != nil {
		return err
	}
	defer run.dir.close()
	cases, err := run.dir.cases(picked)
	if err != nil {
		return err
	}
	if err := run.present(cases); err != nil {
		return failed(err)
	}
	if run.dir != nil && run.dir.Ended() {
		return run.dir.again(a, &reportOptions{files: o.records.files})
	}
	if run.json, err = a.openRecordsIn(run.dir, o.records, a.run(noDevice)); err != nil {
		return err
	}
	defer run.json.close()
	end, err := run.store.Begin(all)
	if err != nil {
		return failed(err)
	}
	defer end()
	run.opt = conformance.GenerateOptions{Seed: o.seed, RandomCotangents: o.cotangents == "random", Resume: alone}
	return run.all(cmd.Context(), cases)
}

// expand are all cases of the configuration, and those that are asked for.
func (o *conformanceOptions) expand() (all, picked []*configs.Case, err error) {
	entries, err := conformance.Source{Dir: o.configs}.Entries(o.model)
	if err != nil {
		return nil, nil, failed(err)
	}
	if all, err = configs.Expand(entries, nil); err != nil {
		return nil, nil, failed(err)
	}
	picked, err = o.pick(all, nil)
	return all, picked, err
}

// A generation is a run of gen_data.
type generation struct {
	*conformanceOptions
	app     *app
	store   *conformance.Store
	dir     *runDir // nil unless --run is given
	json    *jsonOutput
	opt     conformance.GenerateOptions
	summary *reports.Summary
	bar     *progress
	start   time.Time
	done    map[string]bool                   // functions named in the log
	made    map[string]*reports.GeneratedCase // of cases that were finished before
}

// A generated is what became of the data of a case.
type generated struct {
	of listedCase
	conformance.Made
	stop error // why the run cannot go on
}

// recall counts a case that was finished before.
func (run *generation) recall(c *reports.JournalCall) error {
	results, err := c.Results()
	for _, r := range results {
		run.summary.Add(r)
		run.made[r.Capture] = r.Generated
	}
	return err
}

// present refuses to go on if data that was finished before is gone.
func (run *generation) present(cases []listedCase) error {
	for _, c := range cases {
		was := run.made[c.Name]
		if !c.finished || was == nil {
			continue
		}
		if was.Input && !run.store.HasInput(c.Name) || was.Output && !run.store.HasOutput(c.Name) {
			return fmt.Errorf("%s has made %s, but %s has not all data of it: name another directory with --run",
				run.dir.Path, c.Name, run.store.Dir)
		}
	}
	return nil
}

// all makes the data of cases.
func (run *generation) all(ctx context.Context, cases []listedCase) error {
	run.bar = run.app.newProgress("gen_data", "case")
	run.bar.expect(len(cases), 0)
	lim := run.limits()
	err := ordered(ctx, run.app.jobs, slices.Values(cases),
		func(c listedCase) generated { return run.generateOne(ctx, lim, c) }, run.emit)
	run.bar.end()
	if err != nil && ctx.Err() == nil {
		return failed(err)
	}
	s := run.summary
	s.Interrupted, s.Elapsed, s.PeakRSS = ctx.Err() != nil, run.json.elapsed(run.start), rss.Peak()
	if s.Exit = generationExit(s); len(cases) == 0 && !s.Interrupted { // a part without cases
		s.Exit = ExitOK
	}
	if err := run.json.summary(s); err != nil {
		return failed(err)
	}
	fmt.Fprintf(run.json.text(), "%s, %.2f s\n", s.Generated, s.Elapsed.Seconds())
	run.json.ended = !s.Interrupted
	return run.app.unwritten(s.Exit, run.json.end(run.app))
}

// generateOne makes the data of a case, unless that is finished.
func (run *generation) generateOne(ctx context.Context, lim *limits, c listedCase) generated {
	g := generated{of: c}
	if c.finished {
		return g
	}
	if g.stop = run.dir.begin(run.json, c.Name); g.stop != nil {
		return g
	}
	var err error
	g.Made, err = within(ctx, lim, c.Bytes(), func() (conformance.Made, error) {
		m := run.store.Generate(c.Case, run.opt)
		return m, m.Err
	})
	if g.Case == nil { // it was given up
		g.Made = conformance.Made{Case: c.Case, Err: err}
	}
	if errors.As(g.Err, new(*conformance.WriteError)) { // a full disk
		g.stop = g.Err
	}
	return g
}

// emit reports a case.
func (run *generation) emit(g generated) error {
	if g.of.finished || g.stop != nil {
		run.bar.add(false, 0)
		return g.stop
	}
	m, fn := g.Made, g.of.Function()
	run.bar.add(m.Err != nil, 0)
	r := results.Conformance{}.Generated(m)
	run.summary.Add(r)
	if err := cmp.Or(run.json.result(r), run.json.done(&reports.Done{Capture: m.Case.Name, Index: g.of.index,
		Results: 1})); err != nil {
		return err
	}
	switch {
	case m.Err != nil:
		what := "output"
		if !m.Input {
			what = "input"
		}
		run.log(run.app, run.bar, "ERROR", "Generate %s data for diopi_functions.%s [%s] failed, cause by %v", what, fn,
			m.Case.Name, m.Err)
	case !m.Kept && !run.done[fn] && !run.app.quiet && !run.bar.drawn():
		run.done[fn] = true
		run.log(run.app, run.bar, "INFO", "Generate benchmark data for diopi_functions.%s", fn)
	}
	return nil
}

// generationExit is the exit code of a run of gen_data.
func generationExit(s *reports.Summary) int {
	g := s.Generated
	switch {
	case s.Interrupted:
		return ExitInterrupted
	case g.Inputs+g.Kept == 0, g.Failed > 0:
		return ExitFailed
	}
	return ExitOK
}
