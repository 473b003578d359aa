package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// mostDeclared is how many unknown operators declareUnknown writes.
const mostDeclared = 8

// declareUnknown writes a line that declares each operator that optool does not know, of the first call of each.
func (o *selection) declareUnknown(ctx context.Context, a *app, opt replay.Options, paths []string) error {
	seen := map[string]bool{}
	var lines []string
	for f := range scan(ctx, paths, capture.Options{}) {
		if len(lines) == mostDeclared {
			break
		}
		e := f.entry
		if f.err != nil || seen[e.Op] || opt.Registry.Knows(e.Op) {
			continue
		}
		if ok, err := o.filter.Match(e, o.read); err != nil || !ok {
			continue
		}
		seen[e.Op] = true
		call := replay.Open(e, opt)
		lines = append(lines, declarations(call, e)...)
		call.Close()
	}
	return printDeclarations(a.Out, lines)
}

func printDeclarations(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nTo check it, write into a file what it should compute, in place of the dots, and pass "+
		"the file with --ops:\n  %s\n", strings.Join(lines, "\n  "))
	return err
}

// declarations is the line of a file for --ops that declares the operator of a call, apart from what it computes. It
// is none if the operator is known.
func declarations(c *replay.Call, e *capture.Entry) []string {
	if !errors.Is(c.Err(), opdef.ErrUnknownOp) {
		return nil
	}
	rec := c.Record
	var params, names []string
	add := func(name string, v value.Value) {
		names = append(names, name)
		params = append(params, schemaType(v)+" "+name)
	}
	for i, v := range rec.Args {
		prefix := "a"
		if schemaType(v) == "Tensor" {
			prefix = "x"
		}
		name := fmt.Sprint(prefix, i+1)
		if i < len(e.Params) && argumentName().MatchString(e.Params[i]) && !slices.Contains(reserved, e.Params[i]) {
			name = e.Params[i]
		}
		add(name, v)
	}
	for _, it := range rec.Kwargs.Items {
		if name, ok := it.Key.(string); ok {
			add(name, it.Value)
		}
	}
	result := strings.Join(slices.Repeat([]string{"Tensor"}, len(rec.Outputs())), ", ")
	if len(rec.Outputs()) != 1 {
		result = "(" + result + ")"
	}
	return []string{reports.OneLine(fmt.Sprintf("op(\"%s(%s) -> %s\", lambda %s: ...)", c.Op,
		strings.Join(params, ", "), result, strings.Join(names, ", ")))}
}

// argumentName is a name that an argument can have in a line of a file for --ops.
var argumentName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are names of Python that Starlark keeps for itself.
var reserved = []string{"and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else", "except",
	"finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "load", "nonlocal", "not", "or", "pass",
	"raise", "return", "try", "while", "with", "yield"}

// schemaType is the type of an argument in ATen's notation.
func schemaType(v value.Value) string {
	switch v := v.(type) {
	case nil:
		return "Tensor?"
	case *tensor.Tensor:
		return "Tensor"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *value.Sequence:
		for _, typ := range []string{"Tensor", "int"} {
			other := func(v value.Value) bool { return schemaType(v) != typ }
			if len(v.Items) > 0 && !slices.ContainsFunc(v.Items, other) {
				return typ + "[]"
			}
		}
	}
	return "any"
}
