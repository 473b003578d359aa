package view

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/browsertest"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
)

// opened is the page of a graph in a browser.
func opened(t *testing.T, g *Graph) (p *browsertest.Page, want func(selector, text string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "step.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WriteHTML(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p = browsertest.Open(t, "file://"+path)
	p.Wait(`document.body.dataset.ready !== undefined`)
	return p, func(selector, text string) {
		t.Helper()
		if got := p.Text(selector); !strings.Contains(got, text) {
			t.Errorf("%s: %.200q, want %q in it", selector, got, text)
		}
	}
}

// TestMovedInBrowser: the panel of a call with a fault behind the loss says what that does to losses.
func TestMovedInBrowser(t *testing.T) {
	tr, x := behindLoss(t)
	g := NewGraph(tr, repro)
	g.AddMoved(tr, x)
	_, want := opened(t, g)
	want("#side dl", "effect on the lossnone on this loss; without the first fault the loss of step 1 would have been 1.5")
}

// TestInBrowser reads a faulty step as a user would: the graph, a call, its readers, another colour.
func TestInBrowser(t *testing.T) {
	g := NewGraph(trace(t, "scaled"), repro)
	at := g.Findings[0].Node
	g.Findings[0].Parameter, g.Nodes[0].Values = "decoder.weight", nil
	call := fmt.Sprintf(`[data-call="%d"]`, at)
	p, want := opened(t, g)
	want("h1.fail", "Wrong: torch.nn.functional.gelu/4 gave a wrong result")
	want("#what", "WRONG: output[0] of torch.nn.functional.gelu/4")
	want("#legend", "fault found here")
	want(call+" .name", "gelu/4")
	want(call+" .sub", "float32 2×3×16")
	p.Wait(fmt.Sprintf(`document.querySelector('.edge.way[data-from="%d"]') !== null`, at)) // to what read it
	p.Wait(`[...document.querySelectorAll(".edge-label")].some(e => e.textContent === "float32 2×3×16")`)
	want("#side .finding", "does not match its inputs")
	want("#side .finding", "parameter decoder.weight")
	want("#side .cmd code", "optool replay "+g.Nodes[at].Capture)
	want("#side table", "times its bound")
	p.Click(`[data-call="0"]`)
	want("#side h2", "torch.nn.functional.embedding/1")
	want("#side", "input[1] parameter float32 11×8")
	want("#side", "judged as a whole, not value by value")
	p.Click("#side a") // the overview
	want("#side h2", "Findings")
	p.Click("#jump button")
	want("#side h2", "gelu/4")
	p.Wait(fmt.Sprintf(`document.querySelector('%s').classList.contains("picked")`, call))
	p.Wait(`(c => { c.value = "total"; c.onchange({ target: c }); return document.getElementById("legend").textContent.includes("≥ 1") })` +
		`(document.getElementById("color"))`)
}

// TestKindsInBrowser: the first screen has each wrong operator once: a button, and a card with the calls like it.
func TestKindsInBrowser(t *testing.T) {
	g := NewGraph(severalWrong(t), repro)
	g.Faults, g.FaultsTitle = [][]string{{"operator", "calls"}, {"torch.gelu", "1 fail of 1"}}, "What is wrong"
	g.Nodes[g.Findings[0].Node].EffectUnreliable = true
	p, want := opened(t, g)
	p.Wait(`document.querySelectorAll("#jump button").length === 2 && document.querySelectorAll("#side .finding").length === 2`)
	want("#jump button:nth-child(2)", fmt.Sprintf(" and %d more", len(g.Findings)-2))
	want("#side .finding:nth-of-type(2)", "like it: linear/")
	want("#side table", "calls: 1 fail of 1")
	want("#side", "about: an estimate from the gradient")
	p.Click("#jump button")
	want("#side dl", "effect on the lossabout ")
}

// TestManyInBrowser: of 5,000 calls the page draws the boxes, searches among all and opens the box of what is found.
func TestManyInBrowser(t *testing.T) {
	g := &Graph{Verdict: "Nothing is wrong.", Findings: []Finding{}, Edges: []Edge{}}
	var paths [][]string
	for i := range 5000 {
		op := fmt.Sprintf("torch.op%d", i%40)
		paths = append(paths, []string{"model", fmt.Sprintf("layers.%d", i/50), []string{"attention", "mlp"}[i/25%2]})
		g.Nodes = append(g.Nodes, Node{Capture: fmt.Sprintf("%s.%d", op, i), Op: op, ID: i, DType: "float32", Shape: "[4 8]",
			Verdict: "pass", Module: strings.Join(paths[i], ".")})
		if i > 0 {
			g.Edges = append(g.Edges, Edge{From: i - 1, To: i, Target: "input[0]", Type: "float32 [4 8]", How: "content"})
		}
	}
	g.flatten(nested(paths, 0, 0), -1)
	p, want := opened(t, g)
	want("#losses", "5000 calls")
	p.Wait(`[...document.querySelectorAll(".node.shut .name")].some(e => e.textContent.endsWith("layers.7"))`)
	p.Wait(`document.querySelectorAll(".node").length < 300`)
	p.Wait(`document.querySelector('[data-call="3123"]') === null`)
	p.Type("#find", "op3/3123\r")
	want(`[data-call="3123"] .name`, "op3/3123")
	want("#side h2", "torch.op3/3123")
	p.Wait(`document.querySelector(".box .name").textContent === "model"`)
	p.Wait(`(document.getElementById("graph").focus(), document.dispatchEvent(new KeyboardEvent("keydown", ` +
		`{ key: "ArrowDown", bubbles: true })), document.querySelector("#side h2").textContent.startsWith("torch.op4/3124"))`)
	p.Click(".picked") // it is in the window
	p.Type("#find", strings.Repeat("\b", 8)+"no such")
	want("#hits", "no such call")
}

// TestTokensInBrowser: the tokens of two runs are buttons, and a click names the calls that explain one. The page says
// that effects are those on the tokens.
func TestTokensInBrowser(t *testing.T) {
	tr := trace(t, "scaled")
	g := NewGraph(tr, repro)
	c := tr.Calls()[4]
	g.AddPair(&metric.Pair{Tokens: []*metric.Token{
		{ID: 7, This: metric.Score{LogProb: -1}, Other: metric.Score{LogProb: -2}},
		{ID: 9, Position: 1, This: metric.Score{LogProb: -3}, Other: metric.Score{LogProb: -1},
			ExplainedBy: []*step.Call{c}, ExplainedSides: []step.Side{step.This}},
	}, Causes: []*metric.Cause{{Side: step.This, MeanAbs: 0.5,
		Group: metric.Group{Name: "gelu", Calls: []*step.Call{c}}}}})
	p, want := opened(t, g)
	want("#side .strip button:nth-child(2)", "9")
	p.Click("#side .strip button:nth-child(2)")
	want("#side", "position 1, token 9: -3, other run -1;")
	want("#side .share a", "gelu")
	want("#color option:last-child", "effect on the tokens")
	p.Wait(`!document.body.textContent.includes("effect on the loss")`)
	p.Click("#side .said a")
	want("#side h2", "/"+fmt.Sprint(c.Entry.ID))
	want("#side dl", "effect on the tokens0.5000")
}
