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
		"worst element [1, 2]: <code>inf</code>, expected <code>0.5</code>", "1 capture: 1 fail (interrupted)",
		`id="finding-1"`,
		`<h1 class="fail">`, "prefers-color-scheme: dark"} {
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
		fmt.Fprintf(&lines, `{"kind":"result","capture":"f%d","op":"torch.op%d","verdict":"fail"}`+"\n", i, i)
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
	if n := strings.Count(page, `<div class="finding is-fail" id=`); n != maxFindings {
		t.Errorf("%d findings shown, want %d", n, maxFindings)
	}
}

// TestPictures: a finding has its errors drawn and is where the timeline leads to; a
// measurement has its quartiles, and a roofline if its peaks are known.
func TestPictures(t *testing.T) {
	page := write(t, `{"kind":"result","capture":"a","op":"torch.add","phase":"forward","target":"output[0]","verdict":"fail","reason":"off","dtype":"float16","order":3,"pid":7,"bound_ratio":40,"worst_index":[1]}
{"kind":"result","capture":"b","op":"torch.mul","phase":"forward","target":"output[0]","verdict":"pass","reason":"","dtype":"float32","order":4,"pid":7,"bound_ratio":0.93}
{"kind":"result","capture":"c","op":"torch.mul","phase":"forward","target":"","verdict":"unsupported","reason":"no","order":5,"pid":7}
{"kind":"cause","capture":"a","op":"torch.add","targets":["output[0]"],"text":"alpha is 2, not 1","exact":true}
{"kind":"profile","capture":"a","op":"torch.add","phase":"forward","target":"output[0]","numel":6,"equal":3,"infinite":1,"octaves":[0,2],"worst":[],"where":["dimension 1: only index 2 of 3"],"map":[[0,0,"inf"],[0,1,1.5]],"max_abs":1,"max_rel":"inf"}
`)
	for _, want := range []string{`class="chart timeline"`, `<a href="#finding-1">`, "process 7, forward",
		`class="fill-near"`, `class="chart map"`, "[0, 2]: +Inf ulp", `class="fill-crash"`, "dimension 1: only index 2 of 3",
		"output[0] reproduced exactly if alpha is 2, not 1", "&lt; 2 ulp: 2", "not finite: 1",
		`<td class="c-fail">1 fail `, `<td class="c-missing">1 missing `, "<th>float16</th><th>float32</th><th>not known</th>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	timing := `{"kind":"timing","capture":"a","op":"torch.add","phase":"forward","cache":"cold","clock":"host","run":1,"elapsed_ns":1000}
{"kind":"timing","capture":"a","op":"torch.add","phase":"forward","cache":"cold","clock":"host","run":2,"elapsed_ns":3000}
{"kind":"timing_summary","capture":"a","op":"torch.add","phase":"forward","cache":"cold","clock":"host","n":2,"bytes":4000,"flops":1000,"calls":1,"stop_reason":"runs"%s}
`
	plain := write(t, fmt.Sprintf(timing, ""))
	roofed := write(t, fmt.Sprintf(timing, `,"peak_bytes_per_s":1e10,"peak_flops_per_s":1e11`))
	const roof = `class="chart roofline"`
	if !strings.Contains(plain, `class="chart quartiles"`) ||
		strings.Contains(plain, roof) || !strings.Contains(roofed, roof) {
		t.Error("pictures of times: want quartiles, and a roofline only where peaks are known")
	}
	if strings.Contains(plain, `class="chart timeline"`) || strings.Contains(plain, `class="matrix"`) {
		t.Error("the page of a measurement has pictures of verdicts")
	}
}

// TestRepairedPage: the page of two recordings whose faults are all repaired is green, and says so in its title.
func TestRepairedPage(t *testing.T) {
	result := func(op, verdict, more string) string {
		return `{"kind":"result","capture":"` + op + `","op":"` + op + `","phase":"forward","target":"output[0]","verdict":"` +
			verdict + `","reason":"it differs","order":1,"pid":7` + more + "}\n"
	}
	repaired := result("torch.mm", "fail", `,"wrong_in":"second"`) +
		result("torch.add", "fail", `,"order":2,"reads_other_values":true`)
	const end = `{"kind":"summary","facts":[{"name":"faults","text":"none new, none still wrong, 1 call repaired"}],` +
		`"first":{"capture":"torch.mm","target":"output[0]"}}` + "\n"
	page := write(t, repaired+end)
	for _, want := range []string{"<title>optool: faults: none new, none still wrong, 1 call repaired</title>",
		`<h1 class="pass">`, `<strong class="repaired">repaired</strong> <strong>torch.mm, process 7</strong>`,
		`class="fill-repaired"`, `class="finding is-repaired"`, `class="fill-reads other values"`, "reads other values: 1 call differs",
		"<td class=\"c-pass\">1 repaired </td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%.3000s", want, page)
		}
	}
	if strings.Contains(page, `class="fail"`) {
		t.Error("something is red")
	}
	if page := write(t, repaired+result("torch.div", "fail", `,"wrong_in":"first"`)+end); !strings.Contains(page,
		`<h1 class="fail">`) {
		t.Error("a new fault is green")
	}
}
