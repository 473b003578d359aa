package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// maxMade is how many elements, bytes or bits one step of an evaluation may make.
// Starlark's own limits let one step make lists of 16 GiB.
const maxMade = 1 << 20

// boundedOperators are those that could make something giant of what is not, in one step or, as
// x + x, in a few. The functions that stand for them in a rewritten file have their names, which
// no file can call. An assignment of the second kind is rewritten with the operator's function;
// += has one of its own, since it changes a list in place.
var (
	boundedOperators   = []syntax.Token{syntax.STAR, syntax.PERCENT, syntax.PLUS}
	boundedAssignments = map[syntax.Token]syntax.Token{syntax.STAR_EQ: syntax.STAR, syntax.PERCENT_EQ: syntax.PERCENT,
		syntax.PLUS_EQ: syntax.PLUS_EQ}
)

// extendMethod stands for the method extend of lists.
const extendMethod = ".extend"

// unknownMethods are those that could too, which no data need.
var unknownMethods = []string{"format", "join", "replace"}

// boundedSteps rewrites a file so that no step of it makes something giant: x * y becomes
// True and f(x, y), which has the same value.
func boundedSteps(f *syntax.File) error {
	var err error
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryExpr:
			if slices.Contains(boundedOperators, n.Op) {
				call := operation(n.OpPos, n.Op.String(), n.X, n.Y)
				n.X, n.Op, n.Y = &syntax.Ident{NamePos: n.OpPos, Name: "True"}, syntax.AND, call
			}
		case *syntax.AssignStmt:
			if op, ok := boundedAssignments[n.Op]; ok {
				n.Op, n.RHS = syntax.EQ, operation(n.OpPos, op.String(), n.LHS, n.RHS)
			}
		case *syntax.CallExpr:
			if m, ok := n.Fn.(*syntax.DotExpr); ok && m.Name.Name == "extend" {
				n.Fn = &syntax.Ident{NamePos: m.NamePos, Name: extendMethod}
				n.Args = append([]syntax.Expr{m.X}, n.Args...)
			}
		case *syntax.DotExpr:
			if slices.Contains(unknownMethods, n.Name.Name) && err == nil {
				err = fmt.Errorf("%s: %s is not known here", n.Name.NamePos, n.Name.Name)
			}
		}
		return err == nil
	})
	return err
}

// operation is the call of the function that stands for an operator.
func operation(at syntax.Position, op string, x, y syntax.Expr) syntax.Expr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: op}, Lparen: at, Args: []syntax.Expr{x, y}, Rparen: at}
}

// boundedFunctions are those that stand for operators, and those of Starlark that could
// make something giant, or name a method that does.
func boundedFunctions() starlark.StringDict {
	all := starlark.StringDict{}
	for name, f := range map[string]func(
		*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple,
	) (starlark.Value, error){
		"*": multiply, "%": remainder, "+": add, "+=": addTo, extendMethod: extend, "range": makeRange, "str": write, "repr": write, "print": write, "fail": write,
		"getattr": getattr,
	} {
		all[name] = starlark.NewBuiltin(name, f)
	}
	return all
}

