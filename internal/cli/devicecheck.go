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
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/replay/devicecheck"
	"github.com/optool/optool/replay/ontorch"
	"github.com/optool/optool/reports"
)

// A checkReport is what the generated cases said of a device.
type checkReport struct {
	Operators []*checkedOperator `json:"operators"` // of which the device has something, in the order of the table
	// Functions of a library, in the order of the header. Those that it exports, or with --op those that were called.
	Functions []*devicecheck.Function `json:"functions,omitempty"`
	Judged    int                     `json:"judged"`   // operators of which some case ran
	Cases     int                     `json:"cases"`    // that ran
	Findings  int                     `json:"findings"` // of all cases
	Lacking   int                     `json:"lacking"`  // operators of which the device has nothing
	Outside   int                     `json:"outside"`  // operators for which DIOPI has no function
	Uncalled  []string                `json:"uncalled"` // functions that the library exports and no case called

	kinds []*checkedKind // findings that are alike
}

type checkedOperator struct {
	Op        string          `json:"op"`
	Functions []string        `json:"functions"` // of the device that its cases called
	Cases     int             `json:"cases"`
	Judged    int             `json:"judged"`
	Unrun     int             `json:"not_run"`     // after calls that did not return
	Longest   int             `json:"longest_row"` // the largest last dimension of an argument that was judged
	Findings  []*checkFinding `json:"findings"`
	Absent    []*checkAbsence `json:"absent"`

	place string // the file and line that declare it
}

type checkFinding struct {
	Check     string   `json:"check"`
	Case      string   `json:"case"`
	Detail    string   `json:"detail"`
	Functions string   `json:"functions,omitempty"` // that gave the wrong value
	Causes    []string `json:"causes,omitempty"`    // of the first finding of its kind
	Repro     string   `json:"repro,omitempty"`     // a command line that runs the case alone

	op   string
	made *opcheck.Made
}

// A checkAbsence is a reason why cases, or parts of them, were not judged.
type checkAbsence struct {
	Reason string   `json:"reason"`
	Cases  int      `json:"cases"`
	DTypes []string `json:"dtypes"`
	ops    []string
}

// runChecks runs optool's cases on the device and prints what is wrong and what was not judged.
func (o *deviceOptions) runChecks(ctx context.Context, a *app, d *target) error {
	entries, err := o.operators(a, d)
	if err != nil {
		return err
	}
	suite := devicecheck.Suite(d.Device, a.known())
	plain, release, err := o.plain(ctx, d)
	if err != nil {
		return err
	}
	defer release()
	suite.Runner.(*devicecheck.Runner).Plain = plain
	suite.Limit = 20 * cmp.Or(o.timeout, deviceTimeout) // each call has its own
	if o.only >= 0 {
		suite.Case = func(i int) bool { return i == o.only }
	}
	r := &checkReport{Operators: []*checkedOperator{}}
	functions := devicecheck.Functions{}
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
		out := suite.Judge(e)
		if ctx.Err() != nil {
			break
		}
		op := o.checkedOperator(e, out)
		op.Functions = append(op.Functions, functions.Add(out, d.has)...)
		r.add(op)
		bar.add(len(op.Findings) > 0, 0)
	}
	bar.end()
	refused := r.misdeclared()
	r.end(d, functions, o.filter.Ops == nil && o.filter.NotOps == nil && o.only < 0)
	o.explain(ctx, a, d, r)
	if o.json {
		d.report.Check = r
		err = reports.NewJSONLines(a.Out).Write(&d.report)
	} else {
		err = r.write(a, d.calledOf(len(functions)))
	}
	switch {
	case ctx.Err() != nil:
		return failed(ctx.Err())
	case err != nil:
		return failed(err)
	case r.Findings > 0:
		return exitWith(ExitDiffers)
	case refused != nil && o.only < 0:
		return usageError("nothing was judged of %s, which %s declares: the table says why", refused.Op, refused.place)
	case r.Judged == 0 && o.only >= 0:
		return &exitError{ExitFailed, fmt.Errorf("nothing was judged: there is no case %d, or the device does not take it",
			o.only)}
	case r.Judged == 0 && len(r.Operators) > 0:
		return &exitError{ExitFailed, errors.New("nothing was judged: the table says why")}
	case r.Judged == 0:
		return &exitError{ExitFailed, errors.New("nothing was judged: the device lacks what these operators take")}
	}
	return nil
}

// misdeclared is the first operator of a file of --ops whose own line computes none of its cases; nil if none.
func (r *checkReport) misdeclared() *checkedOperator {
	for _, op := range r.Operators {
		if op.place != "" && op.Judged == 0 && op.refusedByReference() {
			return op
		}
	}
	return nil
}

