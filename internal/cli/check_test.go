package cli_test

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/internal/cli"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor/value"
)

// TestCheckOfManyValues: a file of more values than are held in memory has a result for each, in its order, and
// tables that show them all.
func TestCheckOfManyValues(t *testing.T) {
	const n = 10000
	root := &value.Dict{}
	for i := range n {
		x := float64(i)
		if i == n-1 {
			x = math.Inf(1)
		}
		root.Items = append(root.Items, value.Item{Key: fmt.Sprintf("v%d", i), Value: x})
	}
	path := filepath.Join(t.TempDir(), "a.pth")
	if err := pthformat.WriteFile(path, root); err != nil {
		t.Fatal(err)
	}
	var lines, text, errs bytes.Buffer
	check := func(out *bytes.Buffer, args ...string) int {
		return cli.Main(append([]string{"check", path}, args...), cli.Streams{In: strings.NewReader(""), Out: out,
			Err: &errs})
	}
	code := check(&lines, "--json", "-")
	if code != cli.ExitDiffers || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	next := 0
	for line := range strings.Lines(lines.String()) {
		if strings.HasPrefix(line, `{"kind":"result"`) {
			if !strings.Contains(line, fmt.Sprintf(`"target":"v%d",`, next)) {
				t.Fatalf("result %d is %s", next, line)
			}
			next++
		}
	}
	if next != n || !strings.Contains(lines.String(), fmt.Sprintf(`"values":%d,"overflow":1`, n)) {
		t.Errorf("%d results, want %d", next, n)
	}
	check(&text)
	rows := 0
	for line := range strings.Lines(text.String()) {
		if cells := strings.Fields(line); len(cells) > 1 && cells[0] == "|" && strings.HasPrefix(cells[1], "v") {
			rows++
		}
	}
	if rows != n {
		t.Errorf("the tables have %d rows, want %d", rows, n)
	}
}