// getattr is Starlark's, of which unknownMethods are not known either.
func getattr(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (
	starlark.Value, error,
) {
	for _, name := range args[min(1, len(args)):] {
		if s, ok := starlark.AsString(name); ok && slices.Contains(unknownMethods, s) {
			return nil, fmt.Errorf("%s is not known here", s)
		}
	}
	return starlark.Call(thread, starlark.Universe[b.Name()], args, kwargs)
}

func multiply(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value,
	error) {
	x, y := args[0], args[1]
	a, aInt := x.(starlark.Int)
	b, bInt := y.(starlark.Int)
	switch {
	case aInt && bInt:
		if n := a.BigInt().BitLen() + b.BigInt().BitLen(); n > maxMade {
			return nil, fmt.Errorf("a product of %d bits, want at most %d", n, maxMade)
		}
	case aInt:
		if err := repeatable(y, a); err != nil {
			return nil, err
		}
	case bInt:
		if err := repeatable(x, b); err != nil {
			return nil, err
		}
	}
	return starlark.Binary(syntax.STAR, x, y)
}

// repeatable says that v, if it has a length, is longer than may be once it is repeated.
func repeatable(v starlark.Value, times starlark.Int) error {
	length := starlark.Len(v)
	if length <= 0 || times.Sign() <= 0 {
		return nil
	}
	if n, ok := times.Int64(); !ok || n > maxMade/int64(length) {
		return fmt.Errorf("a %s of length %d repeated %s times, want at most %d elements", v.Type(), length, times,
			maxMade)
	}
	return nil
}

// add is the operator +, of numbers and of what has a length.
func add(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if err := joinable(args[0], args[1]); err != nil {
		return nil, err
	}
	return starlark.Binary(syntax.PLUS, args[0], args[1])
}

// joinable says that x and y are longer together than may be.
func joinable(x, y starlark.Value) error {
	if n := max(0, starlark.Len(x)) + max(0, starlark.Len(y)); n > maxMade {
		return fmt.Errorf("a %s of length %d, want at most %d elements", x.Type(), n, maxMade)
	}
	return nil
}

// addTo is the operator +=, which extends a list and adds anything else.
func addTo(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (
	starlark.Value, error,
) {
	list, ok := args[0].(*starlark.List)
	if _, iterable := args[1].(starlark.Iterable); !ok || !iterable {
		return add(thread, b, args, nil)
	}
	_, err := extend(thread, b, starlark.Tuple{list, args[1]}, nil)
	return list, err
}

// extend is the method of that name of its first argument.
func extend(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (
	starlark.Value, error,
) {
	x, ok := args[0].(starlark.HasAttrs)
	if !ok {
		return nil, fmt.Errorf("%s has no .extend field or method", args[0].Type())
	}
	method, err := x.Attr("extend")
	if err == nil && method == nil {
		err = fmt.Errorf("%s has no .extend field or method", args[0].Type())
	}
	if err == nil && len(args) > 1 {
		err = joinable(args[0], args[1])
	}
	if err != nil {
		return nil, err
	}
	return starlark.Call(thread, method, args[1:], kwargs)
}

// remainder is the operator %, of numbers and of texts that are filled in.
func remainder(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value,
	error) {
	if text, ok := args[0].(starlark.String); ok {
		if most := maxMade / (1 + strings.Count(string(text), "%")); size(args[1], most) > most {
			return nil, fmt.Errorf("a text of more than %d bytes", maxMade)
		}
	}
	return starlark.Binary(syntax.PERCENT, args[0], args[1])
}

// write calls a function of Starlark that makes a text of its arguments.
func write(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (
	starlark.Value, error,
) {
	if size(args, maxMade) > maxMade {
		return nil, fmt.Errorf("a text of more than %d bytes", maxMade)
	}
	return starlark.Call(thread, starlark.Universe[b.Name()], args, kwargs)
}

// size is about how many bytes the text of a value has, most+1 if they are more than most.
func size(v starlark.Value, most int) int {
	n := 1
	add := func(v starlark.Value) {
		if n <= most {
			n += size(v, most-n)
		}
	}
	switch v := v.(type) {
	case starlark.String:
		n += len(v)
	case starlark.Int:
		n += v.BigInt().BitLen() / 3
	case *starlark.Dict:
		for _, pair := range v.Items() {
			add(pair[0])
			add(pair[1])
		}
	case starlark.Iterable:
		it := v.Iterate()
		defer it.Done()
		for item := starlark.Value(nil); n <= most && it.Next(&item); {
			add(item)
		}
	}
	return min(n, most+1)
}

func makeRange(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (
	starlark.Value, error,
) {
	r, err := starlark.Call(thread, starlark.Universe[b.Name()], args, kwargs)
	if err != nil {
		return nil, err
	}
	if n := starlark.Len(r); n > maxMade {
		return nil, fmt.Errorf("%s of %d numbers, want at most %d", b.Name(), n, maxMade)
	}
	return r, nil
}
