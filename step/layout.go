package step

import (
	"fmt"
	"strings"
)

// A Layout is how ranks that run the same program hold its parameters, as far as their values show it.
type Layout struct {
	Ranks []int        `json:"ranks"`
	Mesh  []MeshGroups `json:"mesh"`
	// Parameters are the numbers of parameters by placement, most first.
	Parameters []Placed `json:"parameters"`
	text       string
}

// A MeshGroups is a dimension of the mesh: groups of ranks that differ only in this coordinate.
type MeshGroups struct {
	Name   string  `json:"name,omitempty"` // as the program calls it
	Groups [][]int `json:"groups"`
}

// A Placed is how many parameters lie in one way: "replicated and sharded along dimension 0", by dimension of the mesh.
type Placed struct {
	Placement string `json:"placement"`
	Count     int    `json:"count"`
}

// NewLayout is a layout that text describes on a screen.
func NewLayout(ranks []int, mesh []MeshGroups, placed []Placed, text string) *Layout {
	return &Layout{ranks, mesh, placed, text}
}

// String is one line of a screen.
func (l *Layout) String() string {
	var ps []string
	for _, p := range l.Parameters {
		ps = append(ps, fmt.Sprintf("%d %s", p.Count, p.Placement))
	}
	if len(ps) == 0 {
		return l.text
	}
	return l.text + "; parameters: " + strings.Join(ps, ", ")
}

// sharded reports whether some parameters are parts of whole ones.
func (l *Layout) sharded() bool {
	for _, p := range l.Parameters {
		if strings.Contains(p.Placement, "sharded") {
			return true
		}
	}
	return false
}
