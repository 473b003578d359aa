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
			"The first finding is wrong in " + c + ", not in " + a + ". FAIL torch.nn.functional.gelu, id 10"},
		{[2]string{a, c}, cli.ExitDiffers, "The first finding is wrong in " + c + ", not in " + a + ". FAIL " +
			"torch.nn.functional.gelu, id 1,"},
	} {
		var out, errs bytes.Buffer
		code := cli.Main([]string{"compare", tc.paths[0], tc.paths[1]},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if got := strings.Join(strings.Fields(out.String()), " "); code != tc.code || !strings.Contains(got, tc.says) {
			t.Errorf("%s: exit code %d, want %d:\n%s%s", tc.paths, code, tc.code, out.String(), errs.String())
		}
	}
}
