package reports

import (
	"slices"
	"strings"
	"testing"
)

// TestWorkbook: a workbook begins with the result in words. Its results are in order of execution and have few columns;
// another sheet has all.
func TestWorkbook(t *testing.T) {
	const line = `{"kind":"result","capture":"c/`
	rec := readRecorded(t, `{"kind":"run","schema":1,"command":["optool","replay","c"],"device":"torch:npu:0"}
`+line+`3","op":"torch.exp","phase":"forward","target":"output[0]","verdict":"fail","reason":"off","order":3,"pid":1,"repro":"optool replay c/3"}
`+line+`1","op":"torch.tanh","phase":"forward","target":"output[0]","verdict":"pass","reason":"","order":1,"pid":1}
`+line+`2","op":"torch.sin","phase":"forward","target":"output[0]","verdict":"skipped","reason":"random","order":2,"pid":1}
`)
	sheets := rec.WorkbookSheets([]Sheet{rec.OpSheet()})
	var names []string
	for _, s := range sheets {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"summary", "results", "by op", "details", "run"}) {
		t.Fatalf("sheets %q", names)
	}
	facts := map[string]any{}
	for row := range sheets[0].Rows {
		facts[row[0].(string)] = row[1]
	}
	for name, want := range map[string]any{
		"result": "1 of 3 calls fail, 1 pass, 1 not judged. The run was interrupted.", "calls: fail": 1,
		"calls: skipped": 1, "judged": "device torch:npu:0", "repeat it with": "optool replay c/3", "command": "optool replay c",
	} {
		if facts[name] != want {
			t.Errorf("summary: %s is %v, want %v", name, facts[name], want)
		}
	}
	if text, _ := facts["first wrong call"].(string); !strings.HasPrefix(text, "torch.exp") {
		t.Errorf("first wrong call %q", text)
	}
	results, details := sheets[1], sheets[3]
	if len(results.Columns) > 15 || len(details.Columns) <= 15 {
		t.Errorf("%d and %d columns", len(results.Columns), len(details.Columns))
	}
	for _, s := range []Sheet{results, details} {
		var order []any
		at := slices.Index(s.Columns, "order")
		for row := range s.Rows {
			if len(row) != len(s.Columns) {
				t.Errorf("%s: %d cells, %d columns", s.Name, len(row), len(s.Columns))
			}
			order = append(order, row[at])
		}
		if !slices.Equal(order, []any{1, 2, 3}) {
			t.Errorf("%s are in order %v", s.Name, order)
		}
	}
}

// TestBriefColumns: the columns that results show are columns that there are.
func TestBriefColumns(t *testing.T) {
	all := (&Recording{Results: &Results{}, Overflow: true}).SheetOf(slices.Values([]*Result(nil))).Columns
	for _, columns := range [][]string{briefColumns, briefOverflow} {
		for _, name := range columns {
			if !slices.Contains(all, name) {
				t.Errorf("there is no column %s", name)
			}
		}
	}
	for _, name := range briefTimings {
		if !slices.Contains((&Recording{}).timingSheet().Columns, name) {
			t.Errorf("measurements have no column %s", name)
		}
	}
}

// TestAllClear: a run in which nothing is wrong says so, and whether all could be judged. Words that it uses are
// explained.
func TestAllClear(t *testing.T) {
	const run, line = `{"kind":"run","schema":1,"command":["optool"],"device":"none"}` + "\n", `{"kind":"result","capture":"c","op":"torch.exp","phase":"forward","target":"output[0]","verdict":`
	const end = "\n" + `{"kind":"summary"}` + "\n"
	for text, want := range map[string]string{
		line + `"pass","reason":""}` + end: "0 of 1 call fail, 1 pass. Nothing wrong was found.",
		line + `"pass","reason":""}` + "\n" + strings.Replace(line, `"c"`, `"d"`, 1) + `"mistrusted","reason":"all elements are zero on both sides"}` + end: "0 of 2 calls fail, 1 pass, " +
			"1 not judged. Nothing wrong was found in what was judged.",
		line + `"skipped","reason":"random"}` + end: "0 of 1 call fail, 0 pass, 1 not judged.",
		line + `"fail","reason":"off"}` + end:       "1 of 1 call fail, 0 pass.",
		line + `"warn","reason":"off"}` + end:       "0 of 1 call fail, 0 pass, 1 with a warning. Nothing wrong was found.",
	} {
		rec := readRecorded(t, run+text)
		if got := rec.Headline(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		explained := slices.ContainsFunc(rec.Glossary(), func(f Fact) bool { return f.Name == "mistrusted" })
		if used := strings.Contains(text, "mistrusted"); explained != used {
			t.Errorf("mistrusted is explained: %v, used: %v", explained, used)
		}
	}
}

// TestPatternIsNoCause: a pattern in the table of causes is called one, and its sentence has one verb.
func TestPatternIsNoCause(t *testing.T) {
	c := &Cause{Op: "torch.exp", Targets: []string{"output[0]"}, Pattern: true,
		Text: "each index of dimension 2 is multiplied by 3"}
	if got, want := c.String(), "in output[0], each index of dimension 2 is multiplied by 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rec := &Recording{}
	rec.Causes = []*Cause{c}
	if got, want := rec.causesOf("torch.exp"), "pattern: "+c.Text; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestErrorsAreRounded: the results of a workbook have errors of three digits, its details all digits.
func TestErrorsAreRounded(t *testing.T) {
	r := &Result{Op: "torch.exp", RelativeError: new(Number(0.640519238)), Verdict: "fail"}
	rec := &Recording{Summary: NewSummary(), Results: &Results{}}
	all := rec.SheetOf(slices.Values([]*Result{r}))
	for sheet, want := range map[*Sheet]float64{&all: 0.640519238, new(rec.brief(all)): 0.641} {
		for row := range sheet.Rows {
			if got := row[slices.Index(sheet.Columns, "relative_error")]; got != want {
				t.Errorf("%v, want %v", got, want)
			}
		}
	}
}
