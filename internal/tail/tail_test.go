package tail_test

import (
	"os"
	"strings"
	"testing"

	"github.com/optool/optool/internal/tail"
)

func TestTail(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	x := tail.New(r)
	w.WriteString(strings.Repeat("a line of text\n", 1000) + "the last\xff line\n")
	w.Close()
	<-x.Done()
	if got, want := x.Size(), int64(15000+15); got != want {
		t.Errorf("size %d, want %d", got, want)
	}
	if got, want := x.LastLine(), "the last\uFFFD line"; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
	if n := len(x.String()); n < 4000 || n > 4100 {
		t.Errorf("%d bytes are kept, want about 4096", n)
	}
	x.Reset()
	if x.Size() != 0 || x.String() != "" {
		t.Errorf("after Reset: %d bytes, %q", x.Size(), x.String())
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}
