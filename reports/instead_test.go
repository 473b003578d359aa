package reports

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

func TestInsteadText(t *testing.T) {
	const ln = "torch.nn.functional.layer_norm"
	for _, c := range []struct {
		by, at string
		ran    []string
		want   string
	}{
		{"kernels.layer_norm", "/src/kernels.py:17", []string{ln}, "recorded with kernels.layer_norm of /src/kernels.py:17; " +
			"this ran torch's own: --map-function " + ln + "=kernels:layer_norm runs the recorded one"},
		{"a.kernels.LN.apply", "/src/a/kernels.py:3", []string{ln}, "recorded with a.kernels.LN.apply of " +
			"/src/a/kernels.py:3; this ran torch's own: --map-function " + ln + "=a.kernels:LN.apply runs the recorded one"},
		{"mymod.fast_gelu", "", []string{"torch.gelu"}, "recorded with mymod.fast_gelu; this ran torch's own: " +
			"--map-function torch.gelu=mymod:fast_gelu runs the recorded one"},
		{"__main__.ln", "/src/train.py:9", []string{ln}, "recorded with __main__.ln of /src/train.py:9; this ran torch's " +
			"own: --map-function " + ln + "=MODULE:ln runs the recorded one if it is in a module of that name"},
		{"kernels.f.<locals>.ln", "/src/kernels.py:9", []string{ln}, "recorded with kernels.f.<locals>.ln of " +
			"/src/kernels.py:9; this ran torch's own, since no flag can name the recorded one"},
		{"k;rm -rf x.ln", "", []string{ln}, "recorded with k;rm -rf x.ln; this ran torch's own, since no flag can name the " +
			"recorded one"},
		{"kernels.layer_norm", "", []string{"diopiLayerNorm"}, "recorded with kernels.layer_norm; this ran diopiLayerNorm"},
		{"kernels.norm", "", []string{"torch.ops.mylib.norm"}, "recorded with kernels.norm; this ran mylib's own: " +
			"--map-function torch.ops.mylib.norm=kernels:norm runs the recorded one"},
		{"kernels.layer_norm", "", []string{"kernels:layer_norm"}, ""}, // as the user asked
		{"kernels.layer_norm", "", nil, ""},                            // nothing ran
	} {
		if got := InsteadText(c.by, c.at, c.ran); got != c.want {
			t.Errorf("%s by %q:\n got %s\nwant %s", c.by, c.ran, got, c.want)
		}
	}
}

// TestInsteadLines: each function that was not run is named once, the first ones only, in the notes and as what was not
// judged.
func TestInsteadLines(t *testing.T) {
	s := NewSummary()
	for i := range 12 {
		s.Add(&Result{Capture: fmt.Sprint(i), Op: fmt.Sprintf("torch.f%d", i/2), Phase: "forward",
			Verdict: verdict.Pass, Instead: "recorded with mymod.f; this ran torch's own"})
	}
	const first = "torch.f0 was recorded with mymod.f; this ran torch's own"
	lines := s.Told()
	if len(lines) != mostInstead+1 || lines[0] != first || lines[mostInstead] != "the device ran other functions than the recorded ones for 2 further functions, too" {
		t.Errorf("%q", lines)
	}
	if !slices.Equal(s.notes(), lines) {
		t.Errorf("notes %q", s.notes())
	}
	f := NewFinding([]*Result{{Op: "torch.f", Replaced: "mymod.f", Verdict: verdict.Fail,
		Instead: "this ran torch's own"}})
	if notes := f.Notes(); !slices.Equal(notes, []string{"this ran torch's own"}) {
		t.Errorf("notes of a finding: %q", notes)
	}
	if by := replacedBy(f.Results[0]); !strings.Contains(by, "which was not run") {
		t.Errorf("an author of a function that was not run is named: %q", by)
	}
}

// TestImportDir: the directory above a module's package.
func TestImportDir(t *testing.T) {
	for _, tc := range [][3]string{
		{"kernels:layer_norm", "/src/kernels.py:17", "/src"}, {"mylib.ops:swish", "/src/mylib/ops.py:4", "/src"},
		{"mylib:gelu", "/src/mylib/__init__.py:4", "/src"}, {"mylib.ops:swish", "/src/other.py:4", ""}, {"m:f", "", ""},
	} {
		if got := ImportDir(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%s of %s: %q, want %q", tc[0], tc[1], got, tc[2])
		}
	}
}
