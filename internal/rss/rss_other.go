//go:build !linux && !darwin

package rss

func peak() int64 { return 0 }

func forget() (int64, bool) { return 0, false }
