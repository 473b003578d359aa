package pthformat

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// floats are the bytes of 1 and -2 in float32.
var floats = []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}

// flagsOp pushes a dict of one flag.
func flagsOp(flag string) string { return "}" + unicodeOp(flag) + "\x88s" }

// v3Op pushes a tensor of 2 elements of a dtype over 8 untyped bytes.
func v3Op(dtype string) string {
	return "ctorch._utils\n_rebuild_tensor_v3\n((" + unicodeOp("storage") + "ctorch.storage\nUntypedStorage\n" +
		unicodeOp("0") + unicodeOp("cpu") + "K\x08tQ" +
		"K\x00K\x02\x85K\x01\x85\x89" + hooksOp + "ctorch\n" + dtype + "\ntR"
}

func TestTensors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pickle string
		data   []byte
		want   []float64
		err    string
	}{
		{"plain", tensorOp("FloatStorage", ""), floats, []float64{1, -2}, ""},
		{"no flags", tensorOp("FloatStorage", "N"), floats, []float64{1, -2}, ""},
		{"empty flags", tensorOp("FloatStorage", "}"), floats, []float64{1, -2}, ""},
		{"neg", tensorOp("FloatStorage", flagsOp("neg")), floats, []float64{-1, 2}, ""},
		{"neg of integers", tensorOp("ShortStorage", flagsOp("neg")), []byte{1, 0, 0, 0xff}, []float64{-1, 256}, ""},
		{"neg of bool", tensorOp("BoolStorage", flagsOp("neg")), []byte{1, 0}, nil,
			"negative of a tensor of dtype bool"},
		{"conj of float", tensorOp("FloatStorage", flagsOp("conj")), floats, nil,
			"conjugate of a tensor of dtype float32"},
		{"unknown flag", tensorOp("FloatStorage", flagsOp("zero")), floats, nil, "unknown metadata zero"},
		{"flags of another type", tensorOp("FloatStorage", "K\x01"), floats, nil, "the metadata is an int"},
		{"untyped", v3Op("float32"), floats, []float64{1, -2}, ""},
		{"untyped as v2", strings.Replace(v3Op("float32"), "_v3", "_v2", 1), floats, nil,
			"the storage has no element type"},
		{"untyped, too short", v3Op("float64"), floats, nil, "tensor reaches past its storage"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := readBytes(pth(t, pickleOf(tt.pickle), tt.data))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			x, ok := f.Root.(*tensor.Tensor)
			if !ok {
				t.Fatalf("got %s", dump(f.Root))
			}
			if got := tensor.Data[float64](x); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if x.Device != "cpu" {
				t.Errorf("device %q, want cpu", x.Device)
			}
		})
	}
}

// TestConjugate reads complex elements whose flag says that they are to be
// conjugated; the stored bytes stay as they are.
func TestConjugate(t *testing.T) {
	data := append(bytes.Clone(floats), floats...)
	f,
		err := readBytes(pth(t, pickleOf("("+tensorOp("ComplexFloatStorage", flagsOp("conj"))+
		tensorOp("ComplexFloatStorage", "")+"t"), data))
	if err != nil {
		t.Fatal(err)
	}
	ts := value.Tensors(f.Root)
	for i, want := range [][]complex128{{1 + 2i, 1 + 2i}, {1 - 2i, 1 - 2i}} {
		if got := tensor.Data[complex128](ts[i]); !slices.Equal(got, want) {
			t.Errorf("tensor %d: got %v, want %v", i, got, want)
		}
	}
}

// TestUnknownDType shows a tensor of a dtype that does not exist here, and the
// tensor beside it.
func TestUnknownDType(t *testing.T) {
	f, err := readBytes(pth(t, pickleOf("("+v3Op("float6_unknown")+v3Op("int32")+"t"), floats))
	if err != nil {
		t.Fatal(err)
	}
	items := f.Root.(*value.Sequence).Items
	if op, ok := items[0].(*value.Opaque); !ok || op.Reason != "tensor of dtype torch.float6_unknown" {
		t.Errorf("got %s", dump(items[0]))
	}
	if x, ok := items[1].(*tensor.Tensor); !ok || x.DType != tensor.Int32 {
		t.Errorf("got %s", dump(items[1]))
	}
}

