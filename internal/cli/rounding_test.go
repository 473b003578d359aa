package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestOnlyRounding: two recordings in bfloat16, of which b adds in another order, differ only by rounding. Where an
// operator is wrong beside that, as the gelu of c, only the calls before it are excused.
func TestOnlyRounding(t *testing.T) {
	a, b, c := "testdata/rounding/a", "testdata/rounding/b", "testdata/rounding/c"
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
	} {
		var out, errs bytes.Buffer
		code := cli.Main([]string{"compare", tc.paths[0], tc.paths[1]},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if got := strings.Join(strings.Fields(out.String()), " "); code != tc.code || !strings.Contains(got, tc.says) {
			t.Errorf("%s: exit code %d, want %d:\n%s%s", tc.paths, code, tc.code, out.String(), errs.String())
		}
	}
}

// TestTwoSteps: recordings of two steps as op_tools writes them, in bfloat16. Kernels with another rounding are no
// finding, though updates of small gradients change their signs. A gradient of layer_norm of which a quarter is halved
// is one, though it is so small that op_tools' tolerance allows any value: it is where the recordings part. What
// follows from it is one line.
func TestTwoSteps(t *testing.T) {
	dir := unpacked(t, "testdata/twosteps.tar.gz")
	for _, tc := range []struct {
		a, b string
		code int
		says []string
	}{
		{"other", "torch", cli.ExitOK, []string{"The recordings differ only by rounding of bfloat16: 15 calls differ"}},
		{"torch", "other", cli.ExitOK, []string{"The recordings differ only by rounding of bfloat16: 15 calls differ"}},
		{"norm", "other", cli.ExitDiffers, []string{"The first finding is wrong in norm, not in other.",
			"diverged torch.nn.functional.layer_norm torch.nn.functional.layer_norm/7/12/2026-01-01-00-00-00 grad[0] what " +
				"arrives agrees, the gradient does not", "READS OTHER VALUES: 55 calls differ"}},
		{"torch", "norm", cli.ExitDiffers, []string{"The first finding is wrong in norm, not in torch.",
			"FAIL torch.nn.functional.layer_norm, id 12,"}},
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
		if lines := strings.Count(out.String(), "\n"); code != tc.code || lines > 30 ||
			strings.Count(got, "FAIL ") != tc.code {
			t.Errorf("compare %s %s: exit code %d, %d lines:\n%s%s", tc.a, tc.b, code, lines, out.String(),
				errs.String())
		}
	}
}
