package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestContributing: what CONTRIBUTING.md names, files and tests, is there.
func TestContributing(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	missing, names := gone(root, string(page))
	if names < 30 {
		t.Errorf("%d names of files and tests, want those of the tables", names)
	}
	for _, name := range missing {
		t.Errorf("CONTRIBUTING.md: %s is not there", name)
	}
	if missing, _ := gone(root, "`tensor/none.go` and `TestNone` but `tensor/*.go`"); len(missing) != 2 {
		t.Errorf("of a page that names what is not there: got %q, want two names", missing)
	}
}

var (
	named    = regexp.MustCompile("`([^`\n]+)`")
	isTest   = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
	hasATail = regexp.MustCompile(`^[\w*./-]+\.(go|py|cc|h|json|md)$`)
)

// gone are the files and tests that a page names in backquotes and that are not below
// root, and how many it names.
func gone(root, page string) (missing []string, names int) {
	tests := map[string]bool{}
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			text, _ := os.ReadFile(path)
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
		}
		return nil
	})
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		name := m[1]
		switch {
		case isTest.MatchString(name):
			names++
			if !tests[name] {
				missing = append(missing, name)
			}
		case hasATail.MatchString(name) && strings.Contains(name, "/"):
			names++
			if found, _ := filepath.Glob(filepath.Join(root, name)); len(found) == 0 {
				missing = append(missing, name)
			}
		}
	}
	return missing, names
}
