package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestKeptLeadsToStep: where the result of a call is right, its gradients are wrong and no mistake of the operator
// gives them, a value that it kept may have been overwritten. replay and explain lead to step, which finds that; not
// where the operator's own mistake is known.
func TestKeptLeadsToStep(t *testing.T) {
	dir := unpacked(t, "../../step/testdata/programs/buffers-refilled.tar.gz")
	for _, tc := range []struct {
		args []string
		want []string
		not  string
	}{
		{[]string{"replay", "--out", t.TempDir(), dir}, []string{
			"`optool step` tells whether a value was overwritten before the backward pass",
			"whether a value was overwritten before the backward pass, and what this did to the loss:\n"}, ""},
		{[]string{"explain", dir}, []string{"cause: none of the mistakes",
			"This command tells whether a value was overwritten before the backward pass:\n",
			" step " + dir + "/buffers-refilled/rank0/"}, ""},
		{[]string{"replay", "--out", t.TempDir(), "../../step/testdata/weight-data"}, []string{
			"whether a value was overwritten before the backward pass, and what this did to the loss:\n"},
			"`optool step` tells"},
		{[]string{"replay", "--out", t.TempDir(), "../../fixtures/tutorial"}, []string{
			"what this did to the later calls and to the loss:\n"}, "overwritten"},
		{[]string{"explain", "../../fixtures/tutorial"}, []string{"cause: output[0], grad[0], grad[1] reproduced"}, "overwritten"},
	} {
		var out, errs bytes.Buffer
		cli.Main(tc.args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		for _, want := range tc.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: no %q in\n%s%s", tc.args, want, out.String(), errs.String())
			}
		}
		if tc.not != "" && strings.Contains(out.String(), tc.not) {
			t.Errorf("%v: %q in\n%s", tc.args, tc.not, out.String())
		}
	}
}
