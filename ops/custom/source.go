package custom

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/optool/optool/internal/sandbox"
)

// Excerpt is the part of a file of operators that the statement at a line consists of: the functions and
// constants it uses, in the file's order, and the statement. Behind it are those of the functions it calls that
// are made of primitives.
func Excerpt(path string, src []byte, line int) (string, error) {
	own, err := outlineOf(path, src)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(own.statements, func(s syntax.Stmt) bool {
		start, end := s.Span()
		return int(start.Line) <= line && line <= int(end.Line)
	})
	if at < 0 {
		return "", fmt.Errorf("%s: no statement at line %d", path, line)
	}
	taken := map[int]bool{}
	missing := own.take(at, taken)
	text := own.text(taken)
	shared, err := outlineOf("parts.star", partsSource)
	if err != nil {
		return "", err
	}
	used := map[int]bool{}
	for _, name := range missing {
		if i, ok := shared.defines[name]; ok {
			shared.take(i, used)
		}
	}
	if len(used) > 0 {
		text += "\n# What every file can call, made of the functions that \"ops --functions\" lists.\n\n" +
			shared.text(used)
	}
	return text, nil
}

// An outline is a file with what its statements define.
type outline struct {
	lines      []string
	statements []syntax.Stmt
	defines    map[string]int // name to statement
}

func outlineOf(path string, src []byte) (*outline, error) {
	f, err := sandbox.Parse(path, src)
	if err != nil {
		return nil, err
	}
	o := &outline{strings.Split(string(src), "\n"), f.Stmts, map[string]int{}}
	for i, s := range f.Stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			o.defines[s.Name.Name] = i
		case *syntax.AssignStmt:
			for _, name := range assigned(s.LHS) {
				o.defines[name] = i
			}
		}
	}
	return o, nil
}

// assigned are the names that an assignment gives values.
func assigned(e syntax.Expr) (names []string) {
	switch e := e.(type) {
	case *syntax.Ident:
		return []string{e.Name}
	case *syntax.ParenExpr:
		return assigned(e.X)
	case *syntax.TupleExpr:
		for _, x := range e.List {
			names = append(names, assigned(x)...)
		}
	}
	return names
}

// take adds statement i and those that define what it uses to taken, and returns the names that none defines.
func (o *outline) take(i int, taken map[int]bool) (missing []string) {
	if taken[i] {
		return nil
	}
	taken[i] = true
	for _, name := range usedBy(o.statements[i]) {
		if k, ok := o.defines[name]; ok {
			missing = append(missing, o.take(k, taken)...)
		} else {
			missing = append(missing, name)
		}
	}
	return missing
}

// text is that of statements, a blank line between them where they have one.
func (o *outline) text(taken map[int]bool) string {
	var b strings.Builder
	last := 0
	for i, s := range o.statements {
		if !taken[i] {
			continue
		}
		start, end := s.Span()
		if last > 0 && (int(start.Line) > last+1) {
			b.WriteByte('\n')
		}
		last = int(end.Line)
		b.WriteString(strings.Join(o.lines[start.Line-1:last], "\n") + "\n")
	}
	return b.String()
}

// usedBy are the names a statement reads that it does not bind itself.
func usedBy(s syntax.Stmt) []string {
	var used []string
	bound := map[string]bool{}
	bind := func(names []string) {
		for _, n := range names {
			bound[n] = true
		}
	}
	parameters := func(ps []syntax.Expr) {
		for _, p := range ps {
			if d, ok := p.(*syntax.BinaryExpr); ok {
				p = d.X
			} else if star, ok := p.(*syntax.UnaryExpr); ok {
				p = star.X
			}
			if p != nil {
				bind(assigned(p))
			}
		}
	}
	labels := map[*syntax.Ident]bool{} // names of arguments and of attributes
	syntax.Walk(s, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			bind([]string{n.Name.Name})
			parameters(n.Params)
		case *syntax.LambdaExpr:
			parameters(n.Params)
		case *syntax.AssignStmt:
			bind(assigned(n.LHS))
		case *syntax.ForStmt:
			bind(assigned(n.Vars))
		case *syntax.ForClause:
			bind(assigned(n.Vars))
		case *syntax.CallExpr:
			for _, a := range n.Args {
				if named, ok := a.(*syntax.BinaryExpr); ok && named.Op == syntax.EQ {
					if id, ok := named.X.(*syntax.Ident); ok {
						labels[id] = true
					}
				}
			}
		case *syntax.DotExpr:
			labels[n.Name] = true
		case *syntax.Ident:
			if !labels[n] {
				used = append(used, n.Name)
			}
		}
		return true
	})
	return slices.DeleteFunc(used, func(name string) bool { return bound[name] })
}
