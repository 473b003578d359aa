package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
)

// A ResultChange is how what was said of a value changed between two runs: Old or New
// is nil where only the other run has the value.
type ResultChange struct {
	Old, New *Result
	Change   Change
	// Call is, of what only one run has, a result of the same call in the other run; nil if that has no such call.
	Call *Result
	// Times is, of a finding in both, how many times as wrong the value is now; 0 if it cannot be told, or if the line
	// of the list that makes the value known says how wrong it is.
	Times float64
	// Since and LastRight are, of a failure, since when it fails and when it was right for the last time, as far as
	// History knows; nil if it does not. Of what is gone, Since is since when, and LastSeen when it was there last.
	Since, LastRight, LastSeen *Night
}

// A Change is the direction of a change.
type Change string

// The changes.
const (
	Worse  Change = "worse"
	Better Change = "better"
	Added  Change = "new"
	Gone   Change = "gone"
	Unseen Change = "not looked at" // in this run, which did not look at all calls
	Unread Change = "could not be read"
	// Unneeded is gone too, because a function of the program is gone that was in the place of torch's, or because what
	// that does inside is its own affair.
	Unneeded Change = "gone with a replaced function"
	StaysBad Change = "still" // a finding in both
	IsKnown  Change = "known" // a failure of the list of known ones, whatever it was
)

// wanted orders verdicts by how much one would want to have them; what was compared
// before and is not any more got worse.
var wanted = []verdict.Verdict{verdict.Pass, verdict.Warn, verdict.Repaired, verdict.Mistrusted, verdict.Skipped,
	verdict.Unsupported, verdict.Known, verdict.StillWrong, verdict.Fail, verdict.Invalid,
	verdict.Error, verdict.Timeout, verdict.Crash}

// ResultChanges compares two runs value by value, and leaves out what is as good as it
// was. Values belong together as Partners says. What got worse comes first, in the order
// of the new run, then what is new and a finding, then findings in both that are far worse.
func ResultChanges(old, cur []*Result) []ResultChange {
	p := pair(old, cur)
	var changes []ResultChange
	for _, r := range cur {
		c := ResultChange{Old: cmp.Or(p.of[r], p.unread[r]), New: r}
		switch o := c.Old; {
		case r.Verdict == verdict.Known:
			c.Change = IsKnown
			if o != nil && (o.Verdict.Wrong()) && !r.limited() {
				c.Times = r.timesWorse(o.Extent())
			}
		case r.unread():
			c.Change = Unread
		case o != nil && o.unread() && r.Finding():
			c.Change = Worse
		case o == nil || o.unread():
			c.Change, c.Call = Added, p.call[r]
		case o.Verdict == r.Verdict && !r.Finding():
			continue
		case o.Verdict == r.Verdict:
			c.Change, c.Times = StaysBad, r.timesWorse(o.Extent())
		case slices.Index(wanted, r.Verdict) > slices.Index(wanted, o.Verdict):
			c.Change = Worse
		default:
			c.Change = Better
		}
		changes = append(changes, c)
	}
	unneeded := p.unneeded(old)
	for _, r := range old {
		if !p.taken[r] && p.unread[r] == nil {
			c := ResultChange{Old: r, Change: Gone, Call: p.call[r]}
			if unneeded(r) {
				c.Change = Unneeded
			}
			changes = append(changes, c)
		}
	}
	order := []Change{Worse, Better, Added, Gone, Unread, StaysBad, IsKnown, Unneeded, Unseen}
	slices.SortStableFunc(changes, func(a, b ResultChange) int {
		return cmp.Or(cmp.Compare(btoi(!a.Regressed()), btoi(!b.Regressed())),
			cmp.Compare(btoi(!a.FarWorse()), btoi(!b.FarWorse())),
			cmp.Compare(slices.Index(order, a.Change), slices.Index(order, b.Change)))
	})
	return changes
}

// Less is the word for a value that is no finding and was judged before.
const Less Change = "no longer judged"

