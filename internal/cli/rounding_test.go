package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/internal/shorttest"
)

// TestOnlyRounding: two recordings in bfloat16, of which b adds in another order, differ only by rounding. Where an
// operator is wrong beside that, as the gelu of c, only the calls before it are excused. A dropout that drew the same
// numbers differs by rounding, too, and one that drew others does not.
func TestOnlyRounding(t *testing.T) {
	a, b, c := "testdata/rounding/a", "testdata/rounding/b", "testdata/rounding/c"
	drops := "testdata/rounding/dropout-"
	for _, tc := range []struct {
		paths [2]string
		code  int
		says  string
	}{
		{[2]string{b, a}, cli.ExitOK, "The recordings differ only by rounding of bfloat16: 6 calls differ, and in both " +
			"recordings each of them is within rounding of what it should give."},
		{[2]string{c, a}, cli.ExitDiffers, "Before the first finding 1 call differs by no more than rounding of bfloat16. " +
			"The first finding is wrong in " + c + ", not in " + a + ". diverged torch.nn.functional.gelu"},
		{[2]string{a, c}, cli.ExitDiffers, "The first finding is wrong in " + c + ", not in " + a + ". diverged " +
			"torch.nn.functional.gelu"},
		{[2]string{drops + "b", drops + "a"}, cli.ExitOK, "The recordings differ only by rounding of bfloat16: 3 calls " +
			"differ"},
		{[2]string{drops + "c", drops + "a"}, cli.ExitDiffers, "output[0] fail, bfloat16 [8, 32], error 81 %: other " +
			"numbers from the same state of the generator"},
	} {
		var out, errs bytes.Buffer
		code := cli.Main([]string{"compare", tc.paths[0], tc.paths[1]},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if got := strings.Join(strings.Fields(out.String()), " "); code != tc.code || !strings.Contains(got, tc.says) {
			t.Errorf("%s: exit code %d, want %d:\n%s%s", tc.paths, code, tc.code, out.String(), errs.String())
		}
	}
}

// TestWrongBesidesPrecision: of recordings of two precisions, calls are judged by themselves, too.
func TestWrongBesidesPrecision(t *testing.T) {
	const dir = "../../step/pairs/testdata/precision/"
	got := strings.Join(strings.Fields(run(t, cli.ExitDiffers, "compare", dir+"leaky", dir+"float32")), " ")
	for _, want := range []string{"none still wrong", "new (torch.nn.functional.relu)",
		"Of 5 calls, 5 gave other results: both recordings were judged by themselves, too."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestCompareCause: a call that is wrong by itself in one of two recordings has the cause that replay finds there. The
// reports say where the values were recorded.
func TestCompareCause(t *testing.T) {
	a, c := "testdata/rounding/a", "testdata/rounding/c"
	for paths, want := range map[[2]string]string{{c, a}: "if it is computed as quick_gelu\n",
		{a, c}: "if it is computed as quick_gelu (in the old recording)\n"} {
		md := filepath.Join(t.TempDir(), "c.md")
		got := run(t, cli.ExitDiffers, "compare", "--markdown", md, paths[0], paths[1])
		text, err := os.ReadFile(md)
		if err != nil || !strings.Contains(got, want) || !strings.Contains(string(text), "quick_gelu") ||
			!strings.Contains(string(text), "- judged: **values recorded on cpu with torch 2.") {
			t.Errorf("%v, no %q in\n%s\n%s", err, want, got, text)
		}
	}
}

// TestDropoutInside: attention with dropout inside is wrong in one of two recordings of one seed. Different random
// numbers do not explain that, and it is named first. Arguments that it left as they were are no difference.
func TestDropoutInside(t *testing.T) {
	programs := "../../step/testdata/programs/"
	wrong := unpacked(t, programs+"attention-dropout.tar.gz") + "/attention-dropout"
	right := unpacked(t, programs+"attention-dropout-right.tar.gz") + "/attention-dropout-right"
	for _, paths := range [][2]string{{wrong, right}, {right, wrong}} {
		got := strings.Join(strings.Fields(run(t, cli.ExitDiffers, "compare", paths[0], paths[1])), " ")
		for _, want := range []string{"The first finding is wrong in " + wrong + ", not in " + right,
			"inputs agree, the result does not: ", "element 0 of query 0 is -0.141602, want 0.421875 give or take 0.447, " +
				"whatever was dropped", "; between the recordings: 696 of 768 elements differ"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		for _, unwanted := range []string{"different random numbers", "which it changed there"} {
			if strings.Contains(got, unwanted) {
				t.Errorf("%q in\n%s", unwanted, got)
			}
		}
	}
}

// TestTwoSteps: recordings of two steps as op_tools writes them, in bfloat16. Kernels with another rounding are no
// finding, though updates of small gradients change their signs. A gradient of layer_norm of which a quarter is halved
// is one, though it is so small that op_tools' tolerance allows any value: it is where the recordings part. What
// follows from it is one line.
func TestTwoSteps(t *testing.T) {
	shorttest.Computes(t)
	dir := unpacked(t, "testdata/twosteps.tar.gz")
	for _, tc := range []struct {
		a, b string
		code int
		says []string
	}{
		{"other", "torch", cli.ExitOK, []string{"The recordings differ only by rounding of bfloat16: 15 calls differ"}},
		{"torch", "other", cli.ExitOK, []string{"The recordings differ only by rounding of bfloat16: 15 calls differ"}},
		{"norm", "other", cli.ExitDiffers, []string{"The first finding is wrong in norm, not in other.",
			"diverged torch.nn.functional.layer_norm torch.nn.functional.layer_norm/7/12/2026-01-01-00-00-00 grad[0] new: what " +
				"arrives agrees, the gradient does not", "READS OTHER VALUES: 55 calls differ"}},
		{"torch", "norm", cli.ExitDiffers, []string{"The first finding is wrong in norm, not in torch.",
			"Faults of torch, compared with those of norm: none new, none still wrong, 1 call repaired " +
				"(torch.nn.functional.layer_norm).", "grad[0] repaired: what arrives agrees",
			"REPAIRED torch.nn.functional.layer_norm, id 12,", "note repaired: right in the new recording, wrong in the " +
				"old one (torch.nn.functional.layer_norm/7/12/2026-01-01-00-00-00)"}},
	} {
		var out, errs bytes.Buffer
		t.Chdir(dir)
		code := cli.Main([]string{"compare", tc.a, tc.b},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		got := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range tc.says {
			if !strings.Contains(got, want) {
				t.Errorf("compare %s %s does not say %q:\n%s", tc.a, tc.b, want, out.String())
			}
		}
		if lines := strings.Count(out.String(), "\n"); code != tc.code || lines > 36 ||
			strings.Count(got, "FAIL ")+strings.Count(got, "REPAIRED ") != tc.code {
			t.Errorf("compare %s %s: exit code %d, %d lines:\n%s%s", tc.a, tc.b, code, lines, out.String(),
				errs.String())
		}
	}
}

// TestWrongInBothSteps: a layer_norm is wrong in both steps of one recording. In the second step it reads what the
// first made wrong: that is no rounding, and what is wrong with it is told by its own inputs.
func TestWrongInBothSteps(t *testing.T) {
	t.Chdir(unpacked(t, "testdata/lnrows.tar.gz"))
	run := func(args ...string) string {
		var out, errs bytes.Buffer
		code := cli.Main(args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != cli.ExitDiffers {
			t.Errorf("%s: exit code %d: %s", args, code, errs.String())
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	got := run("compare", "--json", "run.jsonl", "--markdown", "run.md", "faulty", "sound")
	for _, want := range []string{"layer_norm.2 output[0] in 1 at /tmp/model/lnrows/train.py:25 new: inputs agree, the " +
		"result does not: 16 of 96 elements differ",
		"its inputs differ because of what differs before, and it is wrong: by its own inputs: 16 of 96 " +
			"elements differ by more than rounding",
		"35 captures: 3 pass, 2 fail, 22 read other values, 8 skipped"} {
		if !strings.Contains(got, want) {
			t.Errorf("compare does not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "differ here by rounding") {
		t.Errorf("what follows from a fault is called rounding:\n%s", got)
	}
	md, err := os.ReadFile("run.md")
	const want = "2 of 35 calls fail, 3 pass, 22 only read other values"
	if err != nil || !strings.Contains(string(md), want) {
		t.Errorf("the report does not say %q: %v\n%s", want, err, md)
	}
	again := run("report", "run.jsonl")
	for _, want := range []string{"READS OTHER VALUES: 22 calls", "2 fail, 22 read other values"} {
		if !strings.Contains(again, want) {
			t.Errorf("report does not say %q:\n%s", want, again)
		}
	}
}

// TestWhoseFunction: reports say first which function of the program is in the place of torch's and where it is
// defined. Calls that it made inside do not count among the program's own.
func TestWhoseFunction(t *testing.T) {
	t.Chdir(unpacked(t, "testdata/lnrows.tar.gz"))
	var out, errs bytes.Buffer
	code := cli.Main([]string{"replay", "--quiet", "--markdown", "run.md", "faulty"},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	md, err := os.ReadFile("run.md")
	if code != cli.ExitDiffers || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, errs.String())
	}
	const by = "replaced by __main__.chip_layer_norm of /tmp/model/lnrows/train.py:9"
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, by) {
		t.Errorf("replay does not say %q:\n%s", by, got)
	}
	got := strings.ReplaceAll(string(md), "\\_", "_")
	for _, want := range []string{"layer_norm, " + by + " | 2 fail of 2, and 2 made inside of other recorded calls |",
		"\n- note: torch.nn.functional.layer_norm is not torch's own here: " + by + "\n- cause: "} {
		if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(got, "**", ""), "&#58;", ":"), want) {
			t.Errorf("the report does not say %q:\n%s", want, got)
		}
	}
}
