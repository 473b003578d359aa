package opdef

import "strings"

// expandNames turns the Names field into full public names and adds the
// in-place ones. The names of an op called max.dim are by default those of max.
func expandNames(op, names string, inPlace bool) []string {
	if names == "" {
		base, _, _ := strings.Cut(op, ".")
		names = base + " Tensor." + base
	}
	var out []string
	for _, n := range strings.Fields(names) {
		if f, ok := strings.CutPrefix(n, "F."); ok {
			n = "nn.functional." + f
		}
		n = "torch." + n
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

// inPlaceName is the name of the in-place form: add_ of add, __iadd__ of
// __add__. Names that have none (__radd__, linalg functions) or are one (copy_)
// report false.
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
// a method ending in one underscore, or __iadd__ and the like.
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

// takesNumberAsSelf reports methods that torch writes in Python as a function
// of two operands, so that a call by name runs with a number for self too.
func takesNumberAsSelf(name string) bool {
	switch name {
	case "torch.Tensor.__rmod__", "torch.Tensor.__rfloordiv__", "torch.Tensor.__rpow__":
		return true
	}
	return false
}
