// Package lazyregexp compiles regular expressions when they are first used, not when the process starts.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New is the regular expression that text says. It panics at the first use if text is none.
func New(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
