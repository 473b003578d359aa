package reports

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/optool/optool/compare/verdict"
)

// wrong is a finding of one result; id is also the position of its call.
func wrong(op string, id, pid int, target, reason string) *Finding {
	phase, again := "forward", fmt.Sprintf("optool replay %d/%d", pid, id)
	if strings.HasPrefix(target, "grad") {
		phase = "backward"
	}
	return &Finding{Results: []*Result{{Capture: fmt.Sprintf("%d/%d", pid, id), Op: op, ForwardID: &id, PID: &pid,
		Order: &id, Phase: phase, Target: target, Verdict: verdict.Fail, Reason: reason, Repro: &again}}}
}

func digest(st Style, order Order, fs ...*Finding) string {
	d := NewDigest(nil)
	d.Order = order
	for _, f := range fs {
		d.Add(f)
	}
	var b strings.Builder
	if err := d.Write(&b, st); err != nil {
		panic(err)
	}
	if err := d.WriteLast(&b, st); err != nil {
		panic(err)
	}
	return b.String()
}

// TestDigest: the first wrong forward pass leads, findings of one kind are one, and
// they come in the order of the calls, not of the files.
func TestDigest(t *testing.T) {
	pass := wrong("torch.abs", 1, 7, "output[0]", "")
	pass.Results[0].Verdict = verdict.Pass
	got := digest(Style{}, OrderExecution, pass,
		wrong("torch.bmm", 30, 7, "output[0]", "5 of 9 elements differ: at [1] got 2 want 3"),
		wrong("torch.linear", 2, 7, "grad[0]", "off"),
		wrong("torch.softmax", 12, 7, "output[0]", "late"),
		wrong("torch.bmm", 14, 7, "output[0]", "4 of 9 elements differ: at [0] got 1 want 2"),
		wrong("torch.bmm", 22, 8, "output[0]", "1 of 9 elements differ: at [0] got 1 want 2"))
	diff(t, "digest", `
First wrong call:

FAIL  torch.softmax, id 12, process 7
  capture  7/12
  output[0] fail: late
  again    optool replay 7/12

Also, in order of the calls:

FAIL  torch.linear, id 2, process 7
  grad[0]  fail: off
  again    optool replay 7/2

FAIL  torch.bmm, id 14, process 7
  output[0] fail: 4 of 9 elements differ: at [0] got 1 want 2
  like it  2 more: ids 22, 30, in process 7, process 8
  again    optool replay 7/14

first wrong call: torch.softmax, id 12, process 7: output[0]
`, got)
}

// TestDigestOfInput: a call that only reads other values is not called a wrong one.
func TestDigestOfInput(t *testing.T) {
	reads := wrong("torch.Tensor.permute", 9, 7, "input[0]", "off")
	reads.Inherits = true
	got := digest(Style{}, OrderExecution, reads, wrong("torch.bmm", 14, 7, "output[0]", "off"))
	if !strings.HasPrefix(got, "First call that differs:") || strings.Contains(got, "irst wrong call") {
		t.Errorf("got\n%s", got)
	}
}

// TestDigestReading: behind the call at which two recordings part, calls that only read other values are counted.
func TestDigestReading(t *testing.T) {
	d := NewDigest(nil)
	for i, op := range []string{"torch.addmm", "torch.relu", "torch.relu", "torch.exp"} {
		f := wrong(op, i+1, 7, "output[0]", "off")
		f.Inherits = op != "torch.addmm"
		d.Add(f)
	}
	d.Lead("7/1")
	var b bytes.Buffer
	if err := d.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	diff(t, "digest", `
First call that differs:

FAIL  torch.addmm, id 1, process 7
  capture  7/1
  output[0] fail: off
  again    optool replay 7/1

READS OTHER VALUES: 3 calls differ, and so do values they were given: torch.relu 2, torch.exp 1. --tables prints each.

`, b.String())
}

