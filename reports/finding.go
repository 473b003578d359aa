package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// A Finding is what is said of one capture: its results, which are not empty,
// and the rows of op_tools' table.
type Finding struct {
	Results  []*Result
	Rows     []CompareRow
	Casts    [][]string // name, target, action and config of values that were cast for the device
	Causes   []Cause    // mistakes that reproduce what is wrong, the likeliest first
	Profiles []*Profile // of values that are wrong
	// Explain finds the causes until a deadline, and the profiles; nil if nobody can.
	Explain func(until time.Time, turn Turn) Explained
	// FailsRun says that the run fails because of the worst verdict, which is no finding otherwise.
	FailsRun bool
	// Inherits says of two recordings that the call was given values that differ, and that these explain what it gave.
	Inherits bool

	// Inside names the first calls that it made inside and that fail too, and InsideMore counts further ones.
	Inside     []string
	InsideMore int

	more int // values that tell the same, and are left out of Results
}

// Notes say what one has to know of the call beside its values: that another function is in the place of torch's, and
// which calls fail inside it.
func (f *Finding) Notes() (notes []string) {
	if note := f.wrongInNote(); note != "" {
		notes = append(notes, note)
	}
	if first := f.Results[0]; first.Instead != "" {
		notes = append(notes, first.Instead)
	} else if first.Replaced != "" {
		notes = append(notes, ReplacedText(first.Op, first.Replaced, first.ReplacedAt))
	}
	if len(f.Inside) > 0 {
		text := "calls inside it fail too: " + strings.Join(f.Inside, ", ")
		if f.InsideMore > 0 {
			text += fmt.Sprintf(" and %d more", f.InsideMore)
		}
		notes = append(notes, text)
	}
	return notes
}

// ReplacedText says that a function of the program is in the place of torch's, and where it is defined.
func ReplacedText(op, by, at string) string {
	text := Name(op) + " is not " + OwnFunction(op) + " here: replaced by " + Name(by)
	if at != "" {
		text += " of " + OneLine(at)
	}
	return text
}

// More says how many values of the call are not among the results; "" if all are.
func (f *Finding) More() string { return moreValues(f.more) }

func moreValues(n int) string {
	if n == 0 {
		return ""
	}
	return Count(n, "more value") + " of this call"
}

// A Turn is the place of a finding among those whose causes are looked for.
type Turn struct {
	Findings int  // how many are left, with this one
	Further  bool // it is printed as a line, so that its search takes what the others leave
}

// Explained is what was found about a finding: see the fields of that.
type Explained struct {
	Causes   []Cause
	Profiles []*Profile
	Short    bool // the search for causes was cut short
	Unsought bool // it did not begin: those before it took the time
	// Seek is the command that looks for a cause, "" for explain of the capture as it is judged again.
	Seek   string
	Sought bool // causes were looked for, to the end unless Short
	// Kept says of a call without a cause that only its gradients are wrong, so that a value which it kept for the
	// backward pass may have been overwritten. The recording of the step tells.
	Kept bool
}

// A Cause is a mistake under which the reference gives what was recorded.
type Cause struct {
	Capture   string   `json:"capture"`
	Op        string   `json:"op"`
	ForwardID *int     `json:"forward_id"`
	Targets   []string `json:"targets"` // the values that it explains
	Text      string   `json:"text"`    // "eps is 0.01, not 1e-05"
	Exact     bool     `json:"exact"`   // to the last bit, not only to rounding
	// Share is the part of the elements that is reproduced; nil for all.
	Share *Number `json:"share,omitempty"`
	// Pattern says that nothing reproduces the value: Text is what its errors depend on.
	Pattern bool `json:"pattern,omitempty"`
	// Unfinished says of a Pattern that no cause was found yet: Text is what may find one.
	Unfinished bool `json:"unfinished,omitempty"`
	// Command is a command that Text ends with, which may find one; "" if it ends with none.
	Command string `json:"command,omitempty"`

	seen bool   // the pattern is seen in the errors, and was not searched for
	like string // the call that it was found for, if that is another one, whose values are wrong in the same words
}

// Label is what stands before a cause: whether it is one.
func (c *Cause) Label() string {
	if c.Pattern && !c.Unfinished {
		return "pattern"
	}
	return "cause"
}

func (c *Cause) String() string {
	if c.like != "" {
		of := *c
		of.like = ""
		return "like " + c.like + ": " + of.String()
	}
	if c.Unfinished || c.seen {
		return c.Text
	}
	if c.Pattern && strings.HasPrefix(c.Text, "each ") {
		return "in " + targetsText(c.Targets) + ", " + c.Text
	}
	if c.Pattern {
		return targetsText(c.Targets) + " is " + c.Text
	}
	how := "to rounding"
	switch {
	case c.Share != nil:
		how = fmt.Sprintf("in %.2f %% of the elements", math.Floor(1e4*float64(*c.Share))/100)
	case c.Exact:
		how = "exactly"
	}
	return fmt.Sprintf("%s reproduced %s if %s", targetsText(c.Targets), how, c.Text)
}

