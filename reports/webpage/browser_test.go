package webpage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/browsertest"
)

// TestInBrowser sorts, filters and opens results as a reader would, on a page of 5,000.
func TestInBrowser(t *testing.T) {
	var lines strings.Builder
	for i := range 5000 {
		v := "pass"
		if i == 3210 {
			v = "fail"
		}
		fmt.Fprintf(&lines, `{"kind":"result","capture":"cap/%d","op":"torch.op%d","phase":"forward",`+
			`"target":"output[0]","verdict":%q,"reason":"","max_ulp":%d,"order":%[1]d,"pid":1,"repro":"optool replay cap/%[1]d"}`+"\n", i, i%20,
			v, i*7%5000)
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(write(t, lines.String())), 0o666); err != nil {
		t.Fatal(err)
	}
	p := browsertest.Open(t, "file://"+path)
	want := func(selector, text string) {
		t.Helper()
		if got := p.Text(selector); !strings.Contains(got, text) {
			t.Errorf("%s: %.200q, want %q in it", selector, got, text)
		}
	}
	want("#count", "5000 of 5000")
	const first = "#results tbody tr.row"
	for column := range 12 { // that of worst_ulp
		if selector := fmt.Sprintf("#results th:nth-child(%d) button", column+1); p.Text(selector) == "worst_ulp" {
			p.Click(selector)
			break
		}
	}
	want(first, "4999")
	p.Type("#text", "cap/3210")
	want("#count", "1 of 5000")
	p.Click(first)
	want("#results tr.open dl", "optool replay cap/3210")
	p.Type("#text", strings.Repeat("\b", 8))
	want("#count", "5000 of 5000")
	p.Click("#ops button.op") // of the op that has the finding
	want("#count", "250 of 5000")
	p.Click(".copy button")
	p.Wait(`document.querySelector(".copy button").textContent === "copied"`)
	p.Click(".timeline a")
	p.Wait(`location.hash === "#finding-1" && document.getElementById("finding-1") !== null`)
	const said = `getComputedStyle(document.querySelector(".scroll:has(> .timeline)"), "::before").content.includes("scrolls")`
	p.Wait("!" + said)
	p.Resize(390, 844) // a part of the picture is out of sight there
	p.Wait(said)
}

// TestFaultsOnPhone: on a narrow screen, no part of what is wrong is out of sight, however long the names are.
func TestFaultsOnPhone(t *testing.T) {
	line := `{"kind":"result","capture":"a_folder_of_a_program/rank0/7-2026-11-25-22-46-43/torch.op.1","op":"` +
		"torch.nn.functional.scaled_dot_product_attention_long" + `","phase":"forward","target":"output[0]",` +
		`"verdict":"fail","reason":"it differs","order":1,"pid":7,"rank":0}` + "\n"
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, []byte(write(t, line)), 0o666); err != nil {
		t.Fatal(err)
	}
	p := browsertest.Open(t, "file://"+path)
	const fits = `(b => b.scrollWidth <= b.clientWidth)(document.querySelector(".scroll:has(> .faults)"))`
	p.Resize(390, 844)
	p.Wait(`document.querySelector("table.faults") !== null`)
	p.Wait("innerWidth <= 400 && " + fits)
}