// plain is the processor of PyTorch, of the Python of a device of PyTorch; nil for a library. The device itself is that
// if nothing was imported that may replace functions.
func (o *deviceOptions) plain(ctx context.Context, d *target) (plain replay.Device, release func(), err error) {
	const cpu = torchbridge.Prefix + "cpu"
	if !isTorch(o.device) {
		return nil, func() {}, nil
	}
	if o.device == cpu && len(o.torch.imports)+len(o.torch.maps) == 0 {
		return d.Device, func() {}, nil
	}
	other := o.deviceFlags
	other.device, other.torch.imports, other.torch.maps = cpu, nil, nil
	dev, err := other.openTorch(ctx, "cpu")
	if err != nil {
		return nil, nil, err
	}
	return ontorch.New(ctx, dev, ontorch.Options{}), func() { dev.Close() }, nil
}

// calledOf says how many of a library's functions were called.
func (d *target) calledOf(called int) string {
	if d.report.libraryReport == nil {
		return ""
	}
	return fmt.Sprintf("; %d of the %d functions the library exports were called", called, len(d.report.Exported))
}

func (o *deviceOptions) checkedOperator(e *opdef.Entry, out *opcheck.Outcome) *checkedOperator {
	op := &checkedOperator{Op: e.Names[0], Functions: []string{}, Cases: out.Cases, Judged: out.Judged,
		Unrun: out.Unrun, Longest: out.LongestRow(), Findings: []*checkFinding{},
		Absent: []*checkAbsence{}, place: e.Place}
	for _, f := range out.Findings {
		found := &checkFinding{Check: f.Check, Case: f.Case, Detail: f.Detail, Functions: f.Functions, op: op.Op,
			made: f.Call}
		if number, _, ok := strings.Cut(f.Case, ":"); ok {
			found.Repro = o.caseRepro(op.Op, number)
		}
		op.Findings = append(op.Findings, found)
	}
	for _, x := range out.Absent {
		op.Absent = append(op.Absent, &checkAbsence{Reason: x.Reason, Cases: x.Cases, DTypes: x.DTypes})
	}
	return op
}

// caseRepro is the command that runs one case of an operator.
func (o *deviceOptions) caseRepro(op, number string) string {
	args := o.command("device", "--check", "--op", quote(op), "--case", number)
	flags := o.deviceFlags
	flags.device = noDevice // it is the argument
	args = append(args, flags.repro()...)
	return o.withModules(append(args, quoteDevice(o.device)))
}

// refusedByReference reports whether the reference, not the device, is why a case was not judged.
func (op *checkedOperator) refusedByReference() bool {
	return slices.ContainsFunc(op.Absent, func(x *checkAbsence) bool {
		return strings.HasPrefix(x.Reason, opcheck.ReferenceRefuses)
	})
}

// add counts an operator.
func (r *checkReport) add(op *checkedOperator) {
	if op.Judged == 0 && len(op.Functions) == 0 && len(op.Findings) == 0 && !op.refusedByReference() {
		r.Lacking++
		return
	}
	r.Operators = append(r.Operators, op)
	r.Judged += min(op.Judged, 1)
	r.Cases += op.Judged
	r.Findings += len(op.Findings)
	for _, f := range op.Findings {
		r.file(f, op)
	}
}

// end says what is known of the functions of a library, of all or only of those that were called.
func (r *checkReport) end(d *target, functions devicecheck.Functions, all bool) {
	if d.report.libraryReport == nil {
		return
	}
	for _, name := range d.report.Exported {
		f := functions.Of(name)
		if f.Cases > 0 || all {
			r.Functions = append(r.Functions, f)
		}
		if f.Cases == 0 && all {
			r.Uncalled = append(r.Uncalled, name)
		}
	}
}

// A checkedKind is findings that are alike: the same functions give values that are wrong in the same way.
type checkedKind struct {
	key   string
	first *checkFinding
	some  []*checkFinding // of which causes are looked for
	ops   []string
	more  int // others
	// unseen are further ones that are wrong in the same words, of which no cause was looked for.
	unseen int
	unrun  int
}

// places matches what differs between cases that are wrong in the same way: numbers, the first wrong element.
var places = lazyregexp.New(`: (at \[|got |element ).*|\d+`)

