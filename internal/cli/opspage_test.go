package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/optool/optool/ops"
)

// TestOpsPage: docs/ops.md is what make generate writes.
func TestOpsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "ops.md"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeOpsPage(&b, ops.Default()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), page) {
		t.Error("docs/ops.md is not what the table of operators gives: run make generate")
	}
}
