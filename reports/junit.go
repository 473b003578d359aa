package reports

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/run/folder"
)

type junitSettings struct {
	List []junitSetting `xml:"property"`
}

// inDirectory are the properties of a case: the directory of the call, which is another one each night.
func inDirectory(capture string) *junitSettings {
	return &junitSettings{List: []junitSetting{{"capture", Cell(capture)}}}
}

type junitSetting struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// A junitSuite is the cases of an op, whose texts wait in a file.
type junitSuite struct {
	name                             string
	tests, failures, errors, skipped int
	parts                            []part
}

// A part of a file, in bytes.
type part struct{ at, n int64 }

type junitCase struct {
	Class   string         `xml:"classname,attr"`
	Name    string         `xml:"name,attr"`
	Time    string         `xml:"time,attr,omitempty"`
	Of      *junitSettings `xml:"properties"`
	Failure *junitNote     `xml:"failure"`
	Error   *junitNote     `xml:"error"`
	Skipped *junitNote     `xml:"skipped"`
	Out     string         `xml:"system-out,omitempty"`
}

type junitNote struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes a run in JUnit's XML: a suite for each op, a case for each result or measured series. fail is a
// failure; invalid, error, crash and timeout are errors, invalid ones of a known file one together; unsupported,
// skipped and mistrusted are skipped, as are files into which torch saved nothing; warn passes and says why. What
// the calls of an operator say together is a case too. A run that did not end, or lacks parts, has an error that
// says so. The settings that were in force are properties, and what was not judged is one. Values for which the run
// was told to fail are failures.
//
// A suite begins with its counts, so cases wait in a temporary file until all are known.
func WriteJUnit(w io.Writer, rec *Recording) (err error) {
	cases, err := os.CreateTemp("", "optool-*.xml")
	if err != nil {
		return fmt.Errorf("a temporary file: %v", err) // not the one that was asked for
	}
	defer func() {
		if e := cmp.Or(cases.Close(), os.Remove(cases.Name())); err == nil {
			err = e
		}
	}()
	all := &junitSuite{name: "optool"}
	suites, err := junitCases(cases, rec, all)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(w, 1<<16)
	b.WriteString(xml.Header)
	all.begin(b, "", "testsuites", xml.Attr{Name: xml.Name{Local: "time"},
		Value: fmt.Sprintf("%.3f", rec.Summary.Elapsed.Seconds())})
	list := &junitSettings{}
	for _, s := range rec.Summary.Settings {
		list.List = append(list.List, junitSetting{s.Kind + " " + s.Name, s.Value + ": " + s.String()})
	}
	for _, lead := range rec.Leads() {
		list.List = append(list.List, junitSetting{lead[0], lead[1]})
	}
	for _, text := range rec.Summary.notRunLines() {
		list.List = append(list.List, junitSetting{"not judged", text})
	}
	if text := rec.Summary.NotJudged().String(); text != "" {
		list.List = append(list.List, junitSetting{"not judged", text})
	}
	if len(list.List) > 0 {
		e := xml.NewEncoder(b)
		e.Indent(" ", " ")
		if err := e.EncodeElement(list, xml.StartElement{Name: xml.Name{Local: "properties"}}); err != nil {
			return err
		}
		b.WriteByte('\n')
	}
	for _, s := range suites {
		s.begin(b, " ", "testsuite")
		for _, p := range s.parts {
			if _, err := io.Copy(b, io.NewSectionReader(cases, p.at, p.n)); err != nil {
				return err
			}
		}
		b.WriteString(" </testsuite>\n")
	}
	b.WriteString("</testsuites>\n")
	return b.Flush()
}

// begin writes the first tag of a suite.
func (s *junitSuite) begin(b *bufio.Writer, indent, tag string, more ...xml.Attr) {
	attribute := func(name, value string) {
		fmt.Fprintf(b, ` %s="`, name)
		_ = xml.EscapeText(b, []byte(value)) // an error of b stays until Flush
		b.WriteByte('"')
	}
	b.WriteString(indent + "<" + tag)
	attribute("name", s.name)
	attribute("tests", strconv.Itoa(s.tests))
	attribute("failures", strconv.Itoa(s.failures))
	attribute("errors", strconv.Itoa(s.errors))
	attribute("skipped", strconv.Itoa(s.skipped))
	for _, a := range more {
		attribute(a.Name.Local, a.Value)
	}
	b.WriteString(">\n")
}

