package cli

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"time"
)

// SetStopGrace changes how long a late call may take to notice that it is stopped, until the function is called.
func SetStopGrace(d time.Duration) func() {
	was := stopGrace
	stopGrace = d
	return func() { stopGrace = was }
}

// View is what view shows of args: the list of results, and the page of each of at most n results.
// text is what it says if it refuses them, or all pages.
func View(ctx context.Context, n int, args ...string) (code int, text string) {
	var errs strings.Builder
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}, jobs: 1, read: "mmap",
		color: "never", quiet: true}
	server, closed, err := a.viewer(ctx, args)
	if err != nil {
		return exitCode(err), errs.String() + fmt.Sprintln(err)
	}
	defer closed()
	page := func(query string) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://127.0.0.1"+server.Path()+query, nil)
		server.ServeHTTP(w, r)
		if w.Code != 200 {
			code = ExitFailed
		}
		return w.Body.String()
	}
	text = page("")
	for i, link := range regexp.MustCompile(`result\?run=\d+&amp;id=\d+`).FindAllString(text, -1) {
		if i == n {
			break
		}
		text += page(strings.ReplaceAll(link, "&amp;", "&"))
	}
	return code, text
}

// SetMostPairs sets how many pairs of two recordings are held back to be judged, until the function that it returns is
// called.
func SetMostPairs(n int) func() {
	was := mostPairs
	mostPairs = n
	return func() { mostPairs = was }
}
