package tensor

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"
)

// TestFloat8IsTorchs compares the code of every float16, and the value of every code, with
// those that torch has (testdata/float8.py).
func TestFloat8IsTorchs(t *testing.T) {
	golden, err := os.ReadFile("testdata/float8.tsv")
	if err != nil {
		t.Fatal(err)
	}
	halves := Data[float64](view(t, Float16, codes(Float16)))
	for line := range strings.Lines(string(golden)) {
		f := strings.Fields(line)
		dt, ok := ParseDType(f[0])
		if !ok {
			t.Fatalf("no dtype %s", f[0])
		}
		stored := make([]byte, len(halves))
		dtypes[dt].codec.storeFloat(stored, halves)
		var bits []byte
		values := Data[float64](view(t, dt, codes(dt)))
		for i, c := range stored {
			if math.IsNaN(values[c]) {
				stored[i] = 255
			} else if r := dt.Round(halves[i]); r != values[c] {
				t.Errorf("%s: %g is rounded to %g, stored as %g", dt, halves[i], r, values[c])
			}
		}
		for _, v := range values {
			b := math.Float32bits(float32(v))
			if math.IsNaN(v) {
				b = 0x7fc00000
			}
			bits = le.AppendUint32(bits, b)
		}
		for i, raw := range [][]byte{stored, bits} {
			if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != f[1+i] {
				t.Errorf("%s: %s are not torch's", dt, []string{"codes of float16", "values of codes"}[i])
			}
		}
	}
}
