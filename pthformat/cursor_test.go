package pthformat

import (
	"io"
	"testing"
)

// TestCursor: the machine sees a pickle without frames, and of the memo only what is read.
func TestCursor(t *testing.T) {
	const frame = "\x95\x04\x00\x00\x00\x00\x00\x00\x00"
	for _, tc := range []struct{ pickle, want string }{
		{"Nq\x00r\x01\x00\x00\x00p2\n.", "N."},
		{"(Nq\x00K\x07q\x01h\x01t.", "(NK\x07q\x01h\x01t."},
		{"(Np7\nNr\x01\x00\x00\x00g7\nt.", "(Np7\nNg7\nt."},
		{"\x80\x04(N\x94K\x07\x94h\x01t.", "\x80\x04(NK\x07r\x01\x00\x00\x00h\x01t."}, // MEMOIZE has its number
		{"(N\x94q\x05N\x94h\x02t.", "(N\x94q\x05N\x94h\x02t."},                        // whose numbers depend on others
		{"\x80\x04" + frame + "NN0.", "\x80\x04NN0."},
		{"ccollections\nOrderedDict\n.", "c\x00ollections\nOrderedDict\n."},
	} {
		p, werr := walk([]byte(tc.pickle), Limits{}.withDefaults(0))
		if werr != nil {
			t.Fatalf("%q: %v", tc.pickle, werr)
		}
		var got []byte
		for c := (&cursor{program: p}); ; {
			b, err := c.ReadByte()
			if err == io.EOF {
				break
			}
			got = append(got, b)
		}
		if string(got) != tc.want {
			t.Errorf("%q: the machine sees %q, want %q", tc.pickle, got, tc.want)
		}
	}
}
