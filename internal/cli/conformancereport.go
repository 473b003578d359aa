package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
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
	list     [][]any         // a row for each case
	coverage *functionCounts // nil without a device
	// converted counts the cases with tensors that were converted to another dtype.
	converted int
}

func newConformanceReport(o *conformanceOptions) *conformanceReport {
	return &conformanceReport{Summary: reports.NewSummary(), o: o, cases: reports.NewCaseTable()}
}

// add counts a case.
func (r *conformanceReport) add(t tested, results []*reports.Result) {
	var dtypes []string
	for _, arg := range t.c.Args() {
		dtypes = append(dtypes, arg.DType.String())
	}
	if dtypes == nil {
		dtypes = []string{"no tensor"}
	}
	r.count(t.c.Function(), dtypes, results, t.leftOut != "")
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
	r.list = append(r.list, []any{t.c.Name, t.c.Function(), strings.Join(dtypes, " "), f.Worst(),
		strings.Join(reasons, "; "), *results[0].Repro})
}

func (r *conformanceReport) count(function string, dtypes []string, results []*reports.Result, leftOut bool) {
	r.cases.Add(function, dtypes, results, leftOut)
	for _, res := range results {
		r.Add(res)
	}
}

// finish prints the tables, writes the files and returns the exit code.
func (r *conformanceReport) finish(a *app, j *jsonOutput, start time.Time) error {
	s := r.Summary
	s.Elapsed, s.PeakRSS = time.Since(start), rss.Peak()
	s.FailOn = r.o.failOn
	s.Exit = comparisonExit(s, 0)
	if err := j.summary(s); err != nil {
		return failed(err)
	}
	w := j.text()
	if !a.quiet {
		if err := r.cases.Write(w, a.outputWidth()); err != nil {
			return failed(err)
		}
		if r.coverage != nil {
			fmt.Fprintln(w, r.coverage.line())
		}
	}
	if r.converted > 0 {
		fmt.Fprintf(w, "converted: %d cases ran with tensors in the dtypes that the device wants\n", r.converted)
	}
	if err := s.Settings.Write(w, a.outputWidth()); err != nil {
		return failed(err)
	}
	if _, err := fmt.Fprintln(w, s.Line()); err != nil {
		return failed(err)
	}
	wrote := func(path string) {
		if !a.quiet {
			fmt.Fprintf(w, "wrote %s\n", path)
		}
	}
	if err := j.endWith(a, r.sheets(), wrote); err != nil {
		return failed(err)
	}
	return exitWith(s.Exit)
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

// databasePath is the file of --db_path, which the kit takes as an address.
func (o *conformanceOptions) databasePath() string {
	if o.dbPath == "" {
		return filepath.Join(o.cacheDir, "diopi_testrecord.db")
	}
	return strings.TrimPrefix(o.dbPath, "sqlite:///")
}

// A functionCounts is a device that counts the calls of each function. It may be used
// from several goroutines.
type functionCounts struct {
	dev     *devicebridge.Device
	mu      sync.Mutex
	calls   map[string]int
	unwell  map[string]int // calls that did not end well
	exports map[string]bool
}

func newFunctionCounts(dev *devicebridge.Device) *functionCounts {
	c := &functionCounts{dev: dev, calls: map[string]int{}, unwell: map[string]int{}, exports: map[string]bool{}}
	for _, f := range dev.Info().Functions {
		c.exports[f] = true
	}
	return c
}

// has reports whether the library exports a function.
func (c *functionCounts) has(function string) bool { return c.exports[function] }

// Run runs a plan on the device.
func (c *functionCounts) Run(ctx context.Context, p *diopi.Plan) (*devicebridge.Result, error) {
	res, err := c.dev.Run(ctx, p)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range res.Calls {
		if call.Status == devicebridge.NotRun {
			continue
		}
		c.calls[call.Function]++
		if call.Status != devicebridge.OK {
			c.unwell[call.Function]++
		}
	}
	return res, nil
}

// line says how many of the functions that the library exports were called.
func (c *functionCounts) line() string {
	called := 0
	for f := range c.calls {
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
		c.mu.Lock()
		calls, unwell := maps.Clone(c.calls), maps.Clone(c.unwell)
		c.mu.Unlock()
		for _, f := range diopi.Operators() {
			if !yield([]any{f.Name, f.Group, c.exports[f.Name], calls[f.Name], unwell[f.Name]}) {
				return
			}
		}
	}}
}
