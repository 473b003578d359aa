package webpage

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/optool/optool/reports"
)

//go:embed coverage.html
var coverageSource string

// WriteCoverage writes what a device covers as a page, with facts about the device as names
// and values, and a sentence that sums it up.
func WriteCoverage(w io.Writer, title string, facts [][2]string, line string, c *reports.Coverage) error {
	t, err := template.New("coverage").Parse(coverageSource)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		Title, Line string
		Style       template.CSS
		Facts       [][2]string
		DTypes      []reports.CoverageCell
		Rows        []*reports.CoverageRow
	}{title, line, template.CSS(Style), facts, c.DTypes(), c.Rows()})
}
