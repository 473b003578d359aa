package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
)

// TestOpsPage: ops --markdown prints each operator in a line of six columns, with its formula and all its names.
func TestOpsPage(t *testing.T) {
	entries := ops.Default().Entries()
	var b bytes.Buffer
	if err := writeOpsPage(&b, entries); err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(b.String(), `\|`, "")
	for _, e := range entries {
		row := "| `" + e.Op() + "` | " + strings.ReplaceAll(e.Doc.Summary, "|", "")
		_, rest, found := strings.Cut(page, row)
		line, _, _ := strings.Cut(row+rest, "\n")
		if columns := strings.Count(line, "|") - 1; !found || columns != 6 || !strings.Contains(line, shortNames(e)) ||
			!strings.Contains(line, strings.ReplaceAll(e.Doc.Formula, "|", "")) {
			t.Errorf("%s: %d columns in %q, want 6 with %s", e.Op(), columns, line, shortNames(e))
		}
	}
	if rows := strings.Count(page, "\n| `"); rows != len(entries) {
		t.Errorf("%d rows for %d operators", rows, len(entries))
	}
}