// file puts a finding with those that are like it.
func (r *checkReport) file(f *checkFinding, op *checkedOperator) {
	key := cmp.Or(f.Functions, f.op) + "\n" + f.Check + places().ReplaceAllString(f.Detail, "#")
	i := slices.IndexFunc(r.kinds, func(k *checkedKind) bool { return k.key == key })
	if i < 0 {
		r.kinds = append(r.kinds, &checkedKind{key: key, first: f, some: []*checkFinding{f}, ops: []string{f.op},
			unrun: op.Unrun})
		return
	}
	k := r.kinds[i]
	if k.some = append(k.some, f); len(k.some) > explainedCases { // the first, and those that have most elements
		slices.SortStableFunc(k.some[1:], func(x, y *checkFinding) int {
			return cmp.Compare(y.elements(), x.elements())
		})
		k.some = k.some[:explainedCases]
	}
	if k.more++; !slices.Contains(k.ops, f.op) {
		k.ops, k.unrun = append(k.ops, f.op), k.unrun+op.Unrun
	}
}

// title names the functions of a kind, and the operators that call them.
func (k *checkedKind) title() string {
	if k.first.Functions == "" || k.first.Functions == k.first.op {
		return k.first.op
	}
	ops := k.ops[:min(len(k.ops), shownOperators)]
	text := k.first.Functions + " (" + strings.Join(ops, ", ")
	if n := len(k.ops) - len(ops); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text + ")"
}

const (
	shownOperators = 3                // in the title of a finding
	explainChecks  = 90 * time.Second // of looking for the causes of all findings
)

// explainedCases is how many cases of a kind are looked at for its cause.
const explainedCases = 4

// explain looks for the cause of each kind of findings. Some cases have too few elements to show it.
func (o *deviceOptions) explain(ctx context.Context, a *app, d *target, r *checkReport) {
	until := time.Now().Add(explainChecks)
	var kinds []*checkedKind
	for _, k := range r.kinds {
		kinds = append(kinds, k.parted(func(f *checkFinding, likely []string) []causes.Cause {
			if f.made == nil || ctx.Err() != nil || time.Now().After(until) {
				return nil
			}
			return devicecheck.Causes(d.Device, a.known(), f.made, &causes.Allowance{Until: until, Likely: likely})
		})...)
	}
	r.kinds = kinds
}

// parted looks for the causes of some cases of a kind. It is the kind with the first cause that was found, and a kind
// for each other one: cases that are wrong in the same words may have different faults.
func (k *checkedKind) parted(causesOf func(f *checkFinding, likely []string) []causes.Cause) []*checkedKind {
	kinds, of, likely := []*checkedKind{k}, map[string]*checkedKind{}, []string(nil)
	k.unseen = k.more + 1 - len(k.some)
	k.more -= k.unseen
	for i, f := range k.some {
		found := causesOf(f, likely)
		at := slices.IndexFunc(found, func(c causes.Cause) bool { return !c.Pattern })
		if at < 0 {
			if i == 0 {
				f.Causes = f.said(found, false)
			}
			continue
		}
		cause := places().ReplaceAllString(found[at].Text, "#")
		switch other := of[cause]; {
		case len(of) == 0:
			of[cause] = k
			k.first.Causes = f.said(found, i > 0)
		case other == nil:
			other = &checkedKind{key: k.key + "\n" + cause, first: f, some: []*checkFinding{f}, ops: []string{f.op}}
			of[cause], kinds = other, append(kinds, other)
			f.Causes = f.said(found, false)
			k.more--
		case other != k:
			other.more++
			k.more--
		}
		likely = append(likely, found[at].Text)
	}
	return kinds
}

// said are causes of a finding as texts, which name its case if they are those of another one, too.
func (f *checkFinding) said(found []causes.Cause, named bool) (texts []string) {
	for _, c := range found {
		x := reports.Cause{Targets: c.Targets, Text: c.Text, Exact: c.Exact, Pattern: c.Pattern}
		label := x.Label()
		if number, _, ok := strings.Cut(f.Case, ":"); ok && named {
			label += " of case " + number
		}
		texts = append(texts, label+": "+x.String())
	}
	return texts
}

// elements is how many elements the tensors of the call have.
func (f *checkFinding) elements() (n int) {
	if f.made != nil {
		for _, a := range f.made.Call.Tensors() {
			n += a.Tensor.Numel()
		}
	}
	return n
}

