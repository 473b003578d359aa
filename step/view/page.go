package view

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
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
	return t.Execute(w, struct {
		Title, Verdict       string
		Style                template.CSS
		Data, Layout, Script template.JS
	}{g.Title, g.Verdict, template.CSS(pageStyle), template.JS(data), template.JS(dagreLicence + dagre),
		template.JS(pageScript)})
}
