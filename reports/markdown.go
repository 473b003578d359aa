package reports

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/optool/optool/timing"
)

// Most findings and rows that fit a comment.
const (
	markdownFindings = 20
	markdownRows     = 50
)

// WriteMarkdown writes a run as Markdown for a comment: one line in total, a
// table of the ops that did not simply pass, and the first findings with the
// commands that repeat them. Everything that comes from captures is escaped.
func WriteMarkdown(w io.Writer, rec *Recording) error {
	b := bufio.NewWriter(w)
	switch {
	case len(rec.Timings) > 0:
		markdownTimings(b, rec)
	default:
		markdownResults(b, rec)
	}
	for i, w := range rec.Glossary() {
		if i == 0 {
			fmt.Fprint(b, "\nWords:\n\n")
		}
		fmt.Fprintf(b, "- %s: %s\n", w.Name, w.Text)
	}
	fmt.Fprintf(b, "\n<sub>optool %s, %s, %s</sub>\n", escapeMarkdown(rec.Run.Version), escapeMarkdown(rec.Run.Host),
		rec.Run.Start.Format("2006-01-02 15:04:05 -0700"))
	return b.Flush()
}

func markdownResults(b *bufio.Writer, rec *Recording) {
	s := rec.Summary
	mark := "✅"
	switch {
	case s.Faulty():
		mark = "❌"
	case s.Doubtful():
		mark = "⚠️"
	}
	ops := s.Ops()
	fmt.Fprintf(b, "### %s %s\n\n", mark, escapeMarkdown(rec.Headline()))
	for _, f := range rec.Top() {
		fmt.Fprintf(b, "- %s: **%s**\n", escapeMarkdown(f.Name), escapeMarkdown(f.Text))
	}
	fmt.Fprintf(b, "\n%s\n", s.Line())
	if table := s.ProgramTable(); len(table) > 0 {
		for _, cells := range table {
			for i := range cells {
				cells[i] = escapeMarkdown(cells[i])
			}
		}
		fmt.Fprintf(b, "\n#### %s\n", s.ProgramsText())
		markdownTable(b, table[0], table[1:min(len(table), markdownRows)])
	}
	if faults := rec.Faults(); len(faults) > 0 {
		table := FaultTable(faults)
		for _, cells := range table {
			for i := range cells {
				cells[i] = escapeMarkdown(cells[i])
			}
		}
		fmt.Fprintf(b, "\n#### %s\n", FaultsTitle(faults))
		markdownTable(b, table[0], table[1:])
	}
	for _, line := range append(s.aside()[len(s.Systematic()):], rec.Told()...) { // Top has the systematic ones
		fmt.Fprintf(b, "\n%s\n", escapeMarkdown(line))
	}
	markdownSettings(b, s.Settings)
	var rows [][]string
	for _, o := range ops {
		if o.passed() && o.Worst.Reason == "" {
			continue
		}
		row := []string{escapeMarkdown(opName(o.Op))}
		for _, k := range s.counts(o) {
			n := ""
			if k > 0 {
				n = fmt.Sprint(k)
			}
			row = append(row, n)
		}
		rows = append(rows, append(row, escapeMarkdown(strings.TrimSpace(o.Worst.Target+" "+o.Worst.Reason))))
	}
	if len(rows) > 0 {
		markdownTable(b, append(append([]string{"op"}, s.columns()...), "worst"), rows)
	}
	digest := NewDigest(s.FailOn)
	for f := range rec.Findings() {
		digest.Add(f)
	}
	rec.Lead(digest)
	shown, left := 0, digest.rest
	for f, like := range digest.Told() {
		if shown == markdownFindings {
			left++
			continue
		}
		shown++
		markdownFinding(b, f, like)
	}
	if left > 0 {
		fmt.Fprintf(b, "\n%s more not shown.\n", Count(left, "kind"))
	}
	if text := digest.ReadingText(); text != "" {
		fmt.Fprintf(b, "\n**%s**: %s\n", ReadsOtherValues, escapeMarkdown(text))
	}
}