// junitCases writes the cases of a run to a file, and returns their suites in the order in
// which they begin; all has the counts of all.
func junitCases(w io.Writer, rec *Recording, all *junitSuite) (suites []*junitSuite, err error) {
	out := &junitWriter{b: bufio.NewWriterSize(w, 1<<16), byOp: map[string]*junitSuite{}, all: all}
	names := newCaseNames()
	for _, t := range rec.Timings {
		if err := out.add(junitCase{Class: t.Op, Of: inDirectory(t.Capture),
			Name: names.of(t.Op, folder.Of(t.Capture, t.Op, -1, -1).Folder, t.Shapes, t.Phase, string(t.Series.Cache)),
			Time: fmt.Sprintf("%.9f", t.Series.Summary().Median.Seconds()), Out: t.Doubt()}); err != nil {
			return nil, err
		}
	}
	causeOf := rec.causeOf()
	causes := map[string][]*Cause{}
	for _, c := range rec.Causes {
		causes[c.Capture] = append(causes[c.Capture], c)
	}
	unread := unreadFiles{}
	for f := range rec.Findings() {
		failing := slices.Contains(rec.Summary.FailOn, f.Worst())
		for _, r := range f.Results {
			if unread.add(r); r.unread() && r.File != "" {
				continue // one case for each file
			}
			c := junitResult(r, names)
			if v := rec.Summary.Shown(r); v == ReadsOtherValues {
				c.Failure, c.Error, c.Skipped = nil, nil, &junitNote{Message: string(v) + ": " + OneLine(r.Reason)}
			}
			if failing && r.Verdict == f.Worst() {
				c.Skipped, c.Out = nil, ""
				c.Failure = &junitNote{Type: string(r.Verdict), Text: strings.Join(details(r), "\n"),
					Message: "--fail-on " + string(r.Verdict) + ": " + OneLine(r.Reason)}
			}
			own := false
			tell := func(k *Cause) { c.Failure.Text = k.Label() + ": " + k.String() + "\n" + c.Failure.Text }
			for _, k := range causes[r.Capture] {
				if c.Failure != nil && slices.Contains(k.Targets, r.Target) {
					own = true
					tell(k)
				}
			}
			if c.Failure != nil && !own {
				if k := causeOf(r); k != nil && k.like != "" { // that of another call which fails like this one
					tell(k)
				}
			}
			if err := out.add(c); err != nil {
				return nil, err
			}
		}
	}
	for i := range rec.Summary.Unread {
		unread.files = append(unread.files, &rec.Summary.Unread[i])
	}
	for _, f := range unread.files {
		note := &junitNote{Type: string(verdict.Invalid), Message: OneLine("could not be read: " + f.String())}
		if err := out.add(junitCase{Class: "could not be read", Of: inDirectory(f.File),
			Name: names.of("could not be read", f.stable()), Error: note}); err != nil {
			return nil, err
		}
	}
	for _, text := range rec.Summary.unended() {
		name, _, _ := strings.Cut(text, ": ")
		if err := out.add(junitCase{Class: "the whole run", Name: Cell(name),
			Error: &junitNote{Type: "interrupted", Message: OneLine(text)}}); err != nil {
			return nil, err
		}
	}
	for _, f := range rec.Summary.Systematic() {
		if err := out.add(junitResult(&Result{Capture: "all calls", Op: f.Op, Phase: f.Phase, Target: f.DType,
			Verdict: f.Verdict, Reason: f.String()}, names)); err != nil {
			return nil, err
		}
	}
	if known := rec.Summary.Known; known.failsRun(rec.Summary.hidesNone()) {
		for _, l := range rec.Summary.Unneeded() {
			why := "no longer fails"
			if l.Passing == 0 {
				why = "is about no value of this run"
			}
			note := &junitNote{Message: fmt.Sprintf("%s: remove line %d of %s", why, l.Number, known.File)}
			if err := out.add(junitCase{Class: "known failures", Name: Cell(l.About), Failure: note}); err != nil {
				return nil, err
			}
		}
	}
	return out.suites, out.b.Flush()
}

