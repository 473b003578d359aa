package browse

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/optool/optool/internal/browsertest"
	"github.com/optool/optool/tensor"
)

// TestInBrowser sorts, filters, opens a finding and slices its tensor as a reader would.
func TestInBrowser(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		b.WriteString(line(fmt.Sprintf("cap-%03d", i), "torch.add", "pass", float64(i)))
	}
	b.WriteString(line("cap-bad", "torch.mul", "fail", 12345))
	b.WriteString(`{"kind":"cause","capture":"cap-bad","op":"torch.mul","targets":["output[0]"],` +
		`"text":"other is 2, not 3","exact":true}` + "\n")
	s := serve(t, func(string, string, string) (*Value, error) {
		return &Value{tensor.New(tensor.Float32, []int{2, 2}, []float64{1, 2, 3, 5}),
			tensor.New(tensor.Float64, []int{2, 2}, []float64{1, 2, 3, 4}), nil, func() {}}, nil
	}, record(t, b.String()))
	server := httptest.NewServer(s)
	defer server.Close()
	p := browsertest.Open(t, server.URL+s.Path())
	want := func(selector, text string) {
		t.Helper()
		if got := p.Text(selector); !strings.Contains(got, text) {
			t.Errorf("%s: %.200q, want %q in it", selector, got, text)
		}
	}
	want("#count", "1 to 100 of 301")
	want("tbody tr", "12345") // what is wrong comes first
	p.Follow(`a[rel=next]`)
	want("#count", "101 to 200 of 301")
	p.Follow(`th a[href*="sort=worst_ulp"]`)
	want("tbody tr", "12345")
	p.Enter("[name=text]", "MUL")
	want("#count", "1 to 1 of 1")
	p.Follow("tbody tr a")
	want("h1", "torch.mul forward output[0]")
	want(".cause", "reproduced exactly if other is 2, not 3")
	want(".pictures", "[1, 1]")
	p.Enter("[name=slice]", "0, :")
	want("body", "slice [0, :]: 0 of 2 elements")
}