// Warned is the word for a value that passed and is a warning now.
const Warned Change = "with a new warning"

// Word names the change for readers: the direction, except that what is only a warning is Warned, and what is only not
// judged any more is Less, not Worse.
func (c *ResultChange) Word() Change {
	switch {
	case c.Change == Worse && c.New.Verdict == verdict.Warn:
		return Warned
	case c.Change == Worse && !c.New.Finding():
		return Less
	}
	return c.Change
}

// CountWord counts the changes of this word.
func CountWord(changes []ResultChange, word Change) (n int) {
	for i := range changes {
		n += btoi(changes[i].Word() == word)
	}
	return n
}

// GoneOps names the operators that have something gone: "torch.mm (3 calls), torch.exp (values of 1 call)".
func GoneOps(changes []ResultChange) string {
	type part struct {
		op   string
		call bool // the calls are gone, not only values of them
	}
	calls, order := map[part]map[string]bool{}, []part(nil)
	for i := range changes {
		if c := &changes[i]; c.Change == Gone {
			p := part{Name(c.Old.Op), c.Call == nil}
			if calls[p] == nil {
				calls[p] = map[string]bool{}
				order = append(order, p)
			}
			calls[p][c.Old.Capture] = true
		}
	}
	var parts []string
	for i, p := range order {
		if i == shownOnly {
			parts = append(parts, "and "+Count(len(order)-i, "more operator"))
			break
		}
		text := Count(len(calls[p]), "call")
		if !p.call {
			text = "values of " + text
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", p.op, text))
	}
	return strings.Join(parts, ", ")
}

// Regressed reports whether the new run is worse for this: a value got worse, or is new and a finding.
func (c *ResultChange) Regressed() bool {
	return c.Change == Worse || c.Change == Added && c.New.Finding()
}

// Fails reports whether the change makes the comparison fail: it regressed, or a value that was wrong before is far
// worse, or overdue.
func (c *ResultChange) Fails() bool {
	return c.Regressed() || c.FarWorse() || c.Overdue()
}

// Overdue reports whether a value that was wrong before, too, is no longer covered by the list of known failures.
func (c *ResultChange) Overdue() bool { return c.Change == StaysBad && c.New.overdue }

// AnnotateChanges prints the first change of each operator that makes the comparison fail, as Digest.WriteAnnotations
// prints findings.
func AnnotateChanges(w io.Writer, changes []ResultChange) error {
	var told []string
	for i := range changes {
		c := &changes[i]
		if !c.Fails() || slices.Contains(told, c.New.Op) || len(told) == shownKinds {
			continue
		}
		told = append(told, c.New.Op)
		old, cur := c.Verdicts()
		text := fmt.Sprintf("%s %s, %s before: %s", c.New.target(), cur, cmp.Or(string(old), "not there"), c.Now())
		if err := annotate(w, c.New, text); err != nil {
			return err
		}
	}
	return nil
}

// FarWorse reports whether a finding in both, or a known value, got so much worse that it may be another one.
func (c *ResultChange) FarWorse() bool { return c.Times >= farWorse }

// Now is the reason of the new run, behind how much worse the value got; "" if it is gone.
func (c *ResultChange) Now() string {
	if c.New == nil {
		return ""
	}
	if worse := worseText(c.Times); worse != "" {
		return worse + ": " + c.New.Reason
	}
	return c.New.Reason
}

// Result is the new result or, of what is gone, the old one.
func (c *ResultChange) Result() *Result { return cmp.Or(c.New, c.Old) }

// Folder is where the call is below the PATH of its run, without what is another name in every run; "" for PATH itself.
func (c *ResultChange) Folder() string { return c.Result().Folder() }

// Verdicts are the verdicts of both runs, "" where there is none.
func (c *ResultChange) Verdicts() (old, cur verdict.Verdict) {
	if c.Old != nil {
		old = c.Old.Verdict
	}
	if c.New != nil {
		cur = c.New.Verdict
	}
	return old, cur
}

// ID is the number of the call, and the one that it had in the old run where that is another; "" where there is none.
func (c *ResultChange) ID() string {
	id := c.Result().ForwardID
	switch old := c.oldID(); {
	case id == nil:
		return ""
	case old == nil:
		return strconv.Itoa(*id)
	default:
		return fmt.Sprintf("%d (was %d)", *id, *old)
	}
}

// oldID is the number of the call in the old run where the new run has another, else nil.
func (c *ResultChange) oldID() *int {
	if c.Old == nil || c.New == nil || compareKnown(c.Old.ForwardID, c.New.ForwardID) == 0 {
		return nil
	}
	return c.Old.ForwardID
}

// MarshalJSON gives the JSON line.
func (c *ResultChange) MarshalJSON() ([]byte, error) {
	r := c.Result()
	old, cur := c.Verdicts()
	var times *Number
	if c.Times > 0 {
		times = Num(c.Times)
	}
	return json.Marshal(struct {
		Kind      string          `json:"kind"`
		Change    Change          `json:"change"`
		Capture   string          `json:"capture"`
		Op        string          `json:"op"`
		ForwardID *int            `json:"forward_id"`
		OldID     *int            `json:"old_forward_id,omitempty"`
		Phase     string          `json:"phase"`
		Target    string          `json:"target"`
		Old       verdict.Verdict `json:"old_verdict"`
		New       verdict.Verdict `json:"new_verdict"`
		Times     *Number         `json:"times_worse,omitempty"`
		Since     string          `json:"since,omitempty"`
		LastRight string          `json:"last_right,omitempty"`
		LastSeen  string          `json:"last_seen,omitempty"`
		SinceRun  string          `json:"since_run,omitempty"`
		RightRun  string          `json:"last_right_run,omitempty"`
		Reason    string          `json:"reason"`
	}{"result_change", c.Change, r.Capture, r.Op, r.ForwardID, c.oldID(), r.Phase, r.Target, old, cur, times,
		c.Since.Date(), c.LastRight.Date(), c.LastSeen.Date(), c.Since.name(), c.LastRight.name(), r.Reason})
}

// A ChangeCount counts the changes between two runs.
type ChangeCount struct {
	Worse       int `json:"worse"`
	Better      int `json:"better"`
	Added       int `json:"new"`
	NewFindings int `json:"new_findings"` // of Added
	Gone        int `json:"gone"`
	Unneeded    int `json:"gone_with_replaced"` // see Unneeded
	Unseen      int `json:"not_looked_at"`
	Unread      int `json:"could_not_be_read"`
	StaysBad    int `json:"still"`
	FarWorse    int `json:"far_worse"` // of StaysBad and Known
	// StillWorse are those of StaysBad and Known that got worse, FarWorse among them.
	StillWorse int `json:"still_worse"`
	Known      int `json:"known"`
	Same       int `json:"same"`

	knownFar, knownWorse int // FarWorse and StillWorse of Known
}

// CountChanges counts the changes of a run with so many results.
func CountChanges(changes []ResultChange, results int) (n ChangeCount) {
	lost := 0 // of Unread: only the old run has them
	for i := range changes {
		c := &changes[i]
		if worseText(c.Times) != "" && (c.Change == IsKnown || c.Change == StaysBad) {
			n.StillWorse++
			n.knownWorse += btoi(c.Change == IsKnown)
		}
		switch c.Change {
		case Worse:
			n.Worse++
		case Better:
			n.Better++
		case Added:
			n.Added++
			n.NewFindings += btoi(c.Regressed())
		case Gone:
			n.Gone++
		case Unneeded:
			n.Unneeded++
		case Unseen:
			n.Unseen++
		case Unread:
			n.Unread++
			lost += btoi(c.New == nil)
		case IsKnown:
			n.Known++
			n.FarWorse += btoi(c.FarWorse())
			n.knownFar += btoi(c.FarWorse())
		case StaysBad:
			n.StaysBad++
			n.FarWorse += btoi(c.FarWorse())
		}
	}
	n.Same = results - n.Worse - n.Better - n.Added - n.StaysBad - n.Known - n.Unread + lost
	return n
}

func (n ChangeCount) String() string {
	found, listed, unseen := "", "", ""
	if n.Unread > 0 {
		unseen = fmt.Sprintf(", %d could not be read", n.Unread)
	}
	if n.Unneeded > 0 {
		unseen += fmt.Sprintf(", %d %s", n.Unneeded, Unneeded)
	}
	if n.Unseen > 0 {
		unseen += fmt.Sprintf(", %d not looked at", n.Unseen)
	}
	grown := func(worse, far int) string {
		var parts []string
		if worse > far {
			parts = append(parts, fmt.Sprintf("%d worse", worse-far))
		}
		if far > 0 {
			parts = append(parts, fmt.Sprintf("%d far worse", far))
		}
		if parts == nil {
			return ""
		}
		return " (" + strings.Join(parts, ", ") + ")"
	}
	if n.Known > 0 {
		listed = fmt.Sprintf(", %d known%s", n.Known, grown(n.knownWorse, n.knownFar))
	}
	if n.NewFindings > 0 {
		found = " (" + Count(n.NewFindings, "finding") + ")"
	}
	return fmt.Sprintf("%d judged worse, %d judged better, %d new%s, %d gone%s, %s in both%s%s, %d as good as before",
		n.Worse, n.Better, n.Added, found, n.Gone, unseen, Count(n.StaysBad, "finding"),
		grown(n.StillWorse-n.knownWorse, n.FarWorse-n.knownFar), listed, n.Same)
}

// LookedAtOther says what one of two runs was told about what to check and the other was not, and which operators only
// one of them has values of, as far as the changes say that they are gone or new. The runs have these names.
func LookedAtOther(old, cur *Recording, changes []ResultChange, oldName, curName string) (lines []string) {
	only := func(a, b *Recording, name, other string) {
		for _, s := range a.Summary.Settings {
			line := ""
			if t := b.Summary.Settings.Find(s.Name); t == nil {
				line = fmt.Sprintf("only %s was made with %s %s %s (%s)", name, s.Kind, s.Name, s.Value, s)
			} else if t.Value != s.Value && a == old {
				line = fmt.Sprintf("%s: %s in %s (%s), %s in %s (%s)", s.Name, s.Value, name, s, t.Value, other, t)
			}
			if line != "" {
				lines = append(lines, line)
			}
		}
	}
	only(old, cur, oldName, curName)
	only(cur, old, curName, oldName)
	if m, n := old.Summary.Calls(), cur.Summary.Calls(); m != n {
		lines = append(lines, fmt.Sprintf("%s in %s, %d in %s", Count(m, "call"), oldName, n, curName))
	}
	return append(lines, onlyOps(old, cur, changes, oldName, curName)...)
}

// onlyOps names the operators that only one of two runs has calls of.
func onlyOps(old, cur *Recording, changes []ResultChange, oldName, curName string) (lines []string) {
	differ := map[string]bool{}
	for i := range changes {
		if c := &changes[i]; c.Change == Gone || c.Change == Added {
			differ[c.Result().Op] = true
		}
	}
	for _, x := range [][2]*Recording{{old, cur}, {cur, old}} {
		calls := map[string]int{}
		for name, o := range x[0].Summary.ops {
			if x[1].Summary.ops[name] == nil && differ[name] {
				for _, n := range o.Counts {
					calls[name] += n
				}
			}
		}
		total, parts := tally(calls)
		name := oldName
		if x[0] == cur {
			name = curName
		}
		if more := len(parts) - shownOnly; more > 0 {
			parts = append(parts[:shownOnly], fmt.Sprintf("and %s", Count(more, "other op")))
		}
		if total > 0 {
			lines = append(lines, fmt.Sprintf("only %s has %s of these ops: %s", name, Count(total, "call"),
				strings.Join(parts, ", ")))
		}
	}
	return lines
}

// shownOnly is how many operators are named that only one run has.
const shownOnly = 8

// ChangeSheet has a row for each change.
func ChangeSheet(changes []ResultChange) Sheet {
	return Sheet{Name: "changes", Columns: []string{"change", "op", "forward_id", "phase", "target", "folder",
		"old_verdict", "new_verdict", "since", "last_right", "last_seen", "times_worse", "now",
		"capture", "since_run"}, Rows: func(yield func([]any) bool) {
		for i := range changes {
			c := &changes[i]
			r := c.Result()
			was, is := c.Verdicts()
			var times any
			if c.Times > 0 {
				times = c.Times
			}
			if !yield([]any{string(c.Change), r.Op, cell(r.ForwardID), r.Phase, r.Target, c.Folder(), string(was),
				string(is), c.Since.Date(), c.LastRight.Date(), c.LastSeen.Date(), times, c.Now(), r.Capture,
				c.Since.name()}) {
				return
			}
		}
	}}
}

// NotLookedAt makes changes of what is gone Unseen where the new run did not look at all calls: at those of some
// operators if it had a budget, else at some of any. It makes them Unread where the list of their calls was cut.
func NotLookedAt(changes []ResultChange, rec *Recording) {
	left := map[string]bool{}
	if b := rec.Summary.Budget; b != nil {
		for _, o := range b.Ops {
			left[o.Op] = o.Left() > 0
		}
	}
	any := rec.Summary.Interrupted || rec.Run.Shard != ""
	for i := range changes {
		switch c := &changes[i]; {
		case c.Change == Gone && c.Old.lostIn(rec.Summary.Unread):
			c.Change = Unread
		case c.Change == Gone && (any || left[c.Old.Op]):
			c.Change = Unseen
		}
	}
}

// LackingResults are results for what only the old run has. What is gone is one failure for each folder that the new
// run lacks, else one for each operator of a folder. What the new run did not look at is one skipped result, with the
// reason unseen.
func LackingResults(changes []ResultChange, old []*Result, oldName, unseen string) (results []*Result) {
	type part struct{ op, name string }
	lost, values, captures := map[*Result]Change{}, map[part]int{}, map[part]map[string]bool{}
	since, there := map[*Result]string{}, map[*Result]bool{}
	for i := range changes {
		if c := &changes[i]; c.Change == Gone || c.Change == Unseen {
			there[c.Old] = c.Call != nil
			lost[c.Old], since[c.Old] = c.Change, c.SinceText()
		}
	}
	has := map[string]bool{} // folders of which something is left
	for _, r := range old {
		if lost[r] != Gone {
			has[r.Folder()] = true
		}
	}
	var order []part
	first := map[part]*Result{}
	for _, r := range old {
		folder := r.Folder()
		p := part{OpMissing, "calls of " + Name(r.Op)}
		if there[r] {
			p.name = "values of " + p.name
		}
		switch {
		case lost[r] == "":
			continue
		case lost[r] == Unseen:
			p = part{op: OpUnseen}
		case folder != "" && !has[folder]:
			p.name = "folder " + folder
		case folder != "":
			p.name += " in " + folder
		}
		if values[p]++; captures[p] == nil {
			captures[p], first[p] = map[string]bool{}, r
			order = append(order, p)
		}
		captures[p][r.Capture] = true
	}
	for _, p := range order {
		calls := Count(len(captures[p]), "call")
		r := &Result{Op: p.op, Lacks: p.name, Verdict: verdict.Fail, Setting: "--results",
			Reason: fmt.Sprintf("gone: %s of %s, which only %s has", Count(values[p], "value"), calls, oldName)}
		if text := since[first[p]]; text != "" {
			r.Reason += "; " + text
		}
		if p.op == OpUnseen {
			r.Lacks, r.Verdict, r.Reason = calls, verdict.Skipped, "not looked at: "+unseen
		}
		results = append(results, r)
	}
	return results
}
