package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/internal/run/folder"
)

// A stepSet is the steps of the program whose calls a run looked at; those that the recorder tells.
type stepSet map[int]bool

func (s *stepSet) add(r *Result) {
	if r.Step == nil {
		return
	}
	if *s == nil {
		*s = stepSet{}
	}
	(*s)[*r.Step] = true
}

// shownSteps is how many runs of steps in a row are named.
const shownSteps = 4

// String names the steps: "steps 0-3, 8"; "" if none is known.
func (s stepSet) String() string {
	var runs [][2]int
	for _, n := range slices.Sorted(maps.Keys(s)) {
		if last := len(runs) - 1; last >= 0 && runs[last][1] == n-1 {
			runs[last][1] = n
		} else {
			runs = append(runs, [2]int{n, n})
		}
	}
	var parts []string
	for i, r := range runs {
		switch {
		case i == shownSteps:
			parts = append(parts, "and more")
		case i > shownSteps:
		case r[0] == r[1]:
			parts = append(parts, fmt.Sprint(r[0]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", r[0], r[1]))
		}
	}
	switch len(s) {
	case 0:
		return ""
	case 1:
		return "step " + parts[0]
	}
	return "steps " + strings.Join(parts, ", ")
}

// LookedAt says what a replay looked at, why it did not judge some values, what it did not look at, and how to find out
// how bad a wrong call is; none of another run.
func (rec *Recording) LookedAt() (lines []Fact) {
	s := rec.Summary
	if !rec.lookedAt() {
		return nil
	}
	text := fmt.Sprintf("%s of %s, %s: %d judged, %d not judged", Count(s.Calls(), "call"),
		Count(len(s.ops), "operator"), Count(s.Judged()+s.NotJudged().NotJudged, "value"), s.Judged(),
		s.NotJudged().NotJudged)
	if steps := s.steps.String(); steps != "" {
		text = steps + ", " + text
	}
	lines = append(lines, Fact{"looked at", text})
	if u := s.NotJudged(); u.NotJudged > 0 {
		lines = append(lines, Fact{"not judged", u.why()})
	}
	text = "other steps, other shapes, and values that changed between calls"
	if !rec.onDevice() {
		text += "; no device ran the calls"
	}
	lines = append(lines, Fact{"not looked at", text})
	if rec.First != nil && !rec.onDevice() && s.Calls() > 1 && !rec.First.Results[0].Pair {
		r := rec.First.Results[0]
		if program := r.program(len(s.Programs()) > 0); program != "" {
			lines = append(lines, Fact{"how bad", fmt.Sprintf("optool step%s --html step.html --xlsx step.xlsx %s shows "+
				"what this did to the later calls and to the loss", r.ownOps(), program)})
		}
	}
	return lines
}

// lookedAt reports whether the run has LookedAt: it replayed calls.
func (rec *Recording) lookedAt() bool {
	return slices.Contains(rec.Run.Command, "replay") && len(rec.Summary.Facts) == 0 && len(rec.Timings) == 0 &&
		!rec.Overflow && rec.Summary.Generated == nil && rec.Summary.Total() > 0
}

func (rec *Recording) onDevice() bool { return rec.Run.Device != "" && rec.Run.Device != "none" }

// below is a path below the PATH of a call's recording, as a word of a command, or PATH itself. It is "" where the
// command that repeats the call does not tell.
func (r *Result) below(rest string) string {
	if r.Repro == nil {
		return ""
	}
	word, quoted := (*r.Repro)[strings.LastIndex(*r.Repro, " ")+1:], false
	if s, is := strings.CutSuffix(*r.Repro, "'"); is {
		word, quoted = s[strings.LastIndex(s, "'")+1:], true
		if strings.HasSuffix(s[:len(s)-len(word)], `\''`) || strings.HasSuffix(s[:len(s)-len(word)], "$'") {
			return ""
		}
	}
	dir := strings.TrimSuffix(word, "/"+r.Capture) // otherwise it is the PATH already
	if dir == "" {
		return ""
	}
	if rest != "" && rest != "." {
		dir += "/" + rest
	}
	if quoted {
		return "'" + dir + "'"
	}
	return dir
}

// program is the recording of the program that made a call, as a word of a command; "" if the command that repeats it
// does not tell.
func (r *Result) program(several bool) string {
	name := ""
	if several {
		if name = folder.Program(r.Folder()); name != "" && !strings.HasPrefix(r.Capture, name+"/") {
			return ""
		}
	}
	return r.below(name)
}

// opsFlag is a file of operators in a command.
var opsFlag = lazyregexp.New(` --ops ('[^']*'|[^ ']+)`)

// ownOps are the files of operators of the command that repeats a call, as flags: " --ops my.star".
func (r *Result) ownOps() string {
	if r.Repro == nil {
		return ""
	}
	return strings.Join(opsFlag().FindAllString(*r.Repro, -1), "")
}

// Told is Summary.Told without what LookedAt says.
func (rec *Recording) Told() []string {
	if rec.lookedAt() {
		return rec.Summary.told("")
	}
	return rec.Summary.Told()
}
