package opcheck_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opcheck"
)

// TestDocs compares docs/adding-an-op.md with what it quotes: the Go code of
// the examples and the table of checks.
func TestDocs(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	doc, example := read("../../docs/adding-an-op.md"), read("example_test.go")+read("../vendors/torch_npu.star")
	blocks := regexp.MustCompile("(?s)```(?:go|python)\n(.*?)```").FindAllStringSubmatch(doc, -1)
	if len(blocks) < 5 {
		t.Errorf("%d blocks of Go code", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(example, b[1]) {
			t.Errorf("neither in example_test.go nor in ops/vendors/torch_npu.star:\n%s", b[1])
		}
	}
	for _, c := range opcheck.Checks() {
		if row := "| `" + c.Name + "` | " + c.Doc + " |\n"; !strings.Contains(doc, row) {
			t.Errorf("the table of checks lacks %s", row)
		}
	}
}
