package reports

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/optool/optool/compare/verdict"
)

// KnownSetting is the name of the setting that makes failures known.
const KnownSetting = "--known"

// A KnownList is a list of failures that are known: a run shows them, counts them apart and does not fail for them. A
// line of its file is
//
//	OPERATOR VALUE [call=N] [rank=N] [folder=NAME] [capture=NAME] [verdict=V] [bound_ratio=X] [max_abs_diff=X]
//	    [wrong=P%] [finite=no] [until=DATE] [issue=URL] [REASON]
//
// A star in an operator, a value, a folder or a capture stands for any text, a value of a call that gave none is
// "call". The folder is that of ResultChange.Folder, "." for PATH itself. Without call, rank and folder a line is about
// all calls; without numbers it does not matter how wrong a value is. Words with spaces are quoted as in Go. What
// follows # at the beginning of a line is a comment.
type KnownList struct {
	File  string       `json:"file"`
	Lines []*KnownLine `json:"lines"`
	// FailStale makes a run fail for lines that no longer fail, or that no value of the run is about.
	FailStale bool `json:"fail_on_stale,omitempty"`
	// Partial says that the run did not look at all calls: a part, one with too little time, an interrupted one, or one
	// that could not read everything.
	Partial bool `json:"partial,omitempty"`

	// OfTwo says that the results are of two recordings: one that passes may be wrong in both.
	OfTwo bool `json:"-"`

	byOp map[string][]*KnownLine // lines whose operator has no star
	any  []*KnownLine            // the others
}

// A KnownLine is a line of a list, and what became of the values that it is about.
type KnownLine struct {
	Number   int    `json:"line"`
	Text     string `json:"text"`
	About    string `json:"about,omitempty"` // operator, value and call; "" of a comment
	Until    string `json:"until,omitempty"`
	Known    int    `json:"known"`   // values that fail and are known
	Worse    int    `json:"worse"`   // values that fail far worse, or in another way
	Expired  int    `json:"expired"` // values that fail after the date
	Passing  int    `json:"passing"`
	Others   int    `json:"others,omitempty"`   // values of other calls that fail and that no line is about
	Unsure   int    `json:"unsure,omitempty"`   // values of two recordings that pass and were not judged by themselves
	Unjudged int    `json:"unjudged,omitempty"` // values that were not judged

	op, value, folder, capture string
	call, rank                 int // -1 for all
	verdict                    verdict.Verdict
	was                        Extent
	over                       bool   // the date has passed
	note                       string // issue and reason
}

// ParseKnown reads a list. An error begins with the name of the file and the line.
func ParseKnown(file string, text []byte, today time.Time) (*KnownList, error) {
	k := &KnownList{File: file, byOp: map[string][]*KnownLine{}}
	for n, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		l := &KnownLine{Number: n + 1, Text: strings.TrimRight(line, "\r"), call: -1, rank: -1, verdict: verdict.Fail}
		k.Lines = append(k.Lines, l)
		if text := strings.TrimSpace(l.Text); text == "" || text[0] == '#' {
			continue
		}
		if err := l.parse(today); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, l.Number, err)
		}
		if strings.Contains(l.op, "*") {
			k.any = append(k.any, l)
		} else {
			k.byOp[l.op] = append(k.byOp[l.op], l)
		}
	}
	return k, nil
}

// empty reports whether the file of the list has no text.
func (k *KnownList) empty() bool {
	return !slices.ContainsFunc(k.Lines, func(l *KnownLine) bool { return strings.TrimSpace(l.Text) != "" })
}

// Remarked is the first line that WriteKnown does not write: a comment, a date, an issue, a reason or a pattern. It is
// nil if there is none.
func (k *KnownList) Remarked() *KnownLine {
	for _, l := range k.Lines {
		text := strings.TrimSpace(l.Text)
		if l.About == "" && text != "" && text != strings.TrimSpace(knownHead) ||
			l.Until != "" || l.note != "" || strings.Contains(l.About, "*") {
			return l
		}
	}
	return nil
}

