package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
)

// TestKeptWeights: an imagined run of several steps says at each loss behind the first one that the weights are the
// recorded ones.
func TestKeptWeights(t *testing.T) {
	var out, errs bytes.Buffer
	cli.Main([]string{"step", "--exact", "torch.nn.functional.gelu", "../../step/testdata/clean"},
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	const kept = ". This step begins with its recorded weights: what the steps before did to them with the recorded " +
		"torch.nn.functional.gelu is not undone"
	var lines []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "with torch.nn.functional.gelu exact ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) != 2 || strings.HasSuffix(lines[0], kept) || !strings.HasSuffix(lines[1], kept) {
		t.Errorf("got %q\n%s%s", lines, out.String(), errs.String())
	}
}
