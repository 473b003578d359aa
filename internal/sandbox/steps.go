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

// boundedOperators are those that could make something giant of what is not: the
// functions that stand for them in a rewritten file have their names, which no file can
// call. The values are those of the assignments.
var boundedOperators = map[syntax.Token]syntax.Token{
	syntax.STAR: syntax.STAR_EQ, syntax.PERCENT: syntax.PERCENT_EQ,
}

// unknownMethods are those that could too, which no data need.
var unknownMethods = []string{"format", "join", "replace"}

// boundedSteps rewrites a file so that no step of it makes something giant: x * y becomes
// True and f(x, y), which has the same value.
func boundedSteps(f *syntax.File) error {
	var err error
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryExpr:
			if _, ok := boundedOperators[n.Op]; ok {
				call := operation(n.OpPos, n.Op, n.X, n.Y)
				n.X, n.Op, n.Y = &syntax.Ident{NamePos: n.OpPos, Name: "True"}, syntax.AND, call
			}
		case *syntax.AssignStmt:
			for op, assignment := range boundedOperators {
				if n.Op == assignment {
					n.Op, n.RHS = syntax.EQ, operation(n.OpPos, op, n.LHS, n.RHS)
				}
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
func operation(at syntax.Position, op syntax.Token, x, y syntax.Expr) syntax.Expr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: op.String()}, Lparen: at, Args: []syntax.Expr{x, y},
		Rparen: at}
}

// boundedFunctions are those that stand for operators, and those of Starlark that could
// make something giant, or name a method that does.
func boundedFunctions() starlark.StringDict {
	all := starlark.StringDict{}
	for name, f := range map[string]func(
		*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple,
	) (starlark.Value, error){
		"*": multiply, "%": remainder, "range": makeRange, "str": write, "repr": write, "print": write, "fail": write,
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