// parse reads the words of a line.
func (l *KnownLine) parse(today time.Time) (err error) {
	rest := strings.TrimSpace(l.Text)
	if l.op, rest, err = nextWord(rest); err == nil {
		l.value, rest, err = nextWord(rest)
	}
	if err != nil {
		return err
	}
	if l.value == "" {
		return fmt.Errorf("want OPERATOR VALUE, such as torch.matmul output[0], got %q", l.op)
	}
	about := []string{quoteWord(l.op), quoteWord(l.value)}
	issue := ""
	for rest != "" {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
			break // the reason
		}
		word, left, err := nextWord(after)
		if err != nil {
			return err
		}
		if err := l.set(key, word, today); err != nil {
			return fmt.Errorf("%s=%s: %w", key, word, err)
		}
		switch key {
		case "issue":
			issue = word
		case "call", "rank", "folder", "capture":
			about = append(about, key+"="+quoteWord(word))
		}
		rest = left
	}
	l.About = strings.Join(about, " ")
	l.note = strings.TrimSpace(rest + " " + issue)
	return nil
}

// set takes a word of the form key=word.
func (l *KnownLine) set(key, word string, today time.Time) (err error) {
	number := func(text string) (float64, error) {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0) || math.IsInf(n, 0) {
			return 0, fmt.Errorf("want a number above 0")
		}
		return n, nil
	}
	count := func(least int) (int, error) {
		n, err := strconv.Atoi(word)
		if err != nil || n < least {
			return 0, fmt.Errorf("want a number from %d on", least)
		}
		return n, nil
	}
	switch key {
	case "call":
		l.call, err = count(1)
	case "rank":
		l.rank, err = count(0)
	case "folder":
		l.folder = word
	case "capture":
		l.capture = word
	case "verdict":
		if l.verdict = verdict.Verdict(word); !l.verdict.Differs() {
			err = fmt.Errorf("want fail, timeout or crash")
		}
	case "bound_ratio":
		l.was.ratio, err = number(word)
	case "max_abs_diff":
		l.was.abs, err = number(word)
	case "wrong":
		l.was.share, err = number(strings.TrimSuffix(word, "%"))
		l.was.share /= 100
	case "finite":
		if l.was.broken = word == "no"; !l.was.broken {
			err = fmt.Errorf("want no")
		}
	case "until":
		err = l.end(word, today)
	case "issue":
		if u, e := url.Parse(word); e != nil || u.Scheme == "" {
			err = fmt.Errorf("want an address such as https://example.org/1")
		}
	default:
		err = fmt.Errorf("unknown word: want call, rank, folder, capture, verdict, bound_ratio, max_abs_diff, wrong, " +
			"finite, until, issue, or a reason that does not begin like this")
	}
	return err
}

// end takes the last day of a line.
func (l *KnownLine) end(word string, today time.Time) error {
	day, err := time.ParseInLocation(time.DateOnly, word, today.Location())
	if err != nil {
		return fmt.Errorf("want a date such as 2027-01-31")
	}
	l.Until, l.over = word, !today.Before(day.AddDate(0, 0, 1))
	return nil
}

// nextWord cuts the first word off a text: up to a space or, of one in quotes, up to the other quote.
func nextWord(text string) (word, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return "", "", fmt.Errorf("a quote that does not end: %s", text)
		}
		word, err = strconv.Unquote(quoted)
		return word, strings.TrimSpace(text[len(quoted):]), err
	}
	word, rest, _ = strings.Cut(strings.Replace(text, "\t", " ", -1), " ")
	return word, strings.TrimSpace(rest), nil
}

