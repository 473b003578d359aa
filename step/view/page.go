package view

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"strings"
)

// The page, and the library that lays out its graphs: the released file and its licence, unchanged.
var (
	//go:embed page.html
	pageSource string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
	//go:embed vendor/dagre.min.js
	dagre string
	//go:embed vendor/dagre.min.js.LEGAL.txt
	dagreLicence string
)

// WriteHTML writes the graph as a page that needs no server and loads nothing.
func (g *Graph) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Parse(pageSource)
	if err != nil {
		return err
	}
	data, err := json.Marshal(g) // escapes <, > and &, so that no text of a capture can end the script
	if err != nil {
		return err
	}
	// What the judgement says is not said again.
	what := strings.TrimLeft(strings.TrimPrefix(g.Verdict, g.Judgement), ".; ")
	return t.Execute(w, struct {
		Title                string
		Result, Judgement    string
		Verdict              string
		Style                template.CSS
		Data, Layout, Script template.JS
	}{g.Title, g.Result, g.Judgement, what, template.CSS(pageStyle),
		template.JS(data), template.JS(dagreLicence + dagre), template.JS(pageScript)})
}