// A junitWriter writes cases one after the other, and notes where those of each suite are.
type junitWriter struct {
	b      *bufio.Writer
	at     int64 // the end of what was written
	text   bytes.Buffer
	byOp   map[string]*junitSuite
	suites []*junitSuite
	all    *junitSuite
}

func (j *junitWriter) add(c junitCase) error {
	s := j.suiteOf(c.Class)
	for _, s := range []*junitSuite{s, j.all} {
		s.tests++
		s.failures += btoi(c.Failure != nil)
		s.errors += btoi(c.Error != nil)
		s.skipped += btoi(c.Skipped != nil)
	}
	j.text.Reset()
	e := xml.NewEncoder(&j.text)
	e.Indent("  ", " ")
	if err := e.EncodeElement(c, xml.StartElement{Name: xml.Name{Local: "testcase"}}); err != nil {
		return err
	}
	j.text.WriteByte('\n')
	n := int64(j.text.Len())
	if k := len(s.parts); k > 0 && s.parts[k-1].at+s.parts[k-1].n == j.at {
		s.parts[k-1].n += n
	} else {
		s.parts = append(s.parts, part{j.at, n})
	}
	j.at += n
	_, err := j.b.Write(j.text.Bytes())
	return err
}

// suiteOf is the suite of an op, or of all that are not told apart.
func (j *junitWriter) suiteOf(op string) *junitSuite {
	if j.byOp[op] == nil && len(j.byOp) >= maxOps {
		op = otherOps
	}
	s := j.byOp[op]
	if s == nil {
		s = &junitSuite{name: op}
		j.byOp[op] = s
		j.suites = append(j.suites, s)
	}
	return s
}

func junitResult(r *Result, names caseNames) junitCase {
	c := junitCase{Class: Name(r.Op), Of: inDirectory(r.Capture),
		Name: names.of(r.Op, r.call(), r.Phase, r.Target, r.Layout, r.Device)}
	if r.Lacks != "" {
		c.Of, c.Name = nil, Cell(r.Lacks)
		if r.Op == OpUnseen { // Lacks has a number, which is another one each night
			c.Name = "calls"
		}
	}
	reason := OneLine(r.Reason)
	if r.Unwritten {
		c.Skipped = &junitNote{Message: string(r.Verdict) + ": " + reason}
		return c
	}
	note := &junitNote{Type: string(r.Verdict), Message: reason, Text: strings.Join(details(r), "\n")}
	switch r.Verdict {
	case verdict.Pass:
	case verdict.Warn, verdict.Repaired:
		c.Out = string(r.Verdict) + ": " + reason
	case verdict.Fail:
		c.Failure = note
	case verdict.Skipped, verdict.Mistrusted, verdict.Unsupported, verdict.Known, verdict.StillWrong:
		c.Skipped = &junitNote{Message: string(r.Verdict) + ": " + reason}
	default:
		c.Error = note
	}
	return c
}

// details are the lines that say how far off a result is and how to see it
// again.
func details(r *Result) []string {
	var lines []string
	add := func(name string, v any) {
		if v != nil {
			lines = append(lines, name+": "+csvField(v))
		}
	}
	add("call", textCell(r.Title()))
	add("worst element", indexCell(r.Worst))
	add("actual", valueCell(r.Actual))
	add("expected", valueCell(r.Expected))
	if r.Mismatch != nil && r.Numel != nil {
		add("mismatched", fmt.Sprintf("%d of %d", *r.Mismatch, *r.Numel))
	}
	add("dtype", cell(r.DType))
	add("shape", indexCell(r.Shape))
	add("rule", cell(r.Rule))
	add("repro", cell(r.Repro))
	return lines
}
