package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/devicecheck"
	"github.com/optool/optool/reports"
)

// A checkReport is what the generated cases said of a device.
type checkReport struct {
	Operators []*checkedOperator `json:"operators"` // of which the device has something, in the order of the table
	Judged    int                `json:"judged"`    // operators of which some case ran
	Cases     int                `json:"cases"`     // that ran
	Findings  int                `json:"findings"`
	Lacking   int                `json:"lacking"`  // operators of which the device has nothing
	Outside   int                `json:"outside"`  // operators for which DIOPI has no function
	Uncalled  []string           `json:"uncalled"` // functions that the library exports and no case called
}

type checkedOperator struct {
	Op        string          `json:"op"`
	Functions []string        `json:"functions"` // of the device that its cases called
	Cases     int             `json:"cases"`
	Judged    int             `json:"judged"`
	Unrun     int             `json:"not_run"` // after calls that did not return
	Findings  []checkFinding  `json:"findings"`
	Absent    []*checkAbsence `json:"absent"`
}

type checkFinding struct {
	Check  string `json:"check"`
	Case   string `json:"case"`
	Detail string `json:"detail"`
}

// A checkAbsence is a reason why cases, or parts of them, were not judged.
type checkAbsence struct {
	Reason string   `json:"reason"`
	Cases  int      `json:"cases"`
	DTypes []string `json:"dtypes"`
	ops    []string
}

// A watchedDevice keeps which functions it was asked to call.
type watchedDevice struct {
	replay.Device
	called []string
}

func (d *watchedDevice) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := d.Device.Run(c)
	for _, f := range run.Functions {
		if !slices.Contains(d.called, f) {
			d.called = append(d.called, f)
		}
	}
	return run
}

// runChecks runs optool's cases on the device and prints what is wrong and what was not judged.
func (o *deviceOptions) runChecks(ctx context.Context, a *app, d *target) error {
	entries, err := o.operators(a, d)
	if err != nil {
		return err
	}
	watched := &watchedDevice{Device: d.Device}
	suite := devicecheck.Suite(watched, a.known())
	suite.Limit = 20 * cmp.Or(o.timeout, deviceTimeout) // each call has its own
	r := &checkReport{Operators: []*checkedOperator{}}
	called := map[string]bool{}
	bar := a.newProgress("check", "operator")
	bar.expect(len(entries), 0)
	defer bar.end()
	for _, e := range entries {
		if !d.may(e) {
			r.Outside++
			bar.add(false, 0)
			continue
		}
		bar.begin(e.Names[0])
		suite.Forms = slices.ContainsFunc(e.Names, func(name string) bool { return o.torch.maps[name] != "" })
		watched.called = nil
		op := newCheckedOperator(e.Names[0], suite.Judge(e))
		if ctx.Err() != nil {
			return failed(ctx.Err())
		}
		for _, f := range watched.called {
			if d.has(f) {
				op.Functions = append(op.Functions, f)
				called[f] = true
			}
		}
		r.add(op)
		bar.add(len(op.Findings) > 0, 0)
		if !o.json {
			if err := bar.print(func() error { return op.write(a) }); err != nil {
				return failed(err)
			}
		}
	}
	bar.end()
	if d.report.libraryReport != nil && o.filter.Ops == nil && o.filter.NotOps == nil {
		r.Uncalled = slices.DeleteFunc(slices.Clone(d.report.Exported), func(f string) bool { return called[f] })
	}
	if o.json {
		d.report.Check = r
		err = reports.NewJSONLines(a.Out).Write(&d.report)
	} else {
		err = r.write(a, d.calledOf(len(called)))
	}
	if err != nil {
		return failed(err)
	}
	switch {
	case r.Findings > 0:
		return exitWith(ExitDiffers)
	case r.Judged == 0:
		return &exitError{ExitFailed, errors.New("nothing was judged: the device lacks what these operators take")}
	}
	return nil
}

// calledOf says how many of a library's functions were called.
func (d *target) calledOf(called int) string {
	if d.report.libraryReport == nil {
		return ""
	}
	return fmt.Sprintf("; %d of the %d functions the library exports were called", called, len(d.report.Exported))
}

func newCheckedOperator(name string, out *opcheck.Outcome) *checkedOperator {
	op := &checkedOperator{Op: name, Functions: []string{}, Cases: out.Cases, Judged: out.Judged, Unrun: out.Unrun,
		Findings: []checkFinding{}, Absent: []*checkAbsence{}}
	for _, f := range out.Findings {
		op.Findings = append(op.Findings, checkFinding{Check: f.Check, Case: f.Case, Detail: f.Detail})
	}
	for _, x := range out.Absent {
		op.Absent = append(op.Absent, &checkAbsence{Reason: x.Reason, Cases: x.Cases, DTypes: x.DTypes})
	}
	return op
}

