package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestReplaced: a recording has a gelu that the program put in the place of torch's, a function of its own and an
// autograd.Function. What is in the place of torch's is said beside a finding; the others are declared by the names of
// their arguments.
func TestReplaced(t *testing.T) {
	const note = "torch.nn.functional.gelu is not torch's own here: replaced by mymod.fast_gelu\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"replay", "--out", t.TempDir()}, "  note     " + note},
		{[]string{"step"}, "  note: " + note},
		{[]string{"explain"}, "note: " + note},
		{[]string{"explain", "--op", "*my_norm"},
			`op("__main__.my_norm(Tensor x, Tensor weight) -> Tensor", lambda x, weight: ...)`},
		{[]string{"explain", "--op", "*apply"},
			`op("__main__.Scale.apply(Tensor hidden, Tensor weight, float eps) -> Tensor", lambda hidden, weight, eps: ...)`},
	} {
		var out, errs bytes.Buffer
		cli.Main(append(c.args, "testdata/replaced"), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: %q is missing in\n%s%s", c.args, c.want, out.String(), errs.String())
		}
	}
}