// writeFindings prints the findings, those of one kind as one, those of one function together.
func (r *checkReport) writeFindings(a *app) {
	st := a.style()
	first := map[string]int{} // by title, where it stands first
	for i, k := range r.kinds {
		if _, known := first[k.title()]; !known {
			first[k.title()] = i
		}
	}
	slices.SortStableFunc(r.kinds, func(x, y *checkedKind) int {
		return cmp.Compare(first[x.title()], first[y.title()])
	})
	title := ""
	for i, k := range r.kinds {
		if k.title() != title {
			if i > 0 {
				fmt.Fprintln(a.Out)
			}
			title = k.title()
			fmt.Fprintf(a.Out, "%s\n", st.Paint(verdict.Fail, st.Wrap("FAIL  "+reports.OneLine(title), 6)))
		}
		f := k.first
		text := f.Detail
		if f.Case != "" {
			text += "; case " + f.Case
		}
		if k.more > 0 {
			text += fmt.Sprintf(", and %s like it", reports.Count(k.more, "other"))
		}
		if k.unseen > 0 {
			text += fmt.Sprintf(", and %s in the same words, of which no cause was looked for",
				reports.Count(k.unseen, "other"))
		}
		fmt.Fprintf(a.Out, "  %s\n", st.Wrap(reports.OneLine(text), 4))
		for _, c := range f.Causes[:min(len(f.Causes), shownCauses)] {
			fmt.Fprintf(a.Out, "    %s\n", st.Wrap(reports.OneLine(c), 6))
		}
		if f.Repro != "" {
			fmt.Fprintf(a.Out, "    again: %s\n", reports.Command(f.Repro))
		}
		if k.unrun > 0 {
			fmt.Fprintf(a.Out, "  %s not run: calls before did not return\n", reports.Count(k.unrun, "case"))
		}
	}
	if len(r.kinds) > 0 {
		fmt.Fprintln(a.Out)
	}
}

// shownCauses is how many causes of a finding are printed; --json has all.
const shownCauses = 3

// writeFunctions prints a row for each function of a library.
func (r *checkReport) writeFunctions(a *app) error {
	if len(r.Functions) == 0 || a.quiet {
		return nil
	}
	l := reports.NewListing(a.Out, a.outputWidth(), "function", "judged", "wrong", "what was not judged")
	l.Whole(0)
	l.Right(1)
	l.Right(2)
	l.Wrap()
	for _, f := range r.Functions {
		if err := l.Add(f.Function, strconv.Itoa(f.Judged), strconv.Itoa(f.Wrong), unjudged(f)); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Out)
	return err
}

// unjudged says what was not judged of a function.
func unjudged(f *devicecheck.Function) string {
	if f.Cases == 0 {
		return "no case calls it"
	}
	var parts []string
	if len(f.Never) > 0 {
		parts = append(parts, "never judged: "+strings.Join(f.Never, ", "))
	}
	if len(f.Refused) > 0 {
		parts = append(parts, "refused: "+strings.Join(f.Refused, ", "))
	}
	return strings.Join(parts, "; ")
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

// write prints what is wrong, what was not judged, and the totals.
func (r *checkReport) write(a *app, called string) error {
	r.writeFindings(a)
	if err := r.writeFunctions(a); err != nil {
		return err
	}
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
	return r.writeTotals(a, called)
}

func (r *checkReport) writeTotals(a *app, called string) error {
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
		text += "no finding" + r.rows()
	} else {
		text += fmt.Sprintf("%d wrong, %s", wrong, reports.Count(r.Findings, "finding"))
	}
	var never []string
	for _, f := range r.Functions {
		if len(f.Never) > 0 {
			never = append(never, strings.Join(f.Never, ", ")+" of "+f.Function)
		}
	}
	if n := len(never); n > shownNever {
		more := reports.Count(n-shownNever, "other function")
		never = append(never[:shownNever], "arguments of "+more)
	}
	if len(never) > 0 {
		called = "; never judged: " + strings.Join(never, "; ") + called
	}
	_, err := fmt.Fprintln(a.Out, st.Wrap(text+called, 2))
	return err
}

// rows says how long the rows were in which nothing was found: a kernel that takes them in blocks may be wrong in
// longer ones.
func (r *checkReport) rows() string {
	longest, ops := 0, []*checkedOperator{}
	for _, op := range r.Operators {
		if op.Judged > 0 {
			longest, ops = max(longest, op.Longest), append(ops, op)
		}
	}
	if longest == 0 {
		return ""
	}
	text := fmt.Sprintf(" in rows of up to %s", reports.Count(longest, "element"))
	few := 0
	for _, op := range ops {
		if op.Longest < opdef.LongRows[0] {
			few++
		}
	}
	if few > 0 && few < len(ops) {
		text += fmt.Sprintf(" (of %s only below %d)", reports.Count(few, "operator"), opdef.LongRows[0])
	}
	return text
}

// shownNever is how many functions the last line names whose arguments were never judged.
const shownNever = 4