// add counts an operator.
func (r *checkReport) add(op *checkedOperator) {
	if op.Judged == 0 && len(op.Functions) == 0 && len(op.Findings) == 0 {
		r.Lacking++
		return
	}
	r.Operators = append(r.Operators, op)
	r.Judged += min(op.Judged, 1)
	r.Cases += op.Judged
	r.Findings += len(op.Findings)
}

// places matches what differs between cases that are wrong in the same way: numbers, the first wrong element.
var places = lazyregexp.New(`: (at \[|got |element ).*|\d+`)

// write prints the findings of an operator, those of one kind as one.
func (op *checkedOperator) write(a *app) error {
	if len(op.Findings) == 0 {
		return nil
	}
	st := a.style()
	fmt.Fprintf(a.Out, "%s\n", st.Paint(verdict.Fail, "FAIL  "+op.Op))
	kinds := map[string][]checkFinding{}
	var order []string
	for _, f := range op.Findings {
		kind := f.Check + places().ReplaceAllString(f.Detail, "#")
		if kinds[kind] == nil {
			order = append(order, kind)
		}
		kinds[kind] = append(kinds[kind], f)
	}
	for _, kind := range order {
		all := kinds[kind]
		text := all[0].Detail
		if all[0].Case != "" {
			text += "; case " + all[0].Case
		}
		if n := len(all) - 1; n > 0 {
			text += fmt.Sprintf(", and %s like it", reports.Count(n, "other"))
		}
		fmt.Fprintf(a.Out, "  %s\n", st.Wrap(reports.OneLine(text), 4))
	}
	if op.Unrun > 0 {
		fmt.Fprintf(a.Out, "  %s not run: calls before did not return\n", reports.Count(op.Unrun, "case"))
	}
	_, err := fmt.Fprintln(a.Out)
	return err
}

// absences are the reasons why something was not judged, those of most cases first.
func (r *checkReport) absences() []*checkAbsence {
	all := map[string]*checkAbsence{}
	for _, op := range r.Operators {
		for _, x := range op.Absent {
			why := x.Reason
			if _, rest, ok := strings.Cut(why, ": "); ok && strings.HasPrefix(why, "op ") { // it names the operator
				why = rest
			}
			sum := all[why]
			if sum == nil {
				sum = &checkAbsence{Reason: why}
				all[why] = sum
			}
			sum.Cases += x.Cases
			sum.ops = append(sum.ops, op.Op)
			for _, t := range x.DTypes {
				if !slices.Contains(sum.DTypes, t) {
					sum.DTypes = append(sum.DTypes, t)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(x, y *checkAbsence) int {
		return cmp.Or(cmp.Compare(y.Cases, x.Cases), cmp.Compare(x.Reason, y.Reason))
	})
}

// mostReasons is how many reasons the screen shows; --json has all.
const mostReasons = 30

// write prints what was not judged, and the totals.
func (r *checkReport) write(a *app, called string) error {
	if absences := r.absences(); len(absences) > 0 && !a.quiet {
		l := reports.NewListing(a.Out, a.outputWidth(), "not judged of", "cases", "why")
		l.Names(0)
		l.Right(1)
		l.Wrap()
		for _, x := range absences[:min(len(absences), mostReasons)] {
			ops := x.ops[0]
			if n := len(x.ops) - 1; n > 0 {
				ops += fmt.Sprintf(" and %d more", n)
			}
			why := x.Reason
			if len(x.DTypes) > 0 && !strings.HasPrefix(why, "the library has no ") { // which none of them changes
				why += " (" + strings.Join(x.DTypes, ", ") + ")"
			}
			if err := l.Add(ops, strconv.Itoa(x.Cases), why); err != nil {
				return err
			}
		}
		if err := l.Flush(); err != nil {
			return err
		}
		if n := len(absences) - mostReasons; n > 0 {
			fmt.Fprintf(a.Out, "and %s: --json has all\n", reports.Count(n, "other reason"))
		}
		fmt.Fprintln(a.Out)
	}
	wrong := 0
	for _, op := range r.Operators {
		wrong += min(len(op.Findings), 1)
	}
	st := a.style()
	line := func(format string, args ...any) { fmt.Fprintln(a.Out, st.Wrap(fmt.Sprintf(format, args...), 2)) }
	if len(r.Uncalled) > 0 {
		line("no case calls these functions, so they are not judged (optool conformance --mode run_test calls more): %s",
			strings.Join(r.Uncalled, ", "))
	}
	if r.Lacking > 0 {
		line("the device has no function for %s", reports.Count(r.Lacking, "other operator"))
	}
	if r.Outside > 0 {
		line("DIOPI has no function for %s", reports.Count(r.Outside, "operator"))
	}
	text := fmt.Sprintf("%s judged in %s: ", reports.Count(r.Judged, "operator"), reports.Count(r.Cases, "case"))
	if r.Findings == 0 {
		text += "no finding"
	} else {
		text += fmt.Sprintf("%d wrong, %s", wrong, reports.Count(r.Findings, "finding"))
	}
	_, err := fmt.Fprintln(a.Out, st.Wrap(text+called, 2))
	return err
}