// TestDigestProcesses: the processes of a kind are those of the findings that are not shown.
func TestDigestProcesses(t *testing.T) {
	for process, want := range map[int]string{7: "like it  1 more: id 14\n", 8: "like it  1 more: id 14, in process 8\n"} {
		got := digest(Style{}, OrderExecution, wrong("torch.bmm", 12, 7, "output[0]", "off"),
			wrong("torch.bmm", 14, process, "output[0]", "off"))
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
}

// TestDigestWarnings: where nothing is wrong, the first calls with warnings are named, as findings are.
func TestDigestWarnings(t *testing.T) {
	warned := func(op string, id int, why string) *Finding {
		f := wrong(op, id, 7, "output[0]", why)
		f.Results[0].Verdict = verdict.Warn
		return f
	}
	warnings := []*Finding{warned("torch.bmm", 14, "accumulated in bfloat16"), warned("torch.sum", 9, "rounds up"),
		warned("torch.bmm", 22, "accumulated in bfloat16"), warned("torch.a", 30, "a"), warned("torch.b", 31, "b"),
		warned("torch.b", 32, "b")}
	diff(t, "warnings", `
Warnings, in order of the calls:

WARN  torch.sum, id 9, process 7
  output[0] warn: rounds up
  again    optool replay 7/9

WARN  torch.bmm, id 14, process 7
  output[0] warn: accumulated in bfloat16
  like it  1 more: id 22
  again    optool replay 7/14

WARN  torch.a, id 30, process 7
  output[0] warn: a
  again    optool replay 7/30

and 2 calls with other warnings: --tables prints all

`, digest(Style{}, OrderExecution, warnings...))
	for name, got := range map[string]string{"quiet": digest(Style{Quiet: true}, OrderExecution, warnings...),
		"beside a failure": digest(Style{}, OrderExecution,
			append(warnings, wrong("torch.c", 1, 7, "output[0]", "c"))...)} {
		if strings.Contains(got, "WARN") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if warnings[0].FailsRun {
		t.Error("a warning is said to fail the run")
	}
}

// TestDigestBackward: where gradients alone are wrong, the pass that ran first is that
// of the last call.
func TestDigestBackward(t *testing.T) {
	got := digest(Style{}, OrderExecution, wrong("torch.a", 1, 7, "grad[0]", "x"), wrong("torch.b", 2, 7, "grad[0]", "x"))
	if want := "First wrong call:\n\nFAIL  torch.b, id 2"; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant it to begin with %s", got, want)
	}
}

// TestDigestSteps: where the places of backward passes were recorded, that of an earlier step ran before all of a later
// step, and the call that leads is the first of its kind.
func TestDigestSteps(t *testing.T) {
	backward := func(op string, id, at int) *Finding {
		f := wrong(op, id, 7, "grad[0]", "x")
		f.Results[0].BackwardOrder = &at
		return f
	}
	got := digest(Style{}, OrderExecution, backward("torch.a", 16, 49), backward("torch.a", 33, 34),
		wrong("torch.b", 60, 7, "output[0]", "y"), backward("torch.a", 376, 400))
	if want := "First wrong call:\n\nFAIL  torch.a, id 33"; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant it to begin with %s", got, want)
	}
	if want := "like it  2 more: ids 16, 376"; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestDigestClasses: what failed stands before what could not run, and that before what could not be read.
func TestDigestClasses(t *testing.T) {
	all := []*Finding{wrong("torch.invalid", 1, 7, "output[0]", "x"), wrong("torch.error", 2, 7, "output[0]", "x"),
		wrong("torch.fail", 3, 7, "output[0]", "x")}
	all[0].Results[0].Verdict, all[1].Results[0].Verdict = verdict.Invalid, verdict.Error
	for _, order := range []Order{OrderExecution, OrderWorst} {
		got := digest(Style{}, order, all...)
		fail, err, invalid := strings.Index(got, "FAIL "), strings.Index(got, "ERROR "), strings.Index(got, "INVALID ")
		if fail < 0 || err < fail || invalid < err {
			t.Errorf("order %s:\n%s", order, got)
		}
	}
}

// TestDigestOrders: nan where a number is due is worse than any distance.
func TestDigestOrders(t *testing.T) {
	one := 1
	far := wrong("torch.far", 1, 7, "output[0]", "far")
	far.Results[0].Mismatch, far.Results[0].MaxULP = &one, Num(1e9)
	near := wrong("torch.a", 2, 7, "output[0]", "near")
	near.Results[0].Mismatch, near.Results[0].MaxULP, near.Results[0].WorstULP = &one, Num(1e12), Num(9)
	small := *far.Results[0]
	small.Op, small.ForwardID, small.RelativeError, small.WorstULP = "torch.b", new(4), Num(0.01), Num(1e9)
	large := small
	large.Op, large.ForwardID, large.RelativeError, large.WorstULP = "torch.c", new(5), Num(0.5), Num(3)
	if x, y := NewFinding([]*Result{&small}), NewFinding([]*Result{&large}); compareWorst(x, y) <= 0 {
		t.Error("an error of 1 % goes before one of 50 %")
	}
	nan := wrong("torch.nan", 3, 7, "output[0]", "nan")
	nan.Results[0].Mismatch = &one
	for order, want := range map[Order]string{OrderExecution: "far a nan", OrderWorst: "nan far a", OrderOp: "a far nan"} {
		var ops []string
		for line := range strings.Lines(digest(Style{}, order, far, near, nan)) {
			if name, ok := strings.CutPrefix(line, "FAIL  torch."); ok {
				name, _, _ = strings.Cut(name, ",")
				ops = append(ops, name)
			}
		}
		if got := strings.Join(ops, " "); got != want {
			t.Errorf("order %s: %s, want %s", order, got, want)
		}
	}
}

// TestDigestMany: what does not fit is lines, then a number; widths hold.
func TestDigestMany(t *testing.T) {
	var fs []*Finding
	for i := range 2000 {
		fs = append(fs, wrong(fmt.Sprintf("torch.nn.functional.some_operator_of_a_long_name_%d", i), i, 7, "output[0]",
			"a reason that is so long that it would have to be cut, were it not wrapped as it is here"))
	}
	got := digest(Style{Width: 80, Color: true}, OrderExecution, fs...)
	if n := strings.Count(got, "  again "); n != shownKinds {
		t.Errorf("%d findings in full, want %d", n, shownKinds)
	}
	if want := fmt.Sprintf("other kinds in %d captures", 2000-shownKinds-shownLines); !strings.Contains(got,
		want) {
		t.Errorf("lacks %q", want)
	}
	for line := range strings.Lines(got) {
		if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(got, "\x1b[1;31mFAIL") || strings.Contains(digest(Style{}, OrderExecution, fs...), "\x1b") {
		t.Error("colours do not follow the style")
	}
}

// TestWorstValues: of a call with many wrong values the worst are printed, in their order.
func TestWorstValues(t *testing.T) {
	f := wrong("torch._fused_adamw_", 1, 7, "input[0]", "off")
	for i := range 20 {
		r := *f.Results[0]
		r.Target, r.RelativeError = fmt.Sprintf("input[%d]", i), Num(float64(i)/100)
		f.Results = append(f.Results, &r)
	}
	f.Results = f.Results[1:]
	got := digest(Style{}, OrderExecution, f)
	if !strings.Contains(got, "  input[12] fail") || !strings.Contains(got, "  input[19] fail") ||
		strings.Contains(got, "  input[11] fail") || strings.Index(got, "input[12]") > strings.Index(got, "input[19]") {
		t.Errorf("not the worst ones:\n%s", got)
	}
}

// TestDigestValues: of a call with many wrong values the first are printed, and a cause names the first of those that
// it explains; tables have all.
func TestDigestValues(t *testing.T) {
	f := wrong("torch._fused_adamw_", 1, 7, "input[0]", "off")
	var targets []string
	for i := range 20 {
		r := *f.Results[0]
		r.Target = fmt.Sprintf("input[%d]", i)
		f.Results, targets = append(f.Results, &r), append(targets, r.Target)
	}
	f.Results = f.Results[1:]
	f.Causes = []Cause{{Targets: targets, Text: "state_steps is one less"}}
	got := digest(Style{}, OrderExecution, f)
	if n := strings.Count(got, " fail: off"); n != shownValues ||
		!strings.Contains(got, "  and      12 more values of this call\n") {
		t.Errorf("%d values:\n%s", n, got)
	}
	want := "input[0], input[1], input[2], input[3], input[4] and 15 more reproduced to rounding if state_steps"
	if !strings.Contains(got, want) {
		t.Errorf("lacks %q:\n%s", want, got)
	}
	var all strings.Builder
	if err := f.Write(&all, Style{Tables: true}); err != nil || strings.Count(all.String(), " fail: off") != 20 {
		t.Errorf("%v, tables:\n%s", err, &all)
	}
}

func TestShortenLeft(t *testing.T) {
	for _, tc := range []struct {
		s     string
		width int
		want  string
	}{
		{"torch.nn.functional.linear", 30, "torch.nn.functional.linear"},
		{"torch.nn.functional.linear", 20, "…functional.linear"},
		{"torch.nn.functional.linear", 8, "…linear"},
		{"torch.nn.functional.linear", 4, "…ear"},
		{"测试测试", 5, "…测试"},
	} {
		if got := shortenLeft(tc.s, tc.width); got != tc.want {
			t.Errorf("shortenLeft(%q, %d) = %q, want %q", tc.s, tc.width, got, tc.want)
		}
	}
}

// TestLead: where two recordings part leads, though a call before it is wrong too.
func TestLead(t *testing.T) {
	d := NewDigest(nil)
	d.Add(wrong("torch.abs", 1, 7, "input[0]", "other weights"))
	d.Add(wrong("torch.exp", 2, 7, "output[0]", "off"))
	d.Lead("7/2")
	var b strings.Builder
	if err := d.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "First call that differs:\n\nFAIL  torch.exp, id 2") ||
		d.First().Results[0].Op != "torch.exp" {
		t.Error(b.String())
	}
	if d.Lead(""); d.First() != nil {
		t.Error("a call leads though none is known")
	}
}

// TestOpsFailedFirst: an operator that gave wrong results stands before one whose calls cannot be read.
func TestOpsFailedFirst(t *testing.T) {
	s := NewSummary()
	for _, f := range []*Finding{wrong("torch.a", 1, 7, "output[0]", "x"), wrong("torch.b", 2, 7, "output[0]", "x")} {
		if f.Results[0].Op == "torch.a" {
			f.Results[0].Verdict = verdict.Invalid
		}
		s.Add(f.Results[0])
	}
	if ops := s.Ops(); len(ops) != 2 || ops[0].Op != "torch.b" {
		t.Errorf("first %s, want torch.b", ops[0].Op)
	}
}
