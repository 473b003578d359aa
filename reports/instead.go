package reports

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/internal/lazyregexp"
)

// InsteadText says that a device ran another function than the program's in the place of torch's, and the flag that
// runs the recorded one. ran are the functions that the device ran: one of PyTorch, or those of a library. It is "" if
// they are of the user's choice.
func InsteadText(by, at string, ran []string) string {
	if len(ran) == 0 || slices.ContainsFunc(ran, func(f string) bool { return strings.Contains(f, ":") }) {
		return ""
	}
	text := "recorded with " + Name(by)
	if at != "" {
		text += " of " + OneLine(at)
	}
	if len(ran) > 1 || !strings.Contains(ran[0], ".") { // of a library
		return text + "; this ran " + strings.Join(ran, ", ")
	}
	text += "; this ran " + OwnFunction(ran[0])
	switch function := FunctionPath(by, at); {
	case function == "":
		return text + ", since no flag can name the recorded one"
	case !names().MatchString(ran[0]):
		return text
	case strings.HasPrefix(function, AnyModule):
		return fmt.Sprintf("%s: --map-function %s=%s runs the recorded one if it is in a module of that name", text,
			ran[0], function)
	default:
		return fmt.Sprintf("%s: --map-function %s=%s runs the recorded one", text, ran[0], function)
	}
}

// OwnFunction says whose function has the name of an operator: "torch's own", "mylib's own".
func OwnFunction(op string) string {
	op = strings.TrimPrefix(op, "torch.ops.")
	switch owner, _, _ := strings.Cut(op, "."); owner {
	case "__main__":
		return "the program's own"
	case "aten", "prims":
		return "torch's own"
	default:
		return OneLine(owner) + "'s own"
	}
}

// AnyModule is in the place of the module of a function that was defined in the program itself.
const AnyModule = "MODULE:"

// names matches dotted names of Python.
var names = lazyregexp.New(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)

// FunctionPath is the recorded function of a program as flags take it, MODULE:FUNCTION; "" if it has no such name. The
// file in which it is defined says where the name of the module ends.
func FunctionPath(by, at string) string {
	if !names().MatchString(by) || !strings.Contains(by, ".") {
		return ""
	}
	if rest, ok := strings.CutPrefix(by, "__main__."); ok {
		return AnyModule + rest
	}
	parts := strings.Split(by, ".")
	module := len(parts) - 1
	file, _, _ := strings.Cut(path.Base(strings.ReplaceAll(at, `\`, "/")), ".py")
	if i := slices.Index(parts[:module], file); i >= 0 {
		module = i + 1
	}
	return strings.Join(parts[:module], ".") + ":" + strings.Join(parts[module:], ".")
}

// ImportDir is the directory from which Python imports the module of a function, MODULE:FUNCTION, that is defined at
// FILE:LINE; "" if the file has not the module's name.
func ImportDir(function, at string) string {
	module, _, _ := strings.Cut(function, ":")
	file, _, _ := strings.Cut(strings.ReplaceAll(at, `\`, "/"), ".py:")
	dir, is := strings.CutSuffix(strings.TrimSuffix(file, "/__init__"), "/"+strings.ReplaceAll(module, ".", "/"))
	if !is {
		return ""
	}
	return dir
}

// notRunLines name functions of the program that were not judged: wrappers of torch's, and those that a device did not
// run.
func (s *Summary) notRunLines() []string { return slices.Concat(s.insteadLines(), s.wrappedLines()) }

// mostInstead is how many functions are named that were not run.
const mostInstead = 4

// addInstead takes note of a recorded function that the device did not run.
func (s *Summary) addInstead(r *Result) {
	if r.Instead == "" {
		return
	}
	if text := Name(r.Op) + " was " + r.Instead; len(s.instead) < maxOps && !slices.Contains(s.instead, text) {
		s.instead = append(s.instead, text)
	}
}

// insteadLines name the recorded functions that the device did not run: nothing was judged of these.
func (s *Summary) insteadLines() []string {
	if more := len(s.instead) - mostInstead; more > 0 {
		return append(slices.Clone(s.instead[:mostInstead]), fmt.Sprintf("the device ran other functions than the "+
			"recorded ones for %s, too", Count(more, "further function")))
	}
	return s.instead
}
