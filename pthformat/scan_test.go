package pthformat

import (
	"strings"
	"testing"

	"github.com/optool/optool/tensor/value"
)

// decodePickle decodes a pickle without storages.
func decodePickle(p string) (value.Value, *FormatError) {
	f := &File{lim: Limits{}.withDefaults(0)}
	_, v, err := f.decode([]byte(p), &unpickler{})
	if err != nil {
		fe, ok := err.(*FormatError)
		if !ok {
			fe = &FormatError{Msg: "not a FormatError", Err: err}
		}
		return nil, fe
	}
	return v, nil
}

func TestMalformedPickles(t *testing.T) {
	for _, tt := range []struct{ name, pickle, want string }{
		{"nothing", "", "offset 0: truncated pickle: no STOP"},
		{"no stop", "N", "offset 0: truncated pickle: no STOP"},
		{"stop without value", ".", "offset 0: malformed pickle: opcode 0x2e: STOP with 0 objects and 0 open marks"},
		{"stop with two values", "NN.", "STOP with 2 objects and 0 open marks"},
		{"open mark", "N(.", "STOP with 1 objects and 1 open marks"},
		{"pop of nothing", "0N.", "offset 0: malformed pickle: opcode 0x30: stack is empty"},
		{"dup of nothing", "2.", "stack is empty"},
		{"pop mark without mark", "1N.", "POP_MARK without MARK"},
		{"reduce across a mark", "cm\nc\n()R.", "REDUCE needs 2 objects, the stack has 1"},
		{"append to nothing", "(NNe.", "APPENDS needs 1 objects, the stack has 0"},
		{"odd dict", "(Nd.", "DICT with a key without value"},
		{"odd items", "}(Nu.", "SETITEMS with a key without value"},
		{"obj without class", "(o.", "OBJ without class"},
		{"put of nothing", "q\x00N.", "stack is empty"},
		{"get before put", "Nq\x000h\x01.", "memo slot 1 was never set"},
		{"text slot", "Npx\n.", "memo slot \"x\" is not a number"},
		{"short fixed", "J\x00\x00", "truncated pickle: BININT needs 4 bytes, 2 are left"},
		{"short length", "X\x00", "truncated pickle: BINUNICODE needs 4 bytes, 1 are left"},
		{"line without end", "I12", "truncated pickle: INT without newline"},
		{"not a number", "I1x\n.", "INT \"1x\" is not a number"},
		{"no digits", "L\n.", "LONG \"\" is not a number"},
		{"not a float", "Fx\n.", "FLOAT \"x\" is not a number"},
		{"string without quotes", "Sab\n.", "STRING without quotes"},
		{"string with escapes", "S'a\\n'\n.", "STRING with escapes"},
		{"global not utf-8", "cm\xff\nc\n.", "GLOBAL is not UTF-8"},
		{"empty long", "\x8a\x00.", "integer of 0 bytes"},
		{"protocol 6", "\x80\x06N.", "unsupported pickle protocol 6"},
		{"extension", "\x82\x01.", "opcode 0x82: unknown opcode"},
		{"out of band", "\x97.", "opcode 0x97: unknown opcode"},
		{"frame in frame", "\x95\x0b\x00\x00\x00\x00\x00\x00\x00N\x95\x00\x00\x00\x00\x00\x00\x00\x00N.",
			"FRAME inside a frame"},
		{"across a frame", "\x95\x02\x00\x00\x00\x00\x00\x00\x00J\x00\x00\x00\x00.",
			"BININT reaches past the end of its frame"},
		{"stack global of numbers", "K\x01K\x02\x93.", "STACK_GLOBAL needs two strings"},
		{"stack global alone", "K\x01\x93.", "STACK_GLOBAL needs 2 objects, the stack has 1"},
		{"call of a number", "K\x01)R.", "REDUCE requires a Callable"},
		{"append to a dict", "}Na.", "APPEND requires"},
		{"two equal keys", "}(K\x01N\x88Nu.", "dict key true appears twice"},
		{"list as set member", "c__builtin__\nset\n](]e\x85R.", "unhashable"},
		{"persistent id", "Px\n.", "unexpected persistent id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := decodePickle(tt.pickle)
			if err == nil {
				t.Fatalf("got %s, want %s", dump(v), tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestForbiddenGlobals(t *testing.T) {
	for _, g := range []struct{ module, name string }{
		{"os", "system"}, {"posix", "system"}, {"nt", "system"}, {"subprocess", "Popen"}, {"sys", "exit"},
		{"shutil", "rmtree"},
		{"socket", "socket"}, {"ctypes", "CDLL"}, {"ctypes.util", "find_library"}, {"importlib", "import_module"},
		{"runpy", "run_path"},
		{"pty", "spawn"}, {"webbrowser", "open"}, {"builtins", "eval"}, {"__builtin__", "getattr"},
		{"builtins", "open"}, {"builtins", "type"},
		{"pickle", "loads"}, {"code", "interact"}, {"signal", "signal"}, {"multiprocessing.util", "x"},
		{"threading", "Thread"},
		{"_codecs", "decode"}, {"torch.hub", "load"}, {"torch.serialization", "os.system"},
		{"collections", "OrderedDict.__class__"},
		{"numpy.testing._private.utils", "runstring"},
	} {
		want := "forbidden global " + g.module + "." + g.name
		forms := map[string]string{
			"GLOBAL":       "c" + g.module + "\n" + g.name + "\n.",
			"INST":         "(i" + g.module + "\n" + g.name + "\n.",
			"STACK_GLOBAL": "\x80\x04" + unicodeOp(g.module) + unicodeOp(g.name) + "\x93.",
			"memoised":     "\x80\x04" + unicodeOp(g.module) + "\x940" + unicodeOp(g.name) + "q\x070h\x00h\x07\x93.",
			"lines":        "\x80\x04V" + g.module + "\nS'" + g.name + "'\n\x93.",
		}
		for form, p := range forms {
			if _, err := decodePickle(p); err == nil || err.Msg != want {
				t.Errorf("%s of %s.%s: got %v, want %s", form, g.module, g.name, err, want)
			}
		}
	}
	for _, g := range []string{"torch\nFooStorage", "torch.cuda\nBarStorage", "torch_npu\nFloatStorage",
		"torch.storage\nFloatStorage"} {
		if _, err := decodePickle("c" + g + "\n."); err == nil ||
			!strings.HasPrefix(err.Msg, "unknown storage type torch") {
			t.Errorf("%q: got %v, want an unknown storage type", g, err)
		}
	}
	for _, g := range []string{"osmium\nx", "mypkg.os\nsystem", "pathlib\nPosixPath", "datetime\ndatetime",
		"torch.nn.modules.linear\nLinear", "my\nFooStorage"} {
		if v, err := decodePickle("c" + g + "\n."); err != nil {
			t.Errorf("%q: %v", g, err)
		} else if _, ok := v.(*value.Opaque); !ok {
			t.Errorf("%q: got %T, want an opaque value", g, v)
		}
	}
}

// TestValues reads what picklers write in their various protocols, and what
// other Python programs leave.
func TestValues(t *testing.T) {
	py2Ordered := "ccollections\nOrderedDict\n](](U\x01aK\x01ee\x85R."
	arrayOf := func(dtype string) string {
		return "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nrecarray\nK\x00\x85C\x01btR(K\x01K\x01\x85" + dtype +
			"\x89C\x04\x00\x00\xc0\x7ftb."
	}
	float32 := "cnumpy\ndtype\n(U\x02f4\x89\x88tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
	bfloat16 := "cnumpy\ndtype\n(cml_dtypes\nbfloat16\n\x89\x88tR(K\x03U\x01<NNNK\x04K\x02K\x00tb"
	record := func(field string) string {
		return "cnumpy\ndtype\n(cnumpy\nrecord\n\x89\x88tR(K\x03U\x01|NU\x01y\x85}U\x01y" + field +
			"K\x00\x86sK\x04K\x01K\x10tb"
	}
	noted := func(note string) string { // on a state_dict, of one module
		return "ccollections\nOrderedDict\n)RU\x01aK\x01s}U\x09_metadataccollections\nOrderedDict\n)RU\x00" + note + "ssb."
	}
	for _, tt := range []struct{ name, pickle, want string }{
		{"none", "N.", "None"},
		{"bools", "(I01\nI00\n\x88\x89t.",
			"tuple  (4)|  [0] bool true|  [1] bool false|  [2] bool true|  [3] bool false"},
		{"ints", "(I-5\nL70000000000L\nJ\xff\xff\xff\xffM\xff\xff\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80t.",
			"tuple  (5)|  [0] int64 -5|  [1] int64 70000000000|  [2] int64 -1|  [3] int64 65535|  [4] int64 " +
				"-9223372036854775808"},
		{"big int", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff.", "int -9223372036854775808"},
		{"floats", "(F1.5\nG\x7f\xf0\x00\x00\x00\x00\x00\x00t.", "tuple  (2)|  [0] float64 1.5|  [1] float64 +Inf"},
		{"strings", "(S'a'\nVb\nU\x01cT\x01\x00\x00\x00d\x8c\x01et.",
			"tuple  (5)|  [0] string a|  [1] string b|  [2] string c|  [3] string d|  [4] string e"},
		{"bytes", "(C\x01aB\x01\x00\x00\x00bt.", "tuple  (2)|  [0] value.Bytes [97]|  [1] value.Bytes [98]"},
		{"protocol 0 list", "(lp0\nI1\naI2\na.", "list  (2)|  [0] int64 1|  [1] int64 2"},
		{"protocol 0 dict", "(dp0\nS'k'\nI1\ns.", "dict  (1)|  string k: int64 1"},
		{"pop and mark", "(NN1K\x07.", "int64 7"},
		{"pop of a mark", "(0K\x07.", "int64 7"},
		{"sets", "\x80\x04\x8f(K\x03K\x01U\x01bK\x02U\x01a\x90.",
			"set  (5)|  [0] int64 1|  [1] int64 2|  [2] int64 3|  [3] string a|  [4] string b"},
		{"frozenset", "\x80\x04(K\x01\x91.", "frozenset  (1)|  [0] int64 1"},
		{"python 2 ordered dict", py2Ordered, "dict collections.OrderedDict (1)|  string a: int64 1"},
		{"ordered dict, protocol 4", "\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93)RU\x01aK\x01s.",
			"dict collections.OrderedDict (1)|  string a: int64 1"},
		{"ordered dict with an attribute", "ccollections\nOrderedDict\n)RU\x01aK\x01s}U\x03fooK\x02sb.",
			"opaque collections.OrderedDict \"\"|  foo int64 2|  a int64 1"},
		{"counter with an attribute", "ccollections\nCounter\n}U\x01aK\x01s\x85R}U\x03fooK\x02sb.",
			"opaque collections.Counter \"\"|  foo int64 2|  a int64 1"},
		{"state_dict", noted("}U\x07versionK\x02s"), "dict collections.OrderedDict (1)|  string a: int64 1"},
		{"state_dict of a class that names its version", noted("}U\x07versionU\x021bs"),
			"dict collections.OrderedDict (1)|  string a: int64 1"},
		{"other notes on a state_dict", noted("K\x03"), "opaque collections.OrderedDict \"\"|" +
			"  _metadata dict collections.OrderedDict (1)|    string: int64 3|  a int64 1"},
		{"a number among versions", noted("}U\x07versionF1.5\ns"), "opaque collections.OrderedDict \"\"|" +
			"  _metadata dict collections.OrderedDict (1)|    string: dict  (1)|      string version: float64 1.5|" +
			"  a int64 1"},
		{"array of records", arrayOf(record(float32)), "opaque numpy.ndarray \"structured array\"|" +
			"  ['y'] float32[1] stride [1] offset 0 of storage  (4 bytes, numpy): 0000c07f"},
		{"array of a class", arrayOf(bfloat16), "opaque numpy.ndarray \"elements of numpy type ml_dtypes.bfloat16\" (not whole)"},
		{"records of a class", arrayOf(record(bfloat16)), "opaque numpy.ndarray \"structured array\"|" +
			"  ['y'] opaque numpy.ndarray \"elements of numpy type ml_dtypes.bfloat16\" (not whole)"},
		{"slices", "c__builtin__\nslice\nK\x05\x85R.", "slice|  start None|  stop int64 5|  step None"},
		{"type of Python", "c__builtin__\nfloat\n.", "opaque builtins.float \"\""},
		{"device", "ctorch\ndevice\nU\x05npu:3\x85R.", "device npu 3"},
		{"instance", "(K\x01imod\nCls\n.", "opaque mod.Cls \"\"|  (0) int64 1"},
		{"instance by OBJ", "(cmod\nCls\nK\x01o.", "opaque mod.Cls \"\"|  (0) int64 1"},
		{"new-style object", "c__builtin__\nobject\n)\x81.",
			"opaque __builtin__.object \"\""},
		{"reconstructed object", "ccopy_reg\n_reconstructor\n(cmod\nCls\nc__builtin__\nobject\nNtR}U\x01aK\x01sb.",
			"opaque mod.Cls \"\"|  a int64 1"},
		{"object with state and items", "cmod\nCls\n)\x81K\x05bK\x06aU\x01kK\x07s.",
			"opaque mod.Cls \"\"|  state int64 5|  [0] int64 6|  k int64 7"},
		{"keyword arguments", "\x80\x04cmod\nCls\nK\x01\x85}U\x01kK\x02s\x92.",
			"opaque mod.Cls \"\"|  (0) int64 1|  (1) dict  (1)|    string k: int64 2"},
		{"slots", "cmod\nCls\n)\x81N}U\x01aK\x01s\x86b.", "opaque mod.Cls \"\"|  a int64 1"},
		{"module", "cmod\nNet\n)\x81}(U\x0b_parameters}U\x01wK\x01sU\x08_buffers}U\x08_modules}U\x01mK\x02sub.",
			"opaque mod.Net \"\"|  w int64 1|  m int64 2"},
		{"function of a class", "cbuiltins\ngetattr\n(cmod\nCls\nU\x04relutR.", "opaque mod.Cls.relu \"\""},
		{"namespace", "ctypes\nSimpleNamespace\n)R}U\x01aK\x01sb.", "opaque types.SimpleNamespace \"\"|  a int64 1"},
		{"time", "cnumpy\ndtype\n(U\x02M8\x89\x88tR(K\x04U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00}" +
			"(C\x02nsK\x01K\x01K\x01t\x86tb.", "opaque numpy.dtype <M8[ns] \"\""},
		{"named result", "ctorch.return_types\nmax\n(K\x01K\x02t}\x86R.",
			"tuple torch.return_types.max (2)|  [0] int64 1|  [1] int64 2"},
		{"memory format", "ctorch\nchannels_last\n.", "value.MemoryFormat torch.channels_last"},
		{"shared tuple", "(K\x01\x85q\x00h\x00t.",
			"tuple  (2)|  [0] tuple  (1)|    [0] int64 1|  [1] tuple  (1)|    [0] int64 1"},
		{"a list in itself", "]q\x00h\x00a.", "list  (1)|  [0] list  (1)|    ..."},
		{"sparse memo", "K\x01r\x00\x00\x00\xff0j\x00\x00\x00\xff.", "int64 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := decodePickle(tt.pickle)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(strings.TrimSpace(dump(v)), "\n", "|"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestMalformedCalls(t *testing.T) {
	for _, tt := range []struct{ name, pickle, want string }{
		{"size of floats", "ctorch\nSize\nG\x00\x00\x00\x00\x00\x00\x00\x00\x85\x85R.",
			"torch.Size: a size holds a float"},
		{"device of a number", "ctorch\ndevice\nK\x01\x85R.", "torch.device: want a device type"},
		{"slice of nothing", "c__builtin__\nslice\n)R.", "__builtin__.slice: 0 arguments"},
		{"complex of strings", "c__builtin__\ncomplex\nU\x011\x85R.", "a part is a string"},
		{"bytes beyond latin1", "c_codecs\nencode\n" + unicodeOp("€") + unicodeOp("latin1") + "\x86R.",
			"character U+20AC is not a byte"},
		{"bytes in utf-8", "c_codecs\nencode\n" + unicodeOp("a") + unicodeOp("utf-8") + "\x86R.",
			"encoding utf-8, want latin1"},
		{"pairs", "ccollections\nOrderedDict\n](K\x01e\x85R.", "want a list of pairs"},
		{"numpy type", "cnumpy\ndtype\n)R.", "numpy.dtype: want a type code"},
		{"numpy scalar", "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\x02f4\x85RC\x01a\x86R.",
			"want 4 bytes for a scalar of float32"},
		{"numpy array", "cnumpy.core.numeric\n_frombuffer\n(C\x01acnumpy\ndtype\nU\x02f4\x85RK\x02\x85U\x01CtR.",
			"f4[2] has 8 bytes, there are 1"},
		{"huge numpy array",
			"cnumpy.core.numeric\n_frombuffer\n(C\x01acnumpy\ndtype\nU\x02f4\x85R(J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7ftU\x01CtR.", "too many elements"},
		{"nested type",
			"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\nctorch\nTensor\n)NtR.",
			"the constructor is torch._tensor._rebuild_from_type_v2 itself"},
		{"parameter of a number", "ctorch._utils\n_rebuild_parameter\n(K\x01\x88NtR.",
			"malformed tensor: the data is an int"},
		{"attribute of a module", "cbuiltins\ngetattr\n(cmod\nCls\nU\x02ostR.", "forbidden global builtins.getattr"},
		{"attribute of a class", "cbuiltins\ngetattr\n(cmod\nCls\nU\x08__base__tR.",
			"forbidden global builtins.getattr"},
		{"attribute of a text", "cbuiltins\ngetattr\n(U\x01aU\x01btR.", "forbidden global builtins.getattr"},
		{"numpy type that contains itself", "cnumpy\ndtype\n(U\x01V\x89\x88tRq\x01(K\x03U\x01|h\x01)\x86NNK\x08K\x01K\x00tb.",
			"contains itself"},
		{"layout", "ctorch.serialization\n_get_layout\n)R.", "want the name of a layout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := decodePickle(tt.pickle)
			if err == nil {
				t.Fatalf("got %s, want %s", dump(v), tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestOffsets checks that an error of the machine names the opcode in the
// file, frames counted.
func TestOffsets(t *testing.T) {
	framed := "\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00\x00NN00\x95\x04\x00\x00\x00\x00\x00\x00\x00}Na."
	for p, want := range map[string]int64{"}Na.": 2, framed: int64(strings.Index(framed, "a."))} {
		if _, err := decodePickle(p); err == nil || err.Offset != want {
			t.Errorf("%q: got %v, want offset %d", p, err, want)
		}
	}
}
