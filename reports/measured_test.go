package reports

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/timing"
)

// TestMeasuredInPart: all reports of times say what share of the recorded calls was measured and which times are in
// doubt, and an operator's calls are told from those recorded.
func TestMeasuredInPart(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"kind":"run","schema":1}` + "\n")
	j := NewJSONLines(&b)
	for _, x := range timings() {
		if err := j.Timing(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Write(struct {
		Kind string `json:"kind"`
		Measured
	}{"summary", Measured{Captures: 20, Distinct: 6, Measured: 3, MeasuredCalls: 5, ShareOfCalls: 0.25,
		ShareOfBytes: 0.5, Recorded: map[string]int{"torch.add": 19, "torch.mul": 1}}}); err != nil {
		t.Fatal(err)
	}
	rec, err := ReadRecording(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	const share = "3 of 6 distinct calls measured: 25.0 % of 20 calls, 50.0 % of their bytes"
	leads := []Fact{
		{"measured", "the float64 reference on this CPU; no device ran the calls"},
		{"not measured", "3 distinct calls, recorded 15 times. Their time is in no sum: a share is of the time of " +
			"the measured calls, not of the run"},
		{"warning", "4 of 4 measurements are in doubt: 4 few (less than five runs)"},
	}
	if got := rec.Headline(); got != share {
		t.Errorf("headline %q, want %q", got, share)
	}
	if d := cmp.Diff(leads, rec.Top()); d != "" {
		t.Error(d)
	}
	var md strings.Builder
	if err := WriteMarkdown(&md, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{share, leads[1].Text, "4 of 19"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("Markdown without %q:\n%s", want, md.String())
		}
	}
	var summary []string
	for row := range rec.WorkbookSheets(nil)[0].Rows {
		summary = append(summary, row[1].(string))
	}
	for _, want := range []string{share, leads[1].Text, leads[2].Text} {
		if !slices.Contains(summary, want) {
			t.Errorf("the workbook's summary has no %q: %q", want, summary)
		}
	}
	var text []string
	for _, a := range Averages(rec.Timings, timing.Hot, false, "name", rec.recorded()) {
		text = append(text, a.CallsText())
	}
	if d := cmp.Diff([]string{"4 of 19", "1"}, text); d != "" {
		t.Error(d)
	}
}
