package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/rss"
	"github.com/optool/optool/reports"
)

// A conformanceReport collects a run for tables and files.
type conformanceReport struct {
	*reports.Summary
	o        *conformanceOptions
	cases    *reports.CaseTable
	failing  *reports.Digest // the cases for which --fail-on makes the run fail
	list     [][]any         // a row for each case
	coverage *functionCounts // nil without a device
	// converted counts the cases with tensors that were converted to another dtype.
	converted int
	empty     bool  // the run is a part without cases
	unwritten error // why a file that only the command has could not be written
}

func newConformanceReport(o *conformanceOptions) *conformanceReport {
	return &conformanceReport{Summary: reports.NewSummary(), o: o, cases: reports.NewCaseTable(),
		failing: reports.NewDigest(o.failOn)}
}

// add counts a case.
func (r *conformanceReport) add(results []*reports.Result, leftOut bool) {
	name, function, dtypes := results[0].Capture, results[0].Op, results[0].Inputs
	if dtypes == nil {
		dtypes = []string{"no tensor"}
	}
	r.count(function, dtypes, results, leftOut)
	if !r.o.records.files.any() {
		return
	}
	f := reports.NewFinding(results)
	var reasons []string
	for _, res := range results {
		if res.Reason != "" {
			reasons = append(reasons, strings.Join(strings.Fields(res.Phase+" "+res.Target+": "+res.Reason), " "))
		}
	}
	r.list = append(r.list, []any{name, function, strings.Join(dtypes, " "), f.Worst(),
		strings.Join(reasons, "; "), *results[0].Repro})
}

func (r *conformanceReport) count(function string, dtypes []string, results []*reports.Result, leftOut bool) {
	r.cases.Add(function, dtypes, results, leftOut)
	if f := reports.NewFinding(results); !f.Bad() { // others are told at once
		r.failing.Add(f)
	}
	for _, res := range results {
		r.Add(res)
	}
}

// finish prints the tables, writes the files and returns the exit code.
func (r *conformanceReport) finish(a *app, j *jsonOutput, start time.Time) error {
	s := r.Summary
	s.Elapsed, s.PeakRSS = j.elapsed(start), rss.Peak()
	s.FailOn = r.o.failOn
	w := j.text()
	if s.Exit = comparisonExit(s, 0); r.empty && !s.Interrupted {
		s.Exit = ExitOK
	}
	if err := j.summary(s); err != nil {
		return failed(err)
	}
	if err := r.failing.Write(w, a.style()); err != nil {
		return failed(err)
	}
	if !a.quiet {
		if err := r.cases.Write(w, a.outputWidth()); err != nil {
			return failed(err)
		}
		if r.coverage != nil {
			fmt.Fprintln(w, r.coverage.line())
		}
	}
	if r.converted > 0 {
		fmt.Fprintf(w, "converted: %s ran with tensors in the dtypes that the device wants\n",
			reports.Count(r.converted, "case"))
	}
	if err := s.Settings.Write(w, a.outputWidth()); err != nil {
		return failed(err)
	}
	for _, text := range s.Told() {
		fmt.Fprintln(w, a.style().Wrap(text, 2))
	}
	if _, err := fmt.Fprintln(w, s.Line()); err != nil {
		return failed(err)
	}
	wrote := func(path string) {
		if !a.quiet {
			fmt.Fprintf(w, "wrote %s\n", path)
		}
	}
	j.ended = !s.Interrupted
	return a.unwritten(s.Exit, errors.Join(r.unwritten, j.endWith(a, r.sheets(), wrote)))
}

// sheets are the tables of a run beside those of all runs.
func (r *conformanceReport) sheets() []reports.Sheet {
	tables := r.cases.Sheets()
	if r.list != nil {
		tables = append(tables, reports.Sheet{Name: "cases", Columns: []string{"case", "function", "dtypes", "verdict",
			"reason", "repro"}, Rows: slices.Values(r.list)})
	}
	if r.coverage != nil {
		tables = append(tables, r.coverage.sheet())
	}
	return tables
}

// A functionCounts is a device that counts the calls of each function. It may be used
// from several goroutines.
type functionCounts struct {
	dev     *devicebridge.Device
	mu      sync.Mutex
	called  map[string]reports.Called
	exports map[string]bool
}

func newFunctionCounts(dev *devicebridge.Device) *functionCounts {
	c := &functionCounts{dev: dev, called: map[string]reports.Called{}, exports: map[string]bool{}}
	for _, f := range dev.Info().Functions {
		c.exports[f] = true
	}
	return c
}

// another is the same device with counts of its own.
func (c *functionCounts) another() *functionCounts {
	return &functionCounts{dev: c.dev, called: map[string]reports.Called{}, exports: c.exports}
}

// counts are the calls so far.
func (c *functionCounts) counts() map[string]reports.Called {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.called)
}

// add adds counts of another.
func (c *functionCounts) add(called map[string]reports.Called) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f, n := range called {
		c.called[f] = c.called[f].And(n)
	}
}

// has reports whether the library exports a function.
func (c *functionCounts) has(function string) bool { return c.exports[function] }

// Run runs a plan on the device.
func (c *functionCounts) Run(ctx context.Context, p *diopi.Plan) (*devicebridge.Result, error) {
	res, err := c.dev.Run(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, call := range res.Calls {
		switch call.Status {
		case devicebridge.NotRun:
		case devicebridge.OK:
			c.add(map[string]reports.Called{call.Function: {Calls: 1}})
		default:
			c.add(map[string]reports.Called{call.Function: {Calls: 1, Unwell: 1}})
		}
	}
	return res, nil
}

// line says how many of the functions that the library exports were called.
func (c *functionCounts) line() string {
	called := 0
	for f := range c.counts() {
		if c.exports[f] {
			called++
		}
	}
	return fmt.Sprintf("coverage: %d of the %d functions the library exports were called", called, len(c.exports))
}

// sheet has a row for each function of DIOPI's interface.
func (c *functionCounts) sheet() reports.Sheet {
	return reports.Sheet{Name: "coverage", Columns: []string{"function", "header", "exported", "called",
		"not ended well"}, Rows: func(yield func([]any) bool) {
		called := c.counts()
		for _, f := range diopi.Operators() {
			n := called[f.Name]
			if !yield([]any{f.Name, f.Group, c.exports[f.Name], n.Calls, n.Unwell}) {
				return
			}
		}
	}}
}