// quoteWord is a text as nextWord reads it.
func quoteWord(s string) string {
	if s == "" || strings.HasPrefix(s, `"`) || OneLine(s) != s || strings.ContainsAny(s, " \t#") {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// about are the lines that are about r, and those that are about another call of its operator.
func (k *KnownList) about(r *Result) (lines, others []*KnownLine) {
	for _, l := range slices.Concat(k.byOp[r.Op], k.any) {
		switch {
		case !glob(l.op, r.Op) || !glob(l.value, knownValue(r)) || l.capture != "" && !glob(l.capture, r.Capture) ||
			l.folder != "" && !l.inFolder(knownFolder(r)):
		case (l.call < 0 || l.call == known(r.Occurrence)) && (l.rank < 0 || l.rank == known(r.Rank)):
			lines = append(lines, l)
		default:
			others = append(others, l)
		}
	}
	return lines, others
}

// knownValue is what a line calls the value of r.
func knownValue(r *Result) string { return cmp.Or(r.Target, "call") }

// knownFolder is what a line calls the folder of r.
func knownFolder(r *Result) string { return cmp.Or(r.Folder(), ".") }

// inFolder reports whether a folder is that of the line. One of them may have more directories in front, as a run of
// several PATHs has.
func (l *KnownLine) inFolder(folder string) bool {
	if glob(l.folder, folder) {
		return true
	}
	return l.folder != "." && folder != "." &&
		(glob("*/"+l.folder, folder) || !strings.Contains(l.folder, "*") && strings.HasSuffix(l.folder, "/"+folder))
}

// glob reports whether s is of a pattern in which a star stands for any text.
func glob(pattern, s string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	for s = s[len(head):]; ; s = s[1:] {
		if glob(tail, s) {
			return true
		}
		if s == "" {
			return false
		}
	}
}

// failsAs is a verdict as lists of known failures have it.
func failsAs(v verdict.Verdict) verdict.Verdict {
	if v == verdict.StillWrong {
		return verdict.Fail
	}
	return v
}

// Mark makes a failure of the list known, also one that is still wrong. Of others that the list is about, it says why
// they are not. It does nothing without a list.
func (k *KnownList) Mark(r *Result) {
	if k == nil || r.Device != "" {
		return
	}
	why, first, is := "", false, failsAs(r.Verdict) // first: it is the first thing to know
	lines, others := k.about(r)
	if len(lines) == 0 && is.Differs() && len(others) > 0 {
		for _, l := range others {
			l.Others++
		}
		why = fmt.Sprintf("%s:%d knows another call only", k.File, others[0].Number)
	}
	for _, l := range lines {
		switch {
		case r.Verdict == verdict.Known: // by the run that goes on
			l.Known++
			r.ListedBy = l
			return
		case k.OfTwo && r.bySelf == nil && (is == verdict.Pass || is == verdict.Warn):
			l.Unsure++
			continue
		case is == verdict.Pass || is == verdict.Warn || is == verdict.Repaired:
			l.Passing++
			continue
		case !is.Differs():
			l.Unjudged++
			continue
		}
		at := fmt.Sprintf("%s:%d", k.File, l.Number)
		r.overdue = true
		switch times := r.extent().timesWorse(l.was); {
		case l.over:
			l.Expired++
			r.lapsed = true
			why, first = fmt.Sprintf("known until %s, expired (%s)", l.Until, at), true
		case is != l.verdict:
			l.Worse++
			why = fmt.Sprintf("%s: known as %s, and this is %s", at, l.verdict, is)
		case times >= farWorse:
			l.Worse++
			why = fmt.Sprintf("%s: known, but %s", at, worseText(times))
		default:
			l.Known++
			if l.note != "" {
				at += " " + l.note
			}
			r.overdue, r.lapsed, r.Reason = false, false, "known ("+at+"): "+r.Reason
			r.Default, r.Setting, r.Verdict, r.ListedBy = r.Verdict, KnownSetting, verdict.Known, l
			return
		}
	}
	switch {
	case why == "" || strings.Contains(r.Reason, why): // as the run itself may have said
	case first:
		r.Reason = why + ": " + r.Reason
	default:
		r.Reason += "; " + why
	}
}

// limited reports whether the list says how wrong the known value r is.
func (r *Result) limited() bool { return r.ListedBy != nil && r.ListedBy.was != Extent{} }

// CountFarWorse counts known values that are far worse than in another run as such in their lines.
func CountFarWorse(changes []ResultChange) {
	for i := range changes {
		if c := &changes[i]; c.Change == IsKnown && c.FarWorse() && c.New.ListedBy != nil {
			c.New.ListedBy.Known--
			c.New.ListedBy.Worse++
		}
	}
}

// Unmark takes back what Mark of another list did.
func (r *Result) Unmark() {
	if r.Verdict != verdict.Known || r.Setting != KnownSetting {
		return
	}
	if _, reason, ok := strings.Cut(r.Reason, "): "); ok {
		r.Reason = reason
	}
	r.Verdict, r.Default, r.Setting = r.Default, "", ""
}

// shownKnown is how many lines of a list are told each.
const shownKnown = 10

// failing is how many values of a line fail.
func (l *KnownLine) failing() int { return l.Known + l.Worse + l.Expired }

// Stale are the lines whose values no longer fail; none of a run that did not look at all calls, as others of the line
// may fail. It is none without a list.
func (k *KnownList) Stale() (stale []*KnownLine) {
	if k == nil || k.Partial {
		return nil
	}
	for _, l := range k.Lines {
		if l.failing() == 0 && l.Passing > 0 {
			stale = append(stale, l)
		}
	}
	return stale
}

// Unused are the lines that are about no value of a run. It is none without a list, and none of a run that did not look
// at all calls; all is false if a setting left any out.
func (k *KnownList) Unused(all bool) (unused []*KnownLine) {
	if k == nil || k.Partial || !all {
		return nil
	}
	for _, l := range k.Lines {
		if l.About != "" && l.failing()+l.Passing+l.Unsure+l.Unjudged == 0 {
			unused = append(unused, l)
		}
	}
	return unused
}

// Unneeded are the lines for which --fail-on stale fails a run: those that are stale or unused.
func (k *KnownList) Unneeded(all bool) []*KnownLine { return append(k.Stale(), k.Unused(all)...) }

// failsRun reports whether a run fails for lines that are not needed.
func (k *KnownList) failsRun(all bool) bool {
	return k != nil && k.FailStale && len(k.Unneeded(all)) > 0
}

// Told are lines about what became of the list: how many failures are known, which lines are not needed any more and,
// of a run that checked all calls, which are about nothing.
func (k *KnownList) Told(all bool) (told []string) {
	if k == nil {
		return nil
	}
	values, expired := 0, 0
	var unused, over, calls []string
	for _, l := range k.Lines {
		if expired += l.Expired; l.Expired > 0 {
			over = append(over, strconv.Itoa(l.Number))
		}
		if l.Others > 0 {
			calls = append(calls, strconv.Itoa(l.Number))
		}
		values += l.Known
	}
	for _, l := range k.Unused(all) {
		number := strconv.Itoa(l.Number)
		words := append(strings.Fields(l.About), "", "") // operator, value, and which call
		if value := words[1]; value != "call" && value != words[0] && !strings.ContainsAny(value, "[.*") {
			number += fmt.Sprintf(" (read as operator %s, value %s; a value is output[0], grad[1], input[0] or *)",
				words[0], value)
		}
		unused = append(unused, number)
	}
	stale := k.Stale()
	for _, l := range stale[:min(len(stale), shownKnown)] {
		text := fmt.Sprintf("%s:%d: %s no longer fails: remove line %[2]d", k.File, l.Number, l.About)
		if l.Others > 0 {
			text = fmt.Sprintf("%s:%d: %s no longer fails, but another call does", k.File, l.Number, l.About)
		}
		told = append(told, text)
	}
	if n := len(stale) - shownKnown; n > 0 {
		told = append(told, k.File+": "+Plural(n, "1 more line no longer fails", "%d more lines no longer fail"))
	}
	if n := len(unused); n > 0 {
		told = append(told, fmt.Sprintf("%s: no value of this run is that of %s", k.File, linesText(unused)))
	}
	if k.failsRun(all) {
		var why []string
		if n := len(stale); n > 0 {
			why = append(why, Plural(n, "1 line no longer fails", "%d lines no longer fail"))
		}
		if n := len(unused); n > 0 {
			why = append(why, Plural(n, "1 line is about no value of this run", "%d lines are about no value of this run"))
		}
		told = append(told, fmt.Sprintf("--fail-on stale fails the run: of %s, %s", k.File,
			strings.Join(why, ", and ")))
	}
	if len(calls) > 0 {
		name := map[bool]string{true: "names", false: "name"}[len(calls) == 1]
		told = append(told, fmt.Sprintf("%s: other calls fail where %s %s one call or rank: leave out call= and rank= if "+
			"the fault is the same", k.File, linesText(calls), name))
	}
	if expired > 0 {
		told = append(told, fmt.Sprintf("%s: the last day (until=) of %s has passed, so %s again: repair what is wrong, or "+
			"set a later day", k.File, linesText(over), strings.Replace(Count(expired, "value")+" fail", "1 value fail",
			"1 value fails", 1)))
	}
	if values > 0 {
		told = slices.Insert(told, 0, fmt.Sprintf("%s known (%s): that does not change the exit code",
			Count(values, "failing value"), k.File))
	}
	return told
}

// linesText names lines by their numbers, of many the first ones.
func linesText(numbers []string) string {
	lines := "lines "
	if len(numbers) == 1 {
		lines = "line "
	}
	if n := len(numbers); n > shownKnown {
		numbers = append(slices.Clone(numbers[:shownKnown]), fmt.Sprintf("and %d more", n-shownKnown))
	}
	return lines + strings.Join(numbers, ", ")
}

// join adds what another part of the run said of the lines.
func (k *KnownList) join(m *KnownList) *KnownList {
	if k == nil || m == nil || len(k.Lines) != len(m.Lines) {
		return cmp.Or(k, m)
	}
	for i, l := range m.Lines {
		x := k.Lines[i]
		x.Known += l.Known
		x.Worse += l.Worse
		x.Expired += l.Expired
		x.Passing += l.Passing
		x.Others += l.Others
		x.Unsure += l.Unsure
		x.Unjudged += l.Unjudged
	}
	return k
}

// knownHead is the first line of a new list.
const knownHead = "# Known failures, for --known. Add until=2027-01-31, issue=URL and a reason at the end of a line.\n"

// WriteKnown writes a list of the failures of a run, with their folders if there are any. Lines of the list that the
// run was given stay as they are, but for those whose values no longer fail, or fail in another way.
func WriteKnown(w io.Writer, rec *Recording) error {
	b := bufio.NewWriter(w)
	written := map[string]bool{}
	if k := rec.Summary.Known; k != nil && !k.empty() {
		for _, l := range k.Lines {
			if l.Known+l.Expired+l.Unsure == 0 && (l.Worse > 0 || l.Passing > 0 && !k.Partial) {
				continue
			}
			fmt.Fprintln(b, l.Text)
			if l.About != "" && l.Expired > 0 {
				written[l.About] = true
			}
		}
	} else {
		fmt.Fprint(b, knownHead)
	}
	all := newKnownValues(rec)
	for r := range rec.Results.All() {
		is := failsAs(r.Verdict)
		if !is.Differs() || r.Device != "" {
			continue
		}
		about, sizes := all.words(r)
		as := about
		if is != verdict.Fail {
			as += " " + string(is)
		}
		if written[as] {
			continue
		}
		written[as] = true
		fmt.Fprintln(b, strings.TrimSpace(about+" "+sizes))
	}
	return cmp.Or(rec.Results.Err(), b.Flush())
}

// A knownKey names a value of all calls of an operator in a folder, of one rank or, -1, of all.
type knownKey struct {
	op, value, folder string
	rank              int
	verdict           verdict.Verdict // as which it fails
}

// knownValues are the values of a run that fail in each call of their operator. A line about such a value names no
// call: the next recording may have more calls, or others.
type knownValues struct {
	folders bool // there are any
	passing map[knownKey]bool
	worst   map[knownKey]Extent
}

// newKnownValues looks at all results of a run.
func newKnownValues(rec *Recording) *knownValues {
	all := &knownValues{passing: map[knownKey]bool{}, worst: map[knownKey]Extent{}}
	for r := range rec.Results.All() {
		all.folders = all.folders || knownFolder(r) != "."
		for _, key := range keysOf(r) {
			switch {
			case r.Verdict.Wrong():
				all.worst[key] = all.worst[key].worse(r.extent())
			case r.Within != nil: // another call made it
			case r.Verdict == verdict.Pass || r.Verdict == verdict.Warn:
				key.verdict = ""
				all.passing[key] = true
			}
		}
	}
	return all
}

// keysOf are the keys of a result, that of all ranks first.
func keysOf(r *Result) []knownKey {
	key := knownKey{r.Op, knownValue(r), knownFolder(r), -1, failsAs(cmp.Or(r.Default, r.Verdict))}
	keys := []knownKey{key}
	if r.Rank != nil {
		key.rank = *r.Rank
		keys = append(keys, key)
	}
	return keys
}

// words are the words of a line: which value it is about, and how wrong that is.
func (all *knownValues) words(r *Result) (about, sizes string) {
	e, call, rank := r.extent(), true, r.Rank != nil
	for _, key := range keysOf(r) {
		fails := key
		key.verdict = ""
		if r.Occurrence != nil && !all.passing[key] {
			e, call, rank = all.worst[fails], false, key.rank >= 0
			break
		}
	}
	words := []string{quoteWord(r.Op), quoteWord(knownValue(r))}
	switch {
	case r.Occurrence == nil:
		words = append(words, "capture="+quoteWord(r.Capture))
	case call:
		words = append(words, fmt.Sprintf("call=%d", *r.Occurrence))
	}
	if rank {
		words = append(words, fmt.Sprintf("rank=%d", *r.Rank))
	}
	if all.folders && r.Occurrence != nil {
		words = append(words, "folder="+quoteWord(knownFolder(r)))
	}
	var how []string
	if is := failsAs(r.Verdict); is != verdict.Fail {
		how = append(how, "verdict="+string(is))
	}
	for _, m := range []struct {
		name, format string
		n            float64
	}{{"bound_ratio", "%.3g", e.ratio}, {"max_abs_diff", "%.3g", e.abs}, {"wrong", "%.3g%%", 100 * e.share}} {
		if m.n > 0 {
			how = append(how, m.name+"="+fmt.Sprintf(m.format, m.n))
		}
	}
	if e.broken {
		how = append(how, "finite=no")
	}
	return strings.Join(words, " "), strings.Join(how, " ")
}
