// Package view shows a step to people: on one screen, as a page, as graphs.
package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// An Extra is what a screen says beside the trace.
type Extra struct {
	Style   reports.Style
	Without step.Moved // what the first fault did to a loss
	// Fault names what Without is about, if that is not the first finding.
	Fault string
	// Together is what all faults up to that loss did to it, and Faults is their number.
	Together step.Moved
	Faults   int
	// Shares are what faults did to the losses of later steps.
	Shares  map[*step.Step]step.Share
	Imagine []string // losses of imagined runs, a line each
	Next    []string // commands to run next
	Send    string   // the command that packs the first wrong call; "" if no call is wrong
	Device  string   // that the calls were run again on
	// More, if not nil, writes further tables, before the commands.
	More func(w io.Writer) error
}

// MostSteps is how many losses of further steps a screen has.
const MostSteps = listed

// How many rows the tables of a screen have, and how many the table of calls on a device.
const (
	listed       = 5
	rerunsListed = 12
)

// Screen writes what there is to know of a step first: the verdict in a sentence,
// the first fault and its way to the loss, the largest effects, what to run next.
func Screen(w io.Writer, t *step.Trace, x Extra) error {
	var b strings.Builder
	counts(&b, t, x.Style)
	findings(&b, t, x)
	if t.Runs != nil {
		runs(&b, t, x.Style)
	}
	s := t.MainStep()
	if s != nil {
		paragraphs(&b, "\n"+loss(t, s, x), x.Style)
	}
	for _, line := range x.Imagine {
		b.WriteString(x.Style.Wrap(reports.OneLine(line), 2) + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if err := reruns(w, t, x); err != nil {
		return err
	}
	if s != nil {
		if err := effects(w, s); err != nil {
			return err
		}
	}
	if x.More != nil {
		if err := x.More(w); err != nil {
			return err
		}
	}
	for i, line := range x.Next {
		if i == 0 {
			line = "\nnext: " + reports.Command(line)
		} else {
			line = "      " + reports.Command(line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// runNames are what texts about two runs call them.
var runNames = [2]string{"this run", "the other run"}

// counts is the line that says what was read.
func counts(out *strings.Builder, t *step.Trace, st reports.Style) {
	var b strings.Builder
	defer func() { paragraphs(out, b.String(), st) }()
	if t.Runs != nil {
		if text := t.Runs.Steps.String(runNames); text != "" {
			b.WriteString(text + "\n\n")
		}
	}
	calls, steps, losses, alike := 0, 0, 0, len(t.Processes) > 1
	for _, p := range t.Processes {
		calls += len(p.Calls)
		n, of := p.CountSteps()
		first, _ := t.Processes[0].CountSteps()
		alike = alike && n == first && n > 0
		steps += n
		losses += of
	}
	counted := reports.Count(steps, "step")
	if alike { // the ranks of one program make the same step
		counted = reports.Count(steps/len(t.Processes), "step") + " each"
	}
	if losses != steps {
		counted += " with " + reports.Plural(losses, "1 loss", "%d losses")
	}
	fmt.Fprintf(&b, "%s of %s, %s; %s\n", reports.Count(calls, "call"), processes(len(t.Processes)), counted, t.Seen())
	for _, l := range t.Layouts {
		fmt.Fprintf(&b, "layout: %s\n", l)
	}
	if differ, shared := t.Apart(); len(differ) > 0 {
		v := differ[0]
		fmt.Fprintf(&b, "%s differ between processes that have %d in common, first %s of %s of process %d\n",
			reports.Count(len(differ), "parameter"), shared, reports.Name(v.Target), v.Call, v.Call.Process.PID)
	}
	for _, line := range stateWrites(t.StateWrites()) {
		b.WriteString("note: " + line + "\n")
	}
	for _, s := range t.Skipped() {
		rank := ""
		if len(t.Processes) > 1 {
			rank = fmt.Sprintf(" of rank %d", s.Loss.Process.Rank)
		}
		fmt.Fprintf(&b, "%s%s overflowed at the loss scale %g, and its update was skipped as it should be\n",
			s.Name(), rank, s.LossScale())
	}
	if given := t.GivenUp(); len(given) > 0 {
		fmt.Fprintf(&b, "%s stopped at a limit, first of %s: %s\n", reports.Count(len(given), "check"),
			given[0].Call, given[0])
	}
	if n := t.NotRun(); n > 0 {
		fmt.Fprintf(&b, "%s could not be run again: the calls that read their results take the recorded ones\n",
			reports.Count(n, "call"))
	}
}

// stateWrites says which lines of the program write the state of an optimizer, too.
func stateWrites(all []*step.StateWrite) (lines []string) {
	for _, w := range all {
		of := w.Parameters[0]
		if n := len(w.Parameters); n > 1 {
			of = fmt.Sprintf("%d parameters, the first %s,", n, of)
		}
		lines = append(lines, reports.OneLine(fmt.Sprintf("state of %s is also written at %s", of, w.Location)))
	}
	return lines
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func findings(b *strings.Builder, t *step.Trace, x Extra) {
	first, own := t.First(), t.Findings
	if len(own) > 0 && own[0].Rule == verdict.NonFinite { // before everything else
		fmt.Fprintf(b, "\n%s\n", finding(own[0], x.Style))
		own = own[1:]
	}
	for _, c := range t.SavedWrong() {
		rule := strings.ToUpper(string(verdict.Wrong))
		text := x.Style.Wrap(rule+", "+saved(c), 2)
		fmt.Fprintf(b, "\n%s%s\n", x.Style.Paint(verdict.Fail, rule), strings.TrimPrefix(text, rule))
	}
	if text := faultsOfRuns(t); text != "" {
		fmt.Fprintf(b, "\n%s\n", x.Style.Wrap(text, 2))
	}
	if first == nil {
		fmt.Fprintf(b, "\n%s\n", headline(nothing(t), t, x.Style))
	} else {
		defer doubted(b, t, x.Style)
	}
	list := step.KindsOf(slices.DeleteFunc(slices.Clone(own), (*step.Finding).Alone)) // runs counts these
	for i, k := range list {
		if i == listed {
			furtherKinds(b, list[i:], x.Style)
			break
		}
		b.WriteString("\n")
		written(b, t, k.Explained(), x)
		if len(k) > 1 {
			fmt.Fprintf(b, "  like it: %s\n", x.Style.Wrap(likeText(k), 2))
		}
		if k[0] == first {
			behind(b, first, x.Style)
		}
	}
}

// titled is how many kinds of findings have a line where they have no paragraph.
const titled = 20

// furtherKinds has a line for each of further kinds of findings, and says how to see them in full.
func furtherKinds(b *strings.Builder, list []step.Kind, st reports.Style) {
	fmt.Fprintf(b, "\nfurther findings, a line for each kind; --markdown FILE or --html FILE has them in full:\n")
	for i, k := range list {
		if i == titled {
			n := 0
			for _, k := range list[i:] {
				n += len(k)
			}
			fmt.Fprintf(b, "  ... and %s\n", reports.Count(n, "finding"))
			return
		}
		text := strings.ToUpper(string(k[0].Rule)) + ": " + sentence(k.Explained())
		if n := len(k) - 1; n > 0 {
			text = fmt.Sprintf("%s (and %d like it)", text, n)
		}
		fmt.Fprintf(b, "  %s\n", st.Wrap(reports.OneLine(text), 4))
	}
}

// doubted names, beside findings, the gradients of the program's functions that are not derivatives.
func doubted(b *strings.Builder, t *step.Trace, st reports.Style) {
	for _, g := range t.Doubted() {
		fmt.Fprintf(b, "\n%s\n", st.Wrap(reports.OneLine("not judged: "+g.String()), 2))
	}
}

// faultsOfRuns says which faults of two runs are new, remain or are repaired; "" without another run, or where no call
// is wrong.
func faultsOfRuns(t *step.Trace) string {
	if t.Runs == nil || t.Runs.Faulty.String() == "" {
		return ""
	}
	return "faults of this run, compared with those of the other run: " + t.Runs.Faulty.String()
}

// shownLike is how many further calls of a kind are named.
const shownLike = 4

// likeText names the further calls of a kind, with the steps and the ranks of those of others.
func likeText(k step.Kind) string {
	var like []string
	at := k[0].Call
	for _, f := range k[1:min(len(k), 1+shownLike)] {
		c := f.Call
		text := c.String()
		if c == at { // further values of one call
			text = f.Target
			if name := f.Parameter(); name != "" {
				text += " (" + name + ")"
			}
		}
		if c.Step != nil && at.Step != nil && c.Step.Recorded() != at.Step.Recorded() {
			text += fmt.Sprintf(" in step %d", c.Step.Recorded())
		}
		if c.Process != at.Process && c.Process.Rank >= 0 {
			text += fmt.Sprintf(" of rank %d", c.Process.Rank)
		} else if c.Process != at.Process {
			text += fmt.Sprintf(" of process %d", c.Process.PID)
		}
		like = append(like, text)
	}
	text := strings.Join(like, ", ")
	if more := len(k) - 1 - len(like); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// written writes a finding, its causes and where its call is.
func written(b *strings.Builder, t *step.Trace, f *step.Finding, x Extra) {
	fmt.Fprintf(b, "%s\n", finding(f, x.Style))
	for i := range f.Causes[:min(len(f.Causes), 2)] {
		label := "  " + f.Causes[i].Label() + ": "
		fmt.Fprintf(b, "%s%s\n", label, f.Causes[i].Wrapped(x.Style, len(label)))
	}
	if f.Between() != "" && f.Drawn() == step.NotDrawn {
		fmt.Fprintf(b, "  %s\n", x.Style.Wrap(reports.OneLine(aside(t, f)), 4))
	}
	if note := replacedNote(f); note != "" {
		fmt.Fprintf(b, "  %s\n", x.Style.Wrap(note, 4))
	}
	if of := f.GradientOf(); of != "" {
		fmt.Fprintf(b, "  %s\n", x.Style.Wrap(reports.OneLine(f.Target+": "+of), 4))
	} else if name := f.Parameter(); name != "" {
		fmt.Fprintf(b, "  parameter %s\n", reports.OneLine(name))
	}
	for _, place := range places(f.Call) {
		fmt.Fprintf(b, "  %s\n", reports.OneLine(place)) // whole: it is there to be copied
	}
	todo, send := whatToDo(f)
	for _, line := range todo {
		fmt.Fprintf(b, "  %s\n", x.Style.Wrap(reports.OneLine(line), 4))
	}
	for _, dir := range send {
		fmt.Fprintf(b, "    %s\n", reports.OneLine(dir))
	}
}

// replacedNote says that a function of the program is in the place of the one that the finding names; "" if none is.
func replacedNote(f *step.Finding) string {
	if f.Call.Entry.Replaced == "" {
		return ""
	}
	return reports.OneLine("note: " + reports.ReplacedText(f.Call.Op, f.Call.Entry.Replaced, f.Call.Entry.ReplacedAt))
}

// whatToDo says of a value that changed between two calls where to look, whom to ask and what to send; nothing of other
// findings, which have commands of their own.
func whatToDo(f *step.Finding) (todo, send []string) {
	if changed, found := f.BetweenPasses(); changed {
		calls := []*step.Call{f.Call}
		if found != nil {
			calls = append(calls, found)
		}
		return writesUnseen(fmt.Sprintf("between %s, which read the value, and the backward pass behind it",
			cmp.Or(f.Call.Entry.Location, f.Call.String()))), folders(calls...)
	}
	if f.Rule != verdict.Changed || f.From == nil || f.From.Call == f.Call || f.Told() {
		return nil, nil
	}
	made, read := f.From.Call, f.Call
	switch f.Drawn() {
	case step.DrawnAnew:
		return []string{"checkpoint with preserve_rng_state=True; if your program does, ask those who maintain the random " +
			"numbers of the device, and send them what was recorded of both calls:"}, folders(made, read)
	case step.SetBack: // the finding names the line
		return nil, nil
	case step.SetInside:
		return []string{"ask those who maintain the random numbers of the device, and send them what was recorded of " +
			"both calls:"}, folders(made, read)
	case step.DrawnAgain:
		return []string{"look between both calls for what sets the generator back; if nothing does, ask those who maintain " +
			"the random numbers of the device, and send them what was recorded of both calls:"}, folders(made, read)
	}
	between := "between these two calls"
	if a, b := made.Entry.Location, read.Entry.Location; a != "" && b != "" {
		did := "made the value"
		if v := read.Value(f.Target); v != nil && !f.From.Made() && f.From.Address != v.Address {
			did = "read the parameter" // whose gradient is looked at
		} else if !f.From.Made() {
			did = "read the value"
		}
		between = fmt.Sprintf("between %s, which %s, and %s, which reads it", a, did, b)
	}
	if may, record := f.MayBeLeft(); may {
		return append([]string{"it may hold what an earlier step left, which is not recorded, and to which this step's " +
			"backward pass added: is it set to zero before that (optimizer.zero_grad(), which passes over parameters that the " +
			"optimizer does not have)? To be sure, record the step before, too" + record,
			"if it is set to zero:"}, writesUnseen(between)...), folders(made, read)
	}
	return writesUnseen(between), folders(made, read)
}

// writesUnseen says where to look for what writes a value without being recorded, and whom to ask.
func writesUnseen(where string) []string {
	return []string{
		"look " + where + " for what writes without being recorded: a kernel of your own, a copy on another " +
			"stream, numpy or C++ code that has the memory",
		"if your program writes nothing there, ask those who maintain the memory allocator and the streams of the " +
			"device, and send them what was recorded of both calls:",
	}
}

// folders are the directories that hold the files of calls, below the PATH of the step as far as that is known.
func folders(calls ...*step.Call) (dirs []string) {
	for _, c := range calls {
		dir := c.Entry.Rel
		if c.Entry.ByOther() { // one file has many calls
			dir = path.Dir(dir)
		}
		if dir != "." && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return []string{"the whole recording (PATH)"}
	}
	return dirs
}

// aside says of a finding that is not about its call whether that call is wrong.
func aside(t *step.Trace, f *step.Finding) string {
	if operatorWrong(t) {
		return "it is between " + f.Between() + ", which is no operator's fault"
	}
	return "it is between " + f.Between() + "; no operator was found wrong"
}

// saved says what is wrong with a failure that was saved beside the step.
func saved(c *step.Call) string {
	text := "a failure saved beside the step: " + c.String()
	for _, r := range c.Results {
		if r.Verdict.Differs() {
			return reports.OneLine(text + ", " + r.Target + ": " + r.Reason)
		}
	}
	return reports.OneLine(text)
}

// paragraphs writes lines, each wrapped.
func paragraphs(b *strings.Builder, s string, st reports.Style) {
	for line := range strings.Lines(s) {
		b.WriteString(st.Wrap(reports.OneLine(strings.TrimSuffix(line, "\n")), 0) + "\n")
	}
}

// finding is a finding in a sentence, its rule coloured by how bad it is.
func finding(f *step.Finding, st reports.Style) string {
	rule := strings.ToUpper(string(f.Rule))
	if f.WrongIn == reports.WrongInSecond {
		rule = strings.ToUpper(f.WrongIn.Word())
	}
	v := verdict.Fail
	if f.Rule == verdict.Drift || f.Rule == verdict.NonFinite {
		v = verdict.Warn
	}
	return st.Paint(v, rule) + strings.TrimPrefix(st.Wrap(reports.OneLine(rule+": "+sentence(f)), 2), rule)
}

// headline is what a trace without a fault comes to, coloured where it was judged
// and has no finding.
func headline(s string, t *step.Trace, st reports.Style) string {
	s = st.Wrap(s, 0)
	if judge(t).verdict == verdict.Pass {
		return st.Paint(verdict.Pass, s)
	}
	return s
}

// runs says what two runs have in common, where they part, and which calls only one of them made.
func runs(out *strings.Builder, t *step.Trace, st reports.Style) {
	if t.Runs != nil {
		paragraphs(out, "\n"+runsText(t), st)
	}
}

// runsText is a line for each fact about two runs.
func runsText(t *step.Trace) string {
	b := &strings.Builder{}
	missing, inserted := only(t, verdict.Missing), only(t, verdict.Inserted)
	fmt.Fprintf(b, "%s in both runs, %d only in the other, %d only in this one", reports.Count(t.Runs.Paired, "call"),
		missing.n, inserted.n)
	if n := t.Runs.Paired - t.Runs.Compared; n > 0 {
		fmt.Fprintf(b, "; of %d the values were not recorded in both", n)
	}
	b.WriteString("\n" + departure(t))
	missing.list(b, "only in the other run")
	inserted.list(b, "only in this run")
	var retyped []string
	for _, c := range t.Runs.Retyped {
		retyped = append(retyped, fmt.Sprintf("%s %s instead of %s", c.Op, c.DType(), c.Peer.DType()))
	}
	often(b, "in another dtype", retyped)
	return b.String()
}

// onlyCalls are the operators of the n calls that only one of two runs made: by the program itself, and inside other
// recorded calls.
type onlyCalls struct {
	n           int
	ops, within []string
}

func only(t *step.Trace, rule verdict.Rule) (o onlyCalls) {
	for _, f := range t.Findings {
		if f.Rule != rule {
			continue
		}
		o.n++
		if f.Call.Outer() != nil {
			o.within = append(o.within, f.Call.Op)
		} else {
			o.ops = append(o.ops, f.Call.Op)
		}
	}
	return o
}

func (o onlyCalls) list(b *strings.Builder, title string) {
	often(b, title, o.ops)
	often(b, title+", inside other calls", o.within)
}

// departure says where two runs part: the finding about it, the value that differs first, and whether rounding explains
// it.
func departure(t *step.Trace) string {
	r := t.Runs
	switch {
	case r.Compared == 0:
		return ""
	case r.Apart == nil:
		return "the values that both runs recorded are the same\n"
	}
	first := fmt.Sprintf("%s of %s, by %.2g of the largest element", reports.Name(r.Apart.Target), r.Apart.Call, r.By)
	if f := t.Parted(); f != nil {
		if f.Call == r.Apart.Call && f.Target == r.Apart.Target {
			return "the runs part at " + first + "\n"
		}
		return fmt.Sprintf("the runs part at %s of %s; before that, the first value that differs is %s\n",
			reports.Name(f.Target), f.Call, first)
	}
	first = "the runs differ first in " + first
	switch {
	case t.First() != nil:
		return first + "; no finding is about a value in which the runs part\n"
	case r.Other != nil:
		return fmt.Sprintf("%s; the other run has a fault of its own: %s\n", first, sentence(r.Other))
	case r.Rounding() && t.Seen().Linked():
		return strings.Replace(first, "differ first in", "differ only by rounding, first in", 1) +
			": in both runs each of these calls is within rounding of what it should give\n"
	}
	return first + "; no call was found at which they part by more than rounding, but not every call was judged in both " +
		"runs, or not every value is known to be the one that was made\n"
}

// often lists what occurs most often.
func often(b *strings.Builder, title string, names []string) {
	if len(names) == 0 {
		return
	}
	count := map[string]int{}
	var order []string
	for _, n := range names {
		if count[n]++; count[n] == 1 {
			order = append(order, n)
		}
	}
	slices.SortStableFunc(order, func(x, y string) int { return count[y] - count[x] })
	fmt.Fprintf(b, "%s (%d): ", title, len(names))
	for i, n := range order {
		if i == listed {
			fmt.Fprintf(b, ", and %s", reports.Count(len(order)-i, "other"))
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(reports.Name(n))
		if count[n] > 1 {
			fmt.Fprintf(b, " x%d", count[n])
		}
	}
	b.WriteString("\n")
}

// places are the capture of a call, its module and its line, as far as they were recorded.
func places(c *step.Call) []string {
	return slices.DeleteFunc([]string{c.Entry.Rel, moduleOf(c), c.Entry.Location},
		func(s string) bool { return s == "" })
}

// moduleOf names the module of a call, which may be no more than a number; "" if it was not recorded.
func moduleOf(c *step.Call) string {
	if c.Entry.Module == "" {
		return ""
	}
	return "module " + c.Entry.Module
}

// gapsListed is how many gaps an all-clear names.
const gapsListed = 3

// nothing says that there is no fault, or that none could be found, and what was not looked at.
func nothing(t *step.Trace) string {
	said := nothingWrong(t)
	if t.Judged() == 0 {
		return said
	}
	gaps := t.Seen().Gaps
	for i, g := range gaps[:min(len(gaps), gapsListed)] {
		if i == 0 {
			said += " Largest gaps: "
		} else {
			said += "; "
		}
		said += g.String()
	}
	if len(gaps) > gapsListed {
		said += "; and " + reports.Count(len(gaps)-gapsListed, "more kind")
	}
	if len(gaps) > 0 {
		said += "."
	}
	if c := t.Piecewise(); c != nil && t.Runs == nil {
		said += " The calls of each update were judged one by one (first " + c.String() + "), not as the rule of an " +
			"optimizer: step --against compares them with those of another run."
	}
	return said
}

// nothingWrong says that nothing is wrong, as far as the calls were judged.
func nothingWrong(t *step.Trace) string {
	partly := "Nothing found wrong in what could be judged"
	if len(t.SavedWrong()) > 0 {
		partly = "Nothing else found wrong in what could be judged"
	}
	switch n, given, l := t.Judged(), t.GivenUp(), t.Runs.LossesApart(); {
	case l != nil && t.Runs.Other != nil:
		return fmt.Sprintf("The losses of %s differ, %.7g in the other run and %.7g in this one: the other run has a fault "+
			"that was not found in this one, %s at %s.", l[1].Name(), l[0].Captured, l[1].Captured, t.Runs.Other.Rule,
			t.Runs.Other.Call)
	case l != nil:
		return fmt.Sprintf("The losses of %s differ, %.7g in the other run and %.7g in this one: optool did not find "+
			"where the runs part, and no call is wrong by itself.", l[1].Name(), l[0].Captured, l[1].Captured)
	case n == 0 && t.Runs != nil && t.Runs.Compared > 0:
		return "The runs do not diverge; no call could be run again and judged by itself."
	case n == 0:
		return "Nothing was judged: no call could be run again and compared."
	case len(given) > 0:
		return fmt.Sprintf("%s; %s stopped at a limit, first of %s.", partly, reports.Count(len(given), "check"),
			given[0].Call)
	case len(t.Damaged()) > 0:
		return fmt.Sprintf("%s; files of %s are damaged, first of %s.", partly, reports.Count(len(t.Damaged()), "call"),
			t.Damaged()[0])
	case slices.ContainsFunc(t.Findings, func(f *step.Finding) bool { return f.Rule == verdict.NonFinite }):
		return partly + "; errors of values that are NaN or Inf are not known."
	case !t.Seen().All():
		return partly + "."
	}
	return "Nothing is wrong: every call follows from what it read, and nothing changed between calls."
}

// explained is the sentence of a finding and its first cause.
func explained(f *step.Finding) string {
	if len(f.Causes) == 0 {
		return sentence(f)
	}
	return sentence(f) + "; " + f.Causes[0].Label() + ": " + f.Causes[0].String()
}

// sentence says what a finding is about.
func sentence(f *step.Finding) string {
	call := f.Call.String()
	switch {
	case f.Side == step.Other:
		call += " in the other run"
	case f.Rule == verdict.Wrong && f.WrongIn == reports.WrongInBoth:
		call += ", still wrong as in the other run,"
	case f.Rule == verdict.Wrong && f.WrongIn == reports.WrongInFirst:
		call += ", right in the other run,"
	case f.Rule == verdict.Changed && f.WrongIn == reports.WrongInBoth:
		call += ", as in the other run"
	case f.Rule == verdict.Changed && f.WrongIn == reports.WrongInFirst:
		call += ", not in the other run"
	}
	switch f.Rule {
	case verdict.Wrong:
		return fmt.Sprintf("%s of %s does not match its inputs: %s", f.Target, call, f.Reason)
	case verdict.Changed:
		return fmt.Sprintf("%s of %s: %s", f.Target, call, f.Reason)
	}
	if f.Target == "" {
		return fmt.Sprintf("%s: %s", f.Call, f.Reason)
	}
	return fmt.Sprintf("%s of %s: %s", f.Target, call, f.Reason)
}

// behind says what became of a fault.
func behind(b *strings.Builder, f *step.Finding, st reports.Style) {
	if f.WrongIn == reports.WrongInSecond { // its value is right here
		return
	}
	if s := f.Call.Step; s != nil && !f.InBackward() {
		if way := f.Way(s.Loss); len(way) > 1 {
			names := make([]string, 0, 9)
			for i, c := range way {
				if len(way) > 9 && i == 4 {
					names = append(names, fmt.Sprintf("... %d calls ...", len(way)-8))
				}
				if len(way) > 9 && i >= 4 && i < len(way)-4 {
					continue
				}
				names = append(names, c.String())
			}
			fmt.Fprintf(b, "  %s\n", st.Wrap("way to the loss: "+strings.Join(names, " > "), 4))
		}
	}
	n := f.Reach()
	text := reports.Count(n, "call") + " read its wrong values, directly or through others"
	switch {
	case f.InBackward() && n == 0:
		text = "it is in the backward pass: the loss is not affected, and the gradients of no other recorded call depend on it"
	case f.InBackward():
		text = fmt.Sprintf("it is in the backward pass: the loss is not affected, but the gradients of %s before it depend "+
			"on it", reports.Count(n, "call"))
	}
	if f.Behind > 0 {
		text += fmt.Sprintf("; because of it %s went wrong", reports.Count(f.Behind, "further value"))
	}
	if n+f.Behind > 0 || f.InBackward() {
		fmt.Fprintf(b, "  %s\n", st.Wrap(text, 4))
	}
}

// without says what the first fault did to a loss, and what all faults up to there did if that is something else.
func without(b *strings.Builder, s *step.Step, x Extra) {
	first, all := x.Without, x.Together
	name := cmp.Or(x.Fault, "the first fault")
	if first.Calls > 1 {
		name += fmt.Sprintf(" (%s, %s)", first.Op, reports.Count(first.Calls, "call"))
	}
	moved(b, s, first, name)
	other := all.Why != first.Why || all.Why == "" && !math.IsNaN(all.Loss) && all.Loss != first.Loss
	if n := x.Faults; n > 1 && other {
		faults := fmt.Sprintf("all %d wrong values", n) // of which several may be one operator's
		if n == 2 {
			faults = "both wrong values"
		}
		moved(b, s, all, faults)
	}
}

// singleRounding is what the rounding of calls in float32 moves a loss by at most, relative to it.
const singleRounding = 1e-6

// moved says what faults did to a loss.
func moved(b *strings.Builder, s *step.Step, m step.Moved, faults string) {
	verb := func(one, more string) string {
		if strings.HasSuffix(faults, "faults") || strings.HasSuffix(faults, "values") {
			return more
		}
		return one
	}
	if m.Why != "" {
		of := "the loss"
		if m.Step != s {
			of = "the next loss"
		}
		fmt.Fprintf(b, "what %s %s to %s cannot be told: %s\n", faults, verb("does", "do"), of, m.Why)
	}
	if math.IsNaN(m.Loss) {
		return
	}
	of := "it"
	if m.Step != s {
		of = m.Step.LossName()
	}
	if m.Loss == m.Step.Captured {
		fmt.Fprintf(b, "%s %s not move %s\n", faults, verb("does", "do"), m.Step.LossName())
		return
	}
	if m.Rounds() {
		fmt.Fprintf(b, "%s %s %s by no more than rounding does, %.2g: in which direction cannot be told\n", faults,
			verb("moves", "move"), of, m.Rounding)
	} else {
		by := m.Step.Captured - m.Loss
		fmt.Fprintf(b, "without %s %s would have been %.9g: ", faults, of, m.Loss)
		if by-by != 0 {
			fmt.Fprintf(b, "it is %v", m.Step.Captured)
		} else {
			fmt.Fprintf(b, "%s by %+.3g", verb("the fault moves it", "they move it"), by)
		}
		if m.Kept > 0 {
			fmt.Fprintf(b, ", with the errors of %s as recorded", reports.Count(m.Kept, "other fault"))
		}
		if m.Rounding > math.Abs(by)/10 || m.Rounding > singleRounding*math.Abs(m.Loss) {
			fmt.Fprintf(b, "; a run without it rounds anew, which may move it by %.2g", m.RoundsBy())
		}
		b.WriteString("\n")
	}
	if n := len(m.Averaged); n > 0 {
		fmt.Fprintf(b, "that is an estimate: what %s passes on average through %s with random numbers inside, first %s\n",
			verb("the fault does", "they do"), reports.Count(n, "call"), m.Averaged[0])
	}
	if n := len(m.Bridged); n > 0 {
		fmt.Fprintf(b, "that is an estimate: what %s passes through %s of unknown operators by their "+
			"recorded gradients, first %s\n",
			verb("the fault does", "they do"), reports.Count(n, "call"), m.Bridged[0])
	}
	if v := m.NotFinite; v != nil {
		fmt.Fprintf(b, "how far %s moved the parameters has no number: %s of %s is not finite\n", verb("it", "they"),
			reports.Name(v.Target), v.Call)
	}
	if m.Update == m.Update {
		fmt.Fprintf(b, "%s left the parameters elsewhere, by %.3g %% of how far the update moved them\n",
			verb("the fault", "they"), 100*m.Update)
	}
}

// loss says what the loss is and what the errors of the calls do to it, a line for each fact.
func loss(t *step.Trace, s *step.Step, x Extra) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "loss %.9g recorded", s.Captured)
	switch {
	case s.Untold != nil:
		fmt.Fprintf(b, ", not known exactly, for what %s should give is not known: %s", s.Untold.Call, s.Untold.Reason)
	case math.IsNaN(s.Exact):
		b.WriteString(", not known exactly")
	default:
		fmt.Fprintf(b, ", %.9g exact, difference %+.3g; the errors of all calls add up to %+.3g", s.Exact,
			s.Captured-s.Exact, s.Predicted)
	}
	b.WriteString(lossCall(s))
	if dt := s.Loss.DType(); dt.IsFloat() && dt.Size() <= 2 && !math.IsNaN(s.Exact) {
		fmt.Fprintf(b, "the loss is in %s: rounding it alone moves it by up to %.2g\n", dt,
			dt.Eps()/2*math.Abs(s.Exact))
	}
	lossesOfRuns(b, t)
	without(b, s, x)
	others(b, t, s, x)
	if n := len(s.Unlinked); n > 0 {
		fmt.Fprintf(b, "%s came from calls that were not recorded: the exact run takes their recorded values, first %s of %s\n",
			reports.Count(n, "input"), reports.Name(s.Unlinked[0].Target), s.Unlinked[0].Call)
	}
	if n := len(s.Breaks); n > 0 && !math.IsNaN(s.Exact) {
		fmt.Fprintf(b, "the exact run takes the recorded results of %s, first %s: %s\n",
			reports.Count(n, "call"), s.Breaks[0].Call, reports.OneLine(s.Breaks[0].Reason))
	}
	misled(b, s.Misled)
	kept := func(s *step.Step) bool { return s.Kept != nil }
	if i := slices.IndexFunc(s.Loss.Process.Steps, kept); i >= 0 && !math.IsNaN(s.Exact) {
		k := s.Loss.Process.Steps[i].Kept
		fmt.Fprintf(b, "the exact run keeps the recorded decisions: with its own the program would make other calls, first "+
			"behind %s: %s\n", k.Call, k.Reason)
	}
	if n := len(s.Bridged); n > 0 && !math.IsNaN(s.Exact) {
		fmt.Fprintf(b, "the exact run passes through %s of unknown operators by their recorded gradients, which "+
			"is exact for small errors only, first %s\n", reports.Count(n, "call"), s.Bridged[0])
	}
	if n := len(s.Averaged); n > 0 && !math.IsNaN(s.Exact) {
		fmt.Fprintf(b, "%s drew random numbers inside, first %s: the exact run takes their average\n",
			reports.Count(n, "call"), s.Averaged[0])
	}
	if !math.IsNaN(s.Exact) {
		if off, rest := s.Given()-s.Exact, s.Given()-s.Exact-s.Predicted; math.Abs(rest) > math.Abs(off)/3 &&
			math.Abs(rest) > 1e-5*math.Abs(s.Exact) || len(doubtful(s)) > 0 {
			why := "an error is large, or a choice or comparison in the program came out otherwise"
			if slices.ContainsFunc(t.Findings, func(f *step.Finding) bool { return f.Rule == verdict.Changed }) {
				why = "a value that changed between calls is no error of a call"
			}
			b.WriteString("the errors of the calls do not add up to the difference: " + why + "\n")
		}
	}
	return b.String()
}

// misled says what wrong gradients did to the effects of calls.
func misled(b *strings.Builder, m step.Misled) {
	if m.First == nil {
		return
	}
	from := fmt.Sprintf("follow from %s of %s, which is wrong", m.Target, m.First)
	if m.Doubted {
		from = fmt.Sprintf("follow from %s of %s, which is not the derivative of the calls that it made", m.Target,
			m.First)
	}
	if m.Corrected > 0 {
		fmt.Fprintf(b, "the recorded gradients of %s %s: their effects below are computed with corrected gradients\n",
			reports.Count(m.Corrected, "call"), from)
	}
	if m.Unknown > 0 {
		fmt.Fprintf(b, "the effects of %s are not known: their recorded gradients %s, and the right ones are not known (%s)\n",
			reports.Count(m.Unknown, "call"), from, m.Why)
	}
}

// lossCall names the call that gave the loss, and the number that it gave if the program read another one.
func lossCall(s *step.Step) string {
	if given := s.Given(); given != s.Captured && given == given {
		return fmt.Sprintf(" (%s gave %.9g)\n", s.Loss, given)
	}
	return fmt.Sprintf(" (%s)\n", s.Loss)
}

// lossesOfRuns are the losses of two runs.
func lossesOfRuns(b *strings.Builder, t *step.Trace) {
	if t.Runs == nil {
		return
	}
	for i, l := range t.Runs.Losses {
		if i == listed {
			fmt.Fprintf(b, "and %s more in both runs\n", reports.Count(len(t.Runs.Losses)-i, "step"))
			return
		}
		name := "loss"
		if len(t.Runs.Losses) > 1 {
			name = strings.TrimPrefix(l[1].LossName(), "the ")
		}
		fmt.Fprintf(b, "%s: other run %.7g, this run %.7g\n", name, l[0].Captured, l[1].Captured)
	}
}

// others are the losses of the other steps, and of other processes.
func others(b *strings.Builder, t *step.Trace, main *step.Step, x Extra) {
	n, before := 0, ""
	for _, p := range t.Processes {
		for _, s := range p.Steps {
			if s == main {
				continue
			}
			if n++; n > listed {
				continue
			}
			b.WriteString(s.Name())
			if len(t.Processes) > 1 && p.Rank >= 0 {
				fmt.Fprintf(b, " of rank %d", p.Rank)
			} else if len(t.Processes) > 1 {
				fmt.Fprintf(b, " of process %d", p.PID)
			}
			b.WriteString(": ")
			if !strings.HasPrefix(s.Name(), "loss") {
				b.WriteString("loss ")
			}
			fmt.Fprintf(b, "%.9g recorded", s.Captured)
			if !math.IsNaN(s.Exact) {
				fmt.Fprintf(b, ", %.9g exact, difference %+.3g", s.Exact, s.Captured-s.Exact)
			}
			b.WriteString(lossCall(s))
			share, ok := x.Shares[s]
			if !ok {
				continue
			}
			whose := "its own fault"
			if share.Faults > 1 {
				whose = fmt.Sprintf("its own %d faults", share.Faults)
			}
			moved(b, s, share.Moved, whose)
			if share.Before != before {
				before = share.Before
				fmt.Fprintf(b, "what the faults before %s did to its weights, and so to this loss and later ones, cannot be "+
					"told: %s\n", s.Name(), before)
			}
		}
	}
	if n > listed {
		noun := "losses"
		if n == listed+1 {
			noun = "loss"
		}
		fmt.Fprintf(b, "and %d more %s\n", n-listed, noun)
	}
}

// reruns compares the calls on a device with the recorded ones.
func reruns(w io.Writer, t *step.Trace, x Extra) error {
	wrong, n := t.Reruns()
	if n == nil {
		return nil
	}
	fmt.Fprintln(w, "\n"+x.Style.Wrap(x.Device+": "+rerunsText(n), 2))
	for _, text := range n.Instead {
		fmt.Fprintln(w, x.Style.Wrap("note: "+reports.OneLine(text), 2))
	}
	if len(wrong) == 0 {
		return nil
	}
	l := reports.NewListing(w, x.Style.Width, "call", "pass", "recorded", "device", "standing", "why")
	l.Names(0)
	l.Wrap()
	for i, r := range wrong {
		if i == rerunsListed {
			l.Line(fmt.Sprintf("... and %d more", len(wrong)-i))
			break
		}
		why := strings.TrimPrefix(r.Target+": "+r.Reason, ": ")
		if r.Standing == step.NotRepeated {
			why = ""
		}
		if err := l.Add(r.Call.String(), string(r.Phase), cmp.Or(string(r.Recorded), "-"), string(r.Verdict),
			strings.ReplaceAll(string(r.Standing), "_", " "), why); err != nil {
			return err
		}
	}
	return l.Flush()
}

// rerunsText says which faults the device repeats.
func rerunsText(n *step.Reruns) string {
	return fmt.Sprintf("%s run again, %d not; it repeats %d of the passes that were recorded wrong, does not "+
		"repeat %d, and gets %d wrong that were not", reports.Count(n.Run, "call"), n.NotRun, n.Repeated,
		n.NotRepeated, n.New)
}

// effects are the tables of what moves the loss. Names are whole at any width: they are there to be copied.
func effects(w io.Writer, s *step.Step) error {
	calls := s.Largest(listed)
	if len(calls) == 0 {
		return nil
	}
	about := len(doubtful(s)) > 0
	if _, err := fmt.Fprintln(w, "\nlargest effects on the loss, and the relative errors of these calls"); err != nil {
		return err
	}
	l := reports.NewListing(w, 0, "effect", "call", "dtype", "local", "total")
	l.Right(0)
	for _, c := range calls {
		if err := l.Add(impactText(c.Effect, c.EffectUnreliable()), c.String(), c.DType().String(),
			relative(c.LocalError), relative(c.TotalError)); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "\ntotal effects by operator and by module"); err != nil {
		return err
	}
	l = reports.NewListing(w, 0, "effect", "of", "calls")
	l.Right(0)
	for _, name := range []func(*step.Call) string{
		func(c *step.Call) string { return c.Op + " in " + c.DType().String() },
		moduleOf,
	} {
		for i, sum := range s.Sums(name) {
			if i == listed || sum.Name == "" {
				break
			}
			if err := l.Add(impactText(sum.Effect, sum.Unreliable), sum.Name, fmt.Sprint(sum.Calls)); err != nil {
				return err
			}
		}
	}
	if err := l.Flush(); err != nil || !about {
		return err
	}
	_, err := fmt.Fprintln(w, "about: an estimate from the gradient. It is unreliable, since the error of the call is large: "+
		"the loss may move\nby more or less, and the other way")
	return err
}

// doubtful are the calls of a step whose effects on the loss cannot be relied on.
func doubtful(s *step.Step) (calls []*step.Call) {
	for _, c := range s.Calls {
		if c.EffectUnreliable() {
			calls = append(calls, c)
		}
	}
	return calls
}

// impactText is an effect on the loss; of one that cannot be relied on no more than its order of magnitude.
func impactText(x float64, unreliable bool) string {
	if unreliable {
		return fmt.Sprintf("about %.1g", math.Abs(x))
	}
	return fmt.Sprintf("%+.3g", x)
}

// relative is a relative error as a table shows it.
func relative(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.1e", x)
}
