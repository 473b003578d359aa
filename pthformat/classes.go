package pthformat

import (
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// storageTypes are the storage classes of torch and the dtype of an element.
//
// Source: torch/storage.py, _dtype_to_storage_type_map (2.5).
var storageTypes = map[string]tensor.DType{
	"DoubleStorage": tensor.Float64, "FloatStorage": tensor.Float32, "HalfStorage": tensor.Float16,
	"BFloat16Storage": tensor.BFloat16, "LongStorage": tensor.Int64, "IntStorage": tensor.Int32,
	"ShortStorage": tensor.Int16, "CharStorage": tensor.Int8, "ByteStorage": tensor.Uint8,
	"BoolStorage": tensor.Bool, "ComplexDoubleStorage": tensor.Complex128,
	"ComplexFloatStorage": tensor.Complex64, "QInt8Storage": tensor.QInt8, "QUInt8Storage": tensor.QUint8,
	"QInt32Storage": tensor.QInt32, "QUInt4x2Storage": tensor.QUint4x2,
	"QUInt2x4Storage": tensor.QUint2x4,
	"UntypedStorage":  untyped,
}

// untyped marks a storage that counts bytes; its tensors bring their dtype.
const untyped = tensor.Invalid

// storageType returns the element type of the storage class module.name.
func storageType(module, name string) (tensor.DType, bool) {
	dt, ok := storageTypes[name]
	if !ok {
		return 0, false
	}
	switch module {
	case "torch", "torch.cuda":
		return dt, true
	case "torch.storage":
		return dt, dt == untyped
	}
	return 0, false
}

// constants are globals that are values by themselves.
var constants = map[string]value.Value{
	"builtins.Ellipsis":       value.Ellipsis{},
	"torch.strided":           value.Layout("torch.strided"),
	"torch.sparse_coo":        value.Layout("torch.sparse_coo"),
	"torch.sparse_csr":        value.Layout("torch.sparse_csr"),
	"torch.sparse_csc":        value.Layout("torch.sparse_csc"),
	"torch.sparse_bsr":        value.Layout("torch.sparse_bsr"),
	"torch.sparse_bsc":        value.Layout("torch.sparse_bsc"),
	"torch.contiguous_format": value.MemoryFormat("torch.contiguous_format"),
	"torch.channels_last":     value.MemoryFormat("torch.channels_last"),
	"torch.channels_last_3d":  value.MemoryFormat("torch.channels_last_3d"),
	"torch.preserve_format":   value.MemoryFormat("torch.preserve_format"),
}

// builtinTypes are the names of builtins that are data types, and getattr (see
// buildGetattr); every other builtin is refused.
var builtinTypes = set("Ellipsis", "NotImplemented", "None", "True", "False", "bool", "bytearray", "bytes", "complex",
	"dict", "float",
	"frozenset", "getattr", "int", "list", "long", "object", "range", "set", "slice", "str", "tuple", "unicode", "xrange")

// refusedModules can run code, reach the system or load more pickles. A file
// that names one was made to attack its reader; nothing of it is shown.
//
// Source: the deny lists of picklescan and fickling, and the standard library
// index sections on processes, networking, and import.
var refusedModules = set(
	"_aix_support", "_bootsubprocess", "_ctypes", "_frozen_importlib", "_imp", "_io", "_multiprocessing",
	"_osx_support",
	"_pickle", "_posixsubprocess", "_pyrepl", "_signal", "_socket", "_thread", "_winapi", "aiohttp", "antigravity",
	"asyncio", "atexit",
	"bdb", "cPickle", "cProfile", "cffi", "cgi", "cloudpickle", "cmd", "code", "codeop", "commands", "concurrent",
	"ctypes", "dill",
	"distutils", "doctest", "ensurepip", "fcntl", "fileinput", "ftplib", "gc", "glob", "http", "httplib", "idlelib",
	"imaplib", "imp",
	"importlib", "inspect", "io", "joblib", "lib2to3", "linecache", "marshal", "mmap", "msvcrt", "multiprocessing",
	"nntplib", "nt",
	"ntpath", "operator", "os", "pdb", "pickle", "pickletools", "pip", "pkg_resources", "pkgutil", "platform", "poplib",
	"popen2", "posix",
	"posixpath", "profile", "pty", "py_compile", "pydoc", "requests", "resource", "rlcompleter", "runpy", "select",
	"selectors",
	"setuptools", "shelve", "shlex", "shutil", "signal", "site", "smtplib", "socket", "socketserver", "sqlite3", "ssl",
	"subprocess",
	"sys", "sysconfig", "syslog", "tempfile", "telnetlib", "thread", "threading", "timeit", "trace", "tracemalloc",
	"types", "urllib", "urllib2", "venv", "webbrowser", "winreg", "xmlrpc", "zipapp", "zipimport",
)

// harmless are classes of refused modules that only hold data.
var harmless = set("types.SimpleNamespace")

// refusedPackages are parts of packages that are otherwise data.
var refusedPackages = []string{
	"torch.hub", "torch.utils.cpp_extension", "torch.utils.model_zoo", "torch.package", "torch.multiprocessing",
	"torch.ops", "torch._inductor", "torch._dynamo", "torch.utils.bottleneck", "numpy.testing", "numpy.f2py",
	"numpy.distutils", "numpy.ctypeslib",
}

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// checkGlobal returns why the global module.name must not be in a file, or "".
// It is asked for every name before anything runs.
func checkGlobal(module, name string) string {
	full := module + "." + name
	top, _, _ := strings.Cut(module, ".")
	if refusedModules[top] && !harmless[full] {
		return "forbidden global " + full
	}
	for _, p := range refusedPackages {
		if strings.HasPrefix(full, p) && (len(full) == len(p) || full[len(p)] == '.') {
			return "forbidden global " + full
		}
	}
	switch {
	case isBuiltin(module):
		if !builtinTypes[name] {
			return "forbidden global " + full
		}
	case top == "codecs", module == "_codecs" && name != "encode":
		return "forbidden global " + full
	case strings.HasPrefix(top, "torch") && strings.HasSuffix(name, "Storage"):
		if _, ok := storageType(module, name); !ok {
			return "unknown storage type " + full
		}
	}
	// Since protocol 4 a name may be a path of attributes: torch.serialization
	// with os.system, or an object's __class__.__base__.
	if strings.Contains(name, ".") {
		for part := range strings.SplitSeq(name, ".") {
			if refusedModules[part] || strings.HasPrefix(part, "__") {
				return "forbidden global " + full
			}
		}
	}
	return ""
}

func isBuiltin(module string) bool { return module == "builtins" || module == "__builtin__" }

// canonical is the name under which tables list the global: Python 2's and
// numpy's former module names are mapped to the present ones.
func canonical(module, name string) string {
	switch {
	case module == "__builtin__":
		module = "builtins"
	case module == "copy_reg":
		module = "copyreg"
	case strings.HasPrefix(module, "numpy._core"):
		module = "numpy.core" + module[len("numpy._core"):]
	}
	return module + "." + name
}

// A class is a global that can be called. build makes the value; without one
// the call gives an *object, which ends as a *value.Opaque.
type class struct {
	u     *unpickler
	name  string // as in the file
	build builder
}

// forbidden is the error of a global that is never called, or not with these arguments.
func forbidden(name string) *FormatError { return malformed("forbidden global %s", name) }

type builder func(u *unpickler, name string, args []any) (any, error)

// Call is REDUCE and OBJ.
func (c *class) Call(args ...any) (any, error) {
	if c.build == nil {
		return &object{global: c.name, args: args}, nil
	}
	v, err := c.build(c.u, c.name, args)
	if fe, ok := err.(*FormatError); ok && *fe != *forbidden(c.name) {
		fe.Msg = c.name + ": " + fe.Msg
	}
	return v, err
}

// PyNew is NEWOBJ.
func (c *class) PyNew(args ...any) (any, error) { return c.Call(args...) }

// findClass is the machine's hook for GLOBAL, STACK_GLOBAL and INST. The walk
// before has refused what must not be there.
func (u *unpickler) findClass(module, name string) (any, error) {
	module = unhook(module)
	full := module + "." + name
	key := canonical(module, name)
	if v, ok := constants[key]; ok {
		return v, nil
	}
	if module == "torch" {
		if dt, ok := tensor.ParseDType(full); ok {
			return dt, nil
		}
	}
	if dt, ok := storageType(module, name); ok {
		return storageClass{full, dt}, nil
	}
	if strings.HasPrefix(full, "torch.return_types.") {
		return &class{u, full, buildReturnType}, nil
	}
	return &class{u, full, builders[key]}, nil
}

// A storageClass is torch.FloatStorage and its like.
type storageClass struct {
	name  string
	dtype tensor.DType
}
