package view

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
)

//go:embed page.html
var pageSource string

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
		Title, Verdict string
		Data           template.JS
	}{g.Title, g.Verdict, template.JS(data)})
}