// TestBigEndian swaps the elements of typed storages and refuses to guess
// those of untyped ones.
func TestBigEndian(t *testing.T) {
	file := func(pickle string, data []byte) []byte {
		return makeZip(t, entry{"x/data.pkl", []byte(pickleOf(pickle))}, entry{"x/byteorder", []byte("big")},
			entry{"x/data/0", data})
	}
	swapped := bytes.Clone(floats)
	swapBytes(swapped, 4)
	f, err := readBytes(file(tensorOp("FloatStorage", ""), swapped))
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.Data[float64](f.Root.(*tensor.Tensor)); !slices.Equal(got, []float64{1, -2}) {
		t.Errorf("got %v, want [1 -2]", got)
	}
	complexData := append(bytes.Clone(swapped), swapped...) // parts are swapped one by one
	f, err = readBytes(file(tensorOp("ComplexFloatStorage", ""), complexData))
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.Data[complex128](f.Root.(*tensor.Tensor)); !slices.Equal(got, []complex128{1 - 2i, 1 - 2i}) {
		t.Errorf("got %v, want [1-2i 1-2i]", got)
	}
	if _, err := readBytes(file(v3Op("int32"), floats)); err == nil ||
		!strings.Contains(err.Error(), "big-endian storage without element type") {
		t.Errorf("untyped: got %v", err)
	}
}

// legacyWith is a legacy file of an object and one storage "7" of bytes 1 to 6.
func legacyWith(object string, keys ...string) []byte {
	var b bytes.Buffer
	b.WriteString("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.")
	b.WriteString(pickleOf(object))
	list := "]("
	for _, k := range keys {
		list += unicodeOp(k)
	}
	b.WriteString(pickleOf(list + "e"))
	b.WriteString("\x06\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06")
	return b.Bytes()
}

// TestLegacyViews reads a storage that is a part of another, as torch before
// 1.13 could write it, and checks the keys.
func TestLegacyViews(t *testing.T) {
	object := func(view string) string {
		return "ctorch._utils\n_rebuild_tensor\n((" + unicodeOp("storage") + "ctorch\nByteStorage\n" + unicodeOp("7") +
			unicodeOp("cpu") + "K\x06" + view + "tQK\x01K\x02\x85K\x01\x85tR"
	}
	view := "(" + unicodeOp("v") + "K\x02K\x03t"
	f, err := readBytes(legacyWith(object(view), "7"))
	if err != nil {
		t.Fatal(err)
	}
	x := f.Root.(*tensor.Tensor)
	if got := tensor.Data[int64](x); !slices.Equal(got, []int64{4, 5}) || x.Storage().Len() != 3 {
		t.Errorf("got %v of a storage of %d bytes, want [4 5] of 3", got, x.Storage().Len())
	}
	for _, tt := range []struct{ view, want string }{
		{"(" + unicodeOp("v") + "K\x04K\x03t", "view of 3 elements at 4 lies outside its 6"},
		{"(" + unicodeOp("v") + "K\x04t", "unexpected persistent id"},
		{"K\x04", "unexpected persistent id"},
	} {
		if _, err := readBytes(legacyWith(object(tt.view), "7")); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
	for want, keys := range map[string][]string{
		"storage 7 is not among the keys":                           {},
		"key 8 names no storage":                                    {"8"},
		"key 7 names no storage, or one that was named before":      {"7", "7"},
		"key 7/v names no storage, or one that was named before":    {"7/v"},
		`key 7\x00v names no storage, or one that was named before`: {"7\x00v"},
	} {
		if _, err := readBytes(legacyWith(object(view), keys...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("keys %q: got %v, want %s", keys, err, want)
		}
	}
}

func TestUseAfterClose(t *testing.T) {
	for name, b := range map[string][]byte{"zip": pth(t, pickleOf(tensorOp("FloatStorage", "")), floats),
		"legacy": legacyFile(20)} {
		f, err := readBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := value.Tensors(f.Root)[0].Storage().Load(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: got %v, want fs.ErrClosed", name, err)
		}
	}
}

// TestFromNumpy reads a tensor that a device without storages of its own
// saved as an array.
func TestFromNumpy(t *testing.T) {
	array := "cnumpy.core.numeric\n_frombuffer\n(\x96\x08\x00\x00\x00\x00\x00\x00\x00" + string(floats) +
		"cnumpy\ndtype\nU\x02f4\x89\x88\x87RK\x02\x85U\x01CtR"
	call := func(dtype, device string) string {
		return "\x80\x05ctorch._utils\n_rebuild_device_tensor_from_numpy\n(" + array + "ctorch\n" + dtype + "\n" +
			device + "\x88tR."
	}
	for device, want := range map[string]string{unicodeOp("xla:0"): "xla:0", "ctorch\ndevice\n" + unicodeOp("maia") +
		"\x85R": "maia"} {
		v, err := decodePickle(call("float32", device))
		if err != nil {
			t.Fatal(err)
		}
		x, ok := v.(*tensor.Tensor)
		if !ok || x.Device != want || !x.RequiresGrad || !slices.Equal(tensor.Data[float64](x), []float64{1, -2}) {
			t.Errorf("got %s, want [1 -2] on %s", dump(v), want)
		}
	}
	if _, err := decodePickle(call("float64", unicodeOp("xla:0"))); err == nil ||
		!strings.Contains(err.Error(), "an array of float32 for a tensor of float64") {
		t.Errorf("another dtype: got %v", err)
	}
}
