package reports

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// documented are the fields that docs/formats.md lists for lines of a kind: the names in backquotes in the first
// column of the table below the kind's heading.
func documented(t *testing.T, kind string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n### `\"kind\":\""+kind+"\"`\n")
	if !ok {
		t.Fatalf("docs/formats.md has no section for kind %q", kind)
	}
	section, _, _ = strings.Cut(section, "\n#")
	_, table, _ := strings.Cut(section, "|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var fields []string
	for line := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(strings.Split(line, " | ")[0], -1) {
			fields = append(fields, m[1])
		}
	}
	slices.Sort(fields)
	return fields
}

// fieldsOf are the names that JSON gives the fields of a struct, and of those
// embedded in it.
func fieldsOf(typ reflect.Type) []string {
	var out []string
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && name != "kind" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestFormats compares docs/formats.md with what is written.
func TestFormats(t *testing.T) {
	for kind, v := range map[string]any{
		"run": struct {
			Schema int `json:"schema"`
			Run
		}{}, "result": Result{}, "timing": timingSample{}, "timing_summary": timingSummary{},
	} {
		if got, want := documented(t, kind), fieldsOf(reflect.TypeOf(v)); !slices.Equal(got, want) {
			t.Errorf("docs/formats.md: a line of kind %q has the fields\n%q, want\n%q", kind, got, want)
		}
	}
	var b strings.Builder
	s := NewSummary()
	s.Witness, s.Against, s.First, s.Settings = map[string]int{}, &Contest{}, &Place{}, Settings{{}}
	s.FailOn, s.Budget, s.Known = []verdict.Verdict{verdict.Warn}, &Budget{}, &KnownList{}
	s.Generated, s.Precision, s.Facts, s.Unread = &Generated{}, &Precision{}, []Fact{{}}, []UnreadFile{{}}
	s.Same, s.NoCause = &Same{}, []Place{{}}
	s.Missing = []string{"part 1/2 is missing"}
	pid := 7
	for _, program := range []string{"a", "b"} {
		s.Add(&Result{Capture: program + "/rank0/7-2026-11-29-01-23-13/torch.mm.0", Op: "torch.mm", PID: &pid})
	}
	pooled := calls("float32", 100, Errors{Factor: Num(0x1p-22), FactorError: Num(0x1p-23)})
	for _, r := range pooled {
		r.PID = &pid
		s.Add(r)
	}
	if err := NewJSONLines(&b).Summary(s); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(b.String()), &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "kind")
	for _, v := range verdict.All() {
		delete(m, v.Key())
		delete(m, "captures_"+v.Key())
	}
	want := []string{}
	for name := range m {
		want = append(want, name)
	}
	slices.Sort(want)
	if got := documented(t, "summary"); !slices.Equal(got, want) {
		t.Errorf("docs/formats.md: the summary has the fields\n%q, want\n%q", got, want)
	}
}
