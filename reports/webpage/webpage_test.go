package webpage

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/optool/optool/reports"
)

const header = `{"kind":"run","schema":1,"command":["optool","replay","</title><script>x"]}` + "\n"

func write(t *testing.T, lines string) string {
	t.Helper()
	rec, err := reports.ReadRecording(strings.NewReader(header + lines))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Write(&b, rec); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// data is what the page's script reads as its results.
func data(t *testing.T, page string) (d table) {
	t.Helper()
	m := regexp.MustCompile(`(?s)id="results-data">(.*?)</script>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("no results in the page")
	}
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWrite(t *testing.T) {
	page := write(t,
		`{"kind":"result","capture":"a</script><script>alert(1)</script>","op":"torch.<b>","phase":"forward","target":"output[0]","verdict":"fail","reason":"\"x\" & 'y'","max_ulp":"nan","numel":3,"worst_index":[1,2],"actual":"inf","expected":0.5,"repro":"optool replay '<i>'"}`)
	for _, not := range []string{"<script>alert", "<b>", "<i>", "</title><script>", "http://", "https://",
		"src=", "url("} {
		if strings.Contains(page, not) {
			t.Errorf("the page holds %q", not)
		}
	}
	for _, want := range []string{"default-src 'none'", "torch.&lt;b&gt;",
		"worst element [1 2]: <code>inf</code>, expected <code>0.5</code>", "1 capture: 1 fail (interrupted)",
		`<p class="fail">`, "prefers-color-scheme: dark"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	d := data(t, page)
	cells := map[string]any{}
	for i, name := range d.Columns {
		cells[name] = d.Rows[0][i]
	}
	if cells["capture"] != "a</script><script>alert(1)</script>" || cells["max_ulp"] != "nan" ||
		cells["numel"] != 3.0 || cells["cosine_similarity"] != nil {
		t.Errorf("cells %v", cells)
	}
}

// TestMaxRows has more passes than a page holds, and the failures last.
func TestMaxRows(t *testing.T) {
	var lines strings.Builder
	for i := range MaxRows + 10 {
		fmt.Fprintf(&lines, `{"kind":"result","capture":"%d","op":"torch.add","verdict":"pass"}`+"\n", i)
	}
	for i := range 30 {
		fmt.Fprintf(&lines, `{"kind":"result","capture":"f%d","op":"torch.add","verdict":"fail"}`+"\n", i)
	}
	page := write(t, lines.String())
	d := data(t, page)
	failures := 0
	for _, r := range d.Rows {
		if r[5] == "fail" {
			failures++
		}
	}
	if failures != 30 || len(d.Rows) > MaxRows {
		t.Errorf("%d rows, %d failures", len(d.Rows), failures)
	}
	if n := strings.Count(page, `<div class="finding">`); n != maxFindings {
		t.Errorf("%d findings shown, want %d", n, maxFindings)
	}
}