// markdownFinding writes a finding, what is like it, and the command that runs it again.
func markdownFinding(b *bufio.Writer, f *Finding, like string) {
	fmt.Fprintf(b, "\n**%s** %s, capture %s\n", f.Worst(), escapeMarkdown(f.Results[0].Title()),
		escapeMarkdown(f.Results[0].Capture))
	for _, c := range f.Causes[:min(len(f.Causes), shownCauses)] {
		fmt.Fprintf(b, "- %s: **%s**\n", c.Label(), escapeMarkdown(c.String()))
	}
	for _, note := range f.Notes() {
		fmt.Fprintf(b, "- note: %s\n", escapeMarkdown(note))
	}
	for _, r := range f.Results {
		if !f.tells(r) {
			continue
		}
		text := r.Target + " " + string(r.Verdict) + r.What() + ": " + r.Reason
		fmt.Fprintf(b, "- %s\n", escapeMarkdown(strings.TrimSpace(text)))
	}
	if more := f.More(); more != "" {
		fmt.Fprintf(b, "- and %s\n", more)
	}
	if like != "" {
		fmt.Fprintf(b, "- like it: %s\n", escapeMarkdown(like))
	}
	if repro := f.Results[0].Repro; repro != nil {
		text := Command(*repro)
		fence := "```"
		for strings.Contains(text, fence) {
			fence += "`"
		}
		fmt.Fprintf(b, "%ssh\n%s\n%s\n", fence, text, fence)
	}
}

// markdownSettings says what the run was told about what to check.
func markdownSettings(b *bufio.Writer, settings Settings) {
	var rows [][]string
	for _, x := range settings {
		rows = append(rows, []string{escapeMarkdown(x.Kind + " " + x.Name), escapeMarkdown(x.Value), x.String()})
	}
	if len(rows) > 0 {
		markdownTable(b, []string{"in force", "value", "effect"}, rows)
	}
}

func markdownTimings(b *bufio.Writer, rec *Recording) {
	fmt.Fprintf(b, "### %s\n\n", rec.Line())
	for _, f := range rec.Top() {
		fmt.Fprintf(b, "- %s: **%s**\n", f.Name, escapeMarkdown(f.Text))
	}
	markdownSettings(b, rec.Summary.Settings)
	var rows [][]string
	cache := timing.Cache(rec.averaged())
	for _, a := range Averages(rec.Timings, cache, false, "self", rec.recorded()) {
		rows = append(rows, []string{escapeMarkdown(a.Op), a.Phase, timing.Format(a.Self),
			fmt.Sprintf("%.1f", 100*a.Share), timing.Format(a.Mean()), a.CallsText()})
	}
	markdownTable(b, []string{"op", "phase", "self", "self %", "avg", "calls"}, rows)
	if len(rec.Changes) == 0 {
		return
	}
	names := rec.Run.Rivals()
	rows = nil
	for i := range rec.Changes {
		c := &rec.Changes[i]
		cells := append([]string{escapeMarkdown(c.Op), escapeMarkdown(c.Capture), c.Phase, c.Cache}, c.Cells()[:5]...)
		rows = append(rows, append(cells, escapeMarkdown(c.DoubtText(names))))
	}
	markdownTable(b, []string{"op", "capture", "phase", "cache", escapeMarkdown(names[0]), escapeMarkdown(names[1]), "change",
		"within", "verdict", "doubt"}, rows)
}

func markdownTable(b *bufio.Writer, head []string, rows [][]string) {
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))
	left := 0
	if len(rows) > markdownRows {
		left, rows = len(rows)-markdownRows, rows[:markdownRows]
	}
	for _, r := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(r, " | "))
	}
	if left > 0 {
		fmt.Fprintf(b, "\n%s more not shown.\n", Count(left, "row"))
	}
}

// escapeMarkdown makes a text show as it is, on one line: characters that could mean something to Markdown get a
// backslash. Those that could be HTML, mention somebody or name an emoji, which a backslash does not stop everywhere,
// become character references.
func escapeMarkdown(s string) string {
	var e strings.Builder
	runes := []rune(OneLine(s))
	for i, r := range runes {
		switch {
		case r == '>' && i > 1 && runes[i-1] == ' ': // between words it means nothing
			e.WriteRune(r)
		case strings.ContainsRune("<>&|@~$", r), r == ':' && means(runes[i+1:]):
			fmt.Fprintf(&e, "&#%d;", r)
		case strings.ContainsRune("\\`*[]#!", r), r == '_' && !(inWord(runes, i-1) && inWord(runes, i+1)):
			e.WriteRune('\\')
			e.WriteRune(r)
		default:
			e.WriteRune(r)
		}
	}
	return e.String()
}

// means reports whether a colon before these runes is part of an address or begins the name of an emoji, such as :100:.
func means(after []rune) bool {
	n := slices.IndexFunc(after, func(r rune) bool { return !strings.ContainsRune("+-_", r) && !inWord([]rune{r}, 0) })
	return n == 0 && after[0] == '/' || n > 0 && after[n] == ':'
}

// inWord reports whether a letter or digit stands at i: an underscore between two means nothing.
func inWord(runes []rune, i int) bool {
	return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
}
