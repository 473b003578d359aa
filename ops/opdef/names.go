package opdef

import (
	"fmt"
	"strings"
)

// torchNamespaces are the parts of torch whose names a declaration may write
// without "torch.".
var torchNamespaces = map[string]string{
	"Tensor": "Tensor", "F": "nn.functional", "nn": "nn", "functional": "functional", "fft": "fft",
	"linalg": "linalg", "special": "special", "masked": "masked", "_masked": "_masked", "_C": "_C",
}

// FullName is the public name that a declaration writes as name: see Planned.Names.
func FullName(name string) string {
	first, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return "torch." + name
	}
	if namespace, ok := torchNamespaces[first]; ok {
		return "torch." + namespace + "." + rest
	}
	return name
}

// expandNames turns the Names field into full public names and adds the
// in-place ones. The names of an op called max.dim are by default those of max.
func expandNames(op, names string, inPlace bool) []string {
	if names == "" {
		base, _, _ := strings.Cut(op, ".")
		names = base + " Tensor." + base
	}
	var out []string
	for _, n := range strings.Fields(names) {
		n = FullName(n)
		out = append(out, n)
		if inPlace {
			in, ok := inPlaceName(n)
			if ok {
				out = append(out, in)
			}
		}
	}
	return out
}

// checkName refuses a full name that no captured call can have.
func checkName(name string) error {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		// What a function defines inside is below its <locals>.
		inside := i > 0 && (p == "<locals>" && i+1 < len(parts) || p == "<lambda>" && i+1 == len(parts))
		if !inside && !isIdentifier(p) {
			return fmt.Errorf("name %q: %q is no Python identifier", name, p)
		}
	}
	switch root := parts[0]; {
	case root != strings.ToLower(root):
		return fmt.Errorf("name %q: neither a package nor a namespace of torch is called %s", name, root)
	case root == "torch" && len(parts) > 2 && strings.HasPrefix(parts[1], "torch"):
		return fmt.Errorf("name %q: torch has no namespace %s", name, parts[1])
	}
	return nil
}

func isIdentifier(s string) bool {
	for i, c := range s {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// inPlaceName is the name of the in-place form: add_ of add, __iadd__ of
// __add__. Names that have none (__radd__) or are one (copy_) report false.
func inPlaceName(name string) (string, bool) {
	if IsInPlaceName(name) {
		return "", false
	}
	dot := strings.LastIndexByte(name, '.')
	base := name[dot+1:]
	if strings.HasPrefix(base, "__") {
		inner := strings.Trim(base, "_")
		switch inner {
		case "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift":
			return name[:dot+1] + "__i" + inner + "__", true
		}
		return "", false
	}
	return name + "_", true
}

// IsInPlaceName reports whether a captured name is that of an in-place form:
// a name ending in one underscore, or __iadd__ and the like.
func IsInPlaceName(name string) bool {
	base := name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(base, "__") {
		return strings.HasPrefix(base, "__i") && inPlaceDunder[base]
	}
	return strings.HasSuffix(base, "_") && !strings.HasSuffix(base, "__")
}

var inPlaceDunder = map[string]bool{
	"__iadd__": true, "__isub__": true, "__imul__": true, "__itruediv__": true, "__idiv__": true, "__ifloordiv__": true,
	"__imod__": true,
	"__ipow__": true, "__iand__": true, "__ior__": true, "__ixor__": true, "__ilshift__": true, "__irshift__": true,
}

// OfTorch reports whether a public name is one of torch's Python API, whose signatures the table has,
// and not that of a function of the dispatcher or of another library.
func OfTorch(name string) bool {
	return strings.HasPrefix(name, "torch.") && !strings.HasPrefix(name, dispatched)
}

// isMethod reports whether a public name is that of a method of torch.Tensor.
func isMethod(name string) bool { return strings.HasPrefix(name, "torch.Tensor.") }
