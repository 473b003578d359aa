package reports_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/reports"
)

// TestNarrowListing: names and numbers are whole where a sentence can stand below its row.
func TestNarrowListing(t *testing.T) {
	rows := [][]string{
		{"torch.Tensor.add", "12", "1000000", "torch.Tensor.add has no reference"},
		{"torch.add", "", "7", ""},
		{"torch.nn.functional.binary_cross_entropy", "3", "", "short"},
	}
	for width, want := range map[int]string{
		100: `
op                                        pass  unsupported  worst
torch.Tensor.add                            12      1000000  torch.Tensor.add has no reference
torch.add                                                 7
torch.nn.functional.binary_cross_entropy     3               short
`,
		56: `
op                                     pass  unsupported
torch.Tensor.add                         12      1000000
    worst: torch.Tensor.add has no reference
torch.add                                              7
…nn.functional.binary_cross_entropy       3
    worst: short
`} {
		var b strings.Builder
		l := reports.NewListing(&b, width, "op", "pass", "unsupported", "worst")
		l.Names(0)
		l.Right(1)
		l.Right(2)
		l.Wrap()
		for _, r := range rows {
			if err := l.Add(append([]string{}, r...)...); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), b.String()); diff != "" {
			t.Errorf("%d columns: %s", width, diff)
		}
	}
}
