package browse

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

func record(t *testing.T, lines string) *reports.Recording {
	t.Helper()
	rec, err := reports.ReadRecording(strings.NewReader(`{"kind":"run","schema":1,"command":["optool"]}` +
		"\n" + lines))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func line(capture, op, v string, ulp float64) string {
	return fmt.Sprintf(`{"kind":"result","capture":%q,"op":%q,"phase":"forward","target":"output[0]","verdict":%q,`+
		`"reason":"it is <b>%s</b>","max_ulp":%v,"dtype":"float32","shape":[2,3],"order":1,"pid":4}`+"\n", capture, op,
		v, v, ulp)
}

// serve serves runs; open may be nil.
func serve(t *testing.T, open Opener, recs ...*reports.Recording) *Server {
	t.Helper()
	var runs []Run
	for i, rec := range recs {
		runs = append(runs, Run{fmt.Sprint("run ", i+1), rec})
	}
	s, err := New(t.TempDir(), runs, open)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// get is the answer to a request from this machine.
func get(s *Server, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8000"+s.Path()+query, nil)
	s.ServeHTTP(w, r)
	return w
}

// captures are those that the rows of a list are of, in order.
func captures(page string) (all []string) {
	for _, m := range regexp.MustCompile(`<td class="">(cap-[^<]*)</td>`).FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestList(t *testing.T) {
	var b strings.Builder
	for i := range 250 {
		b.WriteString(line(fmt.Sprintf("cap-%03d", i), "torch.add", "pass", float64(i%7)))
	}
	b.WriteString(line("cap-bad", "torch.mul", "fail", 1e9))
	b.WriteString(strings.Replace(line("cap-nan", "torch.mul", "fail", 0), `"max_ulp":0`, `"max_ulp":null`, 1))
	s := serve(t, nil, record(t, b.String()))
	for _, tc := range []struct {
		query       string
		rows        int
		first, last string
		count       string
	}{
		{"", 100, "cap-bad", "cap-097", "1 to 100 of 252"},
		{"?page=3", 52, "cap-198", "cap-249", "201 to 252 of 252"},
		{"?verdict=fail", 2, "cap-bad", "cap-nan", "1 to 2 of 2"},
		{"?sort=worst_ulp&dir=desc", 100, "cap-bad", "cap-200", "1 to 100 of 252"},
		{"?sort=worst_ulp&page=3", 52, "cap-145", "cap-nan", "201 to 252 of 252"},
		{"?sort=verdict&dir=desc&op=torch.mul", 2, "cap-bad", "cap-nan", "1 to 2 of 2"},
		{"?text=MUL+nan", 1, "cap-nan", "cap-nan", "1 to 1 of 1"},
		{"?text=%25", 0, "", "", "none of them"}, // no wildcard
		{"?op=%27+OR+1%3D1+--", 0, "", "", "none of them"},
		{"?page=9", 0, "", "", "none of them"},
	} {
		w := get(s, tc.query)
		got := captures(w.Body.String())
		if w.Code != 200 || len(got) != tc.rows || !strings.Contains(w.Body.String(), ">"+tc.count+"<") {
			t.Errorf("%q: status %d, %d rows, want %d and %q", tc.query, w.Code, len(got), tc.rows, tc.count)
			continue
		}
		if len(got) > 0 && (got[0] != tc.first || got[len(got)-1] != tc.last) {
			t.Errorf("%q: from %s to %s, want %s to %s", tc.query, got[0], got[len(got)-1], tc.first, tc.last)
		}
	}
	page := get(s, "?verdict=fail").Body.String()
	if strings.Contains(page, "<b>") || strings.Contains(page, "<th><a href=\"?dir=asc&amp;run=1&amp;sort=rank") {
		t.Error("text of a capture is not escaped, or an empty column is listed")
	}
	for _, query := range []string{"?sort=rowid", "?page=0", "?page=x", "?run=2", "result?id=0", "result?id=999",
		"result?id=1&run=3"} {
		if w := get(s, query); w.Code != http.StatusBadRequest {
			t.Errorf("%q: status %d, want 400", query, w.Code)
		}
	}
	if w := get(s, "etc/passwd"); w.Code != http.StatusNotFound {
		t.Errorf("another path: status %d, want 404", w.Code)
	}
	if w := get(s, "pictures"); !strings.Contains(w.Body.String(), "the calls of each process") && w.Code != 200 {
		t.Errorf("pictures: status %d", w.Code)
	}
}

// TestAccess: who does not know the token, comes by another name, or wants to change
// anything is refused, and no page may load or leak anything.
func TestAccess(t *testing.T) {
	s := serve(t, nil, record(t, line("cap-0", "torch.add", "pass", 0)))
	for _, tc := range []struct {
		method, host, path string
		want               int
	}{
		{"GET", "127.0.0.1:80", s.Path(), 200},
		{"HEAD", "localhost:80", s.Path(), 200},
		{"GET", "[::1]:80", s.Path(), 200},
		{"GET", "evil.example", s.Path(), 421},
		{"GET", "127.0.0.1.evil.example:80", s.Path(), 421},
		{"GET", "10.0.0.1", s.Path(), 421},
		{"GET", "", s.Path(), 421},
		{"POST", "127.0.0.1", s.Path(), 405},
		{"DELETE", "127.0.0.1", s.Path(), 405},
		{"GET", "127.0.0.1", "/", 403},
		{"GET", "127.0.0.1", "/wrong/", 403},
		{"GET", "127.0.0.1", s.Path()[:10] + "/", 403},
		{"GET", "127.0.0.1", "//" + s.Path(), 403},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(tc.method, "http://127.0.0.1"+s.Path(), nil)
		r.Host, r.URL = tc.host, &url.URL{Path: tc.path}
		s.ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s %s of %q: status %d, want %d", tc.method, tc.path, tc.host, w.Code, tc.want)
		}
		if tc.want != 200 && strings.Contains(w.Body.String(), "torch.add") {
			t.Errorf("%s %s of %q shows results", tc.method, tc.path, tc.host)
		}
		if h := w.Header(); !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") ||
			h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s %s: headers %v", tc.method, tc.path, h)
		}
	}
	if again := serve(t, nil, record(t, line("a", "b", "pass", 0))); again.Path() == s.Path() {
		t.Error("two servers have one token")
	}
}

func TestTwoRuns(t *testing.T) {
	old := record(t, line("cap-a", "torch.add", "pass", 0)+line("cap-b", "torch.mul", "fail", 9)+
		line("cap-gone", "torch.sub", "pass", 0))
	cur := record(t, line("cap-a", "torch.add", "fail", 7)+line("cap-b", "torch.mul", "pass", 0)+
		line("cap-new", "torch.div", "pass", 0))
	s := serve(t, nil, old, cur)
	for query, want := range map[string]string{"?run=2&change=worse": "cap-a", "?run=2&change=better": "cap-b",
		"?run=2&change=new": "cap-new", "?run=1&change=gone": "cap-gone"} {
		if got := captures(get(s, query).Body.String()); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	page := get(s, "result?run=2&id=1").Body.String()
	if !strings.Contains(page, `<tr class="differs"><td class="dim">verdict</td><td>fail</td><td>pass</td></tr>`) ||
		!strings.Contains(page, "<th>run 2</th><th>run 1</th>") {
		t.Errorf("the result of both runs:\n%s", page[strings.Index(page, "<h2>The result"):])
	}
}

func TestValue(t *testing.T) {
	shape := []int{2, 100, 70}
	want := make([]float64, 2*100*70)
	for i := range want {
		want[i] = 1
	}
	got := append([]float64{}, want...)
	got[0] += 0x1p-23            // [0, 0, 0]: 1 ulp
	got[7000+3*70+69] = 3        // [1, 3, 69]
	got[7000+99*70] = math.NaN() // [1, 99, 0]
	closed, opened := 0, 0
	s := serve(t, func(capture, phase, target string) (*Value, error) {
		opened++
		switch capture {
		case "cap-gone":
			return nil, errors.New("no capture of this name")
		case "cap-int":
			one := tensor.New(tensor.Int32, []int{1}, []int64{1})
			return &Value{one, one, nil, func() { closed++ }}, nil
		}
		return &Value{tensor.New(tensor.Float32, shape, got), tensor.New(tensor.Float64, shape, want),
			nil, func() { closed++ }}, nil
	}, record(t, line("cap-0", "torch.add", "fail", 1)+line("cap-gone", "torch.add", "fail", 1)+
		line("cap-int", "torch.add", "fail", 1)))
	for _, tc := range []struct{ query, want string }{
		{"result?id=1", "slice [:, :, :]: 3 of 14000 elements"},
		{"result?id=1", "100 x 70 elements, the largest error of each cell"},
		{"result?id=1&slice=1", "slice [1, :, :]: 2 of 7000 elements"},
		{"result?id=1&slice=[1,+3:4,+-1]", "slice [1, 3:4, -1]: 1 of 1 elements"},
		{"result?id=1&slice=1,+3:4,+-1", "[1, 3, 69]: off by"},
		{"result?id=1&slice=0,:4,:8", "[0, 0]: 1 ulp"},
		{"result?id=1&slice=1,99,0", "largest: 0 ulp"},
		{"result?id=1&slice=1,99,0", `class="fill-crash"`},
		{"result?id=1&slice=2", "dimension 0: want an index below 2 or a range, got"},
		{"result?id=1&slice=0,5:3", "dimension 1: want"},
		{"result?id=1&slice=0,0,0,0", "want at most 3 dimensions"},
		{"result?id=1&slice=x", "dimension 0: want"},
		{"result?id=2", "The tensor is not shown: no capture of this name"},
		{"result?id=3", "errors of dtype int32 have no size"},
	} {
		w := get(s, tc.query)
		if w.Code != 200 || !strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s: status %d, lacks %q", tc.query, w.Code, tc.want)
		}
	}
	if opened != 3 {
		t.Errorf("%d values opened, want 3: one stays open while its slices are looked at", opened)
	}
	s.Close()
	if closed != 2 {
		t.Errorf("%d values closed, want 2", closed)
	}
}

// TestWorstOfValue: distances are in units of the dtype that a value is precise to, and the worst element is that of
// the screen, not one near zero that is many units off within its bound. What is within its bound is not in the map.
func TestWorstOfValue(t *testing.T) {
	want := []float64{1e-30, 1, 1, 1}
	got := []float64{-1e-30, 1.015625, 1, 1.0078125}
	r := &compare.Result{Verdict: verdict.Fail, Grid: tensor.BFloat16, WorstIndex: []int{1},
		Limit: func([]int) compare.Limit {
			return compare.Limit{Allowed: 0.01}
		}}
	s := serve(t, func(string, string, string) (*Value, error) {
		return &Value{tensor.New(tensor.Float32, []int{4}, got), tensor.New(tensor.Float64, []int{4}, want), r,
			func() {}}, nil
	}, record(t, line("cap-0", "torch.add", "fail", 1)))
	page := get(s, "result?id=1").Body.String()
	for _, want := range []string{"float32, precise to bfloat16 [4], slice [:]: 3 of 4 elements",
		"worst element [1]: got <code>1.015625</code>, want <code>1</code> (2 ulp)", "largest: 2 ulp",
		`title="[1]: off by 2 ulp"><span class="fail">`, `title="[3]: off by 1 ulp"><span class="warn">`,
		"elements that are off by more than they may be"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if page := get(s, "result?id=1&slice=2:").Body.String(); strings.Contains(page, "worst element") ||
		!strings.Contains(page, "largest: 0 ulp") {
		t.Errorf("a slice without the worst element: %s", page)
	}
	r.Verdict = verdict.Pass
	page = get(s, "result?id=1").Body.String()
	if !strings.Contains(page, "no element is off by more than it may be") ||
		strings.Contains(page, `class="fail"`) {
		t.Errorf("a value that passed: %s", page)
	}
}

// BenchmarkList is a page of 100,000 results: the first, sorted, and filtered by words.
func BenchmarkList(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"kind":"run","schema":1,"command":["optool"]}` + "\n")
	for i := range 100000 {
		v := "pass"
		if i%97 == 0 {
			v = "fail"
		}
		op := fmt.Sprintf("torch.op%d", i%200)
		text.WriteString(line(fmt.Sprintf("op_tools_results/op_capture_results/%s/25021/%d/2026-11-20-21-06-02", op, i),
			op, v, float64(i*7919%100003)))
	}
	rec, err := reports.ReadRecording(strings.NewReader(text.String()))
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(b.TempDir(), []Run{{"run", rec}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, query := range []string{"", "?page=900", "?sort=verdict&dir=desc", "?sort=worst_ulp&dir=desc&page=500",
		"?sort=worst_ulp", "?sort=reason", "?text=op17+fail", "?op=torch.op3&sort=worst_ulp", "result?id=77777",
		"pictures"} {
		b.Run(query, func(b *testing.B) {
			for b.Loop() {
				if w := get(s, query); w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
