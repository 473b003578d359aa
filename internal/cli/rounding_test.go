package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestOnlyRounding: two recordings in bfloat16, of which b adds in another order, differ only by rounding. Where an
// operator is wrong beside that, as the gelu of c, nothing is excused.
func TestOnlyRounding(t *testing.T) {
	const sentence = "The recordings differ only by rounding of bfloat16: 6 calls differ, and in both recordings each of "
	for name, want := range map[string]int{"b": cli.ExitOK, "c": cli.ExitDiffers} {
		var out, errs bytes.Buffer
		code := cli.Main([]string{"compare", "testdata/rounding/" + name, "testdata/rounding/a"},
			cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != want || strings.HasPrefix(out.String(), sentence) != (want == cli.ExitOK) {
			t.Errorf("%s: exit code %d, want %d:\n%s%s", name, code, want, out.String(), errs.String())
		}
	}
}
