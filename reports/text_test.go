package reports

import (
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	for in, want := range map[string]string{
		"torch.add":         "torch.add",
		"größer 大":          "größer 大",
		"a\x1b[2Jb\nc\td":   `a\x1b[2Jb\nc\td`, // but for cells, see below
		"\u009b31m\u202ex":  `\u009b31m\u202ex`,
		"\u2066x\u200d\x7f": `\u2066x\u200d\x7f`,
		"a\x9bb":            "a\uFFFDb", // no UTF-8: a control character of its own to some terminals
	} {
		for name, f := range map[string]func(string) string{"OneLine": OneLine, "Name": Name, "Cell": Cell,
			"Command": Command} {
			if got := strings.ReplaceAll(f(in), "\n", `\n`); got != want {
				t.Errorf("%s(%q) = %q, want %q", name, in, got, want)
			}
		}
	}
	for n, f := range map[int]func(string) string{longestText: OneLine, longestName: Name, longestCell: Cell} {
		if got := f(strings.Repeat("大", n)); got != strings.Repeat("大", n) {
			t.Errorf("%d characters are not whole", n)
		}
		if got, want := f(strings.Repeat("大", n+1)), strings.Repeat("大", n-3)+"..."; got != want {
			t.Errorf("%d characters are shortened to %d bytes", n+1, len(got))
		}
	}
	if s := strings.Repeat("x", 1_000_000); Command(s) != s {
		t.Error("a command is shortened")
	}
}

// TestCSVHoldsNoFormula: neither file of results has a cell that a spreadsheet would compute.
func TestCSVHoldsNoFormula(t *testing.T) {
	r := &Result{Capture: "=1+1", Op: "@SUM(A1)", Reason: "-2+3", Target: "\t=1"}
	var all, own strings.Builder
	sheet := (&Recording{Summary: NewSummary()}).SheetOf(func(yield func(*Result) bool) { yield(r) })
	if err := WriteCSV(&all, sheet); err != nil {
		t.Fatal(err)
	}
	if err := NewCompareCSV(&own, 0).Compare(CompareRow{Name: "=1+1", Reason: "+1"}); err != nil {
		t.Fatal(err)
	}
	for _, cell := range strings.FieldsFunc(all.String()+own.String(), func(c rune) bool { return strings.ContainsRune(",\r\n\"", c) }) {
		if strings.ContainsRune("=+-@\t", rune(cell[0])) {
			t.Errorf("a formula: %q", cell)
		}
	}
}
