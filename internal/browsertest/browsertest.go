// Package browsertest tries pages in a headless Chromium, as a reader would use them.
package browsertest

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A Page is a tab. A step that does not succeed ends the test. Elements are named by CSS
// selectors, of which the first match is meant.
type Page struct {
	t   *testing.T
	ctx context.Context
}

// Open opens an address. The test is skipped where there is no Chromium.
func Open(t *testing.T, address string) *Page {
	t.Helper()
	found := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			found = path
			break
		}
	}
	if found == "" {
		t.Skip("no Chromium to try the page in: apt-get install chromium")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(found), chromedp.NoSandbox)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &Page{t, ctx}
	p.do("open", chromedp.Navigate(address))
	return p
}

func (p *Page) do(what string, step chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, step); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// Click clicks an element.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.do("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Follow clicks a link and waits for the page that it leads to.
func (p *Page) Follow(selector string) {
	p.t.Helper()
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		p.t.Fatalf("follow %s: %v", selector, err)
	}
}

// Enter types a text into a field, submits it and waits for the page that follows.
func (p *Page) Enter(selector, text string) {
	p.t.Helper()
	if _, err := chromedp.RunResponse(p.ctx, chromedp.SendKeys(chromedp.CSS(selector), text+"\r")); err != nil {
		p.t.Fatalf("enter into %s: %v", selector, err)
	}
}

// Type types a text into a field.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.do("type into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Resize gives the window another size, in pixels: 390 by 844 are those of a phone.
func (p *Page) Resize(width, height int64) {
	p.t.Helper()
	p.do("resize", chromedp.EmulateViewport(width, height))
}

// Text is the text of an element.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.TextContent(chromedp.CSS(selector)))
	if err != nil {
		p.t.Fatalf("text of %s: %v", selector, err)
	}
	return text
}

// Wait waits until an expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression)); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}