// Wrapped is String at a width, further lines indented.
func (c *Cause) Wrapped(st Style, indent int) string {
	return st.WrapCommand(OneLine(c.String()), c.Command, indent)
}

// targetsText names values, of many the first ones.
func targetsText(targets []string) string {
	const shown = 5
	if len(targets) <= shown+1 {
		return strings.Join(targets, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(targets[:shown], ", "), len(targets)-shown)
}

// NewFinding returns a finding with the rows that the results make.
func NewFinding(results []*Result) *Finding {
	f := &Finding{Results: results, Inherits: len(results) > 0 && results[0].Inherits}
	for _, r := range results {
		if row, ok := r.CompareRow(); ok {
			f.Rows = append(f.Rows, row)
		}
	}
	return f
}

// Worst is the worst verdict of the results.
func (f *Finding) Worst() verdict.Verdict {
	worst := verdict.Skipped
	for _, r := range f.Results {
		worst = verdict.Worse(worst, r.Verdict)
	}
	return worst
}

// Bad reports whether any result is listed with the findings.
func (f *Finding) Bad() bool { return slices.ContainsFunc(f.Results, (*Result).listed) }

// Compared reports whether any result is more than an error: a call that ran out of time or
// memory would do so again.
func (f *Finding) Compared() bool {
	return slices.ContainsFunc(f.Results, func(r *Result) bool { return r.Verdict != verdict.Error })
}

// Write prints which call it is, what is wrong with it, how to run it again and,
// where the style wants tables, op_tools' table.
func (f *Finding) Write(w io.Writer, st Style) error { return f.write(w, st, "", false) }

// OnlyGradients reports whether all that is wrong are gradients.
func (f *Finding) OnlyGradients() bool {
	return f.Bad() && !slices.ContainsFunc(f.Results, func(r *Result) bool {
		return r.listed() && r.Phase != "backward"
	})
}

// Searched are the causes of a value of a call that were found. If there is none, what finds one is said in its place:
// a longer search, or the recording of the step.
func Searched(x Explained, of *Result) []Cause {
	found := x.Causes
	if x.Unsought {
		text, command := "not sought, to save time", cmp.Or(x.Seek, of.seek())
		if command != "" {
			text += ": " + command
		}
		return append(found, Cause{Capture: of.Capture, Op: of.Op, ForwardID: of.ForwardID,
			Targets: []string{of.Target}, Text: text, Command: command, Pattern: true, Unfinished: true})
	}
	if !x.Short && !x.Kept || slices.ContainsFunc(found, func(c Cause) bool { return !c.Pattern }) {
		return found
	}
	text := "not found among the mistakes of this operator"
	if x.Short {
		text = "not searched to the end, to save time"
		if of.Source == nil || *of.Source != "device" { // it looks at recorded values
			text += "; `optool explain` searches on"
		}
	}
	if x.Kept {
		text += ". `optool step` tells " + KeptText
	}
	return append(found, Cause{Capture: of.Capture, Op: of.Op, ForwardID: of.ForwardID, Targets: []string{of.Target},
		Text: text, Pattern: true, Unfinished: true})
}

// seek is the command that looks for the cause of a recorded value; "" if it is not known.
func (r *Result) seek() string {
	path := r.below(r.Capture)
	if path == "" || r.Source != nil && *r.Source == "device" {
		return ""
	}
	return "optool explain" + r.ownOps() + " " + path
}

// KeptText is what a step tells of gradients that are wrong although the result is right, and no operator is known to
// make them.
const KeptText = "whether a value was overwritten before the backward pass"

// writeCauses prints the first causes, a line each.
func (f *Finding) writeCauses(w io.Writer, st Style) {
	for i := range f.Causes[:min(len(f.Causes), shownCauses)] {
		text := f.Causes[i].Wrapped(st, findingIndent)
		fmt.Fprintf(w, "  %-8s %s\n", f.Causes[i].Label(), st.Bold(text))
	}
}

// write is Write with what is said of the findings that are like it; a brief finding
// leaves out what the command that runs it again holds too.
func (f *Finding) write(w io.Writer, st Style, like string, brief bool) error {
	first := f.Results[0]
	worst := f.Worst()
	var b strings.Builder
	head := strings.ToUpper(string(worst)) + "  "
	if f.Inherits {
		head = strings.ToUpper(string(ReadsOtherValues)) + "  "
	}
	fmt.Fprintf(&b, "%s%s\n", st.Paint(worst, head), st.Bold(st.Wrap(OneLine(first.Title()), len(head))))
	f.writeCauses(&b, st)
	if !slices.ContainsFunc(f.Causes, func(c Cause) bool { return !c.Unfinished }) {
		for _, p := range f.Profiles {
			if len(p.Where) > 0 {
				text := OneLine(p.Target + ", " + strings.Join(p.Where, "; "))
				fmt.Fprintf(&b, "  where    %s\n", st.Wrap(text, findingIndent))
			}
		}
	}
	for _, note := range f.Notes() {
		fmt.Fprintf(&b, "  note     %s\n", st.Wrap(OneLine(note), findingIndent))
	}
	if alone := first.Capture == "."; !alone && (!brief || first.Repro == nil) { // the one call is the directory given
		fmt.Fprintf(&b, "  capture  %s\n", OneLine(first.Capture))
	}
	f.writeValues(&b, st)
	if f.Bad() || f.FailsRun {
		if like != "" {
			fmt.Fprintf(&b, "  like it  %s\n", st.Wrap(like, findingIndent))
		}
		if first.Repro != nil {
			fmt.Fprintf(&b, "  again    %s\n", Command(*first.Repro))
		}
		if first.Saved != "" && !brief {
			fmt.Fprintf(&b, "  saved to %s\n", OneLine(first.Saved))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if st.Tables {
		if err := WriteCasts(w, st.TableWidth, f.Casts); err != nil {
			return err
		}
		if err := WriteCompare(w, st.TableWidth, f.Rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// writeValues prints the worst values that say something, a line each, and how many more there are. An argument that a
// call leaves as it was is recorded before and after it: what is the same of both is printed once.
func (f *Finding) writeValues(w io.Writer, st Style) {
	more := f.more
	said := map[string]bool{}
	shown := f.told()
	if !st.Tables && len(shown) > shownValues {
		shown = slices.SortedStableFunc(slices.Values(shown), func(a, b *Result) int {
			return btoi(worse(b, a)) - btoi(worse(a, b))
		})[:shownValues]
	}
	for _, r := range f.told() {
		head := fmt.Sprintf("  %-8s ", OneLine(r.target()))
		line := OneLine(string(r.Verdict) + r.What() + ": " + r.Reason)
		if said[head+line] {
			continue
		}
		if !slices.Contains(shown, r) {
			more++
			continue
		}
		said[head+line] = true
		text := st.Hang(head, line, findingIndent)
		fmt.Fprintf(w, "%s%s%s\n", head, st.Paint(r.Verdict, string(r.Verdict)),
			strings.TrimPrefix(text, string(r.Verdict)))
	}
	if text := moreValues(more); text != "" {
		fmt.Fprintf(w, "  and      %s\n", text)
	}
}

// told are the values that say something.
func (f *Finding) told() []*Result {
	return slices.DeleteFunc(slices.Clone(f.Results), func(r *Result) bool {
		return r.Verdict == verdict.Pass && r.Reason == ""
	})
}

// shownCauses is how many causes of a finding are printed.
const shownCauses = 2

// shownValues is how many values of a call are printed, without tables: a step of an optimizer has hundreds.
const shownValues = 8

// findingIndent is where the texts of a finding stand, in columns.
const findingIndent = 11

// What is the dtype and the shape of the value and the size of its error, each after a comma, as far as they are known.
func (r *Result) What() (text string) {
	if of := GradientOf(r.Argument, r.Parameter); of != "" {
		text = ", " + of
	} else if r.Parameter != "" {
		text = ", parameter " + r.Parameter
	}
	if r.DType != nil && r.Shape != nil {
		text += ", " + *r.DType + " " + strings.ReplaceAll(fmt.Sprint(r.Shape), " ", ", ")
	}
	if r.RelativeError != nil {
		text += ", error " + percentText(float64(*r.RelativeError))
	}
	return text
}

// GradientOf names a gradient by the argument of the operator and the name of the parameter: "gradient of weight
// (head.weight)". It is "" for other values.
func GradientOf(argument, parameter string) string {
	switch {
	case argument == "":
		return ""
	case parameter == "":
		return "gradient of " + argument
	}
	return "gradient of " + argument + " (" + parameter + ")"
}

// target is the name of the value that r is about, with the layout it had on a device.
func (r *Result) target() string {
	target := cmp.Or(r.Target, "call")
	if r.Layout != "" {
		target += " (" + r.Layout + ")"
	}
	return target
}

// Title names the op, and which call of the program it is, as far as that was recorded.
func (r *Result) Title() string {
	parts := []string{opName(r.Op)}
	if r.Between != "" {
		parts[0] = "between " + r.Between
	} else if r.Lacks != "" {
		parts[0] = r.Op + ": " + r.Lacks
	} else if r.ForwardID != nil {
		parts = append(parts, "id "+strconv.Itoa(*r.ForwardID))
	}
	if p := r.process(); p != "" {
		parts = append(parts, p)
	}
	module := r.Module
	if module != "" && strings.Trim(module, "0123456789.") == "" { // of torch.nn.Sequential
		module = "module " + module
	}
	for _, s := range []string{module, r.Location} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

// process names the process that made the call; "" if it is not known.
func (r *Result) process() string {
	switch {
	case r.Rank != nil && r.PID != nil:
		return fmt.Sprintf("rank %d (process %d)", *r.Rank, *r.PID)
	case r.Rank != nil:
		return fmt.Sprintf("rank %d", *r.Rank)
	case r.PID != nil:
		return fmt.Sprintf("process %d", *r.PID)
	}
	return ""
}
