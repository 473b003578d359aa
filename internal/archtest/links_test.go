package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks: what the documents link to, files and headings, is there.
func TestLinks(t *testing.T) {
	const root = "../.."
	pages := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		pages[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for path, text := range pages {
		for _, link := range linksOf(text) {
			links++
			file, heading, _ := strings.Cut(link, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s is not there", path, link)
			} else if page, ok := pages[target]; ok && heading != "" && !anchors(page)[heading] {
				t.Errorf("%s: %s has no such heading", path, link)
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links, want those of the READMEs and of docs", links)
	}
	page := "# A `b`: c_d\n[x](#a-b-c_d) [y](z.md#q) [z](https://example.com)\n```\n# no heading\n[l](m)\n```\n"
	if got := linksOf(page); len(got) != 2 || !anchors(page)["a-b-c_d"] || len(anchors(page)) != 1 {
		t.Errorf("links %q, anchors %v", got, anchors(page))
	}
}

var (
	blocks  = regexp.MustCompile("(?ms)^```.*?^```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// linksOf are the links of a page within the repository.
func linksOf(page string) (out []string) {
	for _, m := range link.FindAllStringSubmatch(blocks.ReplaceAllString(page, ""), -1) {
		if !strings.Contains(m[1], "://") {
			out = append(out, m[1])
		}
	}
	return out
}

// anchors are the names that a page's headings have in links.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(blocks.ReplaceAllString(page, ""), -1) {
		name := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		out[strings.ReplaceAll(name, " ", "-")] = true
	}
	return out
}
