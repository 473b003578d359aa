package reports

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/optool/optool/verdict"
)

type junitSuites struct {
	XMLName  xml.Name       `xml:"testsuites"`
	Name     string         `xml:"name,attr"`
	Tests    int            `xml:"tests,attr"`
	Failures int            `xml:"failures,attr"`
	Errors   int            `xml:"errors,attr"`
	Skipped  int            `xml:"skipped,attr"`
	Time     string         `xml:"time,attr"`
	Settings *junitSettings `xml:"properties"`
	Suites   []*junitSuite  `xml:"testsuite"`
}

type junitSettings struct {
	List []junitSetting `xml:"property"`
}

type junitSetting struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    string     `xml:"time,attr,omitempty"`
	Failure *junitNote `xml:"failure"`
	Error   *junitNote `xml:"error"`
	Skipped *junitNote `xml:"skipped"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitNote struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes a run in JUnit's XML: a suite for each op, a case for each
// result or measured series. fail is a failure; invalid, error, crash and
// timeout are errors; unsupported, skipped and mistrusted are skipped, as are files
// into which torch saved nothing; warn passes and says why. What the calls of an
// operator say together is a case too. The settings that were in force are properties.
func WriteJUnit(w io.Writer, rec *Recording) error {
	all := &junitSuites{Name: "optool", Time: fmt.Sprintf("%.3f", rec.Summary.Elapsed.Seconds())}
	for _, s := range rec.Summary.Settings {
		if all.Settings == nil {
			all.Settings = &junitSettings{}
		}
		all.Settings.List = append(all.Settings.List, junitSetting{s.Kind + " " + s.Name, s.Value + ": " + s.String()})
	}
	byOp := map[string]*junitSuite{}
	add := func(c junitCase) {
		s := byOp[c.Class]
		if s == nil {
			s = &junitSuite{Name: c.Class}
			byOp[c.Class] = s
			all.Suites = append(all.Suites, s)
		}
		s.Cases = append(s.Cases, c)
		for _, n := range []struct {
			note       *junitNote
			suite, sum *int
		}{{c.Failure, &s.Failures, &all.Failures}, {c.Error, &s.Errors, &all.Errors},
			{c.Skipped, &s.Skipped, &all.Skipped}} {
			if n.note != nil {
				*n.suite++
				*n.sum++
			}
		}
		s.Tests++
		all.Tests++
	}
	for _, t := range rec.Timings {
		c := junitCase{Class: t.Op, Name: strings.Join([]string{t.Capture, t.Phase, string(t.Series.Cache)}, " "),
			Time: fmt.Sprintf("%.9f", t.Series.Summary().Median.Seconds()), Out: t.Doubt()}
		add(c)
	}
	for _, r := range rec.Results {
		add(junitResult(r))
	}
	for _, f := range rec.Summary.Systematic() {
		add(junitResult(&Result{Capture: "all calls", Op: f.Op, Phase: f.Phase, Target: f.DType, Verdict: f.Verdict,
			Reason: f.String()}))
	}
	b := bufio.NewWriterSize(w, 1<<16)
	b.WriteString(xml.Header)
	e := xml.NewEncoder(b)
	e.Indent("", " ")
	if err := e.Encode(all); err != nil {
		return err
	}
	b.WriteByte('\n')
	return b.Flush()
}

func junitResult(r *Result) junitCase {
	value := r.Capture + " " + r.Phase + " " + r.Target + " " + r.Device
	c := junitCase{Class: r.Op, Name: strings.Join(strings.Fields(value), " ")}
	if r.Unwritten {
		c.Skipped = &junitNote{Message: string(r.Verdict) + ": " + r.Reason}
		return c
	}
	note := &junitNote{Type: string(r.Verdict), Message: r.Reason, Text: strings.Join(details(r), "\n")}
	switch r.Verdict {
	case verdict.Pass:
	case verdict.Warn:
		c.Out = "warn: " + r.Reason
	case verdict.Fail:
		c.Failure = note
	case verdict.Skipped, verdict.Mistrusted, verdict.Unsupported:
		c.Skipped = &junitNote{Message: string(r.Verdict) + ": " + r.Reason}
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
